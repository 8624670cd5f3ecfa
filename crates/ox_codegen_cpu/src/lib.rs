//! Kernel to LLVM to machine code in memory.
//!
//! `emit` writes a Kernel as LLVM IR with explicit vectors of the host's width, so that a short list of cheap passes
//! suffices; `backend` runs LLVM on threads; `load` makes object code a function. `ir` is the builder they share and `math` the vector
//! expansions of exp, log, tanh and the like.
//!
//! What a kernel may assume of its buffers: distinct parameters do not overlap.

mod backend;
mod emit;
mod error;
mod host;
mod ir;
mod load;
mod math;
mod targets;
pub mod tidy;

pub use backend::{Backend, LoadedKernel};
pub use error::CodegenError;
pub use load::{SYMBOL, image_at};
