//! Compiled kernels, shared by all graphs of the process. Repeated layers, and models that look alike, compile once.

use crate::disk::Shelf;
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

/// A general kernel at some of its sizes. Nobody waits for it.
pub(crate) fn load_at_sizes(backend: &Backend, kernel: &Kernel, disk_cache: bool) -> Result<LoadedKernel, CodegenError> {
    let key = Key { at_sizes: true, ..Key::new(kernel) };
    if let Some(known) = known_kernels().get(&key) {
        return Ok(known.clone());
    }
    let shelf = Shelf::of_objects(backend, disk_cache);
    let fresh = match shelf.as_ref().and_then(|shelf| shelf.kernel(backend, &key)) {
        Some(read) => read,
        None => backend.for_known_sizes().compile_one(kernel, |_, object| keep(&shelf, &key, object))?,
    };
    remember([(key, fresh.clone())]);
    Ok(fresh)
}

fn keep(shelf: &Option<Shelf>, key: &Key, object: &[u8]) {
    if let Some(shelf) = shelf {
        shelf.keep(key, object);
    }
}

/// A process that compiles more than this starts over, so that its memory stays bounded; programs keep the kernels they run.
const MOST_KEPT: usize = 4096;

type Known = FxHashMap<Key, LoadedKernel>;

static KERNELS: OnceLock<Mutex<Known>> = OnceLock::new();

fn known_kernels() -> MutexGuard<'static, Known> {
    KERNELS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember(fresh: impl IntoIterator<Item = (Key, LoadedKernel), IntoIter: ExactSizeIterator>) {
    let (fresh, mut known) = (fresh.into_iter(), known_kernels());
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
    disk_cache: bool,
) -> Result<Loaded<Vec<LoadedKernel>>, CodegenError> {
    let keys: Vec<Key> = kernels.iter().map(Key::new).collect();
    let mut found = in_memory(&keys);
    let known = found.len();
    let shelf = Shelf::of_objects(backend, disk_cache);
    for key in &keys {
        if let (false, Some(shelf)) = (found.contains_key(key), &shelf) {
            found.extend(shelf.kernel(backend, key).map(|kernel| (key, kernel)));
        }
    }
    let read = found.len() - known;
    let mut seen = FxHashSet::default();
    let missing: Vec<usize> = (0..keys.len()).filter(|n| !found.contains_key(&keys[*n]) && seen.insert(&keys[*n])).collect();
    if !missing.is_empty() {
        let wanted: Vec<Kernel> = missing.iter().map(|n| kernels[*n].clone()).collect();
        let fresh = backend.compile_and(&wanted, threads, |kernel, object| keep(&shelf, &Key::new(kernel), object))?;
        found.extend(missing.iter().map(|n| &keys[*n]).zip(fresh));
    }
    let kernels: Vec<LoadedKernel> = keys.iter().map(|key| found[key].clone()).collect();
    remember(keys.into_iter().zip(kernels.clone()));
    Ok(Loaded { kernels, compiled: missing.len(), read })
}

fn in_memory(keys: &[Key]) -> FxHashMap<&Key, LoadedKernel> {
    let known = known_kernels();
    keys.iter().filter_map(|key| Some((key, known.get(key)?.clone()))).collect()
}
