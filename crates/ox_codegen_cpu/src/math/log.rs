//! log, log2, log10, log1p: at most 1 ulp for log (f32 and f64), 2 for the others.
//!
//! `x = 2^e * m` with `sqrt(1/2) <= m < sqrt(2)` and `f = m - 1`; then `log(x) = e*ln2 + log(1 + f)`.

use super::{polynomial, power_of_two};
use crate::ir::{Elem, V};
use std::f64::consts::{LOG2_E, LOG10_E};

/// (log(1+f) - f + f^2/2) / f^3, to 2^-30.
const P32: [f64; 9] =
    [0.333333105, -0.249999866, 0.200022414, -0.166692719, 0.142183363, -0.123837806, 0.118749939, -0.117941715, 0.0691585764];
/// (2 atanh(s)/s - 2) / s^2 in powers of s^2, for s = f/(2+f), to 2^-65.
const R64: [f64; 8] = [
    0.6666666666666666,
    0.40000000000006286,
    0.28571428569072976,
    0.2222222264874908,
    0.181817755085937,
    0.15387097649289713,
    0.13249962038109173,
    0.1325275487941311,
];

/// The bits of sqrt(1/2).
const ORIGIN_32: u32 = 0x3f35_04f3;
const ORIGIN_64: u64 = 0x3fe6_a09e_667f_3bcd;

const LN2_32: (f64, f64) = (0.693145751953125, 1.42860682e-6);
const LN2_64: (f64, f64) = (0.6931471803691238, 1.9082149292705877e-10);

/// (e as a float, m) for a positive normal `x`.
fn split(x: V<'_>) -> (V<'_>, V<'_>) {
    // Subtracting the bits of sqrt(1/2) makes the exponent field count from there.
    let (origin, shift) = if x.elem == Elem::F32 { (ORIGIN_32 as i64, 23) } else { (ORIGIN_64 as i64, 52) };
    let bits = x.to_bits();
    let e = (bits - origin).ashr(bits.int(shift));
    let m = (bits - e.shl(bits.int(shift))).bits_as(x.elem);
    (e.trunc_to(Elem::I32).sitofp(x.elem), m)
}

/// As `split`, also for denormals.
fn split_any(x: V<'_>) -> (V<'_>, V<'_>) {
    let (least, digits) = if x.elem == Elem::F32 { (f32::MIN_POSITIVE as f64, 24.0) } else { (f64::MIN_POSITIVE, 53.0) };
    let tiny = x.lt(x.float(least));
    let (e, m) = split(tiny.select(x * f64::exp2(digits), x));
    (e - tiny.select(x.float(digits), x.float(0.0)), m)
}

/// `e*ln2 + log(1 + f)`.
fn finish<'a>(e: V<'a>, f: V<'a>) -> V<'a> {
    let half_square = f * f * 0.5;
    if f.elem == Elem::F32 {
        let tail = f * f * f * polynomial(f, &P32);
        let low = e.fma(f.float(LN2_32.1), tail) - half_square;
        return e.fma(f.float(LN2_32.0), f + low);
    }
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * polynomial(z, &R64);
    let low = e.fma(f.float(LN2_64.1), s * (half_square + r));
    e * LN2_64.0 - ((half_square - low) - f)
}

/// The result where `x` is a positive number, and what log gives elsewhere.
fn with_edges<'a>(x: V<'a>, result: V<'a>) -> V<'a> {
    let infinite = x.eq(x.float(f64::INFINITY));
    let result = infinite.select_f(x, 0.0) + infinite.select(x.float(0.0), result);
    let result = x.eq(x.float(0.0)).select(x.float(f64::NEG_INFINITY), result);
    // Not "below zero": true for NaN too.
    let domain = x.ge(x.float(0.0));
    domain.select(result, x.float(f64::NAN))
}

/// As `split_any` by the host's instructions, which find what is infinite or NaN where the logarithm is.
fn split_at_once(x: V<'_>) -> Option<(V<'_>, V<'_>)> {
    let (e, m) = x.exponent_and_fraction()?;
    let limit = if x.elem == Elem::F32 { 2.0 * f32::from_bits(ORIGIN_32) as f64 } else { 2.0 * f64::from_bits(ORIGIN_64) };
    let above = m.ge(m.float(limit));
    Some((above.select(e + 1.0, e), above.select(m * 0.5, m)))
}

/// A logarithm by e and m.
fn by_parts<'a>(x: V<'a>, logarithm: impl FnOnce(V<'a>, V<'a>) -> V<'a>) -> V<'a> {
    if let Some((e, m)) = split_at_once(x) {
        return logarithm(e, m);
    }
    let (e, m) = split_any(x);
    with_edges(x, logarithm(e, m))
}

pub fn log(x: V<'_>) -> V<'_> {
    by_parts(x, |e, m| finish(e, m - 1.0))
}

/// For what is positive, and neither denormal nor infinite.
pub fn log_of_normal(x: V<'_>) -> V<'_> {
    let (e, m) = split_at_once(x).unwrap_or_else(|| split(x));
    finish(e, m - 1.0)
}

pub fn log2(x: V<'_>) -> V<'_> {
    // log2(e) in two parts.
    let narrow = x.elem == Elem::F32;
    let (high, low) = if narrow { (1.4426950216293335, 1.92596299e-8) } else { (LOG2_E, 2.0355273740931033e-17) };
    by_parts(x, |e, m| {
        let log = finish(x.float(0.0), m - 1.0);
        e + log.fma(x.float(high), log * low)
    })
}

pub fn log10(x: V<'_>) -> V<'_> {
    // log10(2) in two parts, of which the first times e is exact.
    let narrow = x.elem == Elem::F32;
    let (high, low) = if narrow { (0.30102539062, 4.605038981e-6) } else { (0.30102999566383914, 1.42050232272661e-13) };
    by_parts(x, |e, m| {
        let log = finish(x.float(0.0), m - 1.0);
        e.fma(x.float(high), log.fma(x.float(LOG10_E), e * low))
    })
}

/// `1 + x` loses the low digits of x; what it lost is added to f.
pub fn log1p(x: V<'_>) -> V<'_> {
    let u = 1.0 + x;
    let lost = x.gt(x.float(1.0)).select(1.0 - (u - x), x - (u - 1.0));
    let (e, m) = split(u);
    // Capped, so that the factor is a normal number; what is lost does not count there.
    let exponent = e.gt(e.float(64.0)).select(e.float(64.0), e).fptosi(Elem::I32);
    let f = (m - 1.0) + lost * power_of_two(-exponent, x.elem);
    let result = with_edges(u, finish(e, f));
    // Keeps the sign of zero.
    x.eq(x.float(0.0)).select(x, result)
}
