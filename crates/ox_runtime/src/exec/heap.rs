//! The C library's heap: what comes and goes in it should find its place again.
//!
//! A tensor is aligned memory: the C library takes a little more, cuts off both ends and frees them. Each thread keeps small pieces, a few of a
//! size, for its next small object. Those ends then do not become one with the hole that the tensor leaves, the next tensor of that size does
//! not fit into it, and the heap grows at its end: by 15 MB in each of five calls of a Llama that held 16 MB at a time, and the holes were
//! used in turns. Eager makes so many tensors that its thread has enough such pieces; a run of ours makes few.

/// Whenever the heap has become larger than ever, the pages of its holes are given back: they cost memory again only if somebody uses them.
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

/// Before something large is allocated: the thread has as many small pieces as it keeps, so that what is cut off goes back to where it was.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_ends_together() {
    use std::ptr::null_mut;

    /// What can be cut off, as requests: pieces of 32 to 112 bytes have a head of 8.
    const SIZES: [usize; 6] = [24, 40, 56, 72, 88, 104];
    /// That many of a size a thread keeps.
    const KEPT: usize = 7;

    for size in SIZES {
        let mut pieces = [null_mut(); KEPT];
        // SAFETY: any of them may be null, and each is freed once.
        unsafe {
            pieces.iter_mut().for_each(|piece| *piece = std::hint::black_box(libc::malloc(size)));
            pieces.into_iter().for_each(|piece| libc::free(piece));
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_ends_together() {}
