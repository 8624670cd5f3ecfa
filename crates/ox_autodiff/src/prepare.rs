//! Brings what has no derivative as it stands into a form that has one.

use crate::active::{reached, requires_grad};
use crate::joint::{Undifferentiable, Wanted, refuse};
use ox_ir::graph::{Args, NodeId, Op};
use ox_ir::{Device, Graph};
use ox_ops::Builder;
use ox_ops::derive::differentiable_attention;

pub struct Prepared {
    pub graph: Graph,
    /// For each node, the one that it stands for.
    pub origin: Vec<NodeId>,
}

pub fn prepare(graph: &Graph, wanted: &Wanted) -> Result<Prepared, Undifferentiable> {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::Attention(_))) {
        return Ok(Prepared { graph: graph.clone(), origin: graph.ids().collect() });
    }
    let active = requires_grad(graph, wanted);
    let reached = reached(graph, wanted, &active);
    let device = graph.inputs.iter().map(|input| input.ty.device).find(|d| *d != Device::Cpu).unwrap_or_default();
    let mut b = Builder::resume(Graph { nodes: Vec::new(), ..graph.clone() }, device);
    let (mut renamed, mut origin): (Vec<NodeId>, Vec<NodeId>) = (Vec::new(), Vec::new());
    for id in graph.ids() {
        let node = graph.node(id);
        let args: Args = node.args.iter().map(|arg| renamed[arg.index()]).collect();
        b.stand_at(node.location);
        renamed.push(match &node.op {
            Op::Attention(attrs) if reached[id.index()] => {
                let of_mask = node.args.get(3).is_some_and(|mask| active[mask.index()]);
                differentiable_attention(&mut b, attrs, &args, of_mask, wanted.attention).map_err(|error| refuse(id, error))?
            }
            _ => b.copy(node, args),
        });
        origin.resize(b.graph().nodes.len(), id);
    }
    let (mut outputs, mut mutations) = (graph.outputs.clone(), graph.mutations.clone());
    outputs.iter_mut().for_each(|output| output.value = renamed[output.value.index()]);
    mutations.iter_mut().for_each(|mutation| mutation.value = renamed[mutation.value.index()]);
    Ok(Prepared { graph: b.finish(outputs, mutations), origin })
}
