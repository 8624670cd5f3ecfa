//! Element types: in registers, in memory, and from one to another as `Tensor.to` does.

use super::bits;
use crate::ir::{Elem, V};
use ox_ir::DType;

/// The type in which values of this dtype are held.
pub fn compute_elem(dtype: DType) -> Elem {
    match dtype {
        DType::Bool => Elem::I1,
        DType::U8 | DType::I8 => Elem::I8,
        DType::I16 => Elem::I16,
        DType::I32 => Elem::I32,
        DType::I64 => Elem::I64,
        DType::F16 | DType::BF16 | DType::F32 | DType::C64 => Elem::F32,
        DType::F64 | DType::C128 => Elem::F64,
    }
}

pub fn memory_elem(dtype: DType) -> Elem {
    match dtype {
        DType::Bool => Elem::I8,
        DType::F16 | DType::BF16 => Elem::I16,
        other => compute_elem(other),
    }
}

/// What was loaded, as it is computed with.
pub fn from_memory(v: V<'_>, dtype: DType) -> V<'_> {
    match dtype {
        DType::Bool => v.ne(v.int(0)),
        DType::BF16 => bits::widened_bf16(v),
        DType::F16 => v.bits_as(Elem::F16).widened(),
        _ => v,
    }
}

/// A value that has this dtype (so it is already rounded), as it is stored.
pub fn to_memory(v: V<'_>, dtype: DType) -> V<'_> {
    match dtype {
        DType::Bool => v.zext(Elem::I8),
        DType::BF16 => v.to_bits().lshr(v.ir().int(Elem::I32, 16)).trunc_to(Elem::I16),
        DType::F16 => v.narrowed().bits_as(Elem::I16),
        _ => v,
    }
}

/// Conversion as `Tensor.to(dtype)` does it.
pub fn convert(v: V<'_>, from: DType, to: DType) -> V<'_> {
    if from == to {
        return v;
    }
    let elem = compute_elem(to);
    match (from, to) {
        (DType::Bool, _) if elem.is_float() => v.uitofp(elem),
        (DType::Bool, _) => v.zext(elem),
        (_, DType::Bool) => v.ne(if v.elem.is_float() { v.float(0.0) } else { v.int(0) }),
        _ if from.is_float() && to.is_float() => float_to_float(v, to),
        _ if from.is_float() => float_to_int(v, to),
        _ if to.is_float() => int_to_float(v, from, to),
        (DType::U8, _) if elem.bits() > 8 => v.zext(elem),
        _ => v.resize_signed(elem),
    }
}

fn float_to_float(v: V<'_>, to: DType) -> V<'_> {
    let v = match (v.elem, compute_elem(to)) {
        (Elem::F64, Elem::F32) => v.fptrunc(Elem::F32),
        (Elem::F32, Elem::F64) => v.fpext(Elem::F64),
        _ => v,
    };
    bits::round_to(v, to)
}

/// Truncation. Small integers are the low bits of a wider one, as C compilers do it, so that -1.0 becomes 255 in u8.
fn float_to_int(v: V<'_>, to: DType) -> V<'_> {
    let v = v.fenced();
    match to {
        DType::I64 => v.fptosi(Elem::I64),
        DType::I32 => v.fptosi(Elem::I32),
        DType::U8 if v.elem == Elem::F64 => v.fptosi(Elem::I64).trunc_to(Elem::I8),
        _ => v.fptosi(Elem::I32).trunc_to(compute_elem(to)),
    }
}

fn int_to_float(v: V<'_>, from: DType, to: DType) -> V<'_> {
    let elem = compute_elem(to);
    let v = if from.is_signed() { v.sitofp(elem) } else { v.uitofp(elem) };
    bits::round_to(v, to)
}
