//! The arithmetic of constants: what a value is as an element of a type, and the exact operations on such elements.
//!
//! Only operations whose result IEEE 754 (or wrapping integer arithmetic) fixes are here. The others are left to the kernels, so that
//! a folded constant never differs from what the kernel would have computed.

use ox_ir::{DType, PointOp, Scalar};
use ox_ops::builder::scalar_of;
use std::cmp::Ordering;

/// The value as an element of `dtype` holds it. f16 and bf16 are reached over f32, as torch does.
pub fn rounded(dtype: DType, value: Scalar) -> Scalar {
    let value = scalar_of(dtype, value);
    let Scalar::Float(x) = value else { return value };
    Scalar::Float(match dtype {
        DType::F16 => half::f16::from_f32(x as f32).to_f64(),
        DType::BF16 => half::bf16::from_f32(x as f32).to_f64(),
        DType::F32 => x as f32 as f64,
        _ => x,
    })
}

/// The conversion of an element; None where C leaves it open (a float that the integer type does not have).
pub fn cast(value: Scalar, from: DType, to: DType) -> Option<Scalar> {
    let value = rounded(from, value);
    if let (Scalar::Float(x), true) = (value, to.is_int()) {
        let (low, high) = int_range(to);
        let inside = x.trunc() >= low as f64 && x.trunc() <= high as f64 && x.abs() < 9.0e18;
        return inside.then_some(Scalar::Int(x as i64));
    }
    // An i64 becomes a float in one rounding, not over f64.
    if let (Scalar::Int(x), DType::F32 | DType::F16 | DType::BF16) = (value, to) {
        return Some(rounded(to, Scalar::Float(x as f32 as f64)));
    }
    (!to.is_complex()).then(|| rounded(to, value))
}

pub fn int_range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, 255),
        DType::I8 => (i8::MIN as i64, i8::MAX as i64),
        DType::I16 => (i16::MIN as i64, i16::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        _ => (i64::MIN, i64::MAX),
    }
}

/// `op` on elements of type `dtype` (for `where`: of its two values); None if it has no exact meaning here.
pub fn evaluate(op: PointOp, dtype: DType, args: &[Scalar]) -> Option<Scalar> {
    if op == PointOp::Where {
        return Some(rounded(dtype, if args[0].as_bool() { args[1] } else { args[2] }));
    }
    let args: Vec<Scalar> = args.iter().map(|a| rounded(dtype, *a)).collect();
    if let Some(order) = comparison(op) {
        let holds = order(compare(args[0], args[1]));
        return Some(Scalar::Bool(holds));
    }
    if dtype.is_float() {
        let [a, b] = [args[0].as_f64(), args.get(1).map_or(0.0, |b| b.as_f64())];
        if let Some(test) = test_float(op, a) {
            return Some(Scalar::Bool(test));
        }
        let value = if dtype == DType::F64 { exact_f64(op, a, b)? } else { exact_f32(op, a as f32, b as f32)? as f64 };
        return Some(rounded(dtype, Scalar::Float(value)));
    }
    if dtype.is_complex() {
        return None;
    }
    let [a, b] = [args[0].as_i64(), args.get(1).map_or(0, |b| b.as_i64())];
    integer(op, dtype, a, b).map(|value| scalar_of(dtype, Scalar::Int(value)))
}

fn compare(a: Scalar, b: Scalar) -> Option<Ordering> {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
        _ => Some(a.as_i64().cmp(&b.as_i64())),
    }
}

fn comparison(op: PointOp) -> Option<fn(Option<Ordering>) -> bool> {
    Some(match op {
        PointOp::Eq => |o| o == Some(Ordering::Equal),
        PointOp::Ne => |o| o != Some(Ordering::Equal),
        PointOp::Lt => |o| o == Some(Ordering::Less),
        PointOp::Le => |o| matches!(o, Some(Ordering::Less | Ordering::Equal)),
        PointOp::Gt => |o| o == Some(Ordering::Greater),
        PointOp::Ge => |o| matches!(o, Some(Ordering::Greater | Ordering::Equal)),
        _ => return None,
    })
}

fn test_float(op: PointOp, x: f64) -> Option<bool> {
    match op {
        PointOp::IsNan => Some(x.is_nan()),
        PointOp::IsInf => Some(x.is_infinite()),
        PointOp::SignBit => Some(x.is_sign_negative()),
        _ => None,
    }
}

macro_rules! exact_float {
    ($name:ident $float:ty) => {
        fn $name(op: PointOp, a: $float, b: $float) -> Option<$float> {
            Some(match op {
                PointOp::Neg => -a,
                PointOp::Abs => a.abs(),
                PointOp::Add => a + b,
                PointOp::Sub => a - b,
                PointOp::Mul => a * b,
                PointOp::Div => a / b,
                PointOp::Reciprocal => 1.0 / a,
                PointOp::Sqrt => a.sqrt(),
                PointOp::Floor => a.floor(),
                PointOp::Ceil => a.ceil(),
                PointOp::Trunc => a.trunc(),
                PointOp::Round => a.round_ties_even(),
                PointOp::Copysign => a.copysign(b),
                PointOp::Maximum | PointOp::Minimum if a.is_nan() || b.is_nan() => <$float>::NAN,
                PointOp::Maximum if a != b => a.max(b),
                PointOp::Minimum if a != b => a.min(b),
                PointOp::Maximum | PointOp::Minimum if a.to_bits() == b.to_bits() => a,
                _ => return None,
            })
        }
    };
}
exact_float!(exact_f32 f32);
exact_float!(exact_f64 f64);

/// On values of `dtype` widened to i64; the caller wraps the result. Divisions by zero are errors of the run and stay.
fn integer(op: PointOp, dtype: DType, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        PointOp::Neg => a.wrapping_neg(),
        PointOp::Abs => a.wrapping_abs(),
        PointOp::Sign => a.signum(),
        PointOp::Add => a.wrapping_add(b),
        PointOp::Sub => a.wrapping_sub(b),
        PointOp::Mul => a.wrapping_mul(b),
        PointOp::DivTrunc if b != 0 => a.wrapping_div(b),
        PointOp::Fmod if b != 0 => a.wrapping_rem(b),
        PointOp::DivFloor if b != 0 => a.wrapping_div(b) - (floor_remainder(a, b) != a.wrapping_rem(b)) as i64,
        PointOp::Remainder if b != 0 => floor_remainder(a, b),
        PointOp::Maximum => a.max(b),
        PointOp::Minimum => a.min(b),
        PointOp::And => a & b,
        PointOp::Or => a | b,
        PointOp::Xor => a ^ b,
        PointOp::Not if dtype == DType::Bool => (a == 0) as i64,
        PointOp::Not => !a,
        PointOp::Shl if (0..dtype.size() as i64 * 8).contains(&b) => a << b,
        PointOp::Shr if (0..dtype.size() as i64 * 8).contains(&b) => a >> b,
        _ => return None,
    })
}

/// The remainder of the divisor's sign.
fn floor_remainder(a: i64, b: i64) -> i64 {
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}
