//! Memory for the intermediates of a run.
//!
//! One pool serves all Executables of the process: runs one after the other use the same warm pages, whichever Plan they belong to,
//! and what the process holds is the largest need, not the sum. It is freed with the last Executable.

use crate::error::RunError;
use crate::tensor::Tensor;
use ox_ir::{DType, Device};
use std::alloc::{Layout, alloc, dealloc};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// More than this many idle arenas (as many runs at once) are not kept.
const KEEP: usize = 4;
const HUGE_PAGE: usize = 2 << 20;
const ALIGN: usize = 64;

/// What a run's intermediates lie in.
pub enum Room {
    Host(Arena),
    /// torch's own memory: it belongs to the stream, so that the next run on that stream gets it again at once.
    Device {
        start: *mut u8,
        bytes: usize,
        _tensor: Tensor,
    },
}

impl Room {
    pub fn start(&self) -> *mut u8 {
        match self {
            Room::Host(arena) => arena.start(),
            Room::Device { start, .. } => *start,
        }
    }

    pub fn contains(&self, data: *const u8) -> bool {
        match self {
            Room::Host(arena) => arena.contains(data),
            Room::Device { start, bytes, .. } => (*start as usize..*start as usize + bytes).contains(&(data as usize)),
        }
    }
}

pub struct Arena {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Arena {}
unsafe impl Sync for Arena {}

impl Arena {
    fn new(bytes: usize) -> Result<Arena, RunError> {
        let align = if bytes >= 2 * HUGE_PAGE { HUGE_PAGE } else { ALIGN };
        let size = bytes.max(1).checked_next_multiple_of(align).unwrap_or(usize::MAX);
        let layout = Layout::from_size_align(size, align).map_err(|_| out_of_memory(bytes))?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(out_of_memory(bytes));
        }
        #[cfg(target_os = "linux")]
        if align == HUGE_PAGE {
            // SAFETY: whole pages that we have just been given. Only advice: a refusal does no harm.
            unsafe { libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE) };
        }
        Ok(Arena { start, layout })
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    pub fn contains(&self, data: *const u8) -> bool {
        (self.start as usize..self.start as usize + self.layout.size()).contains(&(data as usize))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}

fn out_of_memory(bytes: usize) -> RunError {
    RunError::torch(format!("not enough memory: tried to allocate {bytes} bytes for intermediate results"))
}

/// The bytes of arenas that this process keeps between runs.
pub fn idle_arena_bytes() -> usize {
    Pool::shared().idle_bytes()
}

/// Gives back the memory that is kept between runs: before somebody else needs as much.
pub fn free_idle_arenas() {
    Pool::shared().trim();
}

#[derive(Default)]
pub struct Pool {
    idle: Mutex<Vec<Arena>>,
}

impl Pool {
    /// The pool of this process.
    pub fn shared() -> Arc<Pool> {
        static POOL: Mutex<Weak<Pool>> = Mutex::new(Weak::new());
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        pool.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(Pool::default());
            *pool = Arc::downgrade(&fresh);
            fresh
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Arena>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, bytes: usize, device: Device) -> Result<Room, RunError> {
        if device == Device::Cpu {
            return self.take_host(bytes).map(Room::Host);
        }
        let tensor = Tensor::empty_strided(&[bytes as i64], &[1], DType::U8, device)?;
        Ok(Room::Device { start: tensor.as_ref().data_ptr()?, bytes, _tensor: tensor })
    }

    pub fn give(&self, room: Room) {
        if let Room::Host(arena) = room {
            self.give_host(arena);
        }
    }

    /// The smallest idle arena with room for `bytes`. If all are too small, the largest makes room for a new one.
    fn take_host(&self, bytes: usize) -> Result<Arena, RunError> {
        let mut idle = self.idle();
        let fitting = idle.iter().enumerate().filter(|(_, a)| a.layout.size() >= bytes).min_by_key(|(_, a)| a.layout.size());
        if let Some((at, _)) = fitting {
            return Ok(idle.swap_remove(at));
        }
        if let Some((at, _)) = idle.iter().enumerate().max_by_key(|(_, a)| a.layout.size()) {
            idle.swap_remove(at);
        }
        drop(idle);
        Arena::new(bytes)
    }

    fn give_host(&self, arena: Arena) {
        let mut idle = self.idle();
        if idle.len() < KEEP {
            idle.push(arena);
        }
    }

    fn idle_bytes(&self) -> usize {
        self.idle().iter().map(|arena| arena.layout.size()).sum()
    }

    /// Frees what is idle: called when an Executable goes, because it may have been the one that needed it.
    pub fn trim(&self) {
        self.idle().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_memory_comes_back() {
        let pool = Pool::default();
        let arena = pool.take_host(1000).unwrap();
        let start = arena.start();
        assert_eq!(start as usize % ALIGN, 0);
        pool.give_host(arena);
        let again = pool.take_host(500).unwrap();
        assert_eq!(again.start(), start);
        assert!(again.contains(start) && !again.contains(start.wrapping_add(1024)));
    }

    #[test]
    fn a_larger_need_replaces_the_largest() {
        let pool = Pool::default();
        let (small, large) = (pool.take_host(100).unwrap(), pool.take_host(5000).unwrap());
        pool.give_host(small);
        pool.give_host(large);
        pool.give_host(pool.take_host(HUGE_PAGE * 3).unwrap());
        let sizes: Vec<usize> = pool.idle().iter().map(|a| a.layout.size()).collect();
        assert_eq!(sizes, [128, 3 * HUGE_PAGE]);
        assert_eq!(pool.idle_bytes(), 128 + 3 * HUGE_PAGE);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(matches!(Pool::default().take_host(usize::MAX), Err(RunError::Torch { .. })));
        assert!(matches!(Pool::default().take_host(1 << 60), Err(RunError::Torch { .. })));
    }
}
