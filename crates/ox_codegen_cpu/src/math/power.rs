//! pow and fmod.

use super::exp::exp;
use super::{libm, log};
use crate::ir::{Elem, V};

/// f32: `exp(y * log|x|)` in f64, at most 1 ulp. f64: the C library.
pub fn pow<'a>(x: V<'a>, y: V<'a>) -> V<'a> {
    if x.elem == Elem::F64 {
        return libm::call("pow", &[x, y]);
    }
    let (x, y) = x.unify(y);
    let size = exp(y.fpext(Elem::F64) * log::log(x.abs().fpext(Elem::F64))).fptrunc(Elem::F32);
    let whole = y.trunc().eq(y);
    let odd = whole & ((y * 0.5).trunc() * 2.0).ne(y);
    let negative = x.to_bits().lt(x.ir().int(Elem::I32, 0));
    let result = (odd & negative).select(-size, size);
    let undefined = x.lt(x.float(0.0)) & x.gt(x.float(f64::NEG_INFINITY)) & !whole;
    let result = undefined.select(x.float(f64::NAN), result);
    let endless = y.abs().eq(y.float(f64::INFINITY));
    let one = y.eq(y.float(0.0)) | x.eq(x.float(1.0)) | (endless & x.eq(x.float(-1.0)));
    one.select(x.float(1.0), result)
}

/// Exact, as C's. For f32 the quotient in f64 truncates right while it is below 2^28: the operands have 24 bits, so it is further than
/// its rounding error from the next integer; and then `a - q*b` is exact too.
pub fn fmod<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let (a, b) = a.unify(b);
    if a.elem == Elem::F64 {
        return fmod64(a, b);
    }
    let (x, y) = (a.fpext(Elem::F64), b.fpext(Elem::F64));
    let q = (x / y).trunc();
    let r = (-q).fma(y, x).fptrunc(Elem::F32).copysign(a);
    let easy = q.abs().lt(q.float((1u64 << 28) as f64)) & b.abs().lt(b.float(f64::INFINITY));
    libm::fix_rare_lanes(r, !easy, "fmod", &[a, b])
}

/// Below 2^53 the quotient is the right whole number or one more, to which it was rounded; in both cases what is left is a number of f64.
fn fmod64<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let (x, y) = (a.abs(), b.abs());
    let q = (x / y).trunc();
    let r = (-q).fma(y, x);
    let r = r.lt(r.float(0.0)).select(r + y, r).copysign(a);
    let easy = q.lt(q.float((1u64 << 53) as f64)) & y.lt(y.float(f64::INFINITY));
    libm::fix_rare_lanes(r, !easy, "fmod", &[a, b])
}
