//! Circular and hyperbolic functions.

use super::FloatMeaning::{One, Two};
use super::{Domain, PointRow, Terms};
use crate::formula::Expr;
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Sin, One(f64::sin)).on(&[Domain::Small]).slopes(&[Some(|t| t.g() * t.x().unary(PointOp::Cos))]),
    PointRow::float(PointOp::Cos, One(f64::cos)).on(&[Domain::Small]).slopes(&[Some(|t| -t.g() * t.x().unary(PointOp::Sin))]),
    PointRow::float(PointOp::Tan, One(f64::tan)).on(&[Domain::Small]).slopes(&[Some(|t| t.g() * (1.0 + t.r().square()))]),
    PointRow::float(PointOp::Asin, One(f64::asin))
        .on(&[Domain::Unit])
        .slopes(&[Some(|t| t.g() * (1.0 - t.x().square()).unary(PointOp::Rsqrt))]),
    PointRow::float(PointOp::Acos, One(f64::acos))
        .on(&[Domain::Unit])
        .slopes(&[Some(|t| -t.g() * (1.0 - t.x().square()).unary(PointOp::Rsqrt))]),
    PointRow::float(PointOp::Atan, One(f64::atan)).slopes(&[Some(|t| t.g() / (t.x().square() + 1.0))]),
    PointRow::float(PointOp::Atan2, Two(f64::atan2))
        .slopes(&[Some(|t| t.g() * across(t, t.y())), Some(|t| -t.g() * across(t, t.x()))]),
    PointRow::float(PointOp::Sinh, One(f64::sinh)).on(&[Domain::Small]).slopes(&[Some(|t| t.g() * t.x().unary(PointOp::Cosh))]),
    PointRow::float(PointOp::Cosh, One(f64::cosh)).on(&[Domain::Small]).slopes(&[Some(|t| t.g() * t.x().unary(PointOp::Sinh))]),
    PointRow::float(PointOp::Tanh, One(f64::tanh)).slopes(&[Some(|t| t.g() * (1.0 - t.r().square()))]),
    PointRow::float(PointOp::Asinh, One(libm::asinh)).slopes(&[Some(|t| t.g() * (t.x().square() + 1.0).unary(PointOp::Rsqrt))]),
    PointRow::float(PointOp::Acosh, One(libm::acosh))
        .on(&[Domain::AboveOne])
        .slopes(&[Some(|t| t.g() * (t.x().square() - 1.0).unary(PointOp::Rsqrt))]),
    PointRow::float(PointOp::Atanh, One(libm::atanh)).on(&[Domain::Unit]).slopes(&[Some(|t| t.g() / (1.0 - t.x().square()))]),
];

/// A side over the square of the distance; nothing at the origin.
fn across(t: &Terms, side: Expr) -> Expr {
    let square = t.x().square() + t.y().square();
    square.clone().eq(0.0).pick(0.0, side / square)
}
