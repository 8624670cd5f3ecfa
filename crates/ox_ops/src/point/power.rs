//! Roots, exponentials and logarithms.

use super::FloatMeaning::One;
use super::{Domain, PointRow};
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Sqrt, One(f64::sqrt)).exact().on(&[Domain::Positive]).slopes(&[Some(|t| t.g() / (2.0 * t.r()))]),
    PointRow::float(PointOp::Rsqrt, One(|x| 1.0 / x.sqrt()))
        .on(&[Domain::Positive])
        .slopes(&[Some(|t| -0.5 * t.g() * (t.r() * t.r().square()))]),
    PointRow::float(PointOp::Reciprocal, One(|x| 1.0 / x)).exact().slopes(&[Some(|t| -t.g() * t.r().square())]),
    PointRow::float(PointOp::Exp, One(f64::exp)).on(&[Domain::Small]).slopes(&[Some(|t| t.g() * t.r())]),
    PointRow::float(PointOp::Exp2, One(f64::exp2))
        .on(&[Domain::Small])
        .slopes(&[Some(|t| t.g() * t.r() * std::f64::consts::LN_2)]),
    PointRow::float(PointOp::Expm1, One(f64::exp_m1)).on(&[Domain::Small]).slopes(&[Some(|t| t.g() * (t.r() + 1.0))]),
    PointRow::float(PointOp::Log, One(f64::ln)).on(&[Domain::Positive]).slopes(&[Some(|t| t.g() / t.x())]),
    PointRow::float(PointOp::Log2, One(f64::log2))
        .on(&[Domain::Positive])
        .slopes(&[Some(|t| t.g() / (t.x() * std::f64::consts::LN_2))]),
    PointRow::float(PointOp::Log10, One(f64::log10))
        .on(&[Domain::Positive])
        .slopes(&[Some(|t| t.g() / (t.x() * std::f64::consts::LN_10))]),
    PointRow::float(PointOp::Log1p, One(f64::ln_1p)).on(&[Domain::Positive]).slopes(&[Some(|t| t.g() / (t.x() + 1.0))]),
];
