//! What the scalar operations mean, one element at a time.

mod convert;
mod float;
mod int;

pub use convert::{convert, round, wrap};

use ox_ir::{DType, PointOp, Scalar};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DivisionByZero;

/// Applies an operation to arguments of type `dtype` (for `where`: whose values are of that type).
pub fn apply(op: PointOp, dtype: DType, args: &[Scalar]) -> Result<Scalar, DivisionByZero> {
    assert_eq!(args.len(), op.arity(), "{}", op.name());
    if op == PointOp::Where {
        return Ok(if args[0].as_bool() { args[1] } else { args[2] });
    }
    let result = if dtype.is_float() {
        float::apply(op, dtype, &args.iter().map(|x| x.as_f64()).collect::<Vec<_>>())
    } else {
        int::apply(op, dtype, &args.iter().map(|x| x.as_i64()).collect::<Vec<_>>())?
    };
    Ok(convert(result, op.result(dtype)))
}

#[cfg(test)]
mod tests;
