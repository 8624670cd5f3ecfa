//! Circular and hyperbolic functions.

use super::FloatMeaning::{One, Two};
use super::{Domain, PointRow};
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Sin, One(f64::sin)).on(&[Domain::Small]),
    PointRow::float(PointOp::Cos, One(f64::cos)).on(&[Domain::Small]),
    PointRow::float(PointOp::Tan, One(f64::tan)).on(&[Domain::Small]),
    PointRow::float(PointOp::Asin, One(f64::asin)).on(&[Domain::Unit]),
    PointRow::float(PointOp::Acos, One(f64::acos)).on(&[Domain::Unit]),
    PointRow::float(PointOp::Atan, One(f64::atan)),
    PointRow::float(PointOp::Atan2, Two(f64::atan2)),
    PointRow::float(PointOp::Sinh, One(f64::sinh)).on(&[Domain::Small]),
    PointRow::float(PointOp::Cosh, One(f64::cosh)).on(&[Domain::Small]),
    PointRow::float(PointOp::Tanh, One(f64::tanh)),
    PointRow::float(PointOp::Asinh, One(libm::asinh)),
    PointRow::float(PointOp::Acosh, One(libm::acosh)).on(&[Domain::AboveOne]),
    PointRow::float(PointOp::Atanh, One(libm::atanh)).on(&[Domain::Unit]),
];
