//! Kernels as text, buffers as plain slices.
#![allow(dead_code)]

use half::{bf16, f16};
use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_ir::abi::KernelError;
use ox_ir::{DType, Kernel, Scalar};
use ox_testing::TensorData;
use std::sync::atomic::Ordering;

pub fn parse(text: &str) -> Kernel {
    Kernel::parse(text).unwrap_or_else(|e| panic!("{e:?} in\n{text}"))
}

pub fn compile(text: &str) -> LoadedKernel {
    compile_kernel(&parse(text))
}

/// Compiles for the CPU that OX_TEST_CPU names (`CPU FEATURES`), or for this one.
pub fn backend() -> Backend {
    match std::env::var("OX_TEST_CPU").as_deref().map(|v| v.split_once(' ')) {
        Ok(Some((cpu, features))) => Backend::for_cpu(cpu, features).unwrap(),
        _ => Backend::new().unwrap(),
    }
}

pub fn compile_kernel(kernel: &Kernel) -> LoadedKernel {
    compile_with(&backend(), kernel)
}

pub fn compile_with(backend: &Backend, kernel: &Kernel) -> LoadedKernel {
    backend.compile(std::slice::from_ref(kernel), 1).unwrap_or_else(|e| panic!("{e} in\n{kernel}")).remove(0)
}

/// A buffer's address, whatever its elements are.
pub trait Buffer {
    fn address(&self) -> *mut u8;
}

impl<T> Buffer for Vec<T> {
    fn address(&self) -> *mut u8 {
        self.as_ptr() as *mut u8
    }
}

impl<T> Buffer for &mut Vec<T> {
    fn address(&self) -> *mut u8 {
        self.as_ptr() as *mut u8
    }
}

/// (check + 1, value, extent) of the first failure; zeros if there was none.
pub type Report = (i64, i64, i64);

/// Runs the points `0..points`, in pieces that end at `cuts`.
pub fn run_cut(kernel: &LoadedKernel, bufs: &[&dyn Buffer], sizes: &[i64], points: i64, cuts: &[i64]) -> Report {
    let pointers: Vec<*mut u8> = bufs.iter().map(|b| b.address()).collect();
    let mut error = KernelError::default();
    let mut from = 0;
    for to in cuts.iter().copied().chain([points]) {
        // SAFETY: the tests pass buffers as large as their kernels say.
        unsafe { (kernel.function)(pointers.as_ptr(), sizes.as_ptr(), from, to, &mut error) };
        from = to;
    }
    let read = |x: &std::sync::atomic::AtomicI64| x.load(Ordering::Relaxed);
    (read(&error.check), read(&error.value), read(&error.extent))
}

pub fn run(kernel: &LoadedKernel, bufs: &[&dyn Buffer], sizes: &[i64], points: i64) -> Report {
    run_cut(kernel, bufs, sizes, points, &[])
}

/// Deterministic numbers in -4..4 with fractions.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u32 << 21) as f32 - 4.0
    };
    (0..count).map(|_| next()).collect()
}

pub fn assert_close(got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (n, (g, w)) in got.iter().zip(want).enumerate() {
        let fine = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * w.abs().max(1e-3);
        assert!(fine, "element {n}: {g} instead of {w}");
    }
}

pub const SIZES: [usize; 9] = [0, 1, 2, 15, 16, 17, 33, 64, 100];

/// A tensor as the bytes that a kernel reads.
pub fn to_bytes(tensor: &TensorData) -> Vec<u8> {
    let element = |x: &Scalar| match tensor.dtype {
        DType::Bool | DType::U8 | DType::I8 => vec![x.as_i64() as u8],
        DType::I16 => (x.as_i64() as i16).to_le_bytes().to_vec(),
        DType::I32 => (x.as_i64() as i32).to_le_bytes().to_vec(),
        DType::I64 => x.as_i64().to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(x.as_f64()).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(x.as_f64()).to_le_bytes().to_vec(),
        DType::F32 => (x.as_f64() as f32).to_le_bytes().to_vec(),
        _ => x.as_f64().to_le_bytes().to_vec(),
    };
    tensor.data.iter().flat_map(element).collect()
}
