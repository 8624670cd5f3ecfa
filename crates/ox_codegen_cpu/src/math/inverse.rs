//! asin, acos, atan, atan2 of f32, computed in f64: at most 1 ulp. Of f64: the C library.

use super::{libm, polynomial};
use crate::ir::{Elem, V};
use std::f64::consts::{FRAC_PI_2, PI};

/// (atan(t)/t - 1) / t^2 in powers of t^2, for 0 <= t <= 1, to 2^-36.
const ATAN: [f64; 12] = [
    -0.33333333111101077,
    0.19999984221641237,
    -0.14285320883578617,
    0.1110614341807431,
    -0.09053629545187353,
    0.07510511171262174,
    -0.06056956037229372,
    0.0441790988754843,
    -0.02654777392104497,
    0.011778638915315378,
    -0.0033264856917028323,
    0.0004406928884123397,
];

/// The angle of the point (x, y), for f64 vectors, to f32 accuracy.
fn angle<'a>(y: V<'a>, x: V<'a>) -> V<'a> {
    let (a, b) = (y.abs(), x.abs());
    let steep = a.gt(b);
    let (least, most) = (steep.select(b, a), steep.select(a, b));
    let t = least / most;
    // 0/0 is the angle 0; inf/inf is that of the diagonal.
    let t = least.eq(most).select(most.eq(most.float(0.0)).select(t.float(0.0), t.float(1.0)), t);
    let z = t * t;
    let small = (t * z).fma(polynomial(z, &ATAN), t);
    let first = steep.select(FRAC_PI_2 - small, small);
    let left = x.to_bits().lt(x.ir().int(Elem::I64, 0));
    let upper = left.select(PI - first, first);
    (y.is_nan() | x.is_nan()).select(y + x, upper).copysign(y)
}

pub fn atan2<'a>(y: V<'a>, x: V<'a>) -> V<'a> {
    if y.elem == Elem::F64 {
        return libm::call("atan2", &[y, x]);
    }
    let (y, x) = y.unify(x);
    angle(y.fpext(Elem::F64), x.fpext(Elem::F64)).fptrunc(Elem::F32)
}

pub fn atan(x: V<'_>) -> V<'_> {
    let wide = x.fpext(Elem::F64);
    angle(wide, wide.float(1.0).splat(x.lanes)).fptrunc(Elem::F32)
}

/// The point on the unit circle with this sine.
pub fn asin(x: V<'_>) -> V<'_> {
    let wide = x.fpext(Elem::F64);
    angle(wide, ((1.0 - wide) * (1.0 + wide)).sqrt()).fptrunc(Elem::F32)
}

pub fn acos(x: V<'_>) -> V<'_> {
    let wide = x.fpext(Elem::F64);
    angle(((1.0 - wide) * (1.0 + wide)).sqrt(), wide).fptrunc(Elem::F32)
}
