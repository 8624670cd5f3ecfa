//! Compiled kernels, shared by all graphs of the process. Repeated layers, and models that look alike, compile once.

use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_ir::{CodegenError, Kernel};
use rustc_hash::FxHashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A kernel without its name, which says nothing of its meaning. What is known of its sizes belongs to it: a Var compares by its
/// number alone, but code may rely on its range and divisor.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kernel: Kernel,
    facts: Vec<(i64, i64, i64)>,
}

impl Key {
    pub(crate) fn new(kernel: &Kernel) -> Key {
        let facts = kernel.sizes.iter().map(|v| (v.lo(), v.hi(), v.divisor())).collect();
        Key { kernel: Kernel { name: String::new(), ..kernel.clone() }, facts }
    }
}

/// A process that compiles more than this starts over, so that its memory stays bounded; programs keep the kernels they run.
const MOST_KEPT: usize = 4096;

static KERNELS: OnceLock<Mutex<FxHashMap<Key, LoadedKernel>>> = OnceLock::new();

/// The kernels in order, and how many of them had to be compiled. Two threads may compile the same kernel at once; one of the
/// results is kept.
pub(crate) fn load(backend: &Backend, kernels: &[Kernel], threads: usize) -> Result<(Vec<LoadedKernel>, usize), CodegenError> {
    let cache = KERNELS.get_or_init(Mutex::default);
    let keys: Vec<Key> = kernels.iter().map(Key::new).collect();
    let mut found: Vec<Option<LoadedKernel>> = {
        let known = cache.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|key| known.get(key).cloned()).collect()
    };
    let missing: Vec<usize> = (0..kernels.len()).filter(|n| found[*n].is_none()).collect();
    let wanted: Vec<Kernel> = missing.iter().map(|n| kernels[*n].clone()).collect();
    let fresh = if wanted.is_empty() { Vec::new() } else { backend.compile(&wanted, threads)? };
    let mut keys: Vec<Option<Key>> = keys.into_iter().map(Some).collect();
    let mut known = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() + fresh.len() > MOST_KEPT {
        known.clear();
    }
    for (n, kernel) in missing.iter().zip(fresh) {
        found[*n] = Some(kernel.clone());
        known.insert(keys[*n].take().expect("each is missing once"), kernel);
    }
    Ok((found.into_iter().map(|kernel| kernel.expect("found or compiled")).collect(), missing.len()))
}
