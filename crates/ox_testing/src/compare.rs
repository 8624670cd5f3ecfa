//! Comparing results.

use crate::tensor::{TensorData, unflat};
use ox_ir::{DType, Scalar};

/// The largest relative and absolute difference that rounding may leave, as `torch.testing.assert_close` has it.
pub fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (1e-7, 1e-7),
        DType::F32 => (1.3e-6, 1e-5),
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        _ => (0.0, 0.0),
    }
}

/// What is different, in words, or None. NaN equals NaN.
pub fn difference(got: &TensorData, expected: &TensorData) -> Option<String> {
    if got.dtype != expected.dtype || got.shape != expected.shape {
        return Some(format!("{}{:?}, not {}{:?}", got.dtype, got.shape, expected.dtype, expected.shape));
    }
    let (relative, absolute) = tolerance(expected.dtype);
    let at = got.data.iter().zip(&expected.data).position(|(a, b)| !is_close(*a, *b, relative, absolute))?;
    let index = unflat(&expected.shape, at);
    Some(format!("at {index:?}: {}, not {}", got.data[at], expected.data[at]))
}

fn is_close(a: Scalar, b: Scalar, relative: f64, absolute: f64) -> bool {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= absolute + relative * b.abs() && b.is_finite()
        }
        (a, b) => a == b,
    }
}

#[track_caller]
pub fn assert_close(got: &TensorData, expected: &TensorData) {
    if let Some(difference) = difference(got, expected) {
        panic!("{difference}");
    }
}
