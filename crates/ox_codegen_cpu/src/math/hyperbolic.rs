//! tanh: at most 2 ulp. sigmoid: 2.5 in f32, 2 in f64. sinh, cosh, asinh, acosh, atanh: at most 1 ulp in f32, computed in f64, and 4 in f64.

use super::exp::{exp, exp_of_negative, expm1, half_exp, one_plus_exp_of_negated};
use super::log::log1p;
use super::{in_f64, polynomial, reciprocal};
use crate::ir::{Elem, V};
use std::f64::consts::LN_2;

/// (tanh(x) - x) / x^3 in powers of x^2, for |x| <= 0.625, to 2^-32.
const TANH: [f64; 6] = [-0.333333313, 0.133332089, -0.0539471805, 0.0217028335, -0.00818232726, 0.00214720704];
/// (sinh(x) - x) / x^3 in powers of x^2, for |x| <= 1, to 2^-43.
const SINH: [f64; 5] =
    [0.16666666667069097, 0.008333333276341715, 0.0001984129604538693, 2.755206406847636e-6, 2.5529819698008276e-8];

/// The first terms of its series, to 2^-56.
const SINH64: [f64; 8] = [
    0.16666666666666666,
    0.008333333333333333,
    0.0001984126984126984,
    2.7557319223985893e-06,
    2.505210838544172e-08,
    1.6059043836821613e-10,
    7.647163731819816e-13,
    2.8114572543455206e-15,
];

/// atanh(s)/s in powers of s^2, for |s| <= 0.362, to 2^-36.
const ATANH: [f64; 7] = [
    1.0000000000083349,
    0.3333333271149623,
    0.2000007537206924,
    0.1428230904629257,
    0.11183702006886358,
    0.08310044325805002,
    0.11685407299539807,
];

pub fn sigmoid(x: V<'_>) -> V<'_> {
    if x.elem == Elem::F32 {
        // As eager's: zero where exp(-x) is not a finite number.
        let gone = x.lt(x.float(-88.7228));
        return gone.select(x.float(0.0), reciprocal(one_plus_exp_of_negated(x)));
    }
    // By the exponential of what is below zero: nothing overflows, and small results keep their precision.
    let small = exp_of_negative(-x.abs());
    let upper = reciprocal(1.0 + small);
    x.lt(x.float(0.0)).select(small * upper, upper)
}

pub fn tanh(x: V<'_>) -> V<'_> {
    let a = x.abs();
    if x.elem == Elem::F64 {
        // Beyond 22 the result is 1.
        let t = expm1(2.0 * a.gt(a.float(22.0)).select(a.float(22.0), a));
        return (t / (t + 2.0)).copysign(x);
    }
    let z = x * x;
    let small = (x * z).fma(polynomial(z, &TANH), x);
    // Beyond 10 the result is 1.
    let large = 1.0 - 2.0 * reciprocal(exp(2.0 * a.gt(a.float(10.0)).select(a.float(10.0), a)) + 1.0);
    a.lt(a.float(0.625)).select(small, large).copysign(x)
}

pub fn sinh(x: V<'_>) -> V<'_> {
    let series: &[f64] = if x.elem == Elem::F64 { &SINH64 } else { &SINH };
    in_f64(x, |x| {
        let z = x * x;
        let small = (x * z).fma(polynomial(z, series), x);
        let half = half_exp(x.abs());
        let large = (half - 0.25 / half).copysign(x);
        x.abs().lt(x.float(1.0)).select(small, large)
    })
}

pub fn cosh(x: V<'_>) -> V<'_> {
    in_f64(x, |x| {
        let half = half_exp(x.abs());
        half + 0.25 / half
    })
}

/// `log(1 + t)`, where `t` may have overflown on its way: from 1e150 on it is told by half of it.
fn log1p_of<'a>(t: V<'a>, half: V<'a>) -> V<'a> {
    let large = half.gt(half.float(1e150));
    let log = log1p(large.select(half, t));
    large.select(log + LN_2, log)
}

pub fn asinh(x: V<'_>) -> V<'_> {
    in_f64(x, |x| {
        let a = x.abs();
        let square = a * a;
        let t = a + square / (1.0 + (square + 1.0).sqrt());
        log1p_of(t, a).copysign(x)
    })
}

pub fn acosh(x: V<'_>) -> V<'_> {
    in_f64(x, |x| {
        let t = x - 1.0;
        t.lt(t.float(0.0)).select(t.float(f64::NAN), log1p_of(t + (t * (x + 1.0)).sqrt(), x))
    })
}

pub fn atanh(x: V<'_>) -> V<'_> {
    let a = x.abs();
    if x.elem == Elem::F64 {
        return (0.5 * log1p(2.0 * a / (1.0 - a))).copysign(x);
    }
    atanh_of_narrow(a.fpext(Elem::F64)).fptrunc(Elem::F32).copysign(x)
}

/// For `a` of at least zero, which was f32: by one division for both that of `(1 + a) / (1 - a)` and that of its logarithm. `1 - a` is `d / 2^k` with
/// `15/16 <= d < 15/8`, so that small ones have no k, and the logarithm of `(1 + a) / d` is `2 atanh(s)` of their difference over their sum.
fn atanh_of_narrow(a: V<'_>) -> V<'_> {
    let (above, below) = (1.0 + a, 1.0 - a);
    let bits = below.to_bits();
    let e = (bits - 0x3fee_0000_0000_0000).ashr(bits.int(52));
    let d = (bits - e.shl(bits.int(52))).bits_as(Elem::F64);
    // Where d is 1 - a, a smaller one than what both were rounded to counts.
    let apart = e.eq(e.int(0)).select(2.0 * a, above - d);
    let s = apart / (above + d);
    let half_log = s.fma(polynomial(s * s, &ATANH), e.trunc_to(Elem::I32).sitofp(Elem::F64) * (-0.5 * LN_2));
    let inside = a.eq(a.float(1.0)).select(a.float(f64::INFINITY), half_log);
    a.gt(a.float(1.0)).select(a.float(f64::NAN), inside)
}
