//! Conversions between element types.

use super::Rule;
use super::choices::CAST_OF_CHOICE;
use crate::rewriter::Rewriter;
use crate::scalar;
use ox_ir::DType;
use ox_ir::graph::{Node, NodeId, Op};

pub const CAST: &[Rule] = &[
    Rule { name: "cast-same", apply: cast_same },
    Rule { name: "cast-constant", apply: cast_constant },
    Rule { name: "cast-cast", apply: cast_cast },
    CAST_OF_CHOICE,
    Rule { name: "cast-of-expand", apply: cast_of_expand },
];

fn cast_same(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    (graph.ty(node.args[0]).dtype == node.ty.dtype).then_some(node.args[0])
}

fn cast_constant(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let value = scalar::cast(graph.constant(node.args[0])?, graph.ty(node.args[0]).dtype, node.ty.dtype)?;
    Some(graph.full(value, node.ty.clone()))
}

/// The type in the middle is skipped if it holds every value of the first, so that it changed nothing.
fn cast_cast(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let middle = node.args[0];
    if *graph.op(middle) != Op::Cast {
        return None;
    }
    let x = graph.arg(middle);
    let (from, over, to) = (graph.ty(x).dtype, graph.ty(middle).dtype, node.ty.dtype);
    (is_lossless(from, over) && is_defined_alike(from, over, to)).then(|| graph.cast(x, to))
}

/// Work is done once for each element of the small tensor.
fn cast_of_expand(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    if *graph.op(node.args[0]) != Op::Expand {
        return None;
    }
    let source = graph.arg(node.args[0]);
    let small = graph.cast(source, node.ty.dtype);
    Some(graph.expand(small, node.ty.shape.clone()))
}

/// Whether every value of `from` is a value of `to`.
pub fn is_lossless(from: DType, to: DType) -> bool {
    let (low, high) = from.int_range();
    match (from, to) {
        _ if from == to => true,
        (DType::Bool, _) => !to.is_complex(),
        _ if from.is_int() && to.is_int() => low >= to.int_range().0 && high <= to.int_range().1,
        _ if from.is_int() && to.is_float() => high.unsigned_abs().max(low.unsigned_abs()) <= 1 << digits(to),
        (DType::F16 | DType::BF16, DType::F32 | DType::F64) | (DType::F32, DType::F64) => true,
        _ => false,
    }
}

/// The digits of a float's significand.
fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        _ => 53,
    }
}

/// Whether `to` means the same for equal values of both types. Floats outside an integer type's range are open in C, and
/// come out differently; integers wrap.
fn is_defined_alike(from: DType, over: DType, to: DType) -> bool {
    let from_float = from.is_float();
    match to.is_int() && over.is_float() {
        true => !from_float && is_lossless(from, to),
        false => true,
    }
}
