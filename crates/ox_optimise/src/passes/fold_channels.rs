//! A convolution with frozen weights takes in what is done to each of its channels by other frozen values: the scale and the
//! shift of a batch norm become part of its weight and bias. The new weights depend on frozen values only, so
//! `split_frozen` moves their computation out of the run.

use super::frozen::Frozen;
use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{ConvAttrs, Graph, Node, NodeId, Op, Post, Shape};
use ox_ir::{PointOp, Sym};

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
            let (weight, shape) = (conv.weight, graph.ty(conv.weight).shape.clone());
            let mut column = crate::shapes::ones(shape.len());
            column[0] = shape[0].clone();
            let scale = graph.reshape(vector, column);
            let scale = graph.expand(scale, shape);
            conv.weight = graph.point(PointOp::Mul, &[weight, scale]);
            conv.bias = conv.bias.map(|bias| graph.point(PointOp::Mul, &[bias, vector]));
        }
        PointOp::Add => conv.bias = Some(conv.bias.map_or(vector, |bias| graph.point(PointOp::Add, &[bias, vector]))),
        _ => {
            let negated = |graph: &mut Rewriter| graph.point(PointOp::Neg, &[vector]);
            conv.bias = Some(match conv.bias {
                Some(bias) => graph.point(PointOp::Sub, &[bias, vector]),
                None => negated(graph),
            });
        }
    }
    Some(emit(graph, conv, node))
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
