//! A thread of ours beside the program's: the end of the process, `fork`, and its priority.

use std::cell::UnsafeCell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

struct RawMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: only the C library's functions for it touch it.
unsafe impl Sync for RawMutex {}

/// Held while a kernel is compiled. A `fork` waits for it: a child would find the compiler's locks taken for ever.
static COMPILING: RawMutex = RawMutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
static IN_CHILD: AtomicBool = AtomicBool::new(false);

pub struct Gate(());

impl Gate {
    pub fn enter() -> Gate {
        lock();
        Gate(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        unlock();
    }
}

extern "C" fn lock() {
    // SAFETY: a mutex that was initialised and is never destroyed.
    unsafe { libc::pthread_mutex_lock(COMPILING.0.get()) };
}

extern "C" fn unlock() {
    // SAFETY: as above; the thread that has locked it, or what has become of it in a child.
    unsafe { libc::pthread_mutex_unlock(COMPILING.0.get()) };
}

extern "C" fn unlock_in_child() {
    IN_CHILD.store(true, Ordering::Release);
    unlock();
}

/// Whether this process was forked from one with variants.
pub fn is_child() -> bool {
    IN_CHILD.load(Ordering::Acquire)
}

/// Before the first thread is made. `end` is called when the process ends, before what is older than this is taken down.
pub fn prepare(end: extern "C" fn()) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions that may be called at these times.
        unsafe {
            libc::pthread_atfork(Some(lock), Some(unlock), Some(unlock_in_child));
            libc::atexit(end);
        }
    });
}

/// Below the program's threads, but not far: a `fork` and the end of the process wait for the kernel that is being compiled, and a
/// priority that was lowered is not raised again without privileges.
const NICE: libc::c_int = 5;

/// Of this thread alone: Linux counts them so.
pub fn lower_priority() {
    #[cfg(target_os = "linux")]
    // SAFETY: changes a number of this thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}
