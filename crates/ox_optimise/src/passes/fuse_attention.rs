//! Attention that is written out, `softmax(q @ k^T * scale + mask) @ v`, becomes one call of the library's. Only where nothing
//! else looks at the products: then neither they nor the softmax need to exist. A call whose mask is known to be causal is told
//! so: it then does half of the work, and reads no mask.

use super::attention_mask::{self, Mask, Selection};
use crate::rewriter::{Fired, Rewriter};
use crate::rules::views::swap_last;
use ox_ir::graph::{AttentionAttrs, Graph, Node, NodeId, Op, Post, ReduceOp, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};
use ox_ops::point::convert;

pub fn fuse_attention(graph: Graph) -> (Graph, Fired) {
    Rewriter::new().rebuild(graph, |new, node| {
        if let Some(id) = fuse(new, &node) {
            return new.fire("attention", id);
        }
        match know_mask(new, &node) {
            Some(id) => new.fire("attention-mask", id),
            None => new.emit(node),
        }
    })
}

/// Drops a mask that hides nothing, or what the library's causal mask hides.
fn know_mask(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Attention(attrs @ AttentionAttrs { causal: false, mask: true, .. }) = &node.op else { return None };
    let (mask, qkv) = node.args.split_last()?;
    if graph.ty(*mask).dtype != DType::Bool {
        return None;
    }
    let causal = match graph.constant(*mask) {
        Some(visible) if visible.as_bool() => false,
        _ if attention_mask::distance_bound(graph, *mask, true) == Some(0) => true,
        _ => return None,
    };
    let attrs = AttentionAttrs { causal, mask: false, ..attrs.clone() };
    Some(graph.make(Op::Attention(attrs), qkv.iter().copied(), node.ty.clone()))
}

/// The matrices of an attention, found from its last product upwards.
struct Found {
    q: NodeId,
    /// [.., d, s].
    k_transposed: NodeId,
    scale: f64,
    mask: Mask,
}

fn fuse(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    if !matches!(node.ty.dtype, DType::F32 | DType::BF16 | DType::F16) || !(2..=4).contains(&node.ty.rank()) {
        return None;
    }
    let [weights, v] = plain_product(node)?.0;
    let products = softmax_argument(graph, weights)?;
    let found = scores(graph, products)?;
    let k = swap_last(graph, found.k_transposed);
    Some(call(graph, [found.q, k, v], found.mask, found.scale, node))
}

/// The factors of a product with nothing added, and what it is multiplied by.
fn plain_product(node: &Node) -> Option<([NodeId; 2], f64)> {
    match &node.op {
        Op::Matmul { bias: false, add: false, alpha, post: Post::None, .. } => {
            Some(([node.args[0], node.args[1]], alpha.as_f64()))
        }
        _ => None,
    }
}

/// The node under a conversion that nothing else uses.
fn under_cast(graph: &Rewriter, id: NodeId) -> NodeId {
    if *graph.op(id) == Op::Cast && graph.uses(graph.arg(id)) == 1 { graph.arg(id) } else { id }
}

fn point_args(graph: &Rewriter, id: NodeId, op: PointOp) -> Option<[NodeId; 2]> {
    let node = graph.node(id);
    (node.op == Op::Point(op)).then(|| [node.args[0], node.args[1]])
}

/// `x` if the node is `softmax(x)` over the last dimension, all of whose parts have no other use.
fn softmax_argument(graph: &Rewriter, weights: NodeId) -> Option<NodeId> {
    if graph.uses(weights) != 1 {
        return None;
    }
    let weights = under_cast(graph, weights);
    let [powers, total] = point_args(graph, weights, PointOp::Div)?;
    let summed = expanded_reduction(graph, total, ReduceOp::Sum)?;
    let exp = graph.node(powers);
    if summed != powers || graph.uses(powers) != 2 || exp.op != Op::Point(PointOp::Exp) || graph.uses(exp.args[0]) != 1 {
        return None;
    }
    let [x, max] = point_args(graph, exp.args[0], PointOp::Sub)?;
    (expanded_reduction(graph, max, ReduceOp::Max)? == x && graph.uses(x) == 2).then_some(x)
}

/// The argument of a reduction over the last dimension that is expanded again.
fn expanded_reduction(graph: &Rewriter, id: NodeId, wanted: ReduceOp) -> Option<NodeId> {
    let reduced = (*graph.op(id) == Op::Expand && graph.uses(id) == 1).then(|| graph.arg(id))?;
    let last = graph.ty(id).rank() - 1;
    match graph.op(reduced) {
        Op::Reduce { op, dims } if *op == wanted && dims[..] == [last] && graph.uses(reduced) == 1 => Some(graph.arg(reduced)),
        _ => None,
    }
}

