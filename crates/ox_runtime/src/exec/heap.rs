//! The C library's heap, between runs.
//!
//! In the first runs of a program small things that stay are allocated between large tensors that go; the next tensor of that size finds no hole
//! that it fits into, and the heap grows at its end: by 15 MB in each of four calls of a Llama, which held 16 MB at a time. Whenever it has become
//! larger than ever, the pages of its holes are given back; they cost memory again only if somebody uses them.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back_if_grown() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What is less is not worth the millisecond that it takes.
    const STEP: usize = 1 << 20;
    static HIGHEST: AtomicUsize = AtomicUsize::new(0);

    // SAFETY: asks where the heap ends.
    let end = unsafe { libc::sbrk(0) } as usize;
    if end < HIGHEST.load(Ordering::Relaxed).saturating_add(STEP) {
        return;
    }
    HIGHEST.store(end, Ordering::Relaxed);
    // SAFETY: may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_if_grown() {}
