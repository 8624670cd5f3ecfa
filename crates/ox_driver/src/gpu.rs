//! Kernels for GPUs: compiled once in a process for each architecture, on threads, while the program that has them goes on.

use crate::cache::{Key, Loaded};
use crate::disk::{Disk, Shelf};
use crate::pipeline::{CompileError, codegen_error};
use ox_codegen_cuda::{Backend, Options, Source, assemble, launched};
use ox_ir::failure::{Panic, fault, guarded};
use ox_ir::{CodegenError, Kernel, Plan};
use ox_runtime::{Careful, CompileJob, Gate, GpuFunction, Image, Properties, RunError};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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

/// How kernels are compiled: on so many threads, and behind all that is wanted sooner.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub threads: usize,
    pub later: bool,
}

/// The kernels in order, and how many of them had to be compiled. They are text behind this, and compiled while the program goes on: a launch
/// waits for its kernel, the calls in front of it do not.
pub(crate) fn load(
    plan: &Plan,
    options: Options,
    pace: Pace,
    disk: Option<&'static Disk>,
) -> Result<Loaded<Vec<Arc<GpuFunction>>>, CompileError> {
    let kernels = &plan.kernels;
    let keys: Vec<(Key, Options)> = kernels.iter().map(|kernel| (Key::new(kernel), options)).collect();
    let mut found: Vec<Option<Arc<GpuFunction>>> = {
        let known = known_kernels();
        keys.iter().map(|key| usable(&known, key)).collect()
    };
    let missing: Vec<usize> = (0..kernels.len()).filter(|n| found[*n].is_none()).collect();
    if missing.is_empty() {
        return Ok(Loaded { kernels: found.into_iter().flatten().collect(), compiled: 0, read: 0 });
    }
    let backend = backend()?;
    backend.check(options.arch).map_err(codegen_error)?;
    let wanted: Vec<Kernel> = missing.iter().map(|n| kernels[*n].clone()).collect();
    let sources = Backend::sources(&wanted, &options).map_err(codegen_error)?;
    let mut places = missing.iter();
    let mut keys: Vec<Option<(Key, Options)>> = keys.into_iter().map(Some).collect();
    let mut jobs: Vec<CompileJob> = Vec::new();
    for unit in ox_codegen_cuda::units(sources, pace.threads) {
        let (image, maker) = Image::awaited();
        for (source, n) in unit.iter().zip(&mut places) {
            let function = GpuFunction::new(launched(source), image.clone(), careful(&kernels[*n], options, disk));
            found[*n] = Some(function.clone());
            keep(keys[*n].take().expect("each is missing once"), function);
        }
        let make = move || {
            fault("kernel");
            cubin(backend, &unit, options.arch, disk).map_err(|error| error.to_string())
        };
        jobs.push(Box::new(move || maker.give(guarded(make).unwrap_or_else(|Panic(text)| Err(text)))));
    }
    ox_runtime::submit(jobs, pace.later, pace.threads);
    Ok(Loaded { kernels: found.into_iter().flatten().collect(), compiled: missing.len(), read: 0 })
}

/// One translation unit, or what another process has made of it.
fn cubin(backend: &Backend, unit: &[Source], arch: u32, disk: Option<&'static Disk>) -> Result<Vec<u8>, CodegenError> {
    let text = assemble(unit);
    Shelf::of_cubins(disk, backend.maker(arch)).found_or_made(&text, || backend.image(&text, arch))
}

fn known_kernels() -> MutexGuard<'static, Known> {
    KERNELS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// One that could not be compiled (for want of memory, say) is tried again by whoever asks next.
fn usable(known: &Known, key: &(Key, Options)) -> Option<Arc<GpuFunction>> {
    known.get(key).filter(|function| !function.has_failed()).cloned()
}

fn keep(key: (Key, Options), function: Arc<GpuFunction>) {
    let mut known = known_kernels();
    if known.len() >= MOST_KEPT {
        known.clear();
    }
    known.insert(key, function);
}

/// The same kernel for buffers that begin anywhere, compiled when such a buffer comes.
fn careful(kernel: &Kernel, options: Options, disk: Option<&'static Disk>) -> Careful {
    let (kernel, options) = (kernel.clone(), Options { careful: true, ..options });
    let bug = |error: &dyn std::fmt::Display| RunError::bug(error.to_string());
    Box::new(move || {
        let sources = Backend::sources(std::slice::from_ref(&kernel), &options).map_err(|error| bug(&error))?;
        let backend = backend().map_err(|error| bug(&error))?;
        let cubin = cubin(backend, &sources, options.arch, disk).map_err(|error| bug(&error))?;
        Ok((launched(&sources[0]), cubin))
    })
}

/// The kernel as a person may read it.
pub(crate) fn text(plan: &Plan, n: usize, options: Options) -> Option<String> {
    Backend::text(&plan.kernels[n], options, plan.lines_of(n)).ok()
}

/// Without a driver (or with an old one) the graph runs in eager, which says why in its own words.
fn run_error(error: RunError) -> CompileError {
    match error {
        RunError::Torch { message, .. } | RunError::User { message, .. } => CompileError::Unsupported(message),
        other => CompileError::Bug { stage: "load", message: other.to_string() },
    }
}
