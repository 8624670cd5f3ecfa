//! Rounding f32 values to the half types.

use crate::ir::{Elem, V};
use ox_ir::DType;

/// The value rounded to what `dtype` can hold, to the nearest, ties to even.
pub fn round_to(v: V<'_>, dtype: DType) -> V<'_> {
    match dtype {
        DType::BF16 => widened_bf16(to_bf16(v)),
        DType::F16 => v.narrowed().widened(),
        _ => v,
    }
}

/// The bits of bf16 in f32.
pub fn widened_bf16(v: V<'_>) -> V<'_> {
    v.zext(Elem::I32).shl(v.ir().int(Elem::I32, 16)).bits_as(Elem::F32)
}

/// The bits of the nearest bf16. The instruction flushes denormals, and eager keeps them; and all NaN are to be the same, in vectors or not. Where
/// there are any of these, they are rounded as elsewhere.
fn to_bf16(v: V<'_>) -> V<'_> {
    let Some(fast) = v.to_bf16() else { return by_integers(v) };
    let rare = v.is_denormal_or_nan();
    v.ir().when_rarely(rare.any(), vec![fast.to_bits()], |fast| vec![rare.select(by_integers(v), fast[0])])[0]
}

fn by_integers(v: V<'_>) -> V<'_> {
    let bits = v.to_bits();
    let lowest_kept = bits.lshr(bits.int(16)) & 1;
    let rounded = (bits + 0x7fff + lowest_kept).lshr(bits.int(16));
    // A NaN could carry over into infinity.
    v.is_nan().select(bits.int(0x7fc0), rounded).trunc_to(Elem::I16)
}
