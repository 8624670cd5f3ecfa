//! Memory for the intermediates of a run: torch's own, so that whoever watches torch's memory sees it.
//!
//! One pool serves all Executables of the process: runs one after the other use the same warm pages, whichever Plan they belong to,
//! and what the process holds is the largest need, not the sum. What is idle is freed when an Executable is dropped, and after every backward
//! program.

use super::kept::give_back_kept;
use super::pages::advise;
use crate::error::RunError;
use crate::tensor::Tensor;
use ox_ir::{DType, Device};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// More than this many idle arenas (as many runs at once) are not kept.
const KEEP: usize = 4;
/// Sizes are multiples of this: what differs by less is one size.
const STEP: usize = 64;

/// What a run's intermediates lie in.
pub struct Arena {
    start: *mut u8,
    bytes: usize,
    /// On a GPU the memory belongs to the stream: the next run on that stream gets it again at once, and needs no pool of ours.
    pooled: bool,
    _memory: Memory,
}

enum Memory {
    Tensor(Tensor),
    /// Of the host, for recordings.
    Reserved(Arc<dyn Any + Send + Sync>),
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Arena {}
unsafe impl Sync for Arena {}

impl Arena {
    pub fn new(bytes: usize, device: Device) -> Result<Arena, RunError> {
        let too_much = || RunError::Memory { bytes, device };
        let rounded = bytes.checked_next_multiple_of(STEP).ok_or_else(too_much)?;
        let size = i64::try_from(rounded).map_err(|_| too_much())?;
        let tensor = Tensor::empty_strided(&[size], &[1], DType::U8, device)?;
        let (start, bytes, pooled) = (tensor.as_ref().data_ptr()?, rounded, device == Device::Cpu);
        if pooled {
            advise(start, bytes);
        }
        Ok(Arena { start, bytes, pooled, _memory: Memory::Tensor(tensor) })
    }

    /// On memory that stays as long as its owner.
    pub fn reserved(start: *mut u8, bytes: usize, owner: Arc<dyn Any + Send + Sync>) -> Arena {
        Arena { start, bytes, pooled: false, _memory: Memory::Reserved(owner) }
    }

    /// The same memory once more, for runs of which only one is under way at a time.
    pub fn share(&self) -> Result<Arena, RunError> {
        let memory = match &self._memory {
            Memory::Tensor(tensor) => Memory::Tensor(tensor.as_ref().to_owned()?),
            Memory::Reserved(owner) => Memory::Reserved(owner.clone()),
        };
        Ok(Arena { start: self.start, bytes: self.bytes, pooled: false, _memory: memory })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    pub fn contains(&self, data: *const u8) -> bool {
        (self.start as usize..self.start as usize + self.bytes).contains(&(data as usize))
    }
}

/// The bytes of arenas that this process keeps between runs.
pub fn idle_arena_bytes() -> usize {
    Pool::shared().idle().iter().map(|arena| arena.bytes).sum()
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

    /// The smallest idle arena with room for `bytes`. If all are too small, the largest makes room for a new one.
    pub fn take(&self, bytes: usize, device: Device) -> Result<Arena, RunError> {
        if device != Device::Cpu {
            return Arena::new(bytes, device);
        }
        let mut idle = self.idle();
        let fitting = idle.iter().enumerate().filter(|(_, a)| a.bytes >= bytes).min_by_key(|(_, a)| a.bytes);
        if let Some((at, _)) = fitting {
            return Ok(idle.swap_remove(at));
        }
        let largest = idle.iter().enumerate().max_by_key(|(_, a)| a.bytes).map(|(at, _)| at);
        let too_small = largest.map(|at| idle.swap_remove(at));
        drop(idle);
        drop(too_small);
        Arena::new(bytes, device)
    }

    pub fn give(&self, arena: Arena) {
        let mut idle = self.idle();
        if arena.pooled && idle.len() < KEEP {
            idle.push(arena);
        }
    }

    /// Frees those that are idle and not larger than this.
    pub fn let_go(&self, bytes: usize) {
        let gone: Vec<Arena> = self.idle().extract_if(.., |arena| arena.bytes <= bytes).collect();
        drop(gone);
    }

    /// Frees what is idle, results that are kept as well: called when an Executable goes, because it may have been the one that needed it.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
        give_back_kept();
    }
}
