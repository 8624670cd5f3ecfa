//! Python's collector of cycles, which has nothing to find while a function is traced: what tracing makes lives on. It rests while somebody
//! traces, and works while code runs that nobody sees into.

use pyo3::ffi;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// How many traces are under way that want it to rest; and whether it worked before. Read and written attached to the interpreter.
static RESTING: AtomicUsize = AtomicUsize::new(0);
static WORKED: AtomicBool = AtomicBool::new(true);

/// The collector rests until this is dropped.
pub struct Rest(());

impl Rest {
    pub fn new() -> Rest {
        rest();
        Rest(())
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        work();
    }
}

/// The collector works again until this is dropped, as far as this trace is concerned.
pub struct Work(bool);

impl Work {
    pub fn new() -> Work {
        let rests = RESTING.load(Relaxed) > 0;
        if rests {
            work();
        }
        Work(rests)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.0 {
            rest();
        }
    }
}

fn rest() {
    // SAFETY: attached to the interpreter, like all of this crate.
    let worked = unsafe { ffi::PyGC_Disable() } != 0;
    if RESTING.fetch_add(1, Relaxed) == 0 {
        WORKED.store(worked, Relaxed);
    }
}

fn work() {
    if RESTING.fetch_sub(1, Relaxed) == 1 && WORKED.load(Relaxed) {
        // SAFETY: as above.
        unsafe { ffi::PyGC_Enable() };
    }
}
