//! Graph in, two Programs out: one that computes the results and what must be saved, one that computes gradients.

use crate::dump::Dump;
use crate::options::Options;
use crate::pipeline::{CompileError, Compiled, compile_into, draft, load_draft, stage};
use ox_autodiff::{Joint, Source, Split, Undifferentiable, Wanted, joint, partition};
use ox_ir::{Device, Graph, Op};
use ox_optimise::OptimiseOptions;
use ox_optimise::passes::factor_sums::factor_sums;
use ox_optimise::passes::flash_mask::flash_mask;
use ox_optimise::passes::remove_dead::remove_dead;
use ox_optimise::passes::simplify::simplify;
use ox_runtime::HostCalls;
use ox_schedule::{ScheduleOptions, Target};
use std::sync::Arc;
use std::sync::mpsc::channel;

pub struct Training {
    /// Inputs as in the graph; results: the user's, then what is saved.
    pub forward: Compiled,
    /// Results: the gradients that exist, in the order of the inputs that they belong to.
    pub backward: Compiled,
    /// The backward graph, for programs that are called with fewer gradients.
    pub graph: Graph,
    /// How many of the forward program's results are the user's.
    pub outputs: usize,
    /// What the backward program is called with, in order.
    pub sources: Vec<Source>,
    /// For each input of the graph, which result of the backward program is its gradient.
    pub gradients: Vec<Option<u32>>,
}

