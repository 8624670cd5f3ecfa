//! The C library's heap: what comes and goes in it should find its place again.
//!
//! A tensor is aligned memory: the C library takes a little more, cuts off both ends and frees them. Each thread keeps small pieces, a few of a
//! size, for its next small object. Those ends then do not become one with the hole that the tensor leaves, the next tensor of that size does
//! not fit into it, and the heap grows at its end: by 15 MB in each of five calls of a Llama that held 16 MB at a time, and the holes were
//! used in turns. Eager makes so many tensors that its thread has enough such pieces; a run of ours makes few. And what is made in a call of eager's
//! goes with it: a handle that we keep for the next run, made in the end behind an arena that has gone, would lie in the way of all that come.

/// If the heap has become larger than ever, the pages of its holes are given back: they cost memory again only if somebody uses them. Says
/// whether it has. All holes are looked at, those of the rest of the program as well, which may be many milliseconds: only when a graph has been
/// captured, and in the first runs of a plan.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back_if_grown() -> bool {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static FIRST: OnceLock<usize> = OnceLock::new();
    static HIGHEST: AtomicUsize = AtomicUsize::new(0);

    // SAFETY: asks where the heap ends.
    let end = unsafe { libc::sbrk(0) } as usize;
    let highest = HIGHEST.load(Ordering::Relaxed);
    if end < highest.saturating_add(step(highest.saturating_sub(*FIRST.get_or_init(|| end)))) {
        return false;
    }
    HIGHEST.store(end, Ordering::Relaxed);
    // SAFETY: may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
    true
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_if_grown() -> bool {
    false
}

/// How much a heap that has grown so much must grow to be looked at again: looking takes as long as the heap is large, so that all looks together
/// take no longer than in proportion to it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn step(grown: usize) -> usize {
    const LEAST: usize = 1 << 20;
    LEAST.max(grown / 8)
}

/// Before something large is allocated: the thread has as many small pieces as it keeps, so that what is cut off goes back to where it was. They
/// are others than before, since some of those are ends of what is gone, and stand between two holes. About 2 us.
///
/// The counts are those of glibc's cache of a thread. Where it keeps more of a size (`glibc.malloc.tcache_count`), some of the ends are kept
/// apart as before; where it keeps fewer or none, or another allocator stands in for it, these are allocations without effect.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_ends_together() {
    use std::ptr::null_mut;

    /// What can be cut off, as requests: pieces of 32 to 112 bytes have a head of 8.
    const SIZES: [usize; 6] = [24, 40, 56, 72, 88, 104];
    /// That many of a size a thread of glibc's keeps, unless it is told otherwise.
    const KEPT: usize = 7;

    join_small_holes();
    for size in SIZES {
        let (mut old, mut new) = ([null_mut(); KEPT], [null_mut(); KEPT]);
        // SAFETY: any of them may be null, and each is freed once.
        unsafe {
            old.iter_mut().chain(&mut new).for_each(|piece| *piece = std::hint::black_box(libc::malloc(size)));
            new.into_iter().chain(old).for_each(|piece| libc::free(piece));
        }
    }
    join_small_holes();
}

/// What is freed of such a size is joined with its neighbours only when somebody asks for more than a kilobyte.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn join_small_holes() {
    // SAFETY: may be null, and is freed once.
    unsafe { libc::free(std::hint::black_box(libc::malloc(4096))) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_ends_together() {}

/// Room for small things that stay, beside what is large: lasts as long as a run that makes such things.
///
/// The first run of a plan makes what later ones use again: the library's plans of its convolutions, above all. Those take the ends that
/// large tensors were cut out of, since they fit, and hold these places for good; each such hole is then two, and the next tensor lies behind them (10 MB
/// of a ResNet-50). Pieces that were freed before the ends are older, and taken first.
pub struct Nursery {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fences: Vec<*mut libc::c_void>,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
impl Nursery {
    /// Sizes of pieces, as requests, in steps of what the C library tells apart.
    const SMALL: std::ops::RangeInclusive<usize> = 24..=248;
    const STEP: usize = 16;
    const OF_A_SIZE: usize = 200;
    /// For what is larger than a piece, and smaller than tensors.
    const ROOMS: usize = 8;
    const ROOM: usize = 100 << 10;

    /// Between two pieces stands something that stays until the run is over: they would become one.
    pub fn new() -> Nursery {
        let small = Self::SMALL.step_by(Self::STEP).flat_map(|size| std::iter::repeat_n(size, Self::OF_A_SIZE));
        let sizes = small.chain(std::iter::repeat_n(Self::ROOM, Self::ROOMS));
        // SAFETY: any of them may be null, and each is freed once, the fences when this is dropped.
        let make = |size: usize| std::hint::black_box(unsafe { libc::malloc(size) });
        let (pieces, fences): (Vec<_>, Vec<_>) = sizes.map(|size| (make(size), make(*Self::SMALL.start()))).unzip();
        pieces.into_iter().for_each(|piece| unsafe { libc::free(piece) });
        join_small_holes();
        Nursery { fences }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
impl Drop for Nursery {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        self.fences.iter().for_each(|fence| unsafe { libc::free(*fence) });
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
impl Nursery {
    pub fn new() -> Nursery {
        Nursery {}
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::step;

    #[test]
    fn a_heap_that_becomes_large_is_looked_at_seldom() {
        let (mut grown, mut looks) = (0, 0);
        while grown < 8 << 30 {
            grown += step(grown);
            looks += 1;
        }
        assert!(looks < 100, "{looks}");
        assert_eq!(step(4 << 20), 1 << 20);
    }
}
