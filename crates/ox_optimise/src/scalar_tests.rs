//! Folding agrees with the reference meaning of every operation, wherever it folds.

use crate::scalar::{cast, evaluate};
use ox_ir::{DType, PointOp, Scalar};
use ox_testing::scalar::{apply, convert};

const TYPES: [DType; 9] =
    [DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32];

fn values(dtype: DType) -> Vec<Scalar> {
    let numbers = [0.0, -0.0, 1.0, -1.0, 2.0, 0.1, -7.3, 100.0, 1e-30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let ints = [0, 1, -1, 3, 7, -7, i8::MIN as i64, i16::MIN as i64, i32::MIN as i64, i64::MIN, i64::MAX];
    match dtype.is_float() {
        true => numbers.iter().map(|x| convert(Scalar::Float(*x), dtype)).collect(),
        false => ints.iter().map(|x| convert(Scalar::Int(*x), dtype)).collect(),
    }
}

fn same(a: Scalar, b: Scalar) -> bool {
    a == b || (a.as_f64().is_nan() && b.as_f64().is_nan())
}

#[test]
fn folds_as_the_reference_computes() {
    let mut folded = 0;
    for op in PointOp::ALL.iter().filter(|op| op.arity() < 3) {
        for dtype in TYPES.into_iter().filter(|d| op.accepts(*d)) {
            for (a, b) in values(dtype).into_iter().flat_map(|a| values(dtype).into_iter().map(move |b| (a, b))) {
                let args = &[a, b][..op.arity()];
                let Some(value) = evaluate(*op, dtype, args) else { continue };
                let expected = apply(*op, dtype, args).expect("a division by zero is not folded");
                assert!(same(value, expected), "{} on {dtype} {a} {b}: {value}, not {expected}", op.name());
                folded += 1;
            }
        }
    }
    assert!(folded > 10_000, "only {folded} were folded");
}

#[test]
fn casts_as_the_reference_does() {
    for from in TYPES {
        for (to, value) in TYPES.into_iter().flat_map(|to| values(from).into_iter().map(move |v| (to, v))) {
            if let Some(result) = cast(value, from, to) {
                let expected = convert(value, to);
                assert!(same(result, expected), "{value} from {from} to {to}: {result}, not {expected}");
            }
        }
    }
}

#[test]
fn halves_are_rounded_on_the_way() {
    assert_eq!(cast(Scalar::Float(0.1), DType::BF16, DType::F32), Some(Scalar::Float(0.10009765625)));
    assert_eq!(cast(Scalar::Float(300.7), DType::F32, DType::U8), None);
    assert_eq!(cast(Scalar::Int(16_777_217), DType::I64, DType::F32), Some(Scalar::Float(16_777_216.0)));
}
