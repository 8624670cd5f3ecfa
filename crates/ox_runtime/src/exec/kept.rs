//! Memory of large results, kept for the next ones.
//!
//! What is larger than 32 MiB, the C library asks the system for each time and gives back at once, and each new page costs a fault and is filled with
//! zeros: 10 of the 60 ms of a GPT-2 whose logits have 51 MB. So when torch frees a large result of a program for inference, its memory is kept, and
//! the next result that fits gets it.
//!
//! That takes no memory from anybody. The system may have what is kept if it is short (`MADV_FREE`). It is no more than one run makes: of what a
//! program collects and then lets go of, the rest is freed. Before more is asked for, as much of it goes back: results in use and what is kept are
//! together never more than were in use at once. And it all goes with the last program, before eager is timed, and after every backward program.
//!
//! A storage knows the function that frees its memory: ours stands there, and torch's is called for what is given back. So to everybody else it is
//! a storage as any, that can be resized, shared, cloned lazily or given other memory.

use super::layout::Layout;
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};
use ox_ir::{DType, Device};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

/// The C library never keeps what is larger (glibc's greatest threshold for what it maps).
pub const LARGE: usize = 32 << 20;
/// Memory is given to results of at least one in so many of its bytes.
const LOOSEST: usize = 2;

/// Frees the memory that its argument points to.
type Free = unsafe extern "C" fn(*mut c_void);

/// Where torch keeps what we need, in words from the beginning.
#[derive(Clone, Copy, Debug)]
pub struct StoragePlaces {
    /// In a TensorImpl: the StorageImpl.
    pub storage: usize,
    /// In a StorageImpl: the memory. Behind it stand the function that frees it and what that is called with.
    pub memory: usize,
}

const FREE: usize = 1;
const ARGUMENT: usize = 2;
const BYTES: usize = 4;

/// What was found out about torch's storages once in a process.
struct Torch {
    places: StoragePlaces,
    /// The function that frees the memory of tensors on the CPU.
    free: Free,
}

static TORCH: OnceLock<Option<Torch>> = OnceLock::new();
/// Executables that keep results.
static KEEPERS: AtomicUsize = AtomicUsize::new(0);
static KEPT: Mutex<Kept> = Mutex::new(Kept { lent: Vec::new(), idle: Vec::new(), most: 0 });

/// Memory that torch has allocated.
#[derive(Clone, Copy)]
struct Block {
    start: usize,
    bytes: usize,
}

struct Kept {
    /// What storages hold.
    lent: Vec<Block>,
    idle: Vec<Block>,
    /// No more bytes than this are idle: what a run makes of large results.
    most: usize,
}

/// Tells where torch keeps things; what does not look as expected there is not used.
pub fn learn_storages(places: StoragePlaces) {
    TORCH.get_or_init(|| {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let free = |bytes: i64| {
            let probe = Tensor::empty_strided(&[bytes], &[1], DType::U8, Device::Cpu).ok()?;
            let (memory, words) = (probe.as_ref().data_ptr().ok()? as usize, words(probe.as_ref(), places));
            // SAFETY: a StorageImpl is longer than that.
            let [at, free, argument, nbytes] = [0, FREE, ARGUMENT, BYTES].map(|n| unsafe { *words.add(n) });
            (at == memory && argument == memory && nbytes == bytes as usize && free != 0).then_some(free)
        };
        let (one, other) = (free(192)?, free(320)?);
        // SAFETY: what stands between memory and argument is the function, the same for both.
        (one == other).then(|| Torch { places, free: unsafe { std::mem::transmute::<usize, Free>(one) } })
    });
}

/// The words of a tensor's storage, from that of its memory on.
fn words(tensor: TensorRef<'_>, places: StoragePlaces) -> *mut usize {
    // SAFETY: the caller's word, and torch's body of a tensor that lives.
    unsafe { (*tensor.impl_ptr().cast::<*mut usize>().add(places.storage)).add(places.memory) }
}

/// As long as there is one of these, results are kept.
pub struct Keeper(());

impl Keeper {
    pub fn new() -> Keeper {
        KEEPERS.fetch_add(1, Ordering::Relaxed);
        Keeper(())
    }

