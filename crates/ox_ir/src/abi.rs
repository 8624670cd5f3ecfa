//! How a compiled kernel is called: the one thing that code generators and the runtime must agree on.

use crate::sym::Sym;
use std::sync::atomic::AtomicI64;

/// What a kernel reports when a check fails. Zeroed before the launch; the first failure wins (compare-and-swap on `check`).
#[repr(C)]
#[derive(Debug, Default)]
pub struct KernelError {
    /// 0: none; -1: one that is being written; otherwise the number of the failed check plus one.
    pub check: AtomicI64,
    pub value: AtomicI64,
    pub extent: AtomicI64,
}

/// Results of at least so many bytes are stored past the caches, by code that knows its sizes. Below that, the next kernel finds part of them in
/// a cache.
pub const STREAMED_FROM: i64 = 48 << 20;

/// `(buffers, sizes, begin, end, error)`: runs the outer points `begin..end`, counted over all outer axes in row-major order.
/// `buffers` are the parameters that are not scratch, in order; `sizes` are `Kernel::sizes`.
pub type KernelFn = unsafe extern "C" fn(*const *mut u8, *const i64, i64, i64, *mut KernelError);

/// How a kernel for a GPU is found in its image and launched. Its arguments are the buffers that are not scratch, in order, then
/// `Kernel::sizes` as i64, then a `*mut KernelError` that the device can write.
#[derive(Clone, Debug)]
pub struct GpuKernel {
    pub symbol: String,
    /// Threads of a block.
    pub threads: u32,
    /// The grid has one block for so many of `points`.
    pub points_per_block: i64,
    pub points: Sym,
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// Arguments that must lie at a multiple of so many bytes.
    pub aligned: Vec<(usize, usize)>,
    /// What must be below `NARROW` with the sizes of a launch: it computes in 32 bits.
    pub narrow: Vec<Sym>,
}

/// Indices are 32-bit where everything, partial sums and the overhang of the last block too, stays below this in magnitude.
pub const NARROW: i64 = (1 << 31) - (1 << 24);
