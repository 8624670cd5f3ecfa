//! Special functions.

use super::FloatMeaning::One;
use super::{Domain, PointRow};
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Sigmoid, One(|x| 1.0 / (1.0 + (-x).exp()))).on(&[Domain::Small]),
    PointRow::float(PointOp::Erf, One(libm::erf)).on(&[Domain::Small]),
    PointRow::float(PointOp::Erfc, One(libm::erfc)).on(&[Domain::Small]),
    PointRow::float(PointOp::Lgamma, One(libm::lgamma)).on(&[Domain::Small]),
];
