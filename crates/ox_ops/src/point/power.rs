//! Roots, exponentials and logarithms.

use super::FloatMeaning::One;
use super::{Domain, PointRow};
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Sqrt, One(f64::sqrt)).exact().on(&[Domain::Positive]),
    PointRow::float(PointOp::Rsqrt, One(|x| 1.0 / x.sqrt())).on(&[Domain::Positive]),
    PointRow::float(PointOp::Reciprocal, One(|x| 1.0 / x)).exact(),
    PointRow::float(PointOp::Exp, One(f64::exp)).on(&[Domain::Small]),
    PointRow::float(PointOp::Exp2, One(f64::exp2)).on(&[Domain::Small]),
    PointRow::float(PointOp::Expm1, One(f64::exp_m1)).on(&[Domain::Small]),
    PointRow::float(PointOp::Log, One(f64::ln)).on(&[Domain::Positive]),
    PointRow::float(PointOp::Log2, One(f64::log2)).on(&[Domain::Positive]),
    PointRow::float(PointOp::Log10, One(f64::log10)).on(&[Domain::Positive]),
    PointRow::float(PointOp::Log1p, One(f64::ln_1p)).on(&[Domain::Positive]),
];
