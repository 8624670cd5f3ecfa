//! The mask of a flash attention under autograd, and of its derivative: one that hides nothing is dropped, one that hides what comes
//! later is told to the kernel, which then does half of the work and reads no mask.

use super::attention_mask::distance_bound;
use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Arg, Graph, Library, Node, NodeId, Op};
use ox_ir::{DType, PointOp};

/// Calls with a mask: where it stands among the tensors, and `is_causal` among the arguments.
const CALLS: &[(&str, usize, usize)] = &[
    ("aten::_scaled_dot_product_flash_attention_for_cpu", 3, 4),
    ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", 6, 7),
    ("aten::_scaled_dot_product_cudnn_attention", 3, 6),
    ("aten::_scaled_dot_product_cudnn_attention_backward", 6, 14),
    ("aten::_scaled_dot_product_efficient_attention", 3, 6),
    ("aten::_scaled_dot_product_efficient_attention_backward", 6, 11),
];

pub fn flash_mask(graph: Graph) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("flash-mask", graph, know_mask)
}

fn know_mask(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Library(library) = &node.op else { return None };
    let (_, mask_at, causal_at) = *CALLS.iter().find(|(name, ..)| *name == library.callee.name())?;
    let mask = *node.args.get(mask_at)?;
    let causal = match graph.constant(mask) {
        Some(nothing) if nothing.as_f64() == 0.0 => library.args[causal_at].clone(),
        _ if library.args[causal_at] == Arg::Bool(false) && hides_later(graph, mask) => Arg::Bool(true),
        _ => return None,
    };
    let mut known: Library = (**library).clone();
    known.args[causal_at] = causal;
    let given = Arg::Tensor(mask_at as u32);
    let args = known.args.iter_mut().chain(known.kwargs.iter_mut().map(|(_, arg)| arg));
    args.filter(|arg| **arg == given).for_each(|arg| *arg = Arg::None);
    Some(graph.make(Op::Library(Box::new(known)), node.args[..mask_at].iter().copied(), node.ty.clone()))
}

/// Whether the mask adds minus infinity to exactly what stands behind the row's own place.
fn hides_later(graph: &Rewriter, mask: NodeId) -> bool {
    let mut id = mask;
    while *graph.op(id) == Op::Expand {
        id = graph.arg(id);
    }
    let node = graph.node(id);
    let is = |id: NodeId, value: f64| graph.constant(id).is_some_and(|found| found.as_f64() == value);
    let selects = node.op == Op::Point(PointOp::Where) && is(node.args[1], 0.0) && is(node.args[2], f64::NEG_INFINITY);
    selects && graph.ty(node.args[0]).dtype == DType::Bool && distance_bound(graph, node.args[0], true) == Some(0)
}
