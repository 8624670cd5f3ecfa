//! Slices move inwards, to the tensor that they cut: below expansions, permutations and reshapes, and into the parts of what was
//! put together.

use super::Rule;
use super::positions::SLICE_OF_POSITIONS;
use super::views::{inverse, view_of_constant};
use crate::rewriter::Rewriter;
use crate::shapes::groups;
use ox_ir::Sym;
use ox_ir::graph::{Node, NodeId, Op, Shape, SliceDim};

pub const SLICE: &[Rule] = &[
    Rule { name: "slice-whole", apply: slice_whole },
    Rule { name: "slice-constant", apply: view_of_constant },
    Rule { name: "slice-step-of-one", apply: slice_step_of_one },
    Rule { name: "slice-slice", apply: slice_slice },
    Rule { name: "slice-of-expand", apply: slice_of_expand },
    Rule { name: "slice-of-permute", apply: slice_of_permute },
    Rule { name: "slice-of-reshape", apply: slice_of_reshape },
    SLICE_OF_POSITIONS,
    Rule { name: "slice-of-cat", apply: slice_of_cat },
    Rule { name: "slice-of-pad", apply: slice_of_pad },
    Rule { name: "slice-of-slice-scatter", apply: slice_of_slice_scatter },
];

pub fn whole() -> SliceDim {
    SliceDim { start: Sym::ZERO, step: 1 }
}

pub fn is_whole(dim: &SliceDim) -> bool {
    *dim == whole()
}

fn slice_dims(node: &Node) -> &[SliceDim] {
    match &node.op {
        Op::Slice(dims) => dims,
        _ => unreachable!("a rule on slices"),
    }
}

fn slice_whole(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let same = graph.ty(node.args[0]).shape == node.ty.shape && slice_dims(node).iter().all(is_whole);
    same.then_some(node.args[0])
}

/// The step of a slice of one element says nothing; equal slices should be equal nodes.
fn slice_step_of_one(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let idle = |(dim, size): (&SliceDim, &Sym)| size.is_one() && dim.step != 1;
    let dims = slice_dims(node);
    dims.iter().zip(&node.ty.shape).any(idle).then(|| {
        let dims = dims.iter().zip(&node.ty.shape);
        let dims = dims.map(|(d, s)| SliceDim { start: d.start.clone(), step: if s.is_one() { 1 } else { d.step } });
        graph.slice(node.args[0], dims.collect(), node.ty.shape.clone())
    })
}

fn slice_slice(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Slice(inner) = graph.op(node.args[0]) else { return None };
    let dims = inner
        .iter()
        .zip(slice_dims(node))
        .map(|(a, b)| SliceDim { start: &a.start + &(&b.start * a.step), step: a.step * b.step });
    let dims = dims.collect();
    let source = graph.arg(node.args[0]);
    Some(graph.slice(source, dims, node.ty.shape.clone()))
}

fn slice_of_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let expanded = node.args[0];
    if *graph.op(expanded) != Op::Expand || !node.ty.shape.iter().all(|s| s.is_positive()) {
        return None;
    }
    let source = graph.arg(expanded);
    let (small, large) = (&graph.ty(source).shape, &graph.ty(expanded).shape);
    let repeated: Vec<bool> = small.iter().zip(large).map(|(a, b)| a != b).collect();
    let pick = |d: usize, dim: &SliceDim| if repeated[d] { whole() } else { dim.clone() };
    let dims = slice_dims(node).iter().enumerate().map(|(d, dim)| pick(d, dim)).collect();
    let shape = node.ty.shape.iter().enumerate().map(|(d, s)| if repeated[d] { Sym::ONE } else { s.clone() }).collect();
    let part = graph.slice(source, dims, shape);
    Some(graph.expand(part, node.ty.shape.clone()))
}

fn slice_of_permute(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Permute(perm) = graph.op(node.args[0]) else { return None };
    let (perm, back) = (perm.clone(), inverse(perm));
    let dims = back.iter().map(|d| slice_dims(node)[*d].clone()).collect();
    let shape = back.iter().map(|d| node.ty.shape[*d].clone()).collect();
    let source = graph.arg(node.args[0]);
    let part = graph.slice(source, dims, shape);
    Some(graph.permute(part, perm))
}

