//! Compiled kernels, shared by all graphs of the process. Repeated layers, and models that look alike, compile once.

use crate::disk::{Disk, Shelf};
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

/// The kernels of a Plan, and where they came from.
pub(crate) struct Loaded<K> {
    pub kernels: K,
    /// So many had to be compiled,
    pub compiled: usize,
    /// and so many another process had compiled.
    pub read: usize,
}

impl<K> Loaded<K> {
    pub(crate) fn map<T>(self, f: impl FnOnce(K) -> T) -> Loaded<T> {
        Loaded { kernels: f(self.kernels), compiled: self.compiled, read: self.read }
    }
}

/// A general kernel at some of its sizes. Nobody waits for it, so it is not kept for other processes.
pub(crate) fn load_at_sizes(backend: &Backend, kernel: &Kernel) -> Result<LoadedKernel, CodegenError> {
    let key = Key { at_sizes: true, ..Key::new(kernel) };
    if let Some(known) = known_kernels().get(&key) {
        return Ok(known.clone());
    }
    let fresh = backend.for_known_sizes().compile_one(kernel)?;
    remember(vec![(key, fresh.clone())]);
    Ok(fresh)
}

/// A process that compiles more than this starts over, so that its memory stays bounded; programs keep the kernels they run.
const MOST_KEPT: usize = 4096;

type Known = FxHashMap<Key, LoadedKernel>;

static KERNELS: OnceLock<Mutex<Known>> = OnceLock::new();

fn known_kernels() -> MutexGuard<'static, Known> {
    KERNELS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember(fresh: Vec<(Key, LoadedKernel)>) {
    let mut known = known_kernels();
    if known.len() + fresh.len() > MOST_KEPT {
        known.clear();
    }
    known.extend(fresh);
}

/// The kernels in order. Two threads may compile the same kernel at once; one of the results is kept.
pub(crate) fn load(
    backend: &Backend,
    kernels: &[Kernel],
    threads: usize,
    disk: Option<&'static Disk>,
) -> Result<Loaded<Vec<LoadedKernel>>, CodegenError> {
    let keys: Vec<Key> = kernels.iter().map(Key::new).collect();
    let mut found = in_memory(&keys);
    let shelf = Shelf::of_objects(disk, backend);
    let missing = missing(&keys, &found);
    let on_disk = missing.iter().filter_map(|n| Some((*n, shelf.kernel(backend, &keys[*n])?)));
    let mut fresh: Vec<(usize, LoadedKernel)> = on_disk.collect();
    let read = fresh.len();
    let wanted: Vec<usize> = missing.into_iter().filter(|n| fresh.iter().all(|(read, _)| read != n)).collect();
    if !wanted.is_empty() {
        let kernels: Vec<Kernel> = wanted.iter().map(|n| kernels[*n].clone()).collect();
        let compiled = backend.compile_and(&kernels, threads, |kernel, object| shelf.keep(&Key::new(kernel), object))?;
        fresh.extend(wanted.iter().copied().zip(compiled));
    }
    found.extend(fresh.iter().map(|(n, kernel)| (&keys[*n], kernel.clone())));
    let kernels = keys.iter().map(|key| found[key].clone()).collect();
    let mut keys: Vec<Option<Key>> = keys.into_iter().map(Some).collect();
    remember(fresh.into_iter().filter_map(|(n, kernel)| Some((keys[n].take()?, kernel))).collect());
    Ok(Loaded { kernels, compiled: wanted.len(), read })
}

fn in_memory(keys: &[Key]) -> FxHashMap<&Key, LoadedKernel> {
    let known = known_kernels();
    keys.iter().filter_map(|key| Some((key, known.get(key)?.clone()))).collect()
}

/// Where the keys that are not found come first.
fn missing(keys: &[Key], found: &FxHashMap<&Key, LoadedKernel>) -> Vec<usize> {
    let mut seen = FxHashSet::default();
    (0..keys.len()).filter(|n| !found.contains_key(&keys[*n]) && seen.insert(&keys[*n])).collect()
}
