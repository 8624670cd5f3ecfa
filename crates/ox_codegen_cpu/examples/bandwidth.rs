//! Fused kernels against copies over 64 MiB: `cargo run --release -p ox_codegen_cpu --example bandwidth`.
//!
//! A kernel that reads n bytes and writes n bytes can at best be as fast as a copy of n bytes. There are two of these: the C library's, and one whose
//! stores go past the caches, as those of the kernels do for results of this size. All take turns, on the same memory and the same
//! threads, by the clock on the wall: run it on a quiet machine. The shares are those of the median round, in brackets of the best.

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
    let (weight, bias, source, out) = (aligned(768), aligned(768), aligned(COUNT), aligned(COUNT));
    for (k, x) in source.iter_mut().enumerate() {
        *x = (k % 1000) as f32 * 0.01 - 5.0;
    }
    let target = out.as_mut_ptr() as usize;
    let load = |text: &str| {
        let kernel = Kernel::parse(text).expect("a kernel");
        backend.compile(&[kernel], 1).expect("a kernel that compiles").remove(0)
    };
    let (chain, layer_norm) = (load(CHAIN), load(layer_norm));
    let row: Vec<usize> = [&*source, &*weight, &*bias].iter().map(|b| b.as_ptr() as usize).chain([target]).collect();
    let point = [source.as_ptr() as usize, target];
    println!("{:<12} {:>8} {:>8} {:>16} {:>18}", "", "threads", "GB/s", "of copy", "of streaming copy");
    for threads in [1, 2] {
        let run = |part: &(dyn Fn(usize, usize) + Sync), points| on_threads(threads, points, part);
        let mut rounds: [Vec<f64>; 4] = Default::default();
        // In turns, so that all have their share of quiet moments.
        for _ in 0..ROUNDS {
            rounds[0].push(run(&|from, to| copy_part(source, target, from, to), COUNT));
            rounds[1].push(run(&|from, to| stream_part(source, target, from, to), COUNT));
            rounds[2].push(run(&|from, to| launch(&chain, &point, from, to), COUNT));
            rounds[3].push(run(&|from, to| launch(&layer_norm, &row, from, to), COUNT / 768));
        }
        let summaries = rounds.map(best_and_median);
        for (name, (best, median)) in ["copy", "stream", "chain", "layer_norm"].iter().zip(summaries) {
            let share =
                |(best_copy, copy): (f64, f64)| format!("{:.0}% ({:.0}%)", copy / median * 100.0, best_copy / best * 100.0);
            println!("{name:<12} {threads:>8} {:>8.2} {:>16} {:>18}", rate(median), share(summaries[0]), share(summaries[1]));
        }
    }
}

/// Memory that is aligned as torch aligns its own, and kept until the process ends.
fn aligned(count: usize) -> &'static mut [f32] {
    let all = vec![1.0f32; count + 16].leak();
    let ahead = all.as_ptr().align_offset(64);
    &mut all[ahead..ahead + count]
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

/// As `copy_part`, past the caches where the processor can.
fn stream_part(from: &[f32], to: usize, begin: usize, end: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx") {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _mm_sfence, _mm256_loadu_ps, _mm256_stream_ps};
        #[target_feature(enable = "avx")]
        unsafe fn stream(from: *const f32, to: *mut f32, count: usize) {
            for at in (0..count).step_by(8) {
                // As early as the kernels ask for what they read.
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at + 1024).cast());
                // SAFETY: both have `count` elements, a multiple of 8, and `to` is aligned.
                unsafe { _mm256_stream_ps(to.add(at), _mm256_loadu_ps(from.add(at))) };
            }
            _mm_sfence();
        }
        // SAFETY: as in `copy_part`; parts begin at multiples of 8 elements.
        return unsafe { stream(from[begin..end].as_ptr(), (to as *mut f32).add(begin), end - begin) };
    }
    copy_part(from, to, begin, end);
}

fn launch(kernel: &LoadedKernel, bufs: &[usize], from: usize, to: usize) {
    let bufs: Vec<*mut u8> = bufs.iter().map(|b| *b as *mut u8).collect();
    let mut error = KernelError::default();
    // SAFETY: the buffers are as large as the kernel says.
    unsafe { (kernel.function)(bufs.as_ptr(), std::ptr::null(), from as i64, to as i64, &mut error) }
}
