//! A convolution with frozen weights takes in what is done to each of its channels by other frozen values: the scale and the
//! shift of a batch norm become part of its weight and bias. The new weights depend on frozen values only, so
//! `split_frozen` moves their computation out of the run.

use super::frozen::Frozen;
use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{ConvAttrs, Graph, Node, NodeId, Op, Post, Shape};
use ox_ir::{DType, PointOp, Sym, TensorType};

pub fn fold_channels(graph: Graph) -> (Graph, Fired) {
    let mut frozen = Frozen::new(&graph);
    Rewriter::new().rebuild(graph, move |new, node| match fold(new, &mut frozen, &node) {
        Some(id) => new.fire("fold-channels", id),
        None => new.emit(node),
    })
}

struct Conv {
    attrs: ConvAttrs,
    x: NodeId,
    weight: NodeId,
    bias: Option<NodeId>,
}

fn fold(graph: &mut Rewriter, frozen: &mut Frozen, node: &Node) -> Option<NodeId> {
    let Op::Point(op @ (PointOp::Mul | PointOp::Add | PointOp::Sub)) = node.op else { return None };
    let [a, b] = node.args[..] else { return None };
    let (call, other) = if matches!(graph.op(a), Op::Conv(_)) || op == PointOp::Sub { (a, b) } else { (b, a) };
    let mut conv = frozen_conv(graph, frozen, call)?;
    let vector = channel_vector(graph, frozen, other)?;
    match op {
        PointOp::Mul => {
            let shape = graph.ty(conv.weight).shape.clone();
            let mut column = crate::shapes::ones(shape.len());
            column[0] = shape[0].clone();
            let scale = graph.reshape(vector, column);
            let scale = graph.expand(scale, shape);
            conv.weight = once_rounded(graph, op, &[conv.weight, scale]);
            conv.bias = conv.bias.map(|bias| once_rounded(graph, op, &[bias, vector]));
        }
        PointOp::Add => conv.bias = Some(conv.bias.map_or(vector, |bias| once_rounded(graph, op, &[bias, vector]))),
        _ => {
            conv.bias = Some(match conv.bias {
                Some(bias) => once_rounded(graph, op, &[bias, vector]),
                None => graph.point(PointOp::Neg, &[vector]),
            });
        }
    }
    Some(emit(graph, conv, node))
}

/// `op` of frozen values, computed in f64 from the start: it is done once, and the weights that come of it have one rounding in the
/// place of the many that eager's results have.
fn once_rounded(graph: &mut Rewriter, op: PointOp, args: &[NodeId]) -> NodeId {
    let dtype = graph.ty(args[0]).dtype;
    if dtype != DType::F32 {
        return graph.point(op, args);
    }
    let exact: Vec<NodeId> = args.iter().map(|arg| exact(graph, *arg)).collect();
    let value = graph.point(op, &exact);
    graph.cast(value, dtype)
}

/// The value of an f32 expression without its roundings, as far as it is arithmetic.
fn exact(graph: &mut Rewriter, id: NodeId) -> NodeId {
    let Node { op, args, ty, .. } = graph.node(id).clone();
    let wide = TensorType { dtype: DType::F64, ..ty };
    let of_floats = args.iter().all(|arg| graph.ty(*arg).dtype == DType::F32);
    match op {
        Op::Full(value) => graph.full(value, wide),
        Op::Cast if graph.ty(args[0]).dtype == DType::F64 => args[0],
        Op::Point(op) if of_floats => {
            let args: Vec<NodeId> = args.iter().map(|arg| exact(graph, *arg)).collect();
            graph.point(op, &args)
        }
        Op::Reshape | Op::Expand => {
            let arg = exact(graph, args[0]);
            graph.make(op, [arg], wide)
        }
        _ => graph.cast(id, DType::F64),
    }
}

/// The convolution behind `id`, if nothing else uses it and its weights are frozen.
fn frozen_conv(graph: &Rewriter, frozen: &mut Frozen, id: NodeId) -> Option<Conv> {
    let node = graph.node(id);
    let Op::Conv(attrs) = &node.op else { return None };
    let plain = attrs.post == Post::None && !attrs.add && !attrs.transposed && graph.uses(id) == 1;
    let all_frozen = node.args[1..].iter().all(|a| frozen.is(graph, *a));
    (plain && all_frozen).then(|| Conv {
        attrs: (**attrs).clone(),
        x: node.args[0],
        weight: node.args[1],
        bias: attrs.bias.then(|| node.args[2]),
    })
}

/// The vector of a frozen tensor that has one number for each channel.
fn channel_vector(graph: &mut Rewriter, frozen: &mut Frozen, id: NodeId) -> Option<NodeId> {
    let ty = graph.ty(id).clone();
    if let Some(value) = graph.constant(id) {
        return Some(graph.full(value, ty.with_shape(Shape::from_iter([ty.shape[1].clone()]))));
    }
    if *graph.op(id) != Op::Expand || !frozen.is(graph, id) {
        return None;
    }
    let source = graph.arg(id);
    let shape = &graph.ty(source).shape;
    let per_channel = shape[1] == ty.shape[1] && shape.iter().enumerate().all(|(d, s)| d == 1 || Sym::is_one(s));
    per_channel.then(|| graph.reshape(source, Shape::from_iter([ty.shape[1].clone()])))
}

fn emit(graph: &mut Rewriter, conv: Conv, node: &Node) -> NodeId {
    let attrs = ConvAttrs { bias: conv.bias.is_some(), ..conv.attrs };
    graph.make(Op::Conv(Box::new(attrs)), [conv.x, conv.weight].into_iter().chain(conv.bias), node.ty.clone())
}
