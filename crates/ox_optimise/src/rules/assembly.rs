//! What is put together from parts: pads, concatenations, writes into slices.

use super::Rule;
use super::positions::CAT_OF_POSITIONS;
use super::slices::{is_whole, range_of};
use crate::rewriter::Rewriter;
use ox_ir::Sym;
use ox_ir::graph::{Args, Node, NodeId, Op, SliceDim};
use ox_ops::point::convert;

pub const PAD: &[Rule] = &[Rule { name: "pad-nothing", apply: pad_nothing }, Rule { name: "pad-constant", apply: pad_constant }];

pub const CAT: &[Rule] = &[
    Rule { name: "cat-one", apply: cat_one },
    Rule { name: "cat-empty", apply: cat_empty },
    Rule { name: "cat-constants", apply: cat_constants },
    Rule { name: "cat-cat", apply: cat_cat },
    Rule { name: "cat-neighbours", apply: cat_neighbours },
    CAT_OF_POSITIONS,
];

pub const SLICE_SCATTER: &[Rule] = &[
    Rule { name: "slice-scatter-whole", apply: slice_scatter_whole },
    Rule { name: "slice-scatter-back", apply: slice_scatter_back },
    Rule { name: "slice-scatter-again", apply: slice_scatter_again },
];

fn pad_nothing(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Pad { low, .. } = &node.op else { return None };
    let nothing = low.iter().all(Sym::is_zero) && graph.ty(node.args[0]).shape == node.ty.shape;
    nothing.then_some(node.args[0])
}

/// A constant padded with itself.
fn pad_constant(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Pad { value, .. } = node.op else { return None };
    let inner = graph.constant(node.args[0])?;
    let same = convert(inner, node.ty.dtype) == convert(value, node.ty.dtype);
    same.then(|| graph.full(value, node.ty.clone()))
}

fn cat_dim(node: &Node) -> usize {
    match node.op {
        Op::Cat { dim } => dim,
        _ => unreachable!("a rule on cat"),
    }
}

fn cat_one(_: &mut Rewriter, node: &Node) -> Option<NodeId> {
    (node.args.len() == 1).then(|| node.args[0])
}

fn cat_again(graph: &mut Rewriter, node: &Node, args: Args) -> NodeId {
    graph.make(node.op.clone(), args, node.ty.clone())
}

/// Parts without elements go, except for the last one.
fn cat_empty(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let dim = cat_dim(node);
    let kept: Args = node.args.iter().copied().filter(|a| !graph.ty(*a).shape[dim].is_zero()).collect();
    (kept.len() < node.args.len() && !kept.is_empty()).then(|| cat_again(graph, node, kept))
}

fn cat_constants(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let value = graph.constant(node.args[0])?;
    let same = node.args.iter().all(|a| graph.constant(*a) == Some(value));
    same.then(|| graph.full(value, node.ty.clone()))
}

fn cat_cat(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let is_same = |a: &NodeId| *graph.op(*a) == node.op;
    if !node.args.iter().any(is_same) {
        return None;
    }
    let parts = |a: &NodeId| if is_same(a) { graph.node(*a).args.clone() } else { Args::from_iter([*a]) };
    let flat: Args = node.args.iter().flat_map(parts).collect();
    Some(cat_again(graph, node, flat))
}

/// Neighbouring slices of one tensor are one slice: what was split and not changed grows together again.
fn cat_neighbours(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let dim = cat_dim(node);
    let mut merged = Args::new();
    for arg in &node.args {
        match merged.last().and_then(|last| join(graph, dim, *last, *arg)) {
            Some(both) => *merged.last_mut()? = both,
            None => merged.push(*arg),
        }
    }
    (merged.len() < node.args.len()).then(|| cat_again(graph, node, merged))
}

fn join(graph: &mut Rewriter, dim: usize, a: NodeId, b: NodeId) -> Option<NodeId> {
    let (Op::Slice(first), Op::Slice(second)) = (graph.op(a), graph.op(b)) else { return None };
    if graph.arg(a) != graph.arg(b) || first[dim].step != 1 || second[dim].step != 1 {
        return None;
    }
    let end = &first[dim].start + &graph.ty(a).shape[dim];
    let equal = first.iter().zip(second).enumerate().all(|(d, (x, y))| d == dim || x == y);
    if !equal || end != second[dim].start {
        return None;
    }
    let mut shape = graph.ty(a).shape.clone();
    shape[dim] = &shape[dim] + &graph.ty(b).shape[dim];
    let (dims, source) = (first.clone(), graph.arg(a));
    Some(graph.slice(source, dims, shape))
}

fn slice_scatter_whole(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::SliceScatter(dims) = &node.op else { return None };
    let all = dims.iter().all(is_whole) && graph.ty(node.args[1]).shape == node.ty.shape;
    all.then(|| node.args[1])
}

/// Writes what was there.
fn slice_scatter_back(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (Op::SliceScatter(to), Op::Slice(from)) = (&node.op, graph.op(node.args[1])) else { return None };
    (to == from && graph.arg(node.args[1]) == node.args[0]).then(|| node.args[0])
}

/// The first of two writes is lost if the second covers it.
fn slice_scatter_again(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (Op::SliceScatter(outer), Op::SliceScatter(inner)) = (&node.op, graph.op(node.args[0])) else { return None };
    let [base, lost] = graph.node(node.args[0]).args[..] else { return None };
    let (new, old) = (&graph.ty(node.args[1]).shape, &graph.ty(lost).shape);
    let same = outer == inner && new == old;
    let covers = (0..new.len()).all(|d| covers((&outer[d], &new[d]), (&inner[d], &old[d])));
    (same || covers).then(|| graph.make(node.op.clone(), [base, node.args[1]], node.ty.clone()))
}

/// A dense range that holds another one.
fn covers((outer, outer_len): (&SliceDim, &Sym), (inner, inner_len): (&SliceDim, &Sym)) -> bool {
    match (range_of(outer, outer_len), range_of(inner, inner_len)) {
        (Some(a), Some(b)) if outer.step == 1 => (&b.0 - &a.0).is_nonneg() && (&a.1 - &b.1).is_nonneg(),
        _ => false,
    }
}
