//! Threads of ours that compile beside the program's: the end of the process, `fork`, and their priority.

use std::cell::UnsafeCell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

struct RawMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: only the C library's functions for it touch it.
unsafe impl Sync for RawMutex {}

/// Held while such a thread is inside of a compiler or the loader. A `fork` waits for it: a child would find their locks taken for ever.
static COMPILING: RawMutex = RawMutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
static IN_CHILD: AtomicBool = AtomicBool::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);

/// One such thread at a time.
pub struct Gate(());

impl Gate {
    /// None if the process ends: what a compiler needs is taken down then.
    pub fn enter() -> Option<Gate> {
        prepare();
        lock();
        let gate = Gate(());
        (!is_ending()).then_some(gate)
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

/// For the end of the interpreter, which comes before the C library's: compilers that were loaded behind `prepare` are taken down before the
/// handlers that it registers are asked. Those are for a process that ends without the interpreter's knowing.
pub extern "C" fn end_background() {
    crate::cuda::end_pool();
    end();
}

/// Before what is older than `prepare` is taken down: who is inside is waited for, and nobody enters any more.
extern "C" fn end() {
    ENDING.store(true, Ordering::Release);
    if !is_child() {
        lock();
        unlock();
    }
}

/// Whether this process was forked from one that had compiled: the threads of that one are gone, whatever they held.
pub fn is_child() -> bool {
    IN_CHILD.load(Ordering::Acquire)
}

pub fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Before anybody compiles.
pub fn prepare() {
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
