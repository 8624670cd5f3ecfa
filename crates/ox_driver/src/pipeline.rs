//! Graph in, Executable out.

use crate::cache::{self, Loaded};
use crate::disk;
use crate::dump::Dump;
use crate::forms::forms;
use crate::gpu;
use crate::options::Options;
use crate::program::{Prelude, Program};
use crate::report::Report;
use crate::variants::AtSizes;
use ox_codegen_cpu::tidy::forget_code;
use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_ir::failure::{Panic, fault, guarded};
use ox_ir::{CodegenError, Device, Graph, Kernel, Plan, Sym};
use ox_optimise::{FreeBias, FusePostOps, OptimiseOptions, Optimised, PackWeights, PostOps};
use ox_runtime::{Executable, Foreground, GraphSettings, HostCalls, Kernels, LoadedFn, Packable, RunError, give_back_if_grown};
use ox_schedule::{ScheduleError, ScheduleOptions, Target};
use std::sync::{Arc, OnceLock};

/// A compile that gave no Executable. Either way the caller can still run the program as it was.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("{0}")]
    Unsupported(String),
    #[error("bug in {stage}: {message}")]
    Bug { stage: &'static str, message: String },
}

pub struct Compiled {
    pub program: Program,
    pub report: Report,
}

/// Runs the stages in their order, which stands only here:
///
/// 1. optimise: rules and passes, Graph to Graph; what depends on frozen weights only is split off, to run once.
/// 2. schedule: what is fused, what is called, where it lies. After optimising, which decides what there is to fuse.
/// 3. codegen: the kernels that no earlier graph had, on threads; those for GPUs are text behind it, and compiled meanwhile.
/// 4. load: the Plan is checked and bound to its kernels.
pub fn compile(graph: &Graph, options: &Options, host: Arc<dyn HostCalls>) -> Result<Compiled, CompileError> {
    compile_into(graph, options, host, Dump::new(options.debug_dir.as_deref()))
}

pub(crate) fn compile_into(
    graph: &Graph,
    options: &Options,
    host: Arc<dyn HostCalls>,
    dump: Dump,
) -> Result<Compiled, CompileError> {
    give_back_capture();
    load_draft(draft(graph, options, dump, || ())?, graph, options, host)
}

/// Everything up to the kernels: what needs neither Python nor a device that is current.
pub(crate) struct Draft {
    main: (Plan, Kernels),
    /// With what it is made of, by number of the input.
    prelude: Option<((Plan, Kernels), Vec<u32>)>,
    report: Report,
    dump: Dump,
}

/// `turn` comes back when code may be generated: what is wanted sooner is given to the compiler first.
pub(crate) fn draft(graph: &Graph, options: &Options, dump: Dump, turn: impl FnOnce()) -> Result<Draft, CompileError> {
    let _waited_for = Foreground::enter();
    let mut report = Report { graph_nodes: graph.nodes.len(), ..Report::default() };
    dump.write("1-graph.txt", graph);
    let device = device_of(graph)?;

    let Optimised { graph: optimised, prelude } =
        report.time("optimise", || stage("optimise", || Ok(optimise(graph, device, options))))?;
    report.optimised_nodes = optimised.nodes.len();
    dump.write("2-optimised.txt", &optimised);

    let main = plan_and_kernels(&optimised, device, options, &mut report, &dump, turn)?;
    let prelude = match prelude {
        Some(split) => {
            let dump = dump.inner("prelude");
            dump.write("2-optimised.txt", &split.graph);
            Some((plan_and_kernels(&split.graph, device, options, &mut Report::default(), &dump, || ())?, split.inputs))
        }
        None => None,
    };
    Ok(Draft { main, prelude, report, dump })
}

