//! Numbers that eager's kernels convert to the type of a tensor, and refuse where it does not hold them. Such a call is left to torch, which
//! refuses it in its own words, or has a wider type than the one that is looked at here.

use super::Surface;
use crate::error::{OpError, OpResult};
use crate::value::ValueOf;
use ox_ir::{DType, Scalar};

/// By the first name of the row, and the names of the parameters.
const CONVERTED: &[(&[&str], &[&str])] = &[
    (&["add", "sub", "rsub", "F.elu", "elu", "celu"], &["alpha"]),
    (&["addmm", "baddbmm", "addbmm", "addmv", "addr"], &["beta", "alpha"]),
    (&["addcmul", "addcdiv", "masked_fill", "fill", "index_fill", "setitem", "F.pad", "constant_pad_nd"], &["value"]),
    (&["clamp", "clamp_min", "clamp_max"], &["min", "max"]),
    (&["hardtanh"], &["min_val", "max_val"]),
    (&["threshold"], &["threshold", "value"]),
    (&["leaky_relu"], &["negative_slope"]),
    (&["lerp"], &["weight"]),
    (&["pow"], &["exponent"]),
    (&["where"], &["input", "other"]),
];

/// Whether eager may refuse a number among the arguments, with tensors of these types.
pub fn overflows<T>(row: &Surface, slots: &[(&'static str, ValueOf<T>)], dtypes: &[DType]) -> bool {
    let listed = CONVERTED.iter().find(|(rows, _)| rows.contains(&row.names[0]));
    let number = |name: &&str| slots.iter().find(|(slot, _)| slot == name).and_then(|(_, value)| value.as_scalar());
    let refuses = |value: Scalar| {
        let is_factor_for_another = matches!((value, row.names[0]), (Scalar::Bool(_), "add" | "sub" | "rsub"));
        is_factor_for_another || dtypes.iter().any(|dtype| !fits(value, converted_to(row, value, *dtype)))
    };
    listed.is_some_and(|(_, names)| names.iter().filter_map(number).any(refuses))
}

/// The type that the number is converted to: whole numbers and fractions meet in a float type where types are promoted, and `where` makes
/// tensors of its numbers, which are as wide as f32.
fn converted_to(row: &Surface, value: Scalar, dtype: DType) -> DType {
    match row.names[0] {
        "pow" | "where" | "clamp" | "clamp_min" | "clamp_max" if matches!(value, Scalar::Float(_)) && !dtype.is_float() => {
            DType::F32
        }
        "where" => dtype.compute(),
        _ => dtype,
    }
}

/// Whether a number may be put into a tensor of this type.
pub fn check_fits(value: Scalar, dtype: DType) -> OpResult<()> {
    match fits(value, dtype) {
        true => Ok(()),
        false => Err(OpError::unsupported(format!("a number that {dtype} does not hold"))),
    }
}

fn fits(value: Scalar, dtype: DType) -> bool {
    let number = value.as_f64();
    let largest = match dtype {
        DType::U8 => return (0.0..=255.0).contains(&number),
        DType::I8 => i8::MAX as f64,
        DType::I16 => i16::MAX as f64,
        DType::I32 => i32::MAX as f64,
        DType::I64 => i64::MAX as f64,
        DType::F16 => 65504.0,
        DType::BF16 => 3.3895313892515355e38,
        DType::F32 => f32::MAX as f64,
        _ => return true,
    };
    match dtype.is_float() {
        true => !number.is_finite() || number.abs() <= largest,
        false => (-largest - 1.0..=largest).contains(&number),
    }
}
