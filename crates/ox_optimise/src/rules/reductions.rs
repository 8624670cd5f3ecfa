//! Reductions over dimensions of one element, of constants, of expansions, and of one another.

use super::Rule;
use crate::rewriter::Rewriter;
use crate::scalar;
use ox_ir::graph::{Dims, Node, NodeId, Op, ReduceOp};
use ox_ir::{DType, PointOp, Scalar, Sym};
use ox_ops::point::convert;

pub const REDUCE: &[Rule] = &[
    Rule { name: "arg-of-one", apply: arg_of_one },
    Rule { name: "reduce-units", apply: reduce_units },
    Rule { name: "reduce-of-expand", apply: reduce_of_expand },
    Rule { name: "reduce-constant", apply: reduce_constant },
    Rule { name: "reduce-reduce", apply: reduce_reduce },
];

pub const SCAN: &[Rule] =
    &[Rule { name: "scan-of-one", apply: scan_of_one }, Rule { name: "scan-constant", apply: scan_constant }];

fn parts(node: &Node) -> (ReduceOp, &Dims) {
    match &node.op {
        Op::Reduce { op, dims } => (*op, dims),
        _ => unreachable!("a rule on reductions"),
    }
}

/// The result does not change if a value is reduced twice.
fn is_idempotent(op: ReduceOp) -> bool {
    matches!(op, ReduceOp::Max | ReduceOp::Min | ReduceOp::Any | ReduceOp::All)
}

fn reduce_over(graph: &mut Rewriter, op: ReduceOp, x: NodeId, dims: Dims, node: &Node) -> NodeId {
    if dims.is_empty() { x } else { graph.make(Op::Reduce { op, dims }, [x], node.ty.clone()) }
}

fn arg_of_one(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (op, dims) = parts(node);
    let one = op.is_arg() && graph.ty(node.args[0]).shape[dims[0]].is_one();
    one.then(|| graph.full(Scalar::Int(0), node.ty.clone()))
}

/// Dimensions of one element need no reduction. A float sum starts from 0.0, so that a lone -0.0 still becomes 0.0.
fn reduce_units(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (op, dims) = parts(node);
    let shape = &graph.ty(node.args[0]).shape;
    let proper: Dims = dims.iter().copied().filter(|d| !shape[*d].is_one()).collect();
    if proper.len() == dims.len() || op.is_arg() {
        return None;
    }
    if proper.is_empty() && op == ReduceOp::Sum && node.ty.dtype.is_float() {
        let zero = graph.full(Scalar::Float(0.0), node.ty.clone());
        return Some(graph.point(PointOp::Add, &[node.args[0], zero]));
    }
    Some(reduce_over(graph, op, node.args[0], proper, node))
}

/// The maximum of copies is the value itself.
fn reduce_of_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (op, dims) = parts(node);
    if !is_idempotent(op) || *graph.op(node.args[0]) != Op::Expand {
        return None;
    }
    let source = graph.arg(node.args[0]);
    let (small, large) = (graph.ty(source).shape.clone(), graph.ty(node.args[0]).shape.clone());
    let repeated = |d: usize| small[d] != large[d] && large[d].is_positive();
    if !dims.iter().any(|d| repeated(*d)) {
        return None;
    }
    let kept: Dims = dims.iter().copied().filter(|d| !repeated(*d)).collect();
    let shape = (0..small.len()).map(|d| if dims.contains(&d) && repeated(d) { Sym::ONE } else { large[d].clone() });
    let partly = graph.expand(source, shape.collect());
    Some(reduce_over(graph, op, partly, kept, node))
}

fn reduce_constant(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (op, dims) = parts(node);
    let shape = &graph.ty(node.args[0]).shape;
    let count: Sym = dims.iter().map(|d| &shape[*d]).product();
    let value = convert(graph.constant(node.args[0])?, node.ty.dtype);
    let result = match op {
        _ if !count.is_positive() => None,
        ReduceOp::ArgMax | ReduceOp::ArgMin => Some(Scalar::Int(0)),
        ReduceOp::Sum => sum_of(node.ty.dtype, value, count.as_const()?),
        ReduceOp::Prod => (value.as_f64() == 1.0).then_some(value),
        _ => Some(value),
    }?;
    Some(graph.full(result, node.ty.clone()))
}

/// The sum of `count` times `value`, if every order of summation gives it: integers, and floats that are small integers.
fn sum_of(dtype: DType, value: Scalar, count: i64) -> Option<Scalar> {
    if dtype.is_int() {
        return scalar::evaluate(PointOp::Mul, dtype, &[value, Scalar::Int(count)]);
    }
    let digits = if dtype.compute() == DType::F32 { 24 } else { 53 };
    let sum = value.as_f64() * count as f64;
    let exact = value.as_f64().fract() == 0.0 && sum.abs() <= 2f64.powi(digits);
    // Adding 0.0 drops the sign of a zero, as the sum does.
    (exact && convert(Scalar::Float(sum), dtype).as_f64() == sum).then_some(Scalar::Float(sum + 0.0))
}

/// Extrema of extrema, and integer sums of sums, are one reduction.
fn reduce_reduce(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (op, outer) = parts(node);
    let Op::Reduce { op: inner_op, dims: inner } = graph.op(node.args[0]) else { return None };
    let wraps = matches!(op, ReduceOp::Sum | ReduceOp::Prod) && node.ty.dtype.is_int();
    if *inner_op != op || !(is_idempotent(op) || wraps) {
        return None;
    }
    let mut dims: Dims = inner.iter().chain(outer).copied().collect();
    dims.sort_unstable();
    dims.dedup();
    let source = graph.arg(node.args[0]);
    Some(reduce_over(graph, op, source, dims, node))
}

fn scan_of_one(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Scan { op, dim } = node.op else { return None };
    let exact = node.args.len() == 1 && (op != ReduceOp::Sum || !node.ty.dtype.is_float());
    (exact && graph.ty(node.args[0]).shape[dim].is_one()).then(|| node.args[0])
}

/// A running sum of zeros, a running product of ones, a running extremum of anything.
fn scan_constant(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let (Op::Scan { op, .. }, [arg]) = (&node.op, &node.args[..]) else { return None };
    let value = convert(graph.constant(*arg)?, node.ty.dtype);
    let stays = match op {
        ReduceOp::Sum => value == Scalar::Int(0) || value == Scalar::Float(0.0),
        ReduceOp::Prod => value.as_f64() == 1.0,
        _ => true,
    };
    stays.then(|| graph.full(value, node.ty.clone()))
}
