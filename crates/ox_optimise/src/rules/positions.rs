//! Arithmetic on positions. Masks and position ids are made of `arange`, compared and put together; much of that is known before
//! the run: that neighbours differ by one, that a window of 4096 holds all of 128 places.

use super::Rule;
use crate::linear::Linear;
use crate::rewriter::Rewriter;
use ox_ir::graph::{Node, NodeId, Op};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const POINT_OF_POSITIONS: Rule = Rule { name: "point-of-positions", apply: point_of_positions };
pub const SLICE_OF_POSITIONS: Rule = Rule { name: "slice-of-positions", apply: slice_of_positions };
pub const CAT_OF_POSITIONS: Rule = Rule { name: "cat-of-positions", apply: cat_of_positions };

/// Differences that are constant, comparisons that hold everywhere or nowhere.
fn point_of_positions(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (Op::Point(op), [a, b]) = (&node.op, &node.args[..]) else { return None };
    if graph.ty(*a).dtype != DType::I64 {
        return None;
    }
    let (a, b) = (Linear::of(graph, *a)?, Linear::of(graph, *b)?);
    let value = match op {
        PointOp::Add => constant(&a.plus(&b, 1))?,
        PointOp::Sub => constant(&a.plus(&b, -1))?,
        _ => Scalar::Bool(decided(*op, a.plus(&b, -1).range(&node.ty.shape))?),
    };
    Some(graph.full(value, node.ty.clone()))
}

fn constant(x: &Linear) -> Option<Scalar> {
    x.along.is_empty().then(|| x.start.as_const().map(Scalar::Int))?
}

/// What `a op b` is, if `a - b` lies in this range.
fn decided(op: PointOp, (low, high): (Sym, Sym)) -> Option<bool> {
    let never_below = low.is_nonneg();
    let never_above = (-&high).is_nonneg();
    let (always_above, always_below) = (low.is_positive(), (-&high).is_positive());
    match op {
        PointOp::Lt | PointOp::Ge if never_below => Some(op == PointOp::Ge),
        PointOp::Lt | PointOp::Ge if always_below => Some(op == PointOp::Lt),
        PointOp::Gt | PointOp::Le if never_above => Some(op == PointOp::Le),
        PointOp::Gt | PointOp::Le if always_above => Some(op == PointOp::Gt),
        PointOp::Eq | PointOp::Ne if always_above || always_below => Some(op == PointOp::Ne),
        _ => None,
    }
}

fn slice_of_positions(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Slice(cuts) = &node.op else { return None };
    Linear::of(graph, node.args[0])?.sliced(cuts).emit(graph, &node.ty)
}

/// Parts that go on where the one before ends are one range.
fn cat_of_positions(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Cat { dim } = node.op else { return None };
    let parts: Option<Vec<Linear>> = node.args.iter().map(|a| Linear::of(graph, *a)).collect();
    let parts = parts?;
    let step = parts.iter().find_map(|p| p.along.iter().find(|(d, _)| *d == dim)).map(|(_, f)| *f)?;
    let mut next = parts[0].start.clone();
    for (part, arg) in parts.iter().zip(&node.args) {
        let len = &graph.ty(*arg).shape[dim];
        // A part of one element has no step of its own.
        let steps = part.along[..] == [(dim, step)] || (part.along.is_empty() && len.is_one());
        if !steps || part.start != next {
            return None;
        }
        next = &next + &(len * step);
    }
    let whole = Linear { start: parts[0].start.clone(), along: smallvec::smallvec![(dim, step)] };
    whole.emit(graph, &node.ty)
}
