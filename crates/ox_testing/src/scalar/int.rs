//! Operations on integers and bools: exact, then wrapped to the type.

use super::{DivisionByZero, wrap};
use ox_ir::{DType, PointOp, Scalar};

pub(super) fn apply(op: PointOp, dtype: DType, args: &[i64]) -> Result<Scalar, DivisionByZero> {
    match *args {
        [x] => Ok(Scalar::Int(unary(op, dtype, x))),
        [a, b] => match compare(op, a, b) {
            Some(result) => Ok(Scalar::Bool(result)),
            None => binary(op, dtype, a, b).map(Scalar::Int),
        },
        _ => unreachable!("no integer operation has {} arguments", args.len()),
    }
}

fn compare(op: PointOp, a: i64, b: i64) -> Option<bool> {
    Some(match op {
        PointOp::Eq => a == b,
        PointOp::Ne => a != b,
        PointOp::Lt => a < b,
        PointOp::Le => a <= b,
        PointOp::Gt => a > b,
        PointOp::Ge => a >= b,
        _ => return None,
    })
}

fn unary(op: PointOp, dtype: DType, x: i64) -> i64 {
    match op {
        PointOp::Neg => x.wrapping_neg(),
        PointOp::Abs => x.wrapping_abs(),
        PointOp::Sign => x.signum(),
        PointOp::Not if dtype == DType::Bool => i64::from(x == 0),
        PointOp::Not => !x,
        _ => unreachable!("{} is no unary integer operation", op.name()),
    }
}

fn binary(op: PointOp, dtype: DType, a: i64, b: i64) -> Result<i64, DivisionByZero> {
    let nonzero = || if b == 0 { Err(DivisionByZero) } else { Ok(b) };
    Ok(match op {
        PointOp::Add => a.wrapping_add(b),
        PointOp::Sub => a.wrapping_sub(b),
        PointOp::Mul => a.wrapping_mul(b),
        PointOp::DivFloor => div_floor(a, nonzero()?),
        PointOp::DivTrunc => a.wrapping_div(nonzero()?),
        PointOp::Remainder => remainder(a, nonzero()?),
        PointOp::Fmod => a.wrapping_rem(nonzero()?),
        PointOp::Pow => pow(dtype, a, b),
        PointOp::Maximum => a.max(b),
        PointOp::Minimum => a.min(b),
        PointOp::And => a & b,
        PointOp::Or => a | b,
        PointOp::Xor => a ^ b,
        PointOp::Shl => shl(dtype, a, b),
        PointOp::Shr => shr(dtype, a, b),
        _ => unreachable!("{} is no binary integer operation", op.name()),
    })
}

fn remainder(a: i64, b: i64) -> i64 {
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

fn div_floor(a: i64, b: i64) -> i64 {
    let inexact = a.wrapping_rem(b) != 0;
    a.wrapping_div(b) - i64::from(inexact && (a < 0) != (b < 0))
}

fn pow(dtype: DType, base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, e) => 1 - 2 * (e & 1),
        (_, e) if e < 0 => 0,
        _ => (0..64).rev().fold(1i64, |acc, bit| {
            let square = acc.wrapping_mul(acc);
            wrap(dtype, if exponent >> bit & 1 == 1 { square.wrapping_mul(base) } else { square })
        }),
    }
}

fn width(dtype: DType) -> i64 {
    dtype.size() as i64 * 8
}

fn shl(dtype: DType, a: i64, by: i64) -> i64 {
    if (0..width(dtype)).contains(&by) { a.wrapping_shl(by as u32) } else { 0 }
}

fn shr(dtype: DType, a: i64, by: i64) -> i64 {
    if (0..width(dtype)).contains(&by) { a >> by } else { a >> 63 }
}
