//! A gather whose positions are known to be `start + step * i` reads a slice: position embeddings by `arange`, constant rows,
//! masks that are looked up by position.

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

/// What one index reads of its dimension.
struct Cut {
    dim: usize,
    slice: SliceDim,
    len: Sym,
    /// The dimension of the index tensor along which it moves.
    along: Option<usize>,
}

/// Indices that move along different dimensions read a block.
fn index_by_range(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Index { dims, at, .. } = &node.op else { return None };
    let (x, places) = (node.args[0], graph.ty(node.args[1]).shape.clone());
    let cuts: Option<Vec<Cut>> = dims.iter().zip(&node.args[1..]).map(|(d, index)| cut_of(graph, x, *d, *index)).collect();
    let mut cuts = cuts?;
    cuts.sort_by_key(|cut| cut.along);
    if cuts.windows(2).any(|pair| pair[0].along.is_some() && pair[0].along == pair[1].along) {
        return None;
    }
    let block = read(graph, x, &cuts);
    let block = bring_to(graph, block, &cuts, *at);
    let mut spread = ones(places.len());
    cuts.iter().for_each(|cut| cut.along.into_iter().for_each(|d| spread[d] = cut.len.clone()));
    let shape = graph.ty(block).shape.clone();
    let shape: Shape = shape[..*at].iter().chain(&spread).chain(&shape[at + cuts.len()..]).cloned().collect();
    let block = graph.reshape(block, shape);
    Some(graph.expand(block, node.ty.shape.clone()))
}

/// None if the index may lie outside, or is not known.
fn cut_of(graph: &Rewriter, x: NodeId, dim: usize, index: NodeId) -> Option<Cut> {
    let (range, places) = (Linear::of(graph, index)?, &graph.ty(index).shape);
    let (low, high) = range.range(places);
    let (along, len, step) = match range.along[..] {
        [] => (None, Sym::ONE, 1),
        [(d, step)] => (Some(d), places[d].clone(), step),
        _ => return None,
    };
    let inside = low.is_nonneg() && (&graph.ty(x).shape[dim] - &high).is_positive() && len.is_positive();
    inside.then(|| Cut { dim, slice: SliceDim { start: range.start, step }, len, along })
}

fn read(graph: &mut Rewriter, x: NodeId, cuts: &[Cut]) -> NodeId {
    let mut shape = graph.ty(x).shape.clone();
    let mut dims = vec![whole(); shape.len()];
    for cut in cuts {
        (dims[cut.dim], shape[cut.dim]) = (cut.slice.clone(), cut.len.clone());
    }
    graph.slice(x, dims, shape)
}

/// Moves the dimensions of the cuts, in their order, to position `to` among the others.
fn bring_to(graph: &mut Rewriter, x: NodeId, cuts: &[Cut], to: usize) -> NodeId {
    let mut perm: Dims = (0..graph.ty(x).rank()).filter(|d| cuts.iter().all(|cut| cut.dim != *d)).collect();
    perm.insert_many(to, cuts.iter().map(|cut| cut.dim));
    graph.permute(x, perm)
}
