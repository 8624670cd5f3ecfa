//! exp, exp2, expm1: at most 1 ulp for exp and exp2, 2 for expm1 (f32 and f64).
//!
//! `x = n*ln2 + r` with `|r| <= ln2/2`; then `exp(x) = 2^n * (1 + r + r^2 Q(r))`.

use super::{polynomial, power_of_two};
use crate::ir::{Elem, V};

/// (exp(r) - 1 - r) / r^2 on |r| <= ln2/2, to 2^-28 of exp(r).
const Q32: [f64; 5] = [0.49999994, 0.166665196, 0.0416683927, 0.00836878084, 0.00138144672];
/// The same to 2^-26 of expm1(r).
const QM32: [f64; 5] = [0.49999997, 0.166665435, 0.0416672006, 0.00836658012, 0.00138825097];
/// The same to 2^-61 of expm1(r).
const Q64: [f64; 11] = [
    0.5,
    0.16666666666666677,
    0.041666666666666505,
    0.008333333333321653,
    0.0013888888888962598,
    0.00019841269886073677,
    2.4801587172243182e-5,
    2.7557244253975716e-6,
    2.7557402764520127e-7,
    2.5109024536362376e-8,
    2.08753323658882e-9,
];
/// (2^r - 1) / r on |r| <= 1/2, to 2^-28.
const EXP2_32: [f64; 6] = [0.693147182, 0.240226477, 0.0555033199, 0.00961843878, 0.00133990031, 0.000153532586];

/// ln2 in two parts; n times the upper one is exact.
const LN2_32: (f64, f64) = (0.693145751953125, 1.42860682e-6);
const LN2_64: (f64, f64) = (0.6931471803691238, 1.9082149292705877e-10);

/// The least and the greatest argument that matter: beyond, the result is 0 or infinity (with a margin).
fn range(elem: Elem) -> (f64, f64) {
    if elem == Elem::F32 { (-104.0, 89.0) } else { (-746.0, 710.0) }
}

/// Keeps NaN.
fn clamp<'a>(x: V<'a>, low: f64, high: f64) -> V<'a> {
    let x = x.gt(x.float(high)).select(x.float(high), x);
    x.lt(x.float(low)).select(x.float(low), x)
}

/// (n, r) with `x = n*ln2 + r`.
fn reduce(x: V<'_>) -> (V<'_>, V<'_>) {
    let (high, low) = if x.elem == Elem::F32 { LN2_32 } else { LN2_64 };
    // Adding a number whose last place is one rounds; half of its places stay free for n.
    let rounder = x.float(if x.elem == Elem::F32 { 12582912.0 } else { 6755399441055744.0 });
    let n = x.fma(x.float(std::f64::consts::LOG2_E), rounder) - rounder;
    let r = n.fma(x.float(-high), x);
    (n, n.fma(x.float(-low), r))
}

/// `p * 2^n` for a whole `n`, also where that is denormal or infinite.
fn scale<'a>(p: V<'a>, n: V<'a>) -> V<'a> {
    if let Some(scaled) = p.scale_by_power(n) {
        return scaled;
    }
    // In two steps, since 2^n alone may not be a normal number.
    let n = n.fptosi(Elem::I32);
    let half = n.ashr(n.int(1));
    p * power_of_two(half, p.elem) * power_of_two(n - half, p.elem)
}

/// `r + r^2 Q(r)`.
fn expm1_reduced<'a>(r: V<'a>, q: &[f64]) -> V<'a> {
    (r * r).fma(polynomial(r, q), r)
}

