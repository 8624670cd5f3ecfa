//! lgamma of f32: at most 1 ulp, computed in f64. Of f64: the C library.

use super::log::{log, log_of_normal};
use super::{in_f64, polynomial};
use crate::ir::V;
use std::f64::consts::PI;

/// From here on its series is used. What is smaller is moved by as much.
const FAR: u32 = 8;
const HALF_LOG_2PI: f64 = 0.9189385332046728;
/// The terms of Stirling's series: the Bernoulli numbers, B(2k) / (2k (2k-1)).
const STIRLING: [f64; 7] = [
    0.08333333333333333,
    -0.002777777777777778,
    0.0007936507936507937,
    -0.0005952380952380953,
    0.0008417508417508417,
    -0.0019175269175269176,
    0.00641025641025641,
];

/// sin(pi r)/r in powers of r^2, for |r| <= 1/2, to 2^-51.
const SIN_PI: [f64; 8] = [
    3.1415926535897927,
    -5.1677127800497855,
    2.5501640398618677,
    -0.599264528825224,
    0.08214587881631043,
    -0.0073703643265304155,
    0.0004659870158043378,
    -2.113362735205297e-05,
];

/// For `w` from FAR on.
fn stirling(w: V<'_>) -> V<'_> {
    let inverse = 1.0 / w;
    let series = inverse * polynomial(inverse * inverse, &STIRLING);
    (w - 0.5).fma(log_of_normal(w), HALF_LOG_2PI - w) + series
}

fn abs_sin_pi(a: V<'_>) -> V<'_> {
    let r = (a - a.round()).abs();
    r * polynomial(r * r, &SIN_PI)
}

pub fn lgamma(x: V<'_>) -> V<'_> {
    in_f64(x, |x| {
        let a = x.abs();
        let near = a.lt(a.float(FAR as f64));
        // gamma(a + FAR) / gamma(a).
        let product = (1..FAR).fold(a, |product, k| product * (a + k as f64));
        let moved = near.select_f(product, 1.0);
        let far = stirling(near.select(a + FAR as f64, a));
        // gamma(a) gamma(-a) = -pi / (a sin(pi a)), so there is one more logarithm for both signs.
        let left = x.lt(x.float(0.0));
        let other = log(left.select(PI * moved / (a * abs_sin_pi(a)), moved));
        let result = left.select(other - far, far - other);
        let is_zero = x.eq(x.float(1.0)) | x.eq(x.float(2.0));
        let result = is_zero.select(x.float(0.0), result);
        a.eq(a.float(f64::INFINITY)).select(a, result)
    })
}
