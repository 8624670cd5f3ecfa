//! The state of torch that a run changes for its own thread, and gives back.

use crate::abi::Abi;
use ox_ir::Device;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// While it lives: no autograd (nothing here is differentiated), no autocast (a Plan's types are final), and no log of torch's
/// exceptions, which the ABI writes to stderr with a C++ stack before it returns its error code.
pub struct Guards {
    abi: &'static Abi,
    grad: bool,
    /// The device that it was on for.
    autocast: Option<Device>,
    _quiet: Quiet,
}

impl Guards {
    pub fn new(abi: &'static Abi, device: Device) -> Guards {
        // SAFETY: reads and writes thread-local flags.
        unsafe {
            let grad = (abi.aoti_torch_grad_mode_is_enabled)();
            if grad {
                (abi.aoti_torch_grad_mode_set_enabled)(false);
            }
            Guards { abi, grad, autocast: abi.disable_autocast(device).then_some(device), _quiet: Quiet::new(abi) }
        }
    }
}

impl Guards {
    /// Does something in the grad mode that the caller has set.
    pub fn as_caller<T>(&self, f: impl FnOnce() -> T) -> T {
        // SAFETY: as above.
        let set = |enabled| unsafe { (self.abi.aoti_torch_grad_mode_set_enabled)(enabled) };
        if self.grad {
            set(true);
        }
        let done = f();
        if self.grad {
            set(false);
        }
        done
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        if self.grad {
            // SAFETY: as above.
            unsafe { (self.abi.aoti_torch_grad_mode_set_enabled)(true) };
        }
        if let Some(device) = self.autocast {
            self.abi.enable_autocast(device);
        }
    }
}

/// c10's severity that nothing below is logged of.
const FATAL: i32 = 3;

/// How many runs want silence, and the level to go back to.
static LOUD: Mutex<(usize, i32)> = Mutex::new((0, 0));

/// The log level belongs to the process: the first run in lowers it, the last one out restores it.
struct Quiet(Option<&'static Abi>);

impl Quiet {
    fn new(abi: &'static Abi) -> Quiet {
        let Some(level) = abi.log_level() else { return Quiet(None) };
        let mut loud = LOUD.lock().unwrap_or_else(PoisonError::into_inner);
        if loud.0 == 0 {
            loud.1 = level.swap(FATAL, Ordering::Relaxed);
        }
        loud.0 += 1;
        Quiet(Some(abi))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let Some(level) = self.0.and_then(Abi::log_level) else { return };
        let mut loud = LOUD.lock().unwrap_or_else(PoisonError::into_inner);
        loud.0 -= 1;
        if loud.0 == 0 {
            level.store(loud.1, Ordering::Relaxed);
        }
    }
}
