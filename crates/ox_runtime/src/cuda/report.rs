//! Where kernels report failed checks: memory of ours that the GPU can write, so that looking costs no waiting.

use super::driver::driver;
use crate::error::RunError;
use ox_ir::abi::KernelError;
use std::sync::{Mutex, PoisonError};

/// Slots that are allocated at once.
const PAGE: usize = 170;

/// One kernel's place to report to. It is not used again: a launch under way may still write to it when its owner is gone.
pub struct Slot(&'static KernelError);

static FRESH: Mutex<Vec<&'static KernelError>> = Mutex::new(Vec::new());

impl Slot {
    pub fn new() -> Result<Slot, RunError> {
        let mut fresh = FRESH.lock().unwrap_or_else(PoisonError::into_inner);
        if fresh.is_empty() {
            let start = driver()?.mapped_memory(PAGE * size_of::<KernelError>())?.cast::<KernelError>();
            for n in 0..PAGE {
                // SAFETY: fresh memory with room for so many, that is never freed.
                unsafe {
                    start.add(n).write(KernelError::default());
                    fresh.push(&*start.add(n));
                }
            }
        }
        Ok(Slot(fresh.pop().expect("a page was added")))
    }

    /// What kernels get: the address is the same on the device.
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self.0) as u64
    }

    pub fn error(&self) -> &KernelError {
        self.0
    }
}
