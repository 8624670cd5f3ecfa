//! Between which inputs and results of a graph gradients flow.

use crate::fx::Gradients;
use ox_driver::is_small;
use ox_ir::graph::{Library, Node, NodeId, Op};
use ox_ir::{Graph, PointOp, TensorType};
use ox_ops::is_seed;

/// For each result, which inputs its gradient flows to.
pub fn reach(graph: &Graph, gradients: &Gradients) -> Vec<Vec<bool>> {
    let wanted = |n: usize| gradients.outputs[n];
    let inputs = graph.inputs.len();
    (0..graph.outputs.len())
        .map(|n| if wanted(n) { flowing(graph, graph.outputs[n].value) } else { vec![false; inputs] })
        .collect()
}

/// The inputs that a gradient reaches from this node.
fn flowing(graph: &Graph, from: NodeId) -> Vec<bool> {
    inputs_below(graph, from, &|id| passes(graph.node(id)).then(|| ways(graph.node(id))))
}

/// The arguments that a gradient goes on to: what is grafted has that of its path alone.
fn ways(node: &Node) -> &[NodeId] {
    if node.op == Op::Graft { &node.args[1..] } else { &node.args }
}

/// Whether a gradient may pass through a node.
fn passes(node: &Node) -> bool {
    let carries = node.ty.dtype.is_float() || node.ty.dtype.is_complex() || matches!(node.op, Op::Library(_));
    carries && node.op != Op::Detach
}

/// The inputs that are met on the way down from a node, going on to what `step` says.
fn inputs_below<'a>(graph: &'a Graph, from: NodeId, step: &dyn Fn(NodeId) -> Option<&'a [NodeId]>) -> Vec<bool> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut found = vec![false; graph.inputs.len()];
    seen[from.index()] = true;
    for id in graph.ids().rev().filter(|id| id.index() <= from.index()) {
        let Some(below) = Some(id).filter(|id| seen[id.index()]).and_then(step) else { continue };
        if let Op::Input(n) = graph.node(id).op {
            found[n as usize] = true;
        }
        below.iter().for_each(|arg| seen[arg.index()] = true);
    }
    found
}

/// How a graph is computed once more behind it, with gradients that can be differentiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    ByEager,
    /// By a graph of ours: its random numbers are our own.
    Natively,
    Never,
}

impl Again {
    /// Not where the same gradients would not come out: something large that the results depend on is written, or something is done that must not
    /// be done twice. Of the last `constants` inputs eager takes its own from the module: it would write to them, and what flows to them here cannot
    /// be told from what flows to them by way of arguments. What has sizes that vary is looked at in each call.
    pub fn of(graph: &Graph, gradients: &Gradients, constants: usize) -> Again {
        let (copied, given) = (read_and_written(graph, gradients), graph.inputs.len() - constants);
        let is_large = |ty: &TensorType| ty.numel().as_const().is_some() && !is_small(ty);
        let is_copy_dear = |(place, copied): (usize, &bool)| *copied && is_large(&graph.inputs[place].ty);
        let writes_constants = graph.mutations.iter().any(|mutation| mutation.input as usize >= given);
        if writes_constants || copied.iter().enumerate().any(is_copy_dear) {
            return Again::Never;
        }
        let mut of_constants = gradients.inputs.iter().rev().take(constants);
        match draws_itself(graph) {
            // Only the CPU's generator is set back to draw a seed again.
            true if draws_seeds_only(graph) => Again::Natively,
            false if !of_constants.any(|wanted| *wanted) => Again::ByEager,
            _ => Again::Never,
        }
    }
}

/// The inputs that a graph writes and that results with a gradient are computed of: to compute those again takes what was there before.
pub fn read_and_written(graph: &Graph, gradients: &Gradients) -> Vec<bool> {
    let read = read_by(graph, gradients.outputs.iter().copied());
    let is_written = |input: usize| graph.mutations.iter().any(|mutation| mutation.input as usize == input);
    read.into_iter().enumerate().map(|(input, read)| read && is_written(input)).collect()
}

/// The inputs that some results are computed of.
pub fn read_by(graph: &Graph, results: impl Iterator<Item = bool>) -> Vec<bool> {
    let mut found = vec![false; graph.inputs.len()];
    for (output, _) in graph.outputs.iter().zip(results).filter(|(_, is_one)| *is_one) {
        let read = inputs_below(graph, output.value, &|id| Some(&graph.node(id).args));
        found.iter_mut().zip(read).for_each(|(found, read)| *found |= read);
    }
    found
}

/// Whether it calls functions that may draw random numbers.
pub fn has_effects(graph: &Graph) -> bool {
    effects(graph).next().is_some()
}

/// Whether nothing but seeds of our own is drawn, from the CPU's generator, and that it is.
pub fn draws_seeds_only(graph: &Graph) -> bool {
    has_effects(graph) && effects(graph).all(|call| is_seed(call) && !names_device(call))
}

fn effects(graph: &Graph) -> impl Iterator<Item = &Library> {
    graph.nodes.iter().filter_map(|node| match &node.op {
        Op::Library(library) if library.effect => Some(&**library),
        _ => None,
    })
}

fn names_device(call: &Library) -> bool {
    call.kwargs.iter().any(|(name, _)| name == "device")
}

/// Whether it has random numbers that eager has not.
fn draws_itself(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| matches!(node.op, Op::Point(PointOp::Random | PointOp::RandomHigh)))
}
