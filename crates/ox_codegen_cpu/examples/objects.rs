//! Compiles kernels for three kinds of machines and does nothing else, to be watched by a profiler: `objects FILE...`, each file one kernel
//! as text. `scripts/link_order.py` makes the order of LLVM's functions of it.

use ox_codegen_cpu::Backend;
use ox_ir::Kernel;

const CPUS: [(&str, &str); 3] = [
    ("haswell", "+avx,+avx2,+fma,+f16c"),
    ("skylake-avx512", "+avx,+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq"),
    (
        "znver4",
        "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd,+avx512vbmi,+avx512vbmi2,\
         +avx512bf16,+avx512vnni,+avx512bitalg,+avx512ifma,+avx512vpopcntdq",
    ),
];

fn main() {
    let read = |name: String| std::fs::read_to_string(name).expect("a readable file");
    let kernels: Vec<Kernel> = std::env::args().skip(1).map(|name| Kernel::parse(&read(name)).expect("a kernel")).collect();
    for (cpu, features) in CPUS {
        let backend = Backend::for_cpu(cpu, features).expect("LLVM knows it");
        let bytes: usize = kernels.iter().map(|k| backend.compile_object(k).expect("a kernel that compiles").len()).sum();
        println!("{cpu}: {} kernels, {bytes} bytes", kernels.len());
    }
}
