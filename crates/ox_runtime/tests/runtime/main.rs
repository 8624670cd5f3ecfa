//! Plans built by hand, with Rust functions as kernels, run on a real libtorch.
//!
//! libtorch is found by OXYTORCH_TEST_LIBTORCH (the path of libtorch_cpu.so) or in a `.venv` at or above the repository; without one
//! the tests say so and pass.

mod attention;
mod build;
mod conv;
mod graphs;
mod launch;
mod lazy;
mod library;
mod matmul;
mod outputs;
mod packed;
mod threads;