pub fn exp(x: V<'_>) -> V<'_> {
    let (low, high) = range(x.elem);
    exp_in_range(clamp(x, low, high))
}

/// `exp(x) / 2` in f64, finite a little longer than `exp(x)`, for `x` from zero on.
pub fn half_exp(x: V<'_>) -> V<'_> {
    let (n, r) = reduce(x.gt(x.float(712.0)).select(x.float(712.0), x));
    scale(expm1_reduced(r, &Q64) + 1.0, n - 1.0)
}

/// For `x` of at most zero.
pub fn exp_of_negative(x: V<'_>) -> V<'_> {
    let low = x.float(range(x.elem).0);
    exp_in_range(x.lt(low).select(low, x))
}

fn exp_in_range(x: V<'_>) -> V<'_> {
    let (n, r) = reduce(x);
    let q: &[f64] = if x.elem == Elem::F32 { &Q32 } else { &Q64 };
    let one = r.float(1.0);
    scale(r.fma(r.fma(polynomial(r, q), one), one), n)
}

/// n, the whole number nearest to `-x/ln2`, and `2^(n + bias - 127)`, in f32. Adding the rounder leaves n in its last places, as the exponent of that
/// power, which is then one shift away.
fn power_of_negated(x: V<'_>, bias: f64) -> (V<'_>, V<'_>) {
    let rounder = x.float(12582912.0 + bias);
    let rounded = x.fma(x.float(-std::f64::consts::LOG2_E), rounder);
    let bits = rounded.to_bits();
    (rounded - rounder, bits.shl(bits.int(23)).bits_as(Elem::F32))
}

/// `1 + exp(-x)` in f32, for what is not so far below zero that this overflows.
///
/// The power is `2^(n-1)`, and the other factor of two stands in the coefficients, so that the largest n is a power, too. The sum is rounded once.
pub fn one_plus_exp_of_negated(x: V<'_>) -> V<'_> {
    let (high, low) = LN2_32;
    // Beyond 60 the result is 1.
    let x = x.gt(x.float(60.0)).select(x.float(60.0), x);
    let (n, half_power) = power_of_negated(x, 126.0);
    // x + n*ln2, which is -r.
    let r = n.fma(x.float(low), n.fma(x.float(high), x));
    let q: Vec<f64> =
        [1.0, 1.0].iter().chain(&Q32).enumerate().map(|(k, c)| if k % 2 == 0 { 2.0 * c } else { -2.0 * c }).collect();
    polynomial(r, &q).fma(half_power, x.float(1.0))
}

/// `1 - exp(-x)` in f32, for x from 0 to 80. The difference is rounded once.
pub fn one_minus_exp_of_negated(x: V<'_>) -> V<'_> {
    let (high, low) = LN2_32;
    let (n, power) = power_of_negated(x, 127.0);
    let r = n.fma(x.float(-low), n.fma(x.float(-high), -x));
    (-power).fma(expm1_reduced(r, &QM32), 1.0 - power)
}

pub fn exp2(x: V<'_>) -> V<'_> {
    let narrow = x.elem == Elem::F32;
    let x = if narrow { clamp(x, -151.0, 129.0) } else { clamp(x, -1076.0, 1025.0) };
    let n = x.round();
    let r = x - n;
    let p =
        if narrow { r.fma(polynomial(r, &EXP2_32), r.float(1.0)) } else { 1.0 + expm1_reduced(r * std::f64::consts::LN_2, &Q64) };
    scale(p, n)
}

/// `2^n (1 + p) - 1` as `2 * (h*p + (h - 1/2))` with `h = 2^(n-1)`: h is finite where the result is, and the sum in brackets is exact.
pub fn expm1(x: V<'_>) -> V<'_> {
    let narrow = x.elem == Elem::F32;
    // Far below, the result is -1.
    let clamped = if narrow { clamp(x, -30.0, 89.0) } else { clamp(x, -60.0, 710.0) };
    let (n, r) = reduce(clamped);
    let p = expm1_reduced(r, if narrow { &QM32 } else { &Q64 });
    let half = power_of_two(n.fptosi(Elem::I32) - 1, x.elem);
    let result = n.eq(n.float(0.0)).select(p, 2.0 * half.fma(p, half - 0.5));
    // Reduction loses the sign of zero.
    x.eq(x.float(0.0)).select(x, result)
}
