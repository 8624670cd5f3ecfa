//! Which values carry a gradient, as eager has it: floats that depend on a wanted input by way of nothing that stops gradients.

use crate::joint::Wanted;
use ox_ir::Graph;
use ox_ir::graph::{Node, Op};

/// For each node, whether eager's tensor would require grad.
pub fn requires_grad(graph: &Graph, wanted: &Wanted) -> Vec<bool> {
    let mut active = vec![false; graph.nodes.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        active[n] = match &node.op {
            Op::Input(input) => wanted.inputs.get(*input as usize).copied().unwrap_or(false),
            Op::Detach => false,
            Op::Graft => active[node.args[1].index()],
            // Which of its outputs do is seen by their types.
            Op::Library(_) => node.args.iter().any(|arg| active[arg.index()]),
            _ => carries(node) && node.args.iter().any(|arg| active[arg.index()]),
        };
    }
    active
}

pub fn carries(node: &Node) -> bool {
    node.ty.dtype.is_float() || node.ty.dtype.is_complex()
}

/// For each node, whether a wanted output depends on it so that a gradient reaches it.
pub fn reached(graph: &Graph, wanted: &Wanted, active: &[bool]) -> Vec<bool> {
    let mut reached = vec![false; graph.nodes.len()];
    for (output, _) in graph.outputs.iter().zip(&wanted.outputs).filter(|(_, wanted)| **wanted) {
        reached[output.value.index()] = active[output.value.index()];
    }
    for id in graph.ids().rev().filter(|id| active[id.index()]) {
        if reached[id.index()] {
            graph.node(id).args.iter().for_each(|arg| reached[arg.index()] |= active[arg.index()]);
        }
    }
    reached
}
