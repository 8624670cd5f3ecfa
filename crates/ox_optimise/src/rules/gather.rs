//! A gather whose positions are known to be `start + step * i` reads a slice: position embeddings by `arange`, constant rows.

use super::Rule;
use super::slices::whole;
use crate::rewriter::Rewriter;
use crate::shapes::{ones, proper_dims, same_but_units};
use ox_ir::graph::{Dims, Node, NodeId, Op, Shape, SliceDim};
use ox_ir::{DType, PointOp, Sym};

pub const INDEX: &[Rule] = &[Rule { name: "index-by-range", apply: index_by_range }];

/// Positions `start + step * i`, where `i` runs along dimension `along` of the index tensor.
#[derive(Clone)]
struct Range {
    start: Sym,
    along: Option<(usize, i64)>,
}

fn index_by_range(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Index { dims, at, .. } = &node.op else { return None };
    let ([dim], [x, index]) = (&dims[..], &node.args[..]) else { return None };
    let (dim, x, at) = (*dim, *x, *at);
    let places = graph.ty(*index).shape.clone();
    let range = range_of(graph, *index, 16)?;
    let (len, step) = range.along.map_or((Sym::ONE, 1), |(d, step)| (places[d].clone(), step));
    let last = &range.start + &(&(&len - 1) * step);
    let size = &graph.ty(x).shape[dim];
    let inside = |at: &Sym| at.is_nonneg() && (size - at).is_positive();
    if !inside(&range.start) || !inside(&last) || !len.is_positive() {
        return None;
    }
    let rows = cut(graph, x, dim, SliceDim { start: range.start.clone(), step }, len.clone());
    let rows = bring_to(graph, rows, dim, at);
    let mut spread = ones(places.len());
    if let Some((d, _)) = range.along {
        spread[d] = len;
    }
    let shape = graph.ty(rows).shape.clone();
    let shape: Shape = shape[..at].iter().chain(&spread).chain(&shape[at + 1..]).cloned().collect();
    let rows = graph.reshape(rows, shape);
    Some(graph.expand(rows, node.ty.shape.clone()))
}

fn cut(graph: &mut Rewriter, x: NodeId, dim: usize, part: SliceDim, len: Sym) -> NodeId {
    let mut shape = graph.ty(x).shape.clone();
    let mut dims = vec![whole(); shape.len()];
    (dims[dim], shape[dim]) = (part, len);
    graph.slice(x, dims, shape)
}

/// Moves one dimension to position `to` among the others.
fn bring_to(graph: &mut Rewriter, x: NodeId, dim: usize, to: usize) -> NodeId {
    let mut perm: Dims = (0..graph.ty(x).rank()).filter(|d| *d != dim).collect();
    perm.insert(to, dim);
    graph.permute(x, perm)
}

/// What the index tensor is known to hold. `fuel` bounds the depth of the search.
fn range_of(graph: &Rewriter, id: NodeId, fuel: u32) -> Option<Range> {
    let node = graph.node(id);
    let fuel = fuel.checked_sub(1)?;
    if node.ty.dtype != DType::I64 {
        return None;
    }
    match &node.op {
        Op::Full(value) => Some(Range { start: Sym::from(value.as_i64()), along: None }),
        Op::SymValue(value) => Some(Range { start: value.clone(), along: None }),
        Op::Iota { dim } => Some(Range { start: Sym::ZERO, along: Some((*dim, 1)) }),
        Op::Expand => range_of(graph, node.args[0], fuel),
        Op::Reshape => reshaped(&graph.ty(node.args[0]).shape, &node.ty.shape, range_of(graph, node.args[0], fuel)?),
        Op::Permute(perm) => {
            let Range { start, along } = range_of(graph, node.args[0], fuel)?;
            Some(Range { start, along: along.and_then(|(d, step)| Some((perm.iter().position(|p| *p == d)?, step))) })
        }
        Op::Point(op) => combined(*op, &node.args, |arg| range_of(graph, arg, fuel)),
        _ => None,
    }
}

fn reshaped(from: &[Sym], to: &[Sym], Range { start, along }: Range) -> Option<Range> {
    let Some((dim, step)) = along else { return Some(Range { start, along: None }) };
    let nth = proper_dims(from).position(|d| d == dim)?;
    same_but_units(from, to).then(|| Range { start, along: proper_dims(to).nth(nth).map(|d| (d, step)) })
}

fn combined(op: PointOp, args: &[NodeId], range_of: impl Fn(NodeId) -> Option<Range>) -> Option<Range> {
    if !matches!(op, PointOp::Add | PointOp::Sub | PointOp::Mul) {
        return None;
    }
    let (a, b) = (range_of(args[0])?, range_of(args[1])?);
    let along = a.along.or(b.along);
    match op {
        PointOp::Add if a.along.is_none() || b.along.is_none() => Some(Range { start: &a.start + &b.start, along }),
        PointOp::Sub if b.along.is_none() => Some(Range { start: &a.start - &b.start, along: a.along }),
        PointOp::Mul if b.along.is_none() => {
            let factor = b.start.as_const().filter(|f| *f != 0)?;
            Some(Range { start: &a.start * factor, along: a.along.map(|(d, step)| (d, step * factor)) })
        }
        _ => None,
    }
}
