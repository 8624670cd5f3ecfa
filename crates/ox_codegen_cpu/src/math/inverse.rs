//! asin, acos, atan, atan2: at most 1 ulp in f32, computed in f64, and 4 in f64.

use super::{in_f64, polynomial};
use crate::ir::{Elem, V};
use std::f64::consts::{FRAC_PI_2, PI};

/// What pi/2 has beyond f64.
const FRAC_PI_2_LOW: f64 = 6.123233995736766e-17;

/// (atan(t)/t - 1) / t^2 in powers of t^2, for 0 <= t <= 1, to 2^-36 and 2^-57.
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
const ATAN64: [f64; 21] = [
    -0.3333333333333333,
    0.19999999999999554,
    -0.14285714285648404,
    0.11111111107234799,
    -0.09090908969557403,
    0.07692305354678655,
    -0.06666636435777692,
    0.05882074956371294,
    -0.05261265735709454,
    0.04752086773576656,
    -0.04308119655330471,
    0.03872640214042632,
    -0.033750132001619734,
    0.027567942297344678,
    -0.020238706986393514,
    0.012756172907694298,
    -0.006575683344151699,
    0.002622977891906089,
    -0.0007518472526973822,
    0.0001368724853148122,
    -1.1832505417555692e-05,
];

/// (asin(t)/t - 1) / t^2 in powers of t^2, for 0 <= t <= 1/2, to 2^-31 and 2^-55.
const ASIN: [f64; 7] = [
    0.16666666686085643,
    0.07499992404401838,
    0.04464766388813485,
    0.030269138728589183,
    0.023611817008891752,
    0.010574415516912909,
    0.030974540371355073,
];
const ASIN64: [f64; 13] = [
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
];

/// The angle of the point (x, y), for f64 vectors.
fn angle<'a>(y: V<'a>, x: V<'a>, series: &[f64]) -> V<'a> {
    let (a, b) = (y.abs(), x.abs());
    let steep = a.gt(b);
    let (least, most) = (steep.select(b, a), steep.select(a, b));
    let t = least / most;
    // 0/0 is the angle 0; inf/inf is that of the diagonal.
    let t = least.eq(most).select(most.eq(most.float(0.0)).select(t.float(0.0), t.float(1.0)), t);
    let z = t * t;
    let small = (t * z).fma(polynomial(z, series), t);
    let first = steep.select((FRAC_PI_2 - small) + FRAC_PI_2_LOW, small);
    let left = x.to_bits().lt(x.ir().int(Elem::I64, 0));
    let upper = left.select((PI - first) + 2.0 * FRAC_PI_2_LOW, first);
    (y.is_nan() | x.is_nan()).select(y + x, upper).copysign(y)
}

pub fn atan2<'a>(y: V<'a>, x: V<'a>) -> V<'a> {
    let (y, x) = y.unify(x);
    if y.elem == Elem::F64 {
        return angle(y, x, &ATAN64);
    }
    angle(y.fpext(Elem::F64), x.fpext(Elem::F64), &ATAN).fptrunc(Elem::F32)
}

pub fn atan(x: V<'_>) -> V<'_> {
    let series: &[f64] = if x.elem == Elem::F64 { &ATAN64 } else { &ATAN };
    in_f64(x, |x| angle(x, x.float(1.0).splat(x.lanes), series))
}

/// Whether |x| is above 1/2; then half of acos(|x|), else asin(|x|). In f64, of which `like` may be narrower.
fn in_part<'a>(x: V<'a>, like: Elem) -> (V<'a>, V<'a>) {
    let series: &[f64] = if like == Elem::F64 { &ASIN64 } else { &ASIN };
    let a = x.abs();
    let above = a.gt(a.float(0.5));
    let z = above.select((1.0 - a) * 0.5, a * a);
    let t = above.select(z.sqrt(), a);
    (above, (t * z).fma(polynomial(z, series), t))
}

pub fn asin(x: V<'_>) -> V<'_> {
    let like = x.elem;
    in_f64(x, |x| {
        let (above, part) = in_part(x, like);
        above.select((FRAC_PI_2 - 2.0 * part) + FRAC_PI_2_LOW, part).copysign(x)
    })
}

pub fn acos(x: V<'_>) -> V<'_> {
    let like = x.elem;
    in_f64(x, |x| {
        let (above, part) = in_part(x, like);
        let twice = 2.0 * part;
        let left = x.lt(x.float(0.0));
        let outer = left.select((PI - twice) + 2.0 * FRAC_PI_2_LOW, twice);
        above.select(outer, FRAC_PI_2 - (part.copysign(x) - FRAC_PI_2_LOW))
    })
}