/// Walks from the softmax's argument to the product: first the mask, then the scale.
fn scores(graph: &mut Rewriter, products: NodeId) -> Option<Found> {
    // Two uses were counted above; from here on each step has one.
    let mut at = products;
    if *graph.op(at) == Op::Cast {
        at = graph.arg(at);
        (graph.uses(at) == 1).then_some(())?;
    }
    let mut mask = Mask::None;
    if let Some((inner, found)) = take_mask(graph, at) {
        (mask, at) = (found?, inner);
        (graph.uses(at) == 1).then_some(())?;
    }
    let mut scale = 1.0;
    while let Some((inner, factor)) = take_factor(graph, at) {
        (scale, at) = (scale * factor, inner);
        (graph.uses(at) == 1).then_some(())?;
    }
    let ([q, k_transposed], alpha) = plain_product(graph.node(at))?;
    Some(Found { q, k_transposed, scale: scale * alpha, mask })
}

/// What is masked, and the mask (None inside if it cannot be handed over).
fn take_mask(graph: &mut Rewriter, id: NodeId) -> Option<(NodeId, Option<Mask>)> {
    let node = graph.node(id).clone();
    let Op::Point(op) = node.op else { return None };
    match op {
        PointOp::Where => {
            let (inner, fill, kept_if) = match (graph.constant(node.args[1]), graph.constant(node.args[2])) {
                (None, Some(fill)) => (node.args[1], fill, true),
                (Some(fill), None) => (node.args[2], fill, false),
                _ => return None,
            };
            let fill = convert(fill, node.ty.dtype).as_f64();
            let selection = Selection { condition: node.args[0], kept_if, fill };
            Some((inner, attention_mask::select(graph, &selection, node.ty.dtype)))
        }
        PointOp::Add => {
            let first = leads_to_product(graph, node.args[0]);
            let (inner, mask) = if first { (node.args[0], node.args[1]) } else { (node.args[1], node.args[0]) };
            Some((inner, attention_mask::added(graph, mask)))
        }
        _ => None,
    }
}

fn leads_to_product(graph: &Rewriter, mut id: NodeId) -> bool {
    while let Some((inner, _)) = take_factor(graph, id) {
        id = inner;
    }
    plain_product(graph.node(id)).is_some()
}

/// `x * c` or `x / c`; on half types with the number in f32, between two conversions.
fn take_factor(graph: &Rewriter, id: NodeId) -> Option<(NodeId, f64)> {
    let node = graph.node(id);
    if node.op == Op::Cast && graph.uses(node.args[0]) == 1 {
        let (wide, factor) = take_plain_factor(graph, node.args[0])?;
        let x = (*graph.op(wide) == Op::Cast && graph.uses(wide) == 1).then(|| graph.arg(wide))?;
        return (graph.ty(x).dtype == node.ty.dtype).then_some((x, factor));
    }
    take_plain_factor(graph, id)
}

fn take_plain_factor(graph: &Rewriter, id: NodeId) -> Option<(NodeId, f64)> {
    let node = graph.node(id);
    let Op::Point(op @ (PointOp::Mul | PointOp::Div)) = node.op else { return None };
    let factor = convert(graph.constant(node.args[1])?, node.ty.dtype).as_f64();
    Some((node.args[0], if op == PointOp::Mul { factor } else { 1.0 / factor }))
}

/// The call takes four dimensions: batch, heads, rows, columns.
fn call(graph: &mut Rewriter, qkv: [NodeId; 3], mask: Mask, scale: f64, node: &Node) -> NodeId {
    let args = qkv.map(|x| to_rank_four(graph, x));
    let (causal, mask) = match mask {
        Mask::None => (false, None),
        Mask::Causal => (true, None),
        Mask::Tensor(mask) => (false, Some(to_rank_four(graph, mask))),
    };
    let attrs = AttentionAttrs { causal, scale: Some(Scalar::Float(scale)), mask: mask.is_some() };
    let shape = rank_four(&node.ty.shape);
    let ty = node.ty.with_shape(shape);
    let result = graph.make(Op::Attention(attrs), args.into_iter().chain(mask), ty);
    graph.reshape(result, node.ty.shape.clone())
}

fn rank_four(shape: &[Sym]) -> Shape {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    let units = std::iter::repeat_n(Sym::ONE, 2 - batch.len());
    batch.iter().cloned().chain(units).chain(matrix.iter().cloned()).collect()
}

fn to_rank_four(graph: &mut Rewriter, x: NodeId) -> NodeId {
    let shape = rank_four(&graph.ty(x).shape);
    graph.reshape(x, shape)
}
