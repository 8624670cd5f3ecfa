//! Sign and class of floats, and comparison. Any comparison with NaN is false, except `ne`.

use super::FloatMeaning::{Compare, Test, Two};
use super::IntMeaning as Int;
use super::PointRow;
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Copysign, Two(f64::copysign))
        .exact()
        .slopes(&[Some(|t| t.x().eq(0.0).pick(0.0, t.g() * (t.r() / t.x()))), None]),
    PointRow::float(PointOp::IsNan, Test(f64::is_nan)).exact(),
    PointRow::float(PointOp::IsInf, Test(f64::is_infinite)).exact(),
    PointRow::float(PointOp::SignBit, Test(f64::is_sign_negative)).exact(),
    PointRow::both(PointOp::Eq, Compare(|a, b| a == b), Int::Compare(|a, b| a == b)).exact(),
    PointRow::both(PointOp::Ne, Compare(|a, b| a != b), Int::Compare(|a, b| a != b)).exact(),
    PointRow::both(PointOp::Lt, Compare(|a, b| a < b), Int::Compare(|a, b| a < b)).exact(),
    PointRow::both(PointOp::Le, Compare(|a, b| a <= b), Int::Compare(|a, b| a <= b)).exact(),
    PointRow::both(PointOp::Gt, Compare(|a, b| a > b), Int::Compare(|a, b| a > b)).exact(),
    PointRow::both(PointOp::Ge, Compare(|a, b| a >= b), Int::Compare(|a, b| a >= b)).exact(),
];
