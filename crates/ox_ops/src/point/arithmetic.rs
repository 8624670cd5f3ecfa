//! Arithmetic. Integers wrap.

use super::FloatMeaning::{One, Two, Typed};
use super::IntMeaning as Int;
use super::{Domain, PointRow, Terms, round, wrap};
use crate::formula::Expr;
use ox_ir::{DType, PointOp};

pub(super) const ROWS: &[PointRow] = &[
    PointRow::both(PointOp::Neg, One(|x| -x), Int::One(i64::wrapping_neg)).exact().slopes(&[Some(|t| -t.g())]),
    PointRow::both(PointOp::Abs, One(f64::abs), Int::One(i64::wrapping_abs))
        .exact()
        .slopes(&[Some(|t| t.g() * t.x().unary(PointOp::Sign))]),
    // NaN and both zeros give 0.
    PointRow::both(PointOp::Sign, One(|x| f64::from(x > 0.0) - f64::from(x < 0.0)), Int::One(i64::signum)).exact().zero_slope(),
    PointRow::both(PointOp::Add, Two(|a, b| a + b), Int::Two(i64::wrapping_add))
        .exact()
        .slopes(&[Some(|t| t.g()), Some(|t| t.g())]),
    PointRow::both(PointOp::Sub, Two(|a, b| a - b), Int::Two(i64::wrapping_sub))
        .exact()
        .slopes(&[Some(|t| t.g()), Some(|t| -t.g())]),
    PointRow::both(PointOp::Mul, Two(|a, b| a * b), Int::Two(i64::wrapping_mul))
        .exact()
        .slopes(&[Some(|t| t.g() * t.y()), Some(|t| t.g() * t.x())]),
    PointRow::float(PointOp::Div, Two(|a, b| a / b))
        .exact()
        .slopes(&[Some(|t| t.g() / t.y()), Some(|t| -t.g() * (t.r() / t.y()))]),
    PointRow::both(PointOp::DivFloor, Two(div_floor), Int::Division(int_div_floor)).zero_slope(),
    PointRow::both(
        PointOp::DivTrunc,
        Typed(|dtype, x| round(dtype.compute(), x[0] / x[1]).trunc()),
        Int::Division(i64::wrapping_div),
    )
    .zero_slope(),
    PointRow::both(PointOp::Remainder, Two(remainder), Int::Division(int_remainder))
        .slopes(&[Some(|t| t.g()), Some(|t| -t.g() * t.x().binary(PointOp::DivFloor, t.y()))]),
    PointRow::both(PointOp::Fmod, Two(|a, b| a % b), Int::Division(i64::wrapping_rem))
        .exact()
        .slopes(&[Some(|t| t.g()), Some(|t| -t.g() * t.x().binary(PointOp::DivTrunc, t.y()))]),
    PointRow::both(PointOp::Pow, Two(f64::powf), Int::Typed(int_pow))
        .on(&[Domain::Positive, Domain::Small])
        .slopes(&[Some(pow_base), Some(pow_exponent)]),
    PointRow::both(
        PointOp::Maximum,
        Two(|a, b| {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else if a < b {
                b
            } else {
                a
            }
        }),
        Int::Two(i64::max),
    )
    .exact()
    .slopes(&[Some(|t| t.x().lt(t.y()).pick(0.0, half_of_ties(t))), Some(|t| t.x().gt(t.y()).pick(0.0, half_of_ties(t)))]),
    PointRow::both(
        PointOp::Minimum,
        Two(|a, b| {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else if b < a {
                b
            } else {
                a
            }
        }),
        Int::Two(i64::min),
    )
    .exact()
    .slopes(&[Some(|t| t.x().gt(t.y()).pick(0.0, half_of_ties(t))), Some(|t| t.x().lt(t.y()).pick(0.0, half_of_ties(t)))]),
    PointRow::float(PointOp::Fmax, Two(|a, b| if b > a || a.is_nan() { b } else { a })).exact().slopes(&[
        Some(|t| t.x().ge(t.y()).or(t.y().unary(PointOp::IsNan)).pick(t.g(), 0.0)),
        Some(|t| t.x().ge(t.y()).or(t.y().unary(PointOp::IsNan)).pick(0.0, t.g())),
    ]),
    PointRow::float(PointOp::Fmin, Two(|a, b| if b < a || a.is_nan() { b } else { a })).exact().slopes(&[
        Some(|t| t.x().le(t.y()).or(t.y().unary(PointOp::IsNan)).pick(t.g(), 0.0)),
        Some(|t| t.x().le(t.y()).or(t.y().unary(PointOp::IsNan)).pick(0.0, t.g())),
    ]),
    PointRow::float(PointOp::Fma, Typed(fma)).exact().slopes(&[
        Some(|t| t.g() * t.y()),
        Some(|t| t.g() * t.x()),
        Some(|t| t.g()),
    ]),
];

/// No base has a gradient for the exponent 0, not even 0 itself.
fn pow_base(t: &Terms) -> Expr {
    let grown = t.g() * (t.y() * t.x().binary(PointOp::Pow, t.y() - 1.0));
    t.y().eq(0.0).pick(0.0, grown)
}

/// A power of 0 stays 0 (or 1) whatever the exponent is, unless it is negative.
fn pow_exponent(t: &Terms) -> Expr {
    let stays = t.x().eq(0.0).and(t.y().ge(0.0));
    stays.pick(0.0, t.g() * (t.r() * t.x().unary(PointOp::Log)))
}

/// Equal arguments share the gradient.
fn half_of_ties(t: &Terms) -> Expr {
    t.x().eq(t.y()).pick(t.g() / 2.0, t.g())
}

/// The remainder with the divisor's sign.
fn remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// The quotient rounded down, reached by way of the exact remainder, so that it fits with `remainder`.
fn div_floor(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let r = a % b;
    let mut q = (a - r) / b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) {
        q -= 1.0;
    }
    if q == 0.0 {
        return 0f64.copysign(a / b);
    }
    let down = q.floor();
    if q - down > 0.5 { down + 1.0 } else { down }
}

/// One rounding: f32 for all types but f64.
fn fma(dtype: DType, x: &[f64]) -> f64 {
    if dtype == DType::F64 { x[0].mul_add(x[1], x[2]) } else { (x[0] as f32).mul_add(x[1] as f32, x[2] as f32) as f64 }
}

fn int_remainder(a: i64, b: i64) -> i64 {
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

fn int_div_floor(a: i64, b: i64) -> i64 {
    let inexact = a.wrapping_rem(b) != 0;
    a.wrapping_div(b) - i64::from(inexact && (a < 0) != (b < 0))
}

/// Exponents below zero give 0, except for the bases 1 and -1.
fn int_pow(dtype: DType, base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, e) => 1 - 2 * (e & 1),
        (_, e) if e < 0 => 0,
        _ => (0..64).rev().fold(1i64, |acc, bit| {
            let square = acc.wrapping_mul(acc);
            wrap(dtype, if exponent >> bit & 1 == 1 { square.wrapping_mul(base) } else { square })
        }),
    }
}
