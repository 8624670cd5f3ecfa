//! Fused kernels against memcpy over 64 MiB: `cargo run --release -p ox_codegen_cpu --example bandwidth`.
//!
//! A kernel that reads n bytes and writes n bytes can at best be as fast as a copy of n bytes. All take turns, on the same memory and the same
//! threads, by the clock on the wall: run it on a quiet machine. The share is that of the median round, in brackets of the best.

use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_ir::Kernel;
use ox_ir::abi::KernelError;
use std::time::Instant;

const BYTES: usize = 64 << 20;
const COUNT: usize = BYTES / 4;
const ROUNDS: usize = 40;

const CHAIN: &str = "kernel chain(b0: f32 in, b1: f32 out, i0 < 16777216) lanes=outer parallel {
  pass {
    v0 = load b0[i0]
    v1 = const 1.5 : f32
    v2 = mul v0 v1
    v3 = const 0.25 : f32
    v4 = add v2 v3
    v5 = sigmoid v4
    v6 = mul v4 v5
    v7 = const 0.0 : f32
    v8 = maximum v6 v7
    v9 = sub v8 v0
    store b1[i0] v9
  }
}
";

fn main() {
    let backend = Backend::new().expect("LLVM knows this machine");
    let layer_norm = include_str!("kernels/layer_norm.txt");
    let source: Vec<f32> = (0..COUNT).map(|k| (k % 1000) as f32 * 0.01 - 5.0).collect();
    let (weight, bias, mut out) = (vec![1.0f32; 768], vec![0.5f32; 768], vec![0.0f32; COUNT + 16]);
    // Aligned as torch aligns its memory.
    let target = (out.as_mut_ptr() as usize).next_multiple_of(64);
    let load = |text: &str| {
        let kernel = Kernel::parse(text).expect("a kernel");
        backend.compile(&[kernel], 1).expect("a kernel that compiles").remove(0)
    };
    let (chain, layer_norm) = (load(CHAIN), load(layer_norm));
    let row: Vec<usize> = [&source, &weight, &bias].iter().map(|b| b.as_ptr() as usize).chain([target]).collect();
    let point = [source.as_ptr() as usize, target];
    println!("{:<12} {:>8} {:>10} {:>8}", "", "threads", "GB/s", "of copy");
    for threads in [1, 2] {
        let run = |part: &(dyn Fn(usize, usize) + Sync), points| on_threads(threads, points, part);
        let mut rounds: [Vec<f64>; 3] = Default::default();
        // In turns, so that all have their share of quiet moments.
        for _ in 0..ROUNDS {
            rounds[0].push(run(&|from, to| copy_part(&source, target, from, to), COUNT));
            rounds[1].push(run(&|from, to| launch(&chain, &point, from, to), COUNT));
            rounds[2].push(run(&|from, to| launch(&layer_norm, &row, from, to), COUNT / 768));
        }
        let summaries = rounds.map(best_and_median);
        let (best_copy, copy) = summaries[0];
        for (name, (best, median)) in ["copy", "chain", "layer_norm"].iter().zip(summaries) {
            let (of_copy, of_best) = (copy / median * 100.0, best_copy / best * 100.0);
            println!("{name:<12} {threads:>8} {:>10.2} {of_copy:>7.0}% ({of_best:.0}%)", rate(median));
        }
    }
}

fn best_and_median(mut seconds: Vec<f64>) -> (f64, f64) {
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[seconds.len() / 2])
}

fn rate(seconds: f64) -> f64 {
    2.0 * BYTES as f64 / seconds / 1e9
}

/// The seconds until the last thread is done.
fn on_threads(threads: usize, points: usize, part: &(dyn Fn(usize, usize) + Sync)) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..threads {
            scope.spawn(move || part(points * n / threads, points * (n + 1) / threads));
        }
    });
    start.elapsed().as_secs_f64()
}

fn copy_part(from: &[f32], to: usize, begin: usize, end: usize) {
    let to = std::hint::black_box(to as *mut f32);
    // SAFETY: `to` has as many elements as `from`, and the parts of the threads do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from[begin..].as_ptr(), to.add(begin), end - begin) }
}

fn launch(kernel: &LoadedKernel, bufs: &[usize], from: usize, to: usize) {
    let bufs: Vec<*mut u8> = bufs.iter().map(|b| *b as *mut u8).collect();
    let mut error = KernelError::default();
    // SAFETY: the buffers are as large as the kernel says.
    unsafe { (kernel.function)(bufs.as_ptr(), std::ptr::null(), from as i64, to as i64, &mut error) }
}
