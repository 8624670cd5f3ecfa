//! How a compiled kernel is called: the one thing that code generators and the runtime must agree on.

use std::sync::atomic::AtomicI64;

/// What a kernel reports when a check fails. Zeroed before the launch; the first failure wins (compare-and-swap on `check`).
#[repr(C)]
#[derive(Debug, Default)]
pub struct KernelError {
    /// 0: none; otherwise the number of the failed check plus one.
    pub check: AtomicI64,
    pub value: AtomicI64,
    pub extent: AtomicI64,
}

/// `(buffers, sizes, begin, end, error)`: runs the outer points `begin..end`, counted over all outer axes in row-major order.
/// `buffers` are the parameters that are not scratch, in order; `sizes` are `Kernel::sizes`.
pub type KernelFn = unsafe extern "C" fn(*const *mut u8, *const i64, i64, i64, *mut KernelError);
