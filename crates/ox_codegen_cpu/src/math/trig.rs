//! sin, cos: at most 1.5 ulp (f32 and f64). tan: at most 1 ulp in f32, 4 in f64.
//!
//! The argument is reduced to `r = x - n*pi/2` in f64, with pi/2 in two parts: for |x| < 2^30 that leaves an error of n * 2^-107.
//! Larger arguments, infinities and NaN go to the C library.

use super::{libm, polynomial};
use crate::ir::{Elem, V};

const HALF_PI: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
const LARGE: f64 = (1u64 << 30) as f64;

/// (sin(r) - r) / r^3 in powers of r^2, for |r| <= pi/4, to 2^-37 and 2^-58.
const SIN32: [f64; 4] = [-0.166666672, 0.00833332911, -0.000198393274, 2.71823728e-06];
const SIN64: [f64; 6] = [
    -0.16666666666666632,
    0.008333333333322316,
    -0.000198412698297252,
    2.7557313662056454e-6,
    -2.5050753264459136e-8,
    1.5896504946811505e-10,
];
/// (cos(r) - 1 + r^2/2) / r^4 in powers of r^2, for |r| <= pi/4, to 2^-33 and 2^-64.
const COS32: [f64; 3] = [0.0416666456, -0.00138873619, 2.44377297e-05];
const COS64: [f64; 6] = [
    0.0416666666666666,
    -0.001388888888887399,
    2.4801587289394896e-5,
    -2.755731432602231e-7,
    2.0875719557601217e-9,
    -1.1359448624190597e-11,
];

/// (n as an integer, r as an f64).
fn reduce(x: V<'_>) -> (V<'_>, V<'_>) {
    let wide = x.fpext(Elem::F64);
    let n = (wide * std::f64::consts::FRAC_2_PI).round();
    let r = n.fma(wide.float(-HALF_PI.0), wide);
    (n.fptosi(Elem::I32), n.fma(wide.float(-HALF_PI.1), r))
}

fn sin_reduced(r: V<'_>) -> V<'_> {
    let z = r * r;
    let c: &[f64] = if r.elem == Elem::F32 { &SIN32 } else { &SIN64 };
    (r * z).fma(polynomial(z, c), r)
}

fn cos_reduced(r: V<'_>) -> V<'_> {
    let z = r * r;
    let c: &[f64] = if r.elem == Elem::F32 { &COS32 } else { &COS64 };
    // 1 - z/2 is rounded first, and what that lost is added to the rest.
    let half = z * 0.5;
    let main = 1.0 - half;
    let lost = (1.0 - main) - half;
    main + (z * z).fma(polynomial(z, c), lost)
}

/// sin(r + n*pi/2).
fn sin_of_quarter<'a>(n: V<'a>, r: V<'a>) -> V<'a> {
    let odd = (n & 1).ne(n.int(0));
    let value = odd.select(cos_reduced(r), sin_reduced(r));
    (n & 2).ne(n.int(0)).select(-value, value)
}

fn is_large(x: V<'_>) -> V<'_> {
    !x.abs().lt(x.float(LARGE))
}

fn narrowed<'a>(r: V<'a>, like: V<'a>) -> V<'a> {
    r.fptrunc(like.elem)
}

pub fn sin(x: V<'_>) -> V<'_> {
    let (n, r) = reduce(x);
    let fast = sin_of_quarter(n, narrowed(r, x));
    // Reduction loses the sign of zero.
    let fast = x.eq(x.float(0.0)).select(x, fast);
    libm::fix_rare_lanes(fast, is_large(x), "sin", &[x])
}

pub fn cos(x: V<'_>) -> V<'_> {
    let (n, r) = reduce(x);
    let fast = sin_of_quarter(n + 1, narrowed(r, x));
    libm::fix_rare_lanes(fast, is_large(x), "cos", &[x])
}

pub fn tan(x: V<'_>) -> V<'_> {
    let (n, r) = reduce(x);
    let (sin, cos) = (sin_reduced(r), cos_reduced(r));
    let odd = (n & 1).ne(n.int(0));
    let fast = narrowed(odd.select(-cos, sin) / odd.select(sin, cos), x);
    let fast = x.eq(x.float(0.0)).select(x, fast);
    libm::fix_rare_lanes(fast, is_large(x), "tan", &[x])
}
