//! Convolutions and products take over the activation behind them, and the tensor that is added, where the options allow it. The
//! result then passes through memory once.

use super::activations;
use crate::options::{FusePostOps, PostOps};
use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Graph, Node, NodeId, Op, Post};
use ox_ir::{DType, PointOp, Sym};

pub fn fuse_post_ops(graph: Graph, options: &FusePostOps, round_intermediates: bool) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("post-op", graph, |graph, node| {
        fuse_add(graph, node, options).or_else(|| fuse_activation(graph, node, options, round_intermediates))
    })
}

/// A call with room for a post-operation, and what it may take.
fn open_call(graph: &Rewriter, id: NodeId, options: &FusePostOps) -> Option<PostOps> {
    let node = graph.node(id);
    let packed = node.op.is_call() && node.args.get(1).is_some_and(|weight| matches!(graph.op(*weight), Op::Pack(_)));
    match &node.op {
        Op::Conv(attrs) if attrs.post == Post::None => Some(if packed { options.packed_conv } else { options.conv }),
        // In f32 the packed product is MKL's, which takes none.
        Op::Matmul { post: Post::None, .. } if packed && node.ty.dtype == DType::F32 => None,
        Op::Matmul { post: Post::None, .. } if packed => Some(options.packed_matmul),
        Op::Matmul { post: Post::None, .. } if is_half(node.ty.dtype) && has_even_rows(graph, node) => Some(options.half_matmul),
        Op::Matmul { post: Post::None, .. } => Some(options.matmul),
        _ => None,
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Whether rows of both operands and of the result begin at multiples of 16 bytes, as far as their lengths tell, and there are several: other products are torch's,
/// which computes what comes behind them by one more kernel.
fn has_even_rows(graph: &Rewriter, product: &Node) -> bool {
    const EVEN: i64 = 8;
    let [.., rows, columns] = &product.ty.shape[..] else { return false };
    let depth = graph.ty(product.args[0]).shape.last();
    let is_even = |n: &Sym| n.as_const().is_some_and(|n| n % EVEN == 0);
    !rows.is_one() && is_even(columns) && depth.is_some_and(is_even)
}

fn has_add(op: &Op) -> bool {
    match op {
        Op::Conv(attrs) => attrs.add,
        Op::Matmul { add, .. } => *add,
        _ => false,
    }
}

/// `call + other`. Of two calls the later one takes the sum, since the other's result must be there before.
fn fuse_add(graph: &mut Rewriter, node: &Node, options: &FusePostOps) -> Option<NodeId> {
    if node.op != Op::Point(PointOp::Add) || node.ty.dtype != DType::F32 {
        return None;
    }
    let (later, earlier) = (node.args[0].max(node.args[1]), node.args[0].min(node.args[1]));
    let takes = |graph: &Rewriter, call: NodeId, other: NodeId| {
        let open = open_call(graph, call, options).is_some_and(|post| post.add);
        open && graph.uses(call) == 1 && !has_add(graph.op(call)) && !is_repeated(graph, other)
    };
    let (call, other) = match () {
        _ if takes(graph, later, earlier) => (later, earlier),
        _ if takes(graph, earlier, later) => (earlier, later),
        _ => return None,
    };
    let mut fused = graph.node(call).clone();
    match &mut fused.op {
        Op::Conv(attrs) => attrs.add = true,
        Op::Matmul { add, .. } => *add = true,
        _ => return None,
    }
    Some(graph.make(fused.op, fused.args.into_iter().chain([other]), fused.ty))
}

/// Constants and expansions cost a kernel nothing, but would have to be written out for a call.
fn is_repeated(graph: &Rewriter, id: NodeId) -> bool {
    matches!(graph.op(id), Op::Full(_) | Op::Expand | Op::Iota { .. })
}

/// An activation in a half type, which is computed in f32 and rounded once.
fn find_wide(graph: &Rewriter, node: &Node) -> Option<(NodeId, Post)> {
    let is_rounded = node.op == Op::Cast && is_half(node.ty.dtype) && graph.uses(node.args[0]) == 1;
    let (wide, post) = activations::find(graph, graph.node(*node.args.first().filter(|_| is_rounded)?))?;
    let x = *graph.node(wide).args.first().filter(|_| *graph.op(wide) == Op::Cast)?;
    (graph.ty(x).dtype == node.ty.dtype && graph.uses(x) == 1).then_some((x, post))
}

fn fuse_activation(graph: &mut Rewriter, node: &Node, options: &FusePostOps, round_intermediates: bool) -> Option<NodeId> {
    let (x, post) = activations::find(graph, node).or_else(|| find_wide(graph, node))?;
    let call = if *graph.op(x) == Op::Reshape && graph.uses(graph.arg(x)) == 1 { graph.arg(x) } else { x };
    let allowed = open_call(graph, call, options)?;
    // The maximum with zero commutes with rounding; all else is computed on a result that eager has rounded.
    let exact = node.ty.dtype == DType::F32
        || (post == Post::Relu && !has_add(graph.op(call)))
        || (!round_intermediates && matches!(graph.op(call), Op::Matmul { .. }));
    if !exact || !allowed.takes(&post) {
        return None;
    }
    let mut fused = graph.node(call).clone();
    match &mut fused.op {
        Op::Conv(attrs) => attrs.post = post,
        Op::Matmul { post: place, .. } => *place = post,
        _ => return None,
    }
    let result = graph.make(fused.op, fused.args, fused.ty);
    Some(graph.reshape(result, node.ty.shape.clone()))
}
