//! Logic, bits and choice.

use super::IntMeaning::{Two, Typed};
use super::{Derivative, PointRow};
use ox_ir::{DType, PointOp};

pub(super) const ROWS: &[PointRow] = &[
    PointRow::int(PointOp::And, Two(|a, b| a & b)),
    PointRow::int(PointOp::Or, Two(|a, b| a | b)),
    PointRow::int(PointOp::Xor, Two(|a, b| a ^ b)),
    PointRow::int(PointOp::Not, Typed(|dtype, x, _| if dtype == DType::Bool { i64::from(x == 0) } else { !x })),
    PointRow::int(PointOp::Shl, Typed(|dtype, a, by| if within(dtype, by) { a.wrapping_shl(by as u32) } else { 0 })),
    PointRow::int(PointOp::Shr, Typed(|dtype, a, by| if within(dtype, by) { a >> by } else { a >> 63 })),
    // Chooses between values of any type: `apply` does it without a meaning.
    PointRow { op: PointOp::Where, float: None, int: None, exact: true, domain: &[], derivative: WHERE },
];

const WHERE: Derivative = Derivative::Slopes(&[None, Some(|t| t.x().pick(t.g(), 0.0)), Some(|t| t.x().pick(0.0, t.g()))]);

/// Whether a shift stays inside of the type's width.
fn within(dtype: DType, by: i64) -> bool {
    (0..dtype.size() as i64 * 8).contains(&by)
}