pub(crate) fn load_draft(
    draft: Draft,
    graph: &Graph,
    options: &Options,
    host: Arc<dyn HostCalls>,
) -> Result<Compiled, CompileError> {
    let _waited_for = Foreground::enter();
    let Draft { main: (plan, kernels), prelude, mut report, dump } = draft;
    let load = |plan, kernels, host| {
        let executable = stage("load", || load(plan, kernels, host))?;
        Ok::<_, CompileError>(if options.background_variants { executable.with_variants(Arc::new(AtSizes)) } else { executable })
    };
    let main = report.time("load", || load(plan, kernels, host.clone()))?;
    // Halves of a training step say what the user sees of them. What is kept of one would lie beside what the other needs.
    let main = if options.visible.is_none() { main.keeping_results() } else { main };
    let main = if options.mode.has_graphs() { main.with_graphs(graph_settings(graph, options)) } else { main };
    let prelude = match prelude {
        Some(((plan, kernels), inputs)) => Some(Prelude::new(load(plan, kernels, host)?, inputs)),
        None => None,
    };
    report.notes = dump.into_notes();
    report.trouble = disk::trouble(options);
    Ok(Compiled { program: Program::new(main, prelude), report })
}

/// The process is at its largest in a compile, and what the graph was captured with is not needed now: 10 MB of holes that GraphSAGE's first call
/// left in the heap, and as much code.
fn give_back_capture() {
    if give_back_if_grown() {
        forget_code();
    }
}

/// What is made of frozen weights comes behind the inputs of the graph, and stays where it is.
fn graph_settings(graph: &Graph, options: &Options) -> GraphSettings {
    let mut weights = options.weights.clone();
    weights.resize(graph.inputs.len(), false);
    let visible = options.visible.unwrap_or(graph.outputs.len());
    GraphSettings { weights, visible, emulated: options.emulate_graphs }
}

/// Products with fewer rows or columns are not worth a copy of their weight.
const ALIGNED_FROM: i64 = 512;

/// Where the whole graph is computed.
fn device_of(graph: &Graph) -> Result<Device, CompileError> {
    let mut devices = graph.nodes.iter().map(|node| node.ty.device);
    let device = devices.next().unwrap_or_default();
    if device == Device::Other {
        return Err(CompileError::Unsupported("tensors on a device that is neither CPU nor CUDA".into()));
    }
    match devices.find(|other| *other != device) {
        Some(other) => Err(CompileError::Unsupported(format!("tensors on {device} and on {other} in one graph"))),
        None => Ok(device),
    }
}

/// The stages between optimising and loading.
fn plan_and_kernels(
    graph: &Graph,
    device: Device,
    options: &Options,
    report: &mut Report,
    dump: &Dump,
    turn: impl FnOnce(),
) -> Result<(Plan, Kernels), CompileError> {
    let mut plan = report.time("schedule", || stage("schedule", || schedule(graph, device, options)))?;
    plan.shrink();
    report.describe_plan(&plan);
    dump.write("3-plan.txt", &plan);

    turn();
    let Loaded { kernels, compiled, read } = report.time("codegen", || stage("codegen", || codegen(&plan, device, options)))?;
    (report.kernels_compiled, report.kernels_read) = (compiled, read);
    if dump.is_on() {
        dump_kernels(dump, device, &plan, options.deterministic);
    }
    Ok((plan, kernels))
}

/// One stage; a panic in it is its Bug.
pub(crate) fn stage<T>(name: &'static str, f: impl FnOnce() -> Result<T, CompileError>) -> Result<T, CompileError> {
    let f = || {
        fault(name);
        f()
    };
    guarded(f).unwrap_or_else(|Panic(message)| Err(CompileError::Bug { stage: name, message }))
}

fn optimise(graph: &Graph, device: Device, options: &Options) -> Optimised {
    let wanted = OptimiseOptions {
        round_intermediates: options.round_intermediates,
        freezing: options.freezing,
        pack_weights: if options.freezing && device == Device::Cpu { pack_weights() } else { PackWeights::NONE },
        additive_masks: device != Device::Cpu,
        grouped_attention: device == Device::Cpu,
        // Eager adds in 16 bits where the program itself scatters.
        wide_sums: device != Device::Cpu && options.is_backward(),
        align_products: (device != Device::Cpu).then_some(ALIGNED_FROM),
        free_bias: if device == Device::Cpu { FreeBias::OfProducts } else { FreeBias::OfConvolutions },
        fuse_post_ops: fuse_post_ops(device),
        ..OptimiseOptions::default()
    };
    let graph = ox_optimise::optimise(graph.clone(), &wanted);
    if options.freezing { ox_optimise::split_frozen(graph) } else { Optimised { graph, prelude: None } }
}

