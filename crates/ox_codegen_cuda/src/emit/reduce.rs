//! Reductions and scans: what they start with and how they combine.

use super::ctype::{self, held};
use ox_ir::DType;
use ox_ir::graph::ReduceOp;

/// What a reduction of nothing has.
pub fn identity(op: ReduceOp, dtype: DType) -> String {
    let value = ctype::constant(op.neutral(dtype), dtype);
    // No position yet: behind every other.
    if op.is_arg() { format!("{{{value}, {}}}", ctype::long(i64::MAX)) } else { value }
}

/// The type that is accumulated in; for argmax a value with its position.
pub fn running(op: ReduceOp, dtype: DType) -> String {
    if op.is_arg() { format!("ValueAt<{}>", held(dtype)) } else { held(dtype).to_string() }
}

/// The function object that combines two.
pub fn functor(op: ReduceOp, dtype: DType) -> &'static str {
    match op {
        ReduceOp::Sum if dtype == DType::Bool => "Any()",
        ReduceOp::Prod if dtype == DType::Bool => "All()",
        ReduceOp::Sum => "Sum()",
        ReduceOp::Prod => "Prod()",
        ReduceOp::Max => "Max()",
        ReduceOp::Min => "Min()",
        ReduceOp::Any => "Any()",
        ReduceOp::All => "All()",
        ReduceOp::ArgMax => "ArgMax()",
        ReduceOp::ArgMin => "ArgMin()",
    }
}

/// A result as a value of its type: only sums and products make new numbers.
pub fn finished(op: ReduceOp, text: String, dtype: DType) -> String {
    match op {
        ReduceOp::Sum | ReduceOp::Prod => ctype::rounded(text, dtype),
        ReduceOp::ArgMax | ReduceOp::ArgMin => format!("{text}.at"),
        _ => text,
    }
}
