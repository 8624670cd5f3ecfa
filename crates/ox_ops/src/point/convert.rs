//! Conversion between element types, as `Tensor.to(dtype)` does it.

use half::{bf16, f16};
use ox_ir::{DType, Scalar};

/// The nearest value of a float type. Half types are reached by way of f32, as everything in torch does.
pub fn round(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => x as f32 as f64,
        DType::F16 => f16::from_f32(x as f32).to_f64(),
        DType::BF16 => bf16::from_f32(x as f32).to_f64(),
        _ => x,
    }
}

/// The value that an integer type holds when it is given `x`.
pub fn wrap(dtype: DType, x: i64) -> i64 {
    match dtype {
        DType::U8 => x as u8 as i64,
        DType::I8 => x as i8 as i64,
        DType::I16 => x as i16 as i64,
        DType::I32 => x as i32 as i64,
        _ => x,
    }
}

pub fn convert(value: Scalar, dtype: DType) -> Scalar {
    match (value, dtype) {
        (value, DType::Bool) => Scalar::Bool(value.as_bool()),
        // An i64 is rounded once, not by way of f64.
        (Scalar::Int(x), DType::F32 | DType::F16 | DType::BF16) => Scalar::Float(round(dtype, x as f32 as f64)),
        (value, dtype) if dtype.is_float() => Scalar::Float(round(dtype, value.as_f64())),
        (Scalar::Float(x), dtype) => Scalar::Int(float_to_int(dtype, x)),
        (value, dtype) => Scalar::Int(wrap(dtype, value.as_i64())),
    }
}

/// Truncates. Out of range and NaN are undefined in C; this is what x86 gives.
fn float_to_int(dtype: DType, x: f64) -> i64 {
    let (lo, hi) = match dtype {
        DType::I32 => (i32::MIN as f64, -(i32::MIN as f64)),
        _ => (i64::MIN as f64, -(i64::MIN as f64)),
    };
    let t = x.trunc();
    let fits = t >= lo && t < hi;
    wrap(dtype, if fits { t as i64 } else { lo as i64 })
}
