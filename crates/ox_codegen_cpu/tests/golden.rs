//! The IR of a few kernels, read in review. Fixed to one CPU, so that it does not change with the machine.
#![cfg(target_arch = "x86_64")]

use ox_codegen_cpu::Backend;
use ox_ir::Kernel;

#[test]
fn ir() {
    let backend = Backend::for_cpu("haswell", "+avx2,+fma,+f16c").unwrap();
    ox_testing::golden::golden("codegen_cpu", |_, input| {
        let kernel = Kernel::parse(input).map_err(|e| format!("{e:?}"))?;
        let ir = backend.emit_ir(&kernel).map_err(|e| e.to_string())?;
        Ok::<_, String>(body(&ir))
    });
}

/// The functions and constants, without what LLVM says of the target and of its own intrinsics.
fn body(ir: &str) -> String {
    let noise =
        |line: &&str| ["; ", "source_filename", "target ", "attributes ", "declare "].iter().any(|start| line.starts_with(start));
    let lines: Vec<&str> = ir.lines().filter(|line| !noise(line)).collect();
    lines.join("\n").replace("\n\n\n\n", "\n\n").trim().to_string()
}