    /// A new tensor on the CPU, perhaps in memory that was kept, for a run that makes so many bytes of large results.
    pub fn empty_strided(&self, layout: &Layout, of_run: usize) -> Result<Tensor, RunError> {
        let Layout { dtype, sizes, strides } = layout;
        let bytes = layout.bytes();
        // Memory that nobody has written to is no more than an address yet, so that it costs little where there is other.
        let make = || Tensor::empty_strided(sizes, strides, *dtype, Device::Cpu);
        let Some(Some(torch)) = TORCH.get().filter(|_| bytes >= LARGE) else { return make() };
        let tensor = make().or_else(|_| {
            give_back_kept();
            make()
        })?;
        let words = words(tensor.as_ref(), torch.places);
        // SAFETY: of a storage that nobody else has seen yet, as it was found to be.
        let [start, free, argument, bytes] = [0, FREE, ARGUMENT, BYTES].map(|n| unsafe { *words.add(n) });
        // Somebody else may have taken over torch's allocator meanwhile.
        if free != torch.free as usize || argument != start || bytes < LARGE {
            return Ok(tensor);
        }
        let Some(mut kept) = lock() else { return Ok(tensor) };
        let block = kept.take(bytes).inspect(|block| {
            block.forget_from(bytes);
            // SAFETY: what was just allocated is freed, and the other memory is as large, and nobody's.
            unsafe {
                (torch.free)(argument as *mut c_void);
                words.write(block.start);
                words.add(ARGUMENT).write(block.start);
            }
        });
        if block.is_none() {
            kept.give_back(bytes, torch.free);
        }
        kept.most = kept.most.max(of_run);
        kept.lend(block.unwrap_or(Block { start, bytes }));
        // SAFETY: see above; the memory comes to us when the storage lets go of it.
        unsafe { words.add(FREE).write(take_back as *const () as usize) };
        Ok(tensor)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if KEEPERS.fetch_sub(1, Ordering::Relaxed) == 1 {
            give_back_kept();
        }
    }
}

/// Gives back what is kept.
pub fn give_back_kept() {
    if let (Some(Some(torch)), Some(mut kept)) = (TORCH.get(), lock()) {
        kept.give_back(usize::MAX, torch.free);
        kept.most = 0;
    }
}

/// The bytes that are kept and not in use.
pub fn kept_bytes() -> usize {
    lock().map_or(0, |kept| kept.idle_bytes())
}

/// None if it is held by somebody: in the child of a fork that may be a thread which is not there.
fn lock() -> Option<MutexGuard<'static, Kept>> {
    match KEPT.try_lock() {
        Ok(kept) => Some(kept),
        Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Called by a storage that lets go of its memory, in any thread.
unsafe extern "C" fn take_back(start: *mut c_void) {
    let Some(Some(torch)) = TORCH.get() else { return };
    if let Some(mut kept) = lock()
        && let Some(at) = kept.lent.iter().position(|block| block.start == start as usize)
    {
        let block = kept.lent.swap_remove(at);
        if KEEPERS.load(Ordering::Relaxed) > 0 && kept.idle_bytes() + block.bytes <= kept.most {
            block.offer();
            kept.idle.push(block);
            return;
        }
    }
    // SAFETY: allocated by torch, and held by nobody now.
    unsafe { (torch.free)(start) };
}

impl Kept {
    fn idle_bytes(&self) -> usize {
        self.idle.iter().map(|block| block.bytes).sum()
    }

    /// What was lent at that place before went back to torch while somebody else was here.
    fn lend(&mut self, block: Block) {
        self.lent.retain(|other| other.start != block.start);
        self.lent.push(block);
    }

    /// The smallest that has room for so much.
    fn take(&mut self, bytes: usize) -> Option<Block> {
        let fits = |block: &Block| block.bytes >= bytes && block.bytes / LOOSEST <= bytes;
        let fitting = self.idle.iter().enumerate().filter(|(_, block)| fits(block));
        let (at, _) = fitting.min_by_key(|(_, block)| block.bytes)?;
        Some(self.idle.swap_remove(at))
    }

    /// At least so many bytes, or all.
    fn give_back(&mut self, bytes: usize, free: Free) {
        let mut left = bytes;
        while let Some(block) = self.idle.pop() {
            // SAFETY: allocated by torch, and held by nobody.
            unsafe { free(block.start as *mut c_void) };
            left = left.saturating_sub(block.bytes);
            if left == 0 {
                break;
            }
        }
    }
}

impl Block {
    /// The system may take it.
    fn offer(self) {
        #[cfg(target_os = "linux")]
        self.advise(0, libc::MADV_FREE);
    }

    /// What lies behind so many bytes is not needed now.
    fn forget_from(self, bytes: usize) {
        #[cfg(target_os = "linux")]
        self.advise(bytes, libc::MADV_DONTNEED);
    }

    /// Of the whole pages from an offset on.
    #[cfg(target_os = "linux")]
    fn advise(self, from: usize, advice: i32) {
        // SAFETY: asks for a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let (begin, end) = ((self.start + from).next_multiple_of(page), (self.start + self.bytes) / page * page);
        if begin < end {
            // SAFETY: pages of memory whose contents nobody needs.
            unsafe { libc::madvise(begin as *mut c_void, end - begin, advice) };
        }
    }
}