/// Holds for a cut of the leading dimension of a group: its elements are one range of the one dimension that was split (or they
/// are that dimension).
fn slice_of_reshape(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let reshaped = node.args[0];
    if *graph.op(reshaped) != Op::Reshape || !node.ty.shape.iter().all(|s| s.is_positive()) {
        return None;
    }
    let source = graph.arg(reshaped);
    let (from, to) = (&graph.ty(source).shape, &graph.ty(reshaped).shape);
    let mut dims = vec![whole(); from.len()];
    let mut shape = from.clone();
    let is_cut = |d: usize| !is_whole(&slice_dims(node)[d]) || to[d] != node.ty.shape[d];
    for group in groups(from, to)? {
        let mut cut = group.to.clone().filter(|d| is_cut(*d));
        let Some(d) = cut.next() else { continue };
        let rows: Sym = to[d + 1..group.to.end.max(d + 1)].iter().product();
        let dim = &slice_dims(node)[d];
        let leads = d == group.to.start && group.from.len() == 1 && cut.next().is_none();
        if !leads || (dim.step != 1 && !rows.is_one()) {
            return None;
        }
        dims[group.from.start] = SliceDim { start: &dim.start * &rows, step: dim.step };
        shape[group.from.start] = &node.ty.shape[d] * &rows;
    }
    let part = graph.slice(source, dims, shape);
    Some(graph.reshape(part, node.ty.shape.clone()))
}

/// A range that lies inside of one part.
fn slice_of_cat(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Cat { dim } = *graph.op(node.args[0]) else { return None };
    let parts = graph.node(node.args[0]).args.clone();
    let cut = &slice_dims(node)[dim];
    let (low, high) = range_of(cut, &node.ty.shape[dim])?;
    let mut offset = Sym::ZERO;
    for part in parts {
        let end = &offset + &graph.ty(part).shape[dim];
        if (&low - &offset).is_nonneg() && (&end - &high).is_nonneg() {
            let mut dims = slice_dims(node).to_vec();
            dims[dim].start = &cut.start - &offset;
            return Some(graph.slice(part, dims, node.ty.shape.clone()));
        }
        offset = end;
    }
    None
}

/// The half-open range of positions that a cut reads; None if it may read none.
pub fn range_of(cut: &SliceDim, len: &Sym) -> Option<(Sym, Sym)> {
    let last = &cut.start + &(&(len - 1) * cut.step);
    let (low, high) = if cut.step > 0 { (cut.start.clone(), last) } else { (last, cut.start.clone()) };
    len.is_positive().then(|| (low, &high + 1))
}

/// A range that holds nothing of the padding.
fn slice_of_pad(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Pad { low, .. } = graph.op(node.args[0]) else { return None };
    let low = low.clone();
    let source = graph.arg(node.args[0]);
    let mut dims = slice_dims(node).to_vec();
    for (d, dim) in dims.iter_mut().enumerate() {
        dim.start = &dim.start - &low[d];
        let (from, to) = range_of(dim, &node.ty.shape[d])?;
        if !from.is_nonneg() || !(&graph.ty(source).shape[d] - &to).is_nonneg() {
            return None;
        }
    }
    Some(graph.slice(source, dims, node.ty.shape.clone()))
}

/// Reads exactly what was written, or nothing of it.
fn slice_of_slice_scatter(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::SliceScatter(written) = graph.op(node.args[0]) else { return None };
    let [base, source] = graph.node(node.args[0]).args[..] else { return None };
    let shape: &Shape = &graph.ty(source).shape;
    if written == slice_dims(node) && *shape == node.ty.shape {
        return Some(source);
    }
    let apart = (0..shape.len()).any(|d| {
        let ranges = (range_of(&written[d], &shape[d]), range_of(&slice_dims(node)[d], &node.ty.shape[d]));
        matches!(ranges, (Some(a), Some(b)) if (&b.0 - &a.1).is_nonneg() || (&a.0 - &b.1).is_nonneg())
    });
    apart.then(|| graph.slice(base, slice_dims(node).to_vec(), node.ty.shape.clone()))
}
