//! Rounding f32 values to the half types.

use crate::ir::{Elem, V};
use ox_ir::DType;

/// The value rounded to what `dtype` can hold, to the nearest, ties to even.
pub fn round_to(v: V<'_>, dtype: DType) -> V<'_> {
    match dtype {
        DType::BF16 => round_bf16(v),
        DType::F16 => v.narrowed().widened(),
        _ => v,
    }
}

/// By integer operations: the AVX-512 instruction flushes denormals, and eager keeps them.
fn round_bf16(v: V<'_>) -> V<'_> {
    let bits = v.to_bits();
    let lowest_kept = bits.lshr(bits.int(16)) & 1;
    let rounded = (bits + 0x7fff + lowest_kept) & !0xffff;
    // A NaN could carry over into infinity.
    let nan = bits.int(0x7fc0_0000).splat(v.lanes);
    v.is_nan().select(nan, rounded).bits_as(Elem::F32)
}