#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// The graph must be cut at a node that only torch can differentiate.
    #[error(transparent)]
    Undifferentiable(#[from] Undifferentiable),
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// Differentiates before anything else, so that derivatives are taken of what the user wrote; then both halves go the usual way.
pub fn compile_training(
    graph: &Graph,
    wanted: &Wanted,
    options: &Options,
    host: Arc<dyn HostCalls>,
) -> Result<Training, TrainingError> {
    let dump = Dump::new(options.debug_dir.as_deref());
    dump.write("0-graph.txt", graph);
    let Split { forward, backward, outputs, sources, gradients } = differentiate(graph, wanted, options, &dump)?;
    // Weights that are trained are not frozen.
    let options = Options { freezing: false, overwrite_inputs: false, ..options.clone() };
    let options = Options { visible: Some(outputs), ..options };
    let for_backward = for_backward(&options, &sources);
    let halves = [(&forward, &options, dump.inner("forward")), (&backward, &for_backward, dump.inner("backward"))];
    let on_gpu = device_kind(graph) == Target::Gpu;
    let [forward, backward_program] = if on_gpu { side_by_side(halves, host)? } else { in_turn(halves, host)? };
    Ok(Training { forward, backward: backward_program, graph: backward, outputs, sources, gradients })
}

/// A graph to be compiled, how, and where it is written down.
type Half<'a> = (&'a Graph, &'a Options, Dump);

fn in_turn(halves: [Half<'_>; 2], host: Arc<dyn HostCalls>) -> Result<[Compiled; 2], CompileError> {
    let [first, second] = halves;
    Ok([compile_into(first.0, first.1, host.clone(), first.2)?, compile_into(second.0, second.1, host, second.2)?])
}

/// The scheduler of the second half goes as deep as that of the first, on a thread that has as much room as the first one's.
const STACK: usize = 64 << 20;

/// For GPUs: NVRTC keeps a few cores busy for long, and the second half has time to be scheduled, and to be given to it too, behind the first: whose kernels
/// would otherwise be compiled among the last of the second, or behind them. (LLVM keeps all cores busy by itself, and two of its compiles need twice the memory.)
fn side_by_side(halves: [Half<'_>; 2], host: Arc<dyn HostCalls>) -> Result<[Compiled; 2], CompileError> {
    let [(first, options, dump), (second, second_options, second_dump)] = halves;
    let (is_given, until_given) = channel::<()>();
    let (drafted, second_drafted) = std::thread::scope(|scope| {
        let behind = std::thread::Builder::new().stack_size(STACK);
        // It fails when the other end is gone: that is the sign.
        let turn = move || {
            let _ = until_given.recv();
        };
        let behind = behind.spawn_scoped(scope, || draft(second, second_options, second_dump, turn));
        let drafted = draft(first, options, dump, || ());
        drop(is_given);
        (drafted, behind.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    });
    let failed = |error: std::io::Error| CompileError::Unsupported(format!("no thread could be started: {error}"));
    let second_drafted = second_drafted.map_err(failed)??;
    let forward = load_draft(drafted?, first, options, host.clone())?;
    Ok([forward, load_draft(second_drafted, second, second_options, host)?])
}

fn device_kind(graph: &Graph) -> Target {
    let on_cpu = graph.nodes.iter().all(|node| node.ty.device == Device::Cpu);
    if on_cpu { Target::Cpu } else { Target::Gpu }
}

/// The options of a program for gradients that is called with these. Gradients are not the user's: torch's autograd takes them over.
pub fn for_backward<'a>(forward: &Options, sources: impl IntoIterator<Item = &'a Source> + Clone) -> Options {
    let is_weight = |source: &Source| matches!(source, Source::Input(n) if forward.weights.get(*n as usize) == Some(&true));
    let weights = sources.clone().into_iter().map(is_weight).collect();
    Options { given: given(sources), weights, visible: Some(0), later: true, ..forward.clone() }
}

/// What was saved is nobody else's: the backward program may let go of it.
fn given<'a>(sources: impl IntoIterator<Item = &'a Source>) -> Vec<u32> {
    let saved = sources.into_iter().zip(0..).filter(|(source, _)| matches!(source, Source::Saved(_)));
    saved.map(|(_, n)| n).collect()
}

fn differentiate(graph: &Graph, wanted: &Wanted, options: &Options, dump: &Dump) -> Result<Split, TrainingError> {
    let joint = stage("autodiff", || Ok(joint(graph, wanted)))??;
    dump.write("1-joint.txt", &joint);
    // Rules before the cut: a derivative that computes what the graph has already is the same node then.
    let joint = stage("autodiff", || Ok(simplified(joint)))?;
    dump.write("2-simplified.txt", &joint);
    let budget = f64::from(options.activation_memory_budget) / 1000.0;
    let split = stage("autodiff", || Ok(partition(&joint, &wanted.held, budget)))?;
    let split = stage("autodiff", || Ok(laid_out(split, device_kind(graph))))?;
    dump.write("3-split.txt", &split);
    Ok(split)
}

/// What is saved lies as the forward graph makes it.
fn laid_out(mut split: Split, target: Target) -> Split {
    let optimised = ox_optimise::optimise(split.forward.clone(), &OptimiseOptions::default());
    let layouts =
        ox_schedule::natural_layouts(&optimised, split.outputs, &ScheduleOptions { target, ..ScheduleOptions::default() });
    for (n, strides) in layouts.into_iter().enumerate() {
        split.forward.outputs[split.outputs + n].strides = strides.clone();
        let place = split.sources.iter().position(|source| *source == Source::Saved(n as u32));
        split.backward.inputs[place.expect("what is saved is used")].strides = strides;
    }
    split
}

fn simplified(joint: Joint) -> Joint {
    let graph = remove_dead(flash_mask(simplify(joint.graph).0).0);
    let behind = of_gradients(&graph, joint.inputs);
    let graph = factor_sums(graph, |id| behind[id.index()]).0;
    Joint { graph: remove_dead(graph), ..joint }
}

/// Which nodes depend on a gradient that comes in: an input behind the first `inputs`.
fn of_gradients(graph: &Graph, inputs: usize) -> Vec<bool> {
    let mut behind = vec![false; graph.nodes.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        behind[n] = match node.op {
            Op::Input(input) => input as usize >= inputs,
            _ => node.args.iter().any(|arg| behind[arg.index()]),
        };
    }
    behind
}
