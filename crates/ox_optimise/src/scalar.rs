//! The arithmetic of constants, where it is certain: a folded constant never differs from what a kernel would have computed.

use ox_ir::{DType, PointOp, Scalar};
use ox_ops::point::{self, convert};
use smallvec::SmallVec;

/// The conversion of an element; None where C leaves it open (a float that the integer type does not have).
pub fn cast(value: Scalar, from: DType, to: DType) -> Option<Scalar> {
    let value = convert(value, from);
    if let (Scalar::Float(x), true) = (value, to.is_int()) {
        let (low, high) = to.int_range();
        let inside = x.trunc() >= low as f64 && x.trunc() <= high as f64 && x.abs() < 9.0e18;
        return inside.then_some(Scalar::Int(x as i64));
    }
    (!to.is_complex()).then(|| convert(value, to))
}

/// `op` on elements of type `dtype` (for `where`: of its two values); None where implementations may differ, and for divisions
/// by zero, which are errors of the run.
pub fn evaluate(op: PointOp, dtype: DType, args: &[Scalar]) -> Option<Scalar> {
    if dtype.is_complex() || (dtype.is_float() && !point::row(op).exact) {
        return None;
    }
    let is_condition = |n: usize| op == PointOp::Where && n == 0;
    let value = |(n, x): (usize, &Scalar)| if is_condition(n) { *x } else { convert(*x, dtype) };
    let args: SmallVec<[Scalar; 3]> = args.iter().enumerate().map(value).collect();
    point::apply(op, dtype, &args).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_on_the_way() {
        assert_eq!(cast(Scalar::Float(0.1), DType::BF16, DType::F32), Some(Scalar::Float(0.10009765625)));
        let sum = evaluate(PointOp::Add, DType::BF16, &[Scalar::Float(1.0), Scalar::Float(0.001)]);
        assert_eq!(sum, Some(Scalar::Float(1.0)));
    }

    #[test]
    fn what_c_leaves_open_stays() {
        assert_eq!(cast(Scalar::Float(300.7), DType::F32, DType::U8), None);
        assert_eq!(cast(Scalar::Float(f64::NAN), DType::F32, DType::I64), None);
        assert_eq!(cast(Scalar::Float(-7.9), DType::F32, DType::I64), Some(Scalar::Int(-7)));
    }

    #[test]
    fn only_what_is_certain_is_folded() {
        assert_eq!(evaluate(PointOp::Exp, DType::F32, &[Scalar::Float(1.0)]), None);
        assert_eq!(evaluate(PointOp::DivFloor, DType::I64, &[Scalar::Int(1), Scalar::Int(0)]), None);
        assert_eq!(evaluate(PointOp::Mul, DType::U8, &[Scalar::Int(16), Scalar::Int(17)]), Some(Scalar::Int(16)));
    }
}
