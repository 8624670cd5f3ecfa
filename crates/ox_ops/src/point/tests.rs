//! The corners, with the values that eager PyTorch gives.

use super::*;
use PointOp::*;

#[track_caller]
fn float(op: PointOp, args: &[f64], expected: f64) {
    let args: Vec<Scalar> = args.iter().map(|x| Scalar::Float(*x)).collect();
    let got = apply(op, DType::F32, &args).unwrap().as_f64();
    let same = got == expected && got.is_sign_negative() == expected.is_sign_negative();
    assert!(same || (got.is_nan() && expected.is_nan()), "{} {args:?}: {got}, not {expected}", op.name());
}

#[track_caller]
fn int(op: PointOp, dtype: DType, args: &[i64], expected: i64) {
    let args: Vec<Scalar> = args.iter().map(|x| Scalar::Int(*x)).collect();
    assert_eq!(apply(op, dtype, &args), Ok(Scalar::Int(expected)), "{} {args:?}", op.name());
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn float_remainders() {
    for (a, b, r) in
        [(-5.0, 3.0, 1.0), (5.0, -3.0, -1.0), (1.0, -INF, -INF), (-1.0, INF, INF), (5.0, 0.0, NAN), (-0.0, 3.0, -0.0)]
    {
        float(Remainder, &[a, b], r);
    }
    for (a, b, q) in [(-5.0, 3.0, -2.0), (1.0, -INF, -1.0), (1.0, INF, 0.0), (5.0, 0.0, INF), (0.0, -3.0, -0.0), (0.0, 0.0, NAN)]
    {
        float(DivFloor, &[a, b], q);
    }
    float(Fmod, &[-7.0, 3.0], -1.0);
    // The quotient is rounded to f32 before it is truncated.
    float(DivTrunc, &[1.0, 1.0f32 as f64 / 3.0], 3.0);
}

#[test]
fn nan_rules() {
    float(Maximum, &[1.0, NAN], NAN);
    float(Minimum, &[NAN, 1.0], NAN);
    float(Fmax, &[NAN, 1.0], 1.0);
    float(Fmin, &[1.0, NAN], 1.0);
    float(Sign, &[NAN], 0.0);
    float(Pow, &[NAN, 0.0], 1.0);
    for op in [Maximum, Minimum, Fmax, Fmin] {
        float(op, &[0.0, -0.0], 0.0);
        float(op, &[-0.0, 0.0], -0.0);
    }
    assert_eq!(apply(Ne, DType::F32, &[Scalar::Float(NAN), Scalar::Float(NAN)]), Ok(Scalar::Bool(true)));
}

#[test]
fn rounding() {
    float(Round, &[2.5], 2.0);
    float(Round, &[-0.5], -0.0);
    float(Add, &[1.0, 2f64.powi(-24)], 1.0);
    // One rounding: the square of 1 + 2^-12 needs 25 bits.
    let x = 1.0 + 2f64.powi(-12);
    float(Fma, &[x, x, -(x * x) as f32 as f64], 2f64.powi(-24));
    let half = |x: f64, dtype| convert(Scalar::Float(x), dtype).as_f64();
    assert_eq!(half(1.0 + 2f64.powi(-9), DType::BF16), 1.0);
    assert_eq!(half(65520.0, DType::F16), INF);
}

#[test]
fn integers_wrap() {
    int(Neg, DType::U8, &[1], 255);
    int(Abs, DType::I8, &[-128], -128);
    int(DivFloor, DType::I8, &[-128, -1], -128);
    int(DivFloor, DType::I64, &[i64::MIN, -1], i64::MIN);
    int(Remainder, DType::I64, &[i64::MIN, -1], 0);
    int(Remainder, DType::I32, &[-7, 3], 2);
    int(Fmod, DType::I32, &[-7, 3], -1);
    int(DivFloor, DType::I32, &[-7, 2], -4);
    int(DivTrunc, DType::I32, &[-7, 2], -3);
    int(Pow, DType::I64, &[3, 40], -6289078614652622815);
    int(Pow, DType::I64, &[2, -1], 0);
    int(Pow, DType::I64, &[-1, -3], -1);
    int(Shl, DType::I32, &[1, 31], i32::MIN as i64);
    int(Shl, DType::I32, &[1, 32], 0);
    int(Shr, DType::I32, &[-8, -1], -1);
    int(Shr, DType::U8, &[200, 9], 0);
    for op in [DivFloor, DivTrunc, Remainder, Fmod] {
        assert_eq!(apply(op, DType::I32, &[Scalar::Int(1), Scalar::Int(0)]), Err(DivisionByZero));
    }
}

#[test]
fn bools() {
    let of = |op, a, b| apply(op, DType::Bool, &[Scalar::Bool(a), Scalar::Bool(b)]);
    assert_eq!(of(Maximum, true, false), Ok(Scalar::Bool(true)));
    assert_eq!(of(Lt, false, true), Ok(Scalar::Bool(true)));
    assert_eq!(of(Xor, true, true), Ok(Scalar::Bool(false)));
    assert_eq!(apply(Not, DType::Bool, &[Scalar::Bool(true)]), Ok(Scalar::Bool(false)));
}

#[test]
fn conversions() {
    let int = |x: f64, dtype| convert(Scalar::Float(x), dtype).as_i64();
    assert_eq!([300.7, -1.5, NAN].map(|x| int(x, DType::U8)), [44, 255, 0]);
    assert_eq!([300.7, -1.5, 3e9].map(|x| int(x, DType::I32)), [300, -1, i32::MIN as i64]);
    assert_eq!(int(INF, DType::I64), i64::MIN);
    assert_eq!(convert(Scalar::Float(NAN), DType::Bool), Scalar::Bool(true));
    assert_eq!(convert(Scalar::Bool(true), DType::F16), Scalar::Float(1.0));
    // Rounded once: by way of f64 this would come out lower.
    assert_eq!(convert(Scalar::Int((1 << 62) + (1 << 38) + 1), DType::F32).as_f64(), 2f64.powi(62) + 2f64.powi(39));
}

/// No operation panics on a type that it accepts.
#[test]
fn every_op_on_every_dtype() {
    for op in PointOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|d| op.accepts(*d)) {
            let args: Vec<Scalar> = (0..op.arity()).map(|n| convert(Scalar::Int(n as i64 + 1), dtype)).collect();
            let result = apply(*op, dtype, &args).unwrap();
            assert_eq!(result, convert(result, op.result(dtype)), "{} on {dtype}", op.name());
        }
    }
}
