//! Compiled graphs against what graphs mean.

use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_ir::abi::KernelError;
use ox_ir::{Graph, Plan, Sym};
use ox_testing::{InterpretError, TensorData, interpret_graph, interpret_plan_with};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Runs a kernel in two pieces, as two threads would.
fn run(kernel: &LoadedKernel, points: i64, bufs: &mut [&mut [u8]], sizes: &[i64]) -> Result<(), InterpretError> {
    let pointers: Vec<*mut u8> = bufs.iter_mut().map(|b| b.as_mut_ptr()).collect();
    let mut error = KernelError::default();
    for (begin, end) in [(0, points / 2), (points / 2, points)] {
        // SAFETY: the buffers are as large as the plan says, and the kernel was made for this plan.
        unsafe { (kernel.function)(pointers.as_ptr(), sizes.as_ptr(), begin, end, &mut error) };
    }
    let read = |x: &std::sync::atomic::AtomicI64| x.load(Ordering::Relaxed);
    match read(&error.check) {
        0 => Ok(()),
        n => Err(InterpretError::Check { check: n as u32 - 1, value: read(&error.value), extent: read(&error.extent) }),
    }
}

fn points(plan: &Plan, kernel: u32, sizes: &[i64]) -> i64 {
    let points: Sym = plan.kernels[kernel as usize].points();
    points.eval(&|v| plan.sizes.iter().position(|s| s == v).map(|k| sizes[k])).expect("the sizes are known")
}

pub fn generate(plan: &Plan) -> Result<Vec<LoadedKernel>, String> {
    Backend::new().and_then(|backend| backend.compile(&plan.kernels, 1)).map_err(|e| format!("code generation: {e}"))
}

/// What the compiled graph does differently, in words.
pub fn difference(graph: &Graph, plan: &Plan, kernels: &[LoadedKernel], inputs: &[TensorData], sizes: &[i64]) -> Option<String> {
    let got = interpret_plan_with(plan, inputs, sizes, &mut |n, bufs, kernel_sizes| {
        run(&kernels[n as usize], points(plan, n, sizes), bufs, kernel_sizes)
    });
    ox_testing::result_difference(&interpret_graph(graph, inputs, sizes), &got, inputs)
}

/// `SEEDS=1000..2000` looks at others.
pub fn seeds(usual: Range<u64>) -> Range<u64> {
    let given = std::env::var("SEEDS").ok();
    let parsed = given.as_deref().and_then(|s| s.split_once("..")).and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.unwrap_or(usual)
}
