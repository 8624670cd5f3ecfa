//! Word that something has changed, and the release of what was held as long as it had not.

use super::Slot;
use pyo3::ffi;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Raised by whoever sees a change. What its slot holds is let go soon, by the interpreter, even if nobody calls again.
#[derive(Default)]
pub struct Signal {
    raised: Cell<bool>,
    slot: RefCell<Weak<Slot>>,
}

/// Something that only attached threads touch, one at a time.
pub struct Attached<T>(pub T);

// SAFETY: its word.
unsafe impl<T> Send for Attached<T> {}
unsafe impl<T> Sync for Attached<T> {}

static STALE: Mutex<Vec<Attached<Weak<Slot>>>> = Mutex::new(Vec::new());
static IS_COMING: AtomicBool = AtomicBool::new(false);

impl Signal {
    pub fn concerns(&self, slot: &Rc<Slot>) {
        self.slot.replace(Rc::downgrade(slot));
    }

    pub fn is_raised(&self) -> bool {
        self.raised.get()
    }

    pub fn raise(&self) {
        if self.raised.replace(true) {
            return;
        }
        STALE.lock().unwrap_or_else(PoisonError::into_inner).push(Attached(self.slot.borrow().clone()));
        if !IS_COMING.swap(true, Ordering::Relaxed) {
            // SAFETY: a function that may run at any time. Where the interpreter has no room for it, the next one asks again.
            let added = unsafe { ffi::Py_AddPendingCall(Some(release), std::ptr::null_mut()) };
            IS_COMING.store(added == 0, Ordering::Relaxed);
        }
    }
}

/// Called by the interpreter between two instructions. What goes may run code: nothing is locked or borrowed then.
extern "C" fn release(_: *mut c_void) -> c_int {
    IS_COMING.store(false, Ordering::Relaxed);
    let stale = std::mem::take(&mut *STALE.lock().unwrap_or_else(PoisonError::into_inner));
    for slot in stale.iter().filter_map(|slot| slot.0.upgrade()) {
        drop(slot.empty());
    }
    0
}
