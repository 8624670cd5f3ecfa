//! Compiled kernels, shared by all graphs of the process. Repeated layers, and models that look alike, compile once.

use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_ir::{CodegenError, Kernel};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A kernel without its name, which says nothing of its meaning. What is known of its sizes belongs to it: a Var compares by its
/// number alone, but code may rely on its range and divisor.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kernel: Kernel,
    facts: Vec<(i64, i64, i64)>,
    /// It takes the place of a general one (`variants`): its sums are in another order.
    at_sizes: bool,
}

impl Key {
    pub(crate) fn new(kernel: &Kernel) -> Key {
        let facts = kernel.sizes.iter().map(|v| (v.lo(), v.hi(), v.divisor())).collect();
        Key { kernel: Kernel { name: String::new(), ..kernel.clone() }, facts, at_sizes: false }
    }
}

/// A general kernel at some of its sizes. Nobody waits for it.
pub(crate) fn load_at_sizes(backend: &Backend, kernel: &Kernel) -> Result<LoadedKernel, CodegenError> {
    let key = Key { at_sizes: true, ..Key::new(kernel) };
    if let Some(known) = known_kernels().get(&key) {
        return Ok(known.clone());
    }
    let fresh = backend.for_known_sizes().compile_one(kernel)?;
    let mut known = known_kernels();
    make_room(&mut known, 1);
    known.insert(key, fresh.clone());
    Ok(fresh)
}

/// A process that compiles more than this starts over, so that its memory stays bounded; programs keep the kernels they run.
const MOST_KEPT: usize = 4096;

type Known = FxHashMap<Key, LoadedKernel>;

static KERNELS: OnceLock<Mutex<Known>> = OnceLock::new();

fn known_kernels() -> MutexGuard<'static, Known> {
    KERNELS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_room(known: &mut Known, fresh: usize) {
    if known.len() + fresh > MOST_KEPT {
        known.clear();
    }
}

/// The kernels in order, and how many of them had to be compiled. Two threads may compile the same kernel at once; one of the
/// results is kept.
pub(crate) fn load(backend: &Backend, kernels: &[Kernel], threads: usize) -> Result<(Vec<LoadedKernel>, usize), CodegenError> {
    let keys: Vec<Key> = kernels.iter().map(Key::new).collect();
    let mut found: Vec<Option<LoadedKernel>> = {
        let known = known_kernels();
        keys.iter().map(|key| known.get(key).cloned()).collect()
    };
    let mut seen = FxHashSet::default();
    let missing: Vec<usize> = (0..kernels.len()).filter(|n| found[*n].is_none()).collect();
    let compiled = missing.iter().filter(|n| seen.insert(&keys[**n])).count();
    let wanted: Vec<Kernel> = missing.iter().map(|n| kernels[*n].clone()).collect();
    let fresh = if wanted.is_empty() { Vec::new() } else { backend.compile(&wanted, threads)? };
    let mut keys: Vec<Option<Key>> = keys.into_iter().map(Some).collect();
    let mut known = known_kernels();
    make_room(&mut known, fresh.len());
    for (n, kernel) in missing.iter().zip(fresh) {
        found[*n] = Some(kernel.clone());
        known.insert(keys[*n].take().expect("each is missing once"), kernel);
    }
    Ok((found.into_iter().map(|kernel| kernel.expect("found or compiled")).collect(), compiled))
}
