//! Kernel to CUDA C++ to a cubin.
//!
//! - `geometry`: how the points of a Kernel are spread over blocks, threads and vectors.
//! - `emit`: the text, written to be read.
//! - `online`: softmax's two reductions in one pass.
//! - `joined`: short rows that are written as one long one.
//! - `helpers`: the device functions that the text may call; only those that it does call go along.
//! - `nvrtc`: NVIDIA's compiler, loaded from where torch's wheels keep it. It needs no GPU.
//! - `backend`: many kernels, few translation units, on threads.

mod backend;
mod emit;
mod error;
mod flatten;
mod geometry;
mod helpers;
mod joined;
mod nvrtc;
mod online;
mod written;

pub use backend::{Backend, Options, launched, units};
pub use emit::{Source, emit};
pub use error::CodegenError;
pub use helpers::assemble;
pub use nvrtc::Nvrtc;
