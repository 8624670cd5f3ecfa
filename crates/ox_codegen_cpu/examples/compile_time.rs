//! How long kernels take to compile: `cargo run --release --example compile_time [FILE...]`, each file one kernel as text.
//! Without files, a gelu chain, a softmax and a layer norm.

use ox_codegen_cpu::Backend;
use ox_ir::Kernel;

const SAMPLES: [(&str, &str); 3] = [
    ("gelu", include_str!("kernels/gelu.txt")),
    ("softmax", include_str!("kernels/softmax.txt")),
    ("layer_norm", include_str!("kernels/layer_norm.txt")),
];

fn main() {
    let backend = Backend::new().expect("LLVM knows this machine");
    let files: Vec<String> = std::env::args().skip(1).collect();
    let read = |name: &String| (name.clone(), std::fs::read_to_string(name).expect("a readable file"));
    let mut kernels: Vec<(String, String)> = files.iter().map(read).collect();
    if kernels.is_empty() {
        kernels = SAMPLES.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    }
    println!("{:<24} {:>9} {:>9} {:>9} {:>9}", "kernel", "emit ms", "object ms", "load ms", "bytes");
    for (name, text) in kernels {
        let kernel = Kernel::parse(&text).expect("a kernel");
        let best = |f: &mut dyn FnMut()| (0..9).map(|_| time(f)).fold(f64::INFINITY, f64::min);
        let emit = best(&mut || drop(backend.emit_ir(&kernel)));
        let object = backend.compile_object(&kernel).expect("a kernel that compiles");
        let compile = best(&mut || drop(backend.compile_object(&kernel)));
        let load = best(&mut || drop(backend.load_object(&object)));
        println!("{name:<24} {emit:>9.2} {compile:>9.2} {load:>9.2} {:>9}", object.len());
    }
}

/// Milliseconds of this thread's CPU time, which other work on the machine does not change much.
fn time(f: &mut dyn FnMut()) -> f64 {
    let start = cpu_seconds();
    f();
    (cpu_seconds() - start) * 1e3
}

fn cpu_seconds() -> f64 {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    const THREAD_CPU_TIME: i32 = 3;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: fills the structure of two 64-bit numbers that Linux documents.
    unsafe { clock_gettime(THREAD_CPU_TIME, &mut time) };
    time.seconds as f64 + time.nanoseconds as f64 * 1e-9
}
