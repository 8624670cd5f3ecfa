//! Element types: in registers, in memory, and from one to another as `Tensor.to` does.

use ox_ir::{DType, Scalar};

/// The type in which values of this dtype are held.
pub fn held(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::F16 | DType::BF16 | DType::F32 | DType::C64 => "float",
        DType::F64 | DType::C128 => "double",
    }
}

pub fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "unsigned char",
        DType::F16 | DType::BF16 => "unsigned short",
        other => held(other),
    }
}

/// What was loaded, as it is computed with.
pub fn from_memory(text: &str, dtype: DType) -> String {
    match dtype {
        DType::Bool => format!("({text} != 0)"),
        DType::BF16 => format!("from_bf16({text})"),
        DType::F16 => format!("from_f16({text})"),
        _ => text.to_string(),
    }
}

/// A value that has this dtype (so it is already rounded), as it is stored.
pub fn to_memory(text: &str, dtype: DType) -> String {
    match dtype {
        DType::BF16 => format!("bf16_bits({text})"),
        DType::F16 => format!("to_f16({text})"),
        _ => text.to_string(),
    }
}

/// Conversion as `Tensor.to(dtype)` does it.
pub fn convert(text: &str, from: DType, to: DType) -> String {
    let ty = held(to);
    match (from, to) {
        _ if from == to => text.to_string(),
        (_, DType::Bool) => format!("({text} != 0)"),
        _ if from.is_float() && to.is_float() && held(from) == ty => rounded(text.to_string(), to),
        _ if to.is_float() => rounded(format!("({ty}){text}"), to),
        // Small integers are the low bits of a wider one, so that -1.0 becomes 255 in u8.
        (_, DType::U8) if from.is_float() => format!("({ty})(long long){text}"),
        (_, DType::I8 | DType::I16) if from.is_float() => format!("({ty})(int){text}"),
        _ => format!("({ty}){text}"),
    }
}

/// A new number as one of this type: the half types are held as floats that have been rounded.
pub fn rounded(text: String, dtype: DType) -> String {
    match dtype {
        DType::BF16 => format!("round_bf16({text})"),
        DType::F16 => format!("round_f16({text})"),
        _ => text,
    }
}

pub fn constant(scalar: Scalar, dtype: DType) -> String {
    match dtype {
        DType::Bool => scalar.as_bool().to_string(),
        DType::F64 => double(scalar.as_f64()),
        DType::F32 => float(scalar.as_f64() as f32),
        DType::F16 => float(half::f16::from_f64(scalar.as_f64()).to_f32()),
        DType::BF16 => float(half::bf16::from_f32(scalar.as_f64() as f32).to_f32()),
        DType::I64 => long(scalar.as_i64()),
        _ => format!("({}){}", held(dtype), long(scalar.as_i64())),
    }
}

pub fn long(x: i64) -> String {
    // The literal of the least integer does not exist: it would be the negative of one that is too large.
    if x == i64::MIN { "(-9223372036854775807ll - 1)".into() } else { format!("{x}ll") }
}

fn float(x: f32) -> String {
    if x.is_finite() { format!("{x:?}f") } else { format!("__int_as_float({:#x})", x.to_bits()) }
}

fn double(x: f64) -> String {
    if x.is_finite() { format!("{x:?}") } else { format!("__longlong_as_double({:#x}ll)", x.to_bits()) }
}
