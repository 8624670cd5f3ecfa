//! Constants are folded where the result is exact, and scalar operations move below expansions: they are computed on the small
//! tensor, then expanded.

use super::Rule;
use super::choices::POINT_OF_CHOICE;
use super::positions::POINT_OF_POSITIONS;
use crate::rewriter::Rewriter;
use crate::scalar;
use crate::shapes::ones;
use ox_ir::graph::{Node, NodeId, Op, Shape};
use ox_ir::{DType, PointOp, Scalar};
use ox_ops::point::convert;
use smallvec::SmallVec;

pub const POINT: &[Rule] = &[
    Rule { name: "fold-constants", apply: fold_constants },
    Rule { name: "constant-right", apply: constant_right },
    Rule { name: "div-by-power-of-two", apply: div_by_power_of_two },
    Rule { name: "merge-integer-constants", apply: merge_integer_constants },
    POINT_OF_CHOICE,
    POINT_OF_POSITIONS,
    Rule { name: "point-of-expand", apply: point_of_expand },
];

pub const SYM_VALUE: &[Rule] = &[Rule { name: "sym-value-constant", apply: sym_value_constant }];

fn point_op(node: &Node) -> PointOp {
    match node.op {
        Op::Point(op) => op,
        _ => unreachable!("a rule on scalar operations"),
    }
}

fn fold_constants(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let values: Option<SmallVec<[Scalar; 3]>> = node.args.iter().map(|a| graph.constant(*a)).collect();
    let dtype = graph.ty(*node.args.last()?).dtype;
    let value = scalar::evaluate(point_op(node), dtype, &values?)?;
    Some(graph.full(value, node.ty.clone()))
}

/// One order for both ways of writing, so that other rules and the search for equal nodes see one form.
fn constant_right(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let op = point_op(node);
    let swap = op.is_commutative() && graph.constant(node.args[0]).is_some() && graph.constant(node.args[1]).is_none();
    swap.then(|| graph.point(op, &[node.args[1], node.args[0]]))
}

/// The reciprocal of a power of two is exact, so the product is the quotient; and products are much cheaper.
fn div_by_power_of_two(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let [x, divisor] = node.args[..] else { return None };
    let value = convert(graph.constant(divisor)?, node.ty.dtype).as_f64();
    if point_op(node) != PointOp::Div || !has_exact_reciprocal(node.ty.dtype, value) {
        return None;
    }
    let ty = graph.ty(divisor).clone();
    let reciprocal = graph.full(Scalar::Float(1.0 / value), ty);
    Some(graph.point(PointOp::Mul, &[x, reciprocal]))
}

/// A power of two that, with its reciprocal, is a normal number of the type.
fn has_exact_reciprocal(dtype: DType, value: f64) -> bool {
    let limit = if dtype == DType::F16 { 14 } else { 126 };
    let is_power = value.is_normal() && value.to_bits() & ((1 << 52) - 1) == 0;
    is_power && value.abs() <= 2f64.powi(limit) && value.abs() >= 2f64.powi(-limit)
}

/// `(x + c) + d` is `x + (c + d)`, and likewise for products: integers wrap, so this is exact for them.
fn merge_integer_constants(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let op = point_op(node);
    if !matches!(op, PointOp::Add | PointOp::Mul) || !node.ty.dtype.is_int() || graph.op(node.args[0]) != &node.op {
        return None;
    }
    let [x, c] = graph.node(node.args[0]).args[..] else { return None };
    let both = [graph.constant(c)?, graph.constant(node.args[1])?];
    let merged = scalar::evaluate(op, node.ty.dtype, &both)?;
    let merged = graph.full(merged, node.ty.clone());
    Some(graph.point(op, &[x, merged]))
}

/// If every argument is an expansion or a constant, the operation is done on the smallest shape that has all their elements.
fn point_of_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let mut small = ones(node.ty.rank());
    for arg in &node.args {
        match graph.op(*arg) {
            Op::Full(_) => {}
            Op::Expand => {
                let source = &graph.ty(graph.arg(*arg)).shape;
                small.iter_mut().zip(source).filter(|(_, size)| !size.is_one()).for_each(|(place, size)| *place = size.clone());
            }
            _ => return None,
        }
    }
    if small == node.ty.shape {
        return None;
    }
    let args: SmallVec<[NodeId; 3]> = node.args.iter().map(|arg| shrink(graph, *arg, &small)).collect();
    let result = graph.point(point_op(node), &args);
    Some(graph.expand(result, node.ty.shape.clone()))
}

fn shrink(graph: &mut Rewriter, arg: NodeId, shape: &Shape) -> NodeId {
    match graph.constant(arg) {
        Some(value) => {
            let ty = graph.ty(arg).with_shape(shape.clone());
            graph.full(value, ty)
        }
        None => {
            let source = graph.arg(arg);
            graph.expand(source, shape.clone())
        }
    }
}

fn sym_value_constant(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::SymValue(sym) = &node.op else { return None };
    let value = scalar::cast(Scalar::Int(sym.as_const()?), DType::I64, node.ty.dtype)?;
    Some(graph.full(value, node.ty.clone()))
}