fn fuse_post_ops(device: Device) -> FusePostOps {
    let usual = OptimiseOptions::default().fuse_post_ops;
    match device {
        Device::Cpu => usual,
        _ => FusePostOps { half_matmul: PostOps::OF_CUBLAS, ..usual },
    }
}

/// What the library can pack is asked once in a process.
fn pack_weights() -> PackWeights {
    static ABLE: OnceLock<Packable> = OnceLock::new();
    let Packable { matmul_f32, matmul_bf16, conv_f32, conv_bf16 } = *ABLE.get_or_init(ox_runtime::packable);
    PackWeights { matmul_f32, matmul_bf16, conv_f32, conv_bf16 }
}

fn schedule(graph: &Graph, device: Device, options: &Options) -> Result<Plan, CompileError> {
    let on_cpu = device == Device::Cpu;
    let wanted = ScheduleOptions {
        target: if on_cpu { Target::Cpu } else { Target::Gpu },
        overwrite_inputs: options.overwrite_inputs && on_cpu,
        given: options.given.clone(),
        usual: options.usual.clone(),
        ..ScheduleOptions::default()
    };
    ox_schedule::schedule(graph, &wanted).map_err(|error| match error {
        ScheduleError::Unsupported(what) => CompileError::Unsupported(what),
        ScheduleError::Bug(message) => CompileError::Bug { stage: "schedule", message },
    })
}

/// LLVM is set up once in a process.
pub(crate) fn backend() -> Result<&'static Backend, CompileError> {
    static BACKEND: OnceLock<Result<Backend, CodegenError>> = OnceLock::new();
    BACKEND.get_or_init(Backend::new).as_ref().map_err(|error| codegen_error(error.clone()))
}

fn codegen(plan: &Plan, device: Device, options: &Options) -> Result<Loaded<Kernels>, CompileError> {
    let threads = match options.compile_threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        n => n,
    };
    if let Device::Cuda(n) = device {
        let pace = gpu::Pace { threads, later: options.later };
        let loaded = gpu::load(plan, gpu::options(n, options.deterministic)?, pace, disk::wanted(options))?;
        return Ok(loaded.map(Kernels::Gpu));
    }
    let (kernels, sizes): (Vec<Kernel>, Vec<Vec<Sym>>) =
        forms(&plan.kernels).into_iter().map(|form| (form.kernel, form.sizes)).unzip();
    let loaded = cache::load(backend()?, &kernels, threads, disk::wanted(options)).map_err(codegen_error)?;
    let with_sizes = |(kernel, sizes): (LoadedKernel, Vec<Sym>)| LoadedFn {
        function: kernel.function,
        sizes: Some(sizes.into()),
        keep: kernel.keep,
    };
    Ok(loaded.map(|kernels| Kernels::Cpu(kernels.into_iter().zip(sizes).map(with_sizes).collect())))
}

/// Of either code generator.
pub(crate) fn codegen_error(error: CodegenError) -> CompileError {
    match error {
        CodegenError::Unsupported { .. } | CodegenError::Missing(_) => CompileError::Unsupported(error.to_string()),
        _ => CompileError::Bug { stage: "codegen", message: error.to_string() },
    }
}

fn load(plan: Plan, kernels: Kernels, host: Arc<dyn HostCalls>) -> Result<Executable, CompileError> {
    Executable::new(plan, kernels, host).map_err(|error| match error {
        RunError::Torch { message, .. } => CompileError::Unsupported(message),
        error @ RunError::Memory { .. } => CompileError::Unsupported(error.to_string()),
        other => CompileError::Bug { stage: "load", message: other.to_string() },
    })
}

fn dump_kernels(dump: &Dump, device: Device, plan: &Plan, ordered: bool) {
    for (n, (kernel, form)) in plan.kernels.iter().zip(forms(&plan.kernels)).enumerate() {
        dump.write(&format!("4-kernel-{n:03}-{}.txt", kernel.name), kernel);
        if let Device::Cuda(device) = device {
            let text = gpu::options(device, ordered).ok().and_then(|options| gpu::text(plan, n, options)).unwrap_or_default();
            dump.write(&format!("5-kernel-{n:03}-{}.cu", kernel.name), &text);
        } else if let Ok(Ok(ir)) = backend().map(|b| b.emit_ir(&form.kernel)) {
            dump.write(&format!("5-kernel-{n:03}-{}.ll", kernel.name), &ir);
        }
    }
}
