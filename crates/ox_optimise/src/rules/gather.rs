//! A gather whose positions are known to be `start + step * i` reads a slice: position embeddings by `arange`, constant rows.

use super::Rule;
use super::slices::whole;
use crate::linear::Linear;
use crate::rewriter::Rewriter;
use crate::shapes::ones;
use ox_ir::Sym;
use ox_ir::graph::{Dims, Node, NodeId, Op, Shape, SliceDim};

pub const INDEX: &[Rule] =
    &[Rule { name: "index-of-constant", apply: index_of_constant }, Rule { name: "index-by-range", apply: index_by_range }];

/// An index that may lie outside is an error of the run, and stays.
fn index_of_constant(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Index { dims, .. } = &node.op else { return None };
    let value = graph.constant(node.args[0])?;
    let inside = |(dim, index): (&usize, &NodeId)| {
        let size = &graph.ty(node.args[0]).shape[*dim];
        let (low, high) = Linear::of(graph, *index)?.range(&graph.ty(*index).shape);
        (low.is_nonneg() && (size - &high).is_positive()).then_some(())
    };
    dims.iter().zip(&node.args[1..]).try_for_each(inside)?;
    Some(graph.full(value, node.ty.clone()))
}

fn index_by_range(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Index { dims, at, .. } = &node.op else { return None };
    let ([dim], [x, index]) = (&dims[..], &node.args[..]) else { return None };
    let (dim, x, at) = (*dim, *x, *at);
    let places = graph.ty(*index).shape.clone();
    let range = Linear::of(graph, *index)?;
    let (spread_dim, len, step) = match range.along[..] {
        [] => (None, Sym::ONE, 1),
        [(d, step)] => (Some(d), places[d].clone(), step),
        _ => return None,
    };
    let last = &range.start + &(&(&len - 1) * step);
    let size = &graph.ty(x).shape[dim];
    let inside = |at: &Sym| at.is_nonneg() && (size - at).is_positive();
    if !inside(&range.start) || !inside(&last) || !len.is_positive() {
        return None;
    }
    let rows = cut(graph, x, dim, SliceDim { start: range.start.clone(), step }, len.clone());
    let rows = bring_to(graph, rows, dim, at);
    let mut spread = ones(places.len());
    if let Some(d) = spread_dim {
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
