//! What a compile leaves behind in the process is given back when it is done: a process that runs for days compiles for a second.

#[cfg(target_os = "linux")]
mod code;
#[cfg(target_os = "linux")]
mod pages;

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something was compiled since the code was last forgotten for good.
static COMPILED: AtomicBool = AtomicBool::new(false);

/// LLVM makes and frees millions of small objects, which the C library keeps for more of them, in heaps of threads that are gone; and the
/// pages of LLVM's own code, which are read from the file again if they are needed again.
pub fn give_back() {
    free_idle_heap();
    forget_code();
    COMPILED.store(true, Ordering::Relaxed);
}

/// When what was compiled is in use, and calls take the short way: what captured, planned and loaded it is not needed any more, once for each
/// compile.
pub fn forget_code_once() {
    if COMPILED.swap(false, Ordering::Relaxed) {
        forget_code();
    }
}

/// The pages of the shared object that this is a part of, as far as they are as the file has them.
pub fn forget_code() {
    #[cfg(target_os = "linux")]
    code::forget();
}

/// The same of all that is loaded, once in a process, before it captures or compiles for the first time, which makes it larger. Importing torch and making a model
/// touches ten times the code that calls need later: of the 240 to 300 MB of files that are resident, 30 to 50 come back.
pub fn forget_start() {
    static FIRST: Once = Once::new();
    #[cfg(target_os = "linux")]
    FIRST.call_once(code::forget_all);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn free_idle_heap() {
    // SAFETY: may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn free_idle_heap() {}
