//! Reductions and scans: what they start with and how they combine.

use super::ctype::{self, held};
use ox_ir::graph::ReduceOp;
use ox_ir::{DType, Scalar};

/// What a reduction of nothing has.
pub fn identity(op: ReduceOp, dtype: DType) -> String {
    let (least, most) = range(dtype);
    let scalar = match op {
        ReduceOp::Sum | ReduceOp::Any => Scalar::Int(0),
        ReduceOp::Prod | ReduceOp::All => Scalar::Int(1),
        ReduceOp::Max | ReduceOp::ArgMax if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
        ReduceOp::Min | ReduceOp::ArgMin if dtype.is_float() => Scalar::Float(f64::INFINITY),
        ReduceOp::Max | ReduceOp::ArgMax => Scalar::Int(least),
        ReduceOp::Min | ReduceOp::ArgMin => Scalar::Int(most),
    };
    let value = ctype::constant(scalar, dtype);
    // No position yet: behind every other.
    if op.is_arg() { format!("{{{value}, {}}}", ctype::long(i64::MAX)) } else { value }
}

fn range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, u8::MAX as i64),
        DType::I8 => (i8::MIN as i64, i8::MAX as i64),
        DType::I16 => (i16::MIN as i64, i16::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        _ => (i64::MIN, i64::MAX),
    }
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
