//! Numbers that eager's kernels convert to the type of a tensor, and refuse where it does not hold them. Such a call is left to torch, which
//! refuses it in its own words, or has a wider type than the one that is looked at here. What is only known when the graph runs is noted, and
//! compared then.

use super::{Bound, Operand, Surface};
use crate::builder::{Builder, Unknown};
use crate::error::{OpError, OpResult};
use ox_ir::graph::Op;
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
    (&["softplus"], &["beta", "threshold"]),
    (&["lerp"], &["weight"]),
    (&["pow"], &["exponent"]),
    (&["where"], &["input", "other"]),
];

/// Functions that fill tensors of a type that they are told.
const FILLING: &[&str] = &["full", "full_like", "new_full", "scalar_tensor", "linspace"];

/// Whether eager's function of this name converts numbers, and refuses some.
pub fn converts_numbers(name: &str) -> bool {
    FILLING.contains(&name) || CONVERTED.iter().any(|(rows, _)| rows.contains(&name))
}

/// Refuses a call with a number among the arguments that eager may refuse.
pub fn check_numbers(b: &mut Builder, row: &Surface, args: &Bound) -> OpResult<()> {
    let name = row.names[0];
    let Some((_, names)) = CONVERTED.iter().find(|(rows, _)| rows.contains(&name)) else { return Ok(()) };
    let dtypes: Vec<DType> = args.each().filter_map(|value| value.as_tensor()).map(|node| b.dtype(node)).collect();
    for number in names.iter().filter(|name| args.knows(name)).filter_map(|name| args.operand(name).ok()) {
        if matches!((&number, name), (Operand::Scalar(Scalar::Bool(_)), "add" | "sub" | "rsub")) {
            return Err(OpError::unsupported(format!("{name} with a bool as a factor")));
        }
        let is_fraction = is_fraction(b, &number);
        dtypes.iter().try_for_each(|dtype| check_fits(b, &number, converted_to(name, is_fraction, *dtype)))?;
    }
    Ok(())
}

fn is_fraction(b: &Builder, number: &Operand) -> bool {
    match number {
        Operand::Scalar(value) => matches!(value, Scalar::Float(_)),
        Operand::Number(node) => b.dtype(*node).is_float(),
        Operand::Sym(_) | Operand::Tensor(_) => false,
    }
}

/// The type that the number is converted to: whole numbers and fractions meet in a float type where types are promoted, and `where` makes
/// tensors of its numbers, which are as wide as f32. A softplus is computed in f32, too.
fn converted_to(row: &str, is_fraction: bool, dtype: DType) -> DType {
    match row {
        "pow" | "where" | "clamp" | "clamp_min" | "clamp_max" if is_fraction && !dtype.is_float() => DType::F32,
        "where" | "softplus" => dtype.compute(),
        _ => dtype,
    }
}

/// Whether a number may be put into a tensor of this type. One that is not known yet is noted. A tensor is converted by its elements, which
/// nobody refuses.
pub fn check_fits(b: &mut Builder, number: &Operand, dtype: DType) -> OpResult<()> {
    match number {
        Operand::Scalar(value) if !fits(*value, dtype) => {
            return Err(OpError::unsupported(format!("a number that {dtype} does not hold")));
        }
        Operand::Sym(sym) => {
            let (low, high) = sym.bounds();
            if !fits(Scalar::Int(low), dtype) || !fits(Scalar::Int(high), dtype) {
                b.must_hold(dtype, Unknown::Size(sym.clone()));
            }
        }
        Operand::Number(node) => {
            if let Op::Input(place) = b.graph().node(*node).op {
                b.must_hold(dtype, Unknown::Input(place));
            }
        }
        Operand::Scalar(_) | Operand::Tensor(_) => {}
    }
    Ok(())
}

/// Whether a type holds every number of another one.
pub fn holds_all(dtype: DType, of: DType) -> bool {
    let (low, high) = match of {
        _ if of.is_int() || of == DType::Bool => of.int_range(),
        _ => return of.is_float() && (of == dtype || dtype.is_float() && of.size() < dtype.size()),
    };
    !dtype.is_complex() && fits(Scalar::Int(low), dtype) && fits(Scalar::Int(high), dtype)
}

/// Whether a type holds a number: whether torch converts it.
pub fn fits(value: Scalar, dtype: DType) -> bool {
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
