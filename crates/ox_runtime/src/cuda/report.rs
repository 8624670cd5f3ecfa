//! Where kernels report failed checks: memory of ours that the GPU can write, so that looking costs no waiting.

use super::driver::driver;
use crate::error::RunError;
use ox_ir::abi::KernelError;
use std::sync::{Mutex, PoisonError};

/// Slots that are allocated at once.
const PAGE: usize = 170;

/// One kernel's place to report to. It comes back to the pool when dropped.
pub struct Slot(&'static KernelError);

static IDLE: Mutex<Vec<&'static KernelError>> = Mutex::new(Vec::new());

impl Slot {
    pub fn new() -> Result<Slot, RunError> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.is_empty() {
            let start = driver()?.mapped_memory(PAGE * size_of::<KernelError>())?.cast::<KernelError>();
            for n in 0..PAGE {
                // SAFETY: fresh memory with room for so many, that is never freed.
                unsafe {
                    start.add(n).write(KernelError::default());
                    idle.push(&*start.add(n));
                }
            }
        }
        Ok(Slot(idle.pop().expect("a page was added")))
    }

    /// What kernels get: the address is the same on the device.
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self.0) as u64
    }

    pub fn error(&self) -> &KernelError {
        self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A launch under way may still write: then the next owner of the slot hears of it, so it stays out of use if it was ever written.
        if self.0.check.load(std::sync::atomic::Ordering::Acquire) == 0 {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
        }
    }
}
