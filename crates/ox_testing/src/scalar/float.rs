//! Operations on floats: in f64, rounded to the type at the end. What eager computes in several steps is rounded to the type it
//! computes in where that can be seen in the result.

use super::round;
use ox_ir::{DType, PointOp, Scalar};

pub(super) fn apply(op: PointOp, dtype: DType, args: &[f64]) -> Scalar {
    match *args {
        [x] => test(op, x).map_or_else(|| Scalar::Float(unary(op, x)), Scalar::Bool),
        [a, b] => compare(op, a, b).map_or_else(|| Scalar::Float(binary(op, dtype, a, b)), Scalar::Bool),
        [a, b, c] => Scalar::Float(fma(dtype, a, b, c)),
        _ => unreachable!("no operation has {} arguments", args.len()),
    }
}

fn test(op: PointOp, x: f64) -> Option<bool> {
    Some(match op {
        PointOp::IsNan => x.is_nan(),
        PointOp::IsInf => x.is_infinite(),
        PointOp::SignBit => x.is_sign_negative(),
        _ => return None,
    })
}

fn compare(op: PointOp, a: f64, b: f64) -> Option<bool> {
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

fn unary(op: PointOp, x: f64) -> f64 {
    match op {
        PointOp::Neg => -x,
        PointOp::Abs => x.abs(),
        // NaN and both zeros give 0.
        PointOp::Sign => f64::from(x > 0.0) - f64::from(x < 0.0),
        PointOp::Floor => x.floor(),
        PointOp::Ceil => x.ceil(),
        PointOp::Round => x.round_ties_even(),
        PointOp::Trunc => x.trunc(),
        PointOp::Sqrt => x.sqrt(),
        PointOp::Rsqrt => 1.0 / x.sqrt(),
        PointOp::Reciprocal => 1.0 / x,
        PointOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        _ => transcendental(op, x),
    }
}

fn transcendental(op: PointOp, x: f64) -> f64 {
    match op {
        PointOp::Exp => x.exp(),
        PointOp::Exp2 => x.exp2(),
        PointOp::Expm1 => x.exp_m1(),
        PointOp::Log => x.ln(),
        PointOp::Log2 => x.log2(),
        PointOp::Log10 => x.log10(),
        PointOp::Log1p => x.ln_1p(),
        PointOp::Sin => x.sin(),
        PointOp::Cos => x.cos(),
        PointOp::Tan => x.tan(),
        PointOp::Asin => x.asin(),
        PointOp::Acos => x.acos(),
        PointOp::Atan => x.atan(),
        PointOp::Sinh => x.sinh(),
        PointOp::Cosh => x.cosh(),
        PointOp::Tanh => x.tanh(),
        PointOp::Asinh => libm::asinh(x),
        PointOp::Acosh => libm::acosh(x),
        PointOp::Atanh => libm::atanh(x),
        PointOp::Erf => libm::erf(x),
        PointOp::Erfc => libm::erfc(x),
        PointOp::Lgamma => libm::lgamma(x),
        _ => unreachable!("{} is no unary float operation", op.name()),
    }
}

fn binary(op: PointOp, dtype: DType, a: f64, b: f64) -> f64 {
    let either_nan = a.is_nan() || b.is_nan();
    match op {
        PointOp::Add => a + b,
        PointOp::Sub => a - b,
        PointOp::Mul => a * b,
        PointOp::Div => a / b,
        PointOp::DivTrunc => round(dtype.compute(), a / b).trunc(),
        PointOp::DivFloor => div_floor(a, b),
        PointOp::Remainder => remainder(a, b),
        PointOp::Fmod => a % b,
        PointOp::Pow => a.powf(b),
        PointOp::Maximum | PointOp::Minimum if either_nan => f64::NAN,
        PointOp::Maximum => {
            if a < b {
                b
            } else {
                a
            }
        }
        PointOp::Minimum => {
            if b < a {
                b
            } else {
                a
            }
        }
        PointOp::Fmax => a.max(b),
        PointOp::Fmin => a.min(b),
        PointOp::Atan2 => a.atan2(b),
        PointOp::Copysign => a.copysign(b),
        _ => unreachable!("{} is no binary float operation", op.name()),
    }
}

/// The remainder with the divisor's sign.
fn remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// The quotient rounded down, reached by way of the exact remainder, so that it fits with `remainder`.
fn div_floor(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let r = a % b;
    let mut q = (a - r) / b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) {
        q -= 1.0;
    }
    if q == 0.0 {
        return 0f64.copysign(a / b);
    }
    let down = q.floor();
    if q - down > 0.5 { down + 1.0 } else { down }
}

fn fma(dtype: DType, a: f64, b: f64, c: f64) -> f64 {
    if dtype == DType::F64 { a.mul_add(b, c) } else { (a as f32).mul_add(b as f32, c as f32) as f64 }
}
