//! What a kernel becomes: `cargo run -p ox_codegen_cpu --example assembly [--ir] < kernel.txt`.

use ox_codegen_cpu::Backend;
use std::io::Read;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("text on standard input");
    let kernel = ox_ir::Kernel::parse(&text).expect("a kernel");
    let backend = Backend::new().expect("LLVM knows this machine");
    let ir = std::env::args().any(|arg| arg == "--ir");
    let shown = if ir { backend.emit_ir(&kernel) } else { backend.emit_assembly(&kernel) };
    println!("{}", shown.expect("a kernel that compiles"));
}
