//! Special functions.

use super::FloatMeaning::One;
use super::{Derivative, Domain, PointRow, Terms};
use crate::formula::Expr;
use crate::surface::Operator;
use crate::{Builder, OpResult};
use ox_ir::{NodeId, PointOp};

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Sigmoid, One(|x| 1.0 / (1.0 + (-x).exp())))
        .on(&[Domain::Small])
        .slopes(&[Some(|t| t.g() * (1.0 - t.r()) * t.r())]),
    PointRow::float(PointOp::Erf, One(libm::erf)).on(&[Domain::Small]).slopes(&[Some(|t| t.g() * bell(t))]),
    PointRow::float(PointOp::Erfc, One(libm::erfc)).on(&[Domain::Small]).slopes(&[Some(|t| -t.g() * bell(t))]),
    PointRow {
        derivative: Derivative::Call(digamma),
        ..PointRow::float(PointOp::Lgamma, One(libm::lgamma)).on(&[Domain::Small])
    },
];

/// The slope of erf.
fn bell(t: &Terms) -> Expr {
    std::f64::consts::FRAC_2_SQRT_PI * (-t.x().square()).unary(PointOp::Exp)
}

fn digamma(b: &mut Builder, x: NodeId, grad: NodeId) -> OpResult<NodeId> {
    let slope = Operator::new("aten::digamma", "", []).call(b, &[x], &[(b.dtype(x), b.shape(x))])?;
    b.point(PointOp::Mul, &[grad, slope[0]])
}
