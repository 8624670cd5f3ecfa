//! Reshapes, permutations and expansions. Chains move towards `expand(permute(reshape(x)))`.

use super::Rule;
use crate::rewriter::Rewriter;
use crate::shapes::{groups, ones, proper_dims, same_but_units};
use ox_ir::Scalar;
use ox_ir::graph::{Dims, Node, NodeId, Op, Shape};

pub const RESHAPE: &[Rule] = &[
    Rule { name: "reshape-same", apply: same_shape },
    Rule { name: "reshape-constant", apply: view_of_constant },
    Rule { name: "reshape-reshape", apply: reshape_reshape },
    Rule { name: "reshape-of-expand", apply: reshape_of_expand },
    Rule { name: "reshape-of-permute", apply: reshape_of_permute },
];

pub const PERMUTE: &[Rule] = &[
    Rule { name: "permute-constant", apply: view_of_constant },
    Rule { name: "permute-as-reshape", apply: permute_as_reshape },
    Rule { name: "permute-permute", apply: permute_permute },
    Rule { name: "permute-of-expand", apply: permute_of_expand },
];

pub const EXPAND: &[Rule] = &[
    Rule { name: "expand-same", apply: same_shape },
    Rule { name: "expand-constant", apply: view_of_constant },
    Rule { name: "expand-expand", apply: expand_expand },
];

pub const IOTA: &[Rule] =
    &[Rule { name: "iota-of-one", apply: iota_of_one }, Rule { name: "iota-as-expand", apply: iota_as_expand }];

fn same_shape(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    (graph.ty(node.args[0]).shape == node.ty.shape).then_some(node.args[0])
}

pub fn view_of_constant(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let value = graph.constant(node.args[0])?;
    Some(graph.full(value, node.ty.clone()))
}

fn reshape_reshape(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    (*graph.op(node.args[0]) == Op::Reshape).then(|| {
        let source = graph.arg(node.args[0]);
        graph.reshape(source, node.ty.shape.clone())
    })
}

/// Holds where no group of dimensions mixes repeated ones with others.
fn reshape_of_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let expanded = node.args[0];
    if *graph.op(expanded) != Op::Expand {
        return None;
    }
    let source = graph.arg(expanded);
    let (small, large) = (&graph.ty(source).shape, &graph.ty(expanded).shape);
    let mut inner = ones(node.ty.rank());
    for group in groups(large, &node.ty.shape)? {
        if small[group.from.clone()] == large[group.from.clone()] {
            inner[group.to.clone()].clone_from_slice(&node.ty.shape[group.to]);
        } else if !small[group.from].iter().all(|s| s.is_one()) {
            return None;
        }
    }
    let inner = graph.reshape(source, inner);
    Some(graph.expand(inner, node.ty.shape.clone()))
}

/// A reshape that only adds or drops sizes 1 is done before the permutation, where it can join with another reshape.
fn reshape_of_permute(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let permuted = node.args[0];
    let Op::Permute(perm) = graph.op(permuted) else { return None };
    let permuted_shape = &graph.ty(permuted).shape;
    if !same_but_units(permuted_shape, &node.ty.shape) {
        return None;
    }
    // The proper dimensions of the result, each with the place that its elements have in the permutation's argument.
    let sources = proper_dims(permuted_shape).map(|d| perm[d]);
    let mut proper: Vec<(usize, usize)> = sources.zip(proper_dims(&node.ty.shape)).collect();
    proper.sort_unstable();
    let units = (0..node.ty.rank()).filter(|d| node.ty.shape[*d].is_one());
    let order: Dims = units.chain(proper.into_iter().map(|(_, d)| d)).collect();
    let inner: Shape = order.iter().map(|d| node.ty.shape[*d].clone()).collect();
    let perm = inverse(&order);
    let source = graph.arg(permuted);
    let inner = graph.reshape(source, inner);
    Some(graph.permute(inner, perm))
}

pub fn inverse(perm: &[usize]) -> Dims {
    let mut out: Dims = smallvec::smallvec![0; perm.len()];
    perm.iter().enumerate().for_each(|(k, p)| out[*p] = k);
    out
}

/// The transpose of the last two dimensions.
pub fn swap_last(graph: &mut Rewriter, x: NodeId) -> NodeId {
    let rank = graph.ty(x).rank();
    let mut perm: Dims = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    graph.permute(x, perm)
}

/// A permutation that leaves the order of the proper dimensions alone moves no element.
fn permute_as_reshape(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Permute(perm) = &node.op else { return None };
    let shape = &graph.ty(node.args[0]).shape;
    let proper = perm.iter().filter(|p| !shape[**p].is_one());
    proper.is_sorted().then(|| graph.reshape(node.args[0], node.ty.shape.clone()))
}

fn permute_permute(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (Op::Permute(outer), Op::Permute(inner)) = (&node.op, graph.op(node.args[0])) else { return None };
    let both: Dims = outer.iter().map(|p| inner[*p]).collect();
    let source = graph.arg(node.args[0]);
    Some(graph.permute(source, both))
}

fn permute_of_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Permute(perm) = &node.op else { return None };
    (*graph.op(node.args[0]) == Op::Expand).then(|| {
        let source = graph.arg(node.args[0]);
        let small = graph.permute(source, perm.clone());
        graph.expand(small, node.ty.shape.clone())
    })
}

fn expand_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    (*graph.op(node.args[0]) == Op::Expand).then(|| {
        let source = graph.arg(node.args[0]);
        graph.expand(source, node.ty.shape.clone())
    })
}

fn iota_of_one(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Iota { dim } = node.op else { return None };
    node.ty.shape[dim].is_one().then(|| graph.full(Scalar::Int(0), node.ty.clone()))
}

/// Positions differ along one dimension only.
fn iota_as_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Iota { dim } = node.op else { return None };
    let mut small = ones(node.ty.rank());
    small[dim] = node.ty.shape[dim].clone();
    if small == node.ty.shape {
        return None;
    }
    let small = graph.make(Op::Iota { dim }, [], node.ty.with_shape(small));
    Some(graph.expand(small, node.ty.shape.clone()))
}
