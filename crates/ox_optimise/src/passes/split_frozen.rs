//! Cuts off what depends on frozen inputs only, so that it runs once instead of at every call.

use super::frozen::{Changes, Frozen};
use super::remove_dead::{keep_results, remove_dead};
use ox_ir::graph::{Args, Graph, GraphInput, GraphOutput, Memory, Node, NodeId, Op, contiguous_strides};

/// A graph in two parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Optimised {
    /// Runs at every call. Its inputs are those of the whole, in the same places, followed by the results of the prelude.
    pub graph: Graph,
    /// What runs once; None if there is nothing to do beforehand.
    pub prelude: Option<Prelude>,
}

/// The part that needs to run only once, and again if a frozen weight has been replaced by another tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prelude {
    /// It has no sizes: what depends on one is computed at every call.
    pub graph: Graph,
    /// Its n-th input is this one of the whole.
    pub inputs: Vec<u32>,
    /// Its n-th result is input `first + n` of the main graph.
    pub first: u32,
}

pub fn split_frozen(graph: Graph) -> Optimised {
    let cuts = cuts(&graph, &Frozen::of_graph(&graph));
    if cuts.is_empty() {
        return Optimised { graph, prelude: None };
    }
    let outputs = cuts.iter().map(|id| result(&graph, *id)).collect();
    let mut once = keep_results(Graph { outputs, mutations: vec![], ..graph.clone() });
    let inputs = keep_used_inputs(&mut once);
    check_sizeless(&mut once);
    let prelude = Some(Prelude { graph: once, inputs, first: graph.inputs.len() as u32 });
    Optimised { graph: remove_dead(replace(graph, &cuts)), prelude }
}

/// A prelude that asked for a size would give its first answer for ever: rather no compiled graph than that one.
fn check_sizeless(prelude: &mut Graph) {
    let varies = prelude.nodes.iter().find(|node| node.op.varies_with_sizes());
    assert!(varies.is_none(), "what runs once depends on a size: {varies:?}");
    prelude.sizes.clear();
    prelude.verify().unwrap_or_else(|error| panic!("what runs once depends on a size: {error}\n{prelude}"));
}

/// The frozen values that the rest needs and that take work: below views, which are free, and not what already lies in memory.
fn cuts(graph: &Graph, changes: &[Changes]) -> Vec<NodeId> {
    let is_frozen = |id: &NodeId| changes[id.index()] == Changes::IfThawed;
    let running = graph.ids().filter(|id| changes[id.index()] == Changes::EveryRun);
    let mut cuts: Vec<NodeId> = running
        .flat_map(|id| &graph.node(id).args)
        .copied()
        .chain(graph.roots())
        .filter(is_frozen)
        .map(|id| below_views(graph, id))
        .filter(|id| !graph.node(*id).args.is_empty())
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn below_views(graph: &Graph, mut id: NodeId) -> NodeId {
    while graph.node(id).op.is_view() {
        id = graph.node(id).args[0];
    }
    id
}

fn result(graph: &Graph, id: NodeId) -> GraphOutput {
    GraphOutput { value: id, strides: contiguous_strides(&graph.ty(id).shape), alias: None, memory: Memory::Any }
}

/// Numbers the inputs that have a node from 0 on; gives their old numbers.
fn keep_used_inputs(graph: &mut Graph) -> Vec<u32> {
    let mut kept = Vec::new();
    for node in &mut graph.nodes {
        if let Op::Input(n) = &mut node.op {
            kept.push(*n);
            *n = kept.len() as u32 - 1;
        }
    }
    graph.inputs = kept.iter().map(|n| graph.inputs[*n as usize].clone()).collect();
    kept
}

/// The cuts become inputs.
fn replace(mut graph: Graph, cuts: &[NodeId]) -> Graph {
    for (n, id) in cuts.iter().enumerate() {
        let ty = graph.ty(*id).clone();
        let place = graph.inputs.len() as u32;
        let (location, packed) = (graph.node(*id).location, graph.is_packed(*id));
        graph.nodes[id.index()] = Node { op: Op::Input(place), args: Args::new(), ty: ty.clone(), location };
        let strides = contiguous_strides(&ty.shape);
        graph.inputs.push(GraphInput { name: format!("frozen{n}"), ty, strides, frozen: true, packed });
    }
    graph
}
