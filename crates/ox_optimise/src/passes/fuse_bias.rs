//! A product to which a vector is added column by column takes it as its bias, as `addmm` does. Not for half types where eager
//! rounds between the two.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::Scalar;
use ox_ir::graph::{Graph, Node, NodeId, Op, Post, Shape};
use ox_ir::{DType, PointOp};

pub fn fuse_bias(graph: Graph, round_intermediates: bool) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("matmul-bias", graph, |graph, node| fuse(graph, node, round_intermediates))
}

fn fuse(graph: &mut Rewriter, node: &Node, round_intermediates: bool) -> Option<NodeId> {
    let rounds = matches!(node.ty.dtype, DType::F16 | DType::BF16) && round_intermediates;
    if node.op != Op::Point(PointOp::Add) || !node.ty.dtype.is_float() || rounds {
        return None;
    }
    let [a, b] = node.args[..] else { return None };
    join(graph, node, a, b).or_else(|| join(graph, node, b, a))
}

fn join(graph: &mut Rewriter, node: &Node, sum: NodeId, bias: NodeId) -> Option<NodeId> {
    let product = under_reshape(graph, sum)?;
    let columns = graph.ty(product).shape.last()?.clone();
    let Op::Matmul { bias: false, add: false, alpha, post: Post::None, .. } = *graph.op(product) else { return None };
    if *graph.op(bias) != Op::Expand || node.ty.shape.last() != Some(&columns) {
        return None;
    }
    let source = graph.arg(bias);
    let shape = &graph.ty(source).shape;
    let per_column = shape.last() == Some(&columns) && shape[..shape.len() - 1].iter().all(|s| s.is_one());
    if !per_column {
        return None;
    }
    let bias = graph.reshape(source, Shape::from_iter([columns]));
    let Node { args, ty, .. } = graph.node(product).clone();
    let op = Op::Matmul { bias: true, add: false, alpha, beta: Scalar::Float(1.0), post: Post::None };
    let fused = graph.make(op, args.into_iter().chain([bias]), ty);
    Some(graph.reshape(fused, node.ty.shape.clone()))
}

/// The call whose result this is, maybe reshaped, if nothing else uses either.
fn under_reshape(graph: &Rewriter, id: NodeId) -> Option<NodeId> {
    if graph.uses(id) != 1 {
        return None;
    }
    let under = if *graph.op(id) == Op::Reshape { graph.arg(id) } else { id };
    (graph.uses(under) == 1).then_some(under)
}
