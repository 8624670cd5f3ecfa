//! To whole numbers.

use super::FloatMeaning::One;
use super::PointRow;
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::float(PointOp::Floor, One(f64::floor)).exact().zero_slope(),
    PointRow::float(PointOp::Ceil, One(f64::ceil)).exact().zero_slope(),
    PointRow::float(PointOp::Round, One(f64::round_ties_even)).exact().zero_slope(),
    PointRow::float(PointOp::Trunc, One(f64::trunc)).exact().zero_slope(),
];
