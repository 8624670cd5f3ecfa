//! Kernels for GPUs: compiled once in a process for each architecture, and loaded.

use crate::cache::Key;
use crate::pipeline::{CompileError, codegen_error};
use ox_codegen_cuda::{Backend, Options};
use ox_ir::failure::guarded;
use ox_ir::{CodegenError, Kernel};
use ox_runtime::{Careful, Gate, GpuFunction, Properties, RunError};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// As for the CPU's kernels: a process that compiles more than this starts over.
const MOST_KEPT: usize = 4096;

type Known = FxHashMap<(Key, Options), Arc<GpuFunction>>;

static KERNELS: OnceLock<Mutex<Known>> = OnceLock::new();

/// NVRTC is found once in a process.
fn backend() -> Result<&'static Backend, CompileError> {
    static BACKEND: OnceLock<Result<Backend, CodegenError>> = OnceLock::new();
    BACKEND.get_or_init(|| Backend::new(&[])).as_ref().map_err(|error| codegen_error(error.clone()))
}

/// Finds NVRTC and gets it going, on a thread: a library of a hundred megabytes, which a first compile would wait for. To be called when the process
/// uses a GPU and something will be compiled soon.
pub fn warm_up_gpu() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let warm_up = || {
        let gate = Gate::enter();
        let _ = guarded(|| gate.as_ref().map(|_| backend().map(Backend::warm_up)));
    };
    // Without a thread the first compile waits.
    ONCE.call_once(|| drop(std::thread::Builder::new().name("oxytorch nvrtc".into()).spawn(warm_up)));
}

/// `ordered`: writes that meet happen in one order.
pub(crate) fn options(device: u8, ordered: bool) -> Result<Options, CompileError> {
    let Properties { arch, multiprocessors } = ox_runtime::properties(device).map_err(run_error)?;
    if arch < 75 {
        return Err(CompileError::Unsupported(format!("a GPU of compute capability {}.{}", arch / 10, arch % 10)));
    }
    Ok(Options { arch, multiprocessors, ordered, careful: false })
}

/// The kernels in order, and how many of them had to be compiled.
pub(crate) fn load(kernels: &[Kernel], options: Options, threads: usize) -> Result<(Vec<Arc<GpuFunction>>, usize), CompileError> {
    let cache = KERNELS.get_or_init(Mutex::default);
    let keys: Vec<(Key, Options)> = kernels.iter().map(|kernel| (Key::new(kernel), options)).collect();
    let mut found: Vec<Option<Arc<GpuFunction>>> = {
        let known = cache.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|key| known.get(key).cloned()).collect()
    };
    let missing: Vec<usize> = (0..kernels.len()).filter(|n| found[*n].is_none()).collect();
    let wanted: Vec<Kernel> = missing.iter().map(|n| kernels[*n].clone()).collect();
    let fresh =
        if wanted.is_empty() { Vec::new() } else { backend()?.compile(&wanted, options, threads).map_err(codegen_error)? };
    let mut keys: Vec<Option<(Key, Options)>> = keys.into_iter().map(Some).collect();
    for (n, kernel) in missing.iter().zip(fresh) {
        let function = GpuFunction::load(kernel, careful(&kernels[*n], options)).map_err(run_error)?;
        found[*n] = Some(function.clone());
        let mut known = cache.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(keys[*n].take().expect("each is missing once"), function);
    }
    Ok((found.into_iter().map(|kernel| kernel.expect("found or compiled")).collect(), missing.len()))
}

/// The same kernel for buffers that begin anywhere, compiled when such a buffer comes.
fn careful(kernel: &Kernel, options: Options) -> Careful {
    let (kernel, options) = (kernel.clone(), Options { careful: true, ..options });
    let bug = |error: &dyn std::fmt::Display| RunError::bug(error.to_string());
    Box::new(move || {
        let backend = backend().map_err(|error| bug(&error))?;
        let compiled = backend.compile(std::slice::from_ref(&kernel), options, 1).map_err(|error| bug(&error))?;
        Ok(compiled.into_iter().next().expect("one for one"))
    })
}

/// The kernel as a person may read it.
pub(crate) fn text(kernel: &Kernel, options: Options) -> Option<String> {
    Backend::text(kernel, options).ok()
}

/// Without a driver (or with an old one) the graph runs in eager, which says why in its own words.
fn run_error(error: RunError) -> CompileError {
    match error {
        RunError::Torch { message, .. } | RunError::User { message, .. } => CompileError::Unsupported(message),
        other => CompileError::Bug { stage: "load", message: other.to_string() },
    }
}
