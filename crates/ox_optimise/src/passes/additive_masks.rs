//! A mask of booleans is a number that is added on a GPU: torch makes it one in every call, in full size. As an operation of the graph it is
//! computed once for all layers, in the size that it has before it is broadcast.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Graph, Node, NodeId, Op};
use ox_ir::{DType, PointOp, Scalar};

pub fn additive_masks(graph: Graph) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("additive-masks", graph, |graph, node| {
        let Op::Attention(attrs) = &node.op else { return None };
        let mask = *node.args.get(3).filter(|mask| attrs.mask && graph.ty(**mask).dtype == DType::Bool)?;
        Some(add(graph, node, mask))
    })
}

fn add(graph: &mut Rewriter, node: &Node, mask: NodeId) -> NodeId {
    let dtype = graph.ty(node.args[0]).dtype;
    let (mut small, mut views) = (mask, Vec::new());
    while matches!(graph.op(small), Op::Expand | Op::Reshape) {
        views.push(small);
        small = graph.arg(small);
    }
    let ty = graph.ty(small).with_dtype(dtype);
    let [seen, hidden] = [0.0, f64::NEG_INFINITY].map(|value| graph.full(Scalar::Float(value), ty.clone()));
    let mut added = graph.point(PointOp::Where, &[small, seen, hidden]);
    for view in views.into_iter().rev() {
        let (op, ty) = (graph.op(view).clone(), graph.ty(view).with_dtype(dtype));
        added = graph.make(op, [added], ty);
    }
    let mut args = node.args.clone();
    args[3] = added;
    graph.make(node.op.clone(), args, node.ty.clone())
}
