//! Every row on its whole domain, against something that is known of the function independently of how it is computed.

use super::*;
use PointOp::*;

fn eval(op: PointOp, args: &[f64]) -> f64 {
    let args: Vec<Scalar> = args.iter().map(|x| Scalar::Float(*x)).collect();
    apply(op, DType::F64, &args).unwrap().as_f64()
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

/// Twice the integral of the bell curve, by Simpson's rule.
fn erf_by_integral(x: f64) -> f64 {
    let n = 20_000;
    let h = x / n as f64;
    let f = |k: usize| (-(k as f64 * h).powi(2)).exp();
    let inner: f64 = (1..n).map(|k| f(k) * if k % 2 == 1 { 4.0 } else { 2.0 }).sum();
    (f(0) + inner + f(n)) * h / 3.0 * std::f64::consts::FRAC_2_SQRT_PI
}

/// Whether `op(x) == y` fits with what is known; only asked for finite x and y.
fn unary_fits(op: PointOp, x: f64, y: f64) -> bool {
    match op {
        Neg => x + y == 0.0,
        Abs => y >= 0.0 && (y == x || y == -x),
        Sign => y * x.abs() == x || (x.abs() < 1e-300 && y == 0.0),
        Floor => y <= x && y + 1.0 >= x && y.fract() == 0.0,
        Ceil => y >= x && y - 1.0 <= x && y.fract() == 0.0,
        Round => (y - x).abs() <= 0.5 && y.fract() == 0.0 && ((y - x).abs() < 0.5 || y % 2.0 == 0.0),
        Trunc => y.abs() <= x.abs() && (x - y).abs() < 1.0 && y.fract() == 0.0,
        Sqrt => y >= 0.0 && close(y * y, x),
        Rsqrt => close(y * y * x, 1.0),
        Reciprocal => close(x * y, 1.0) || (x * y).is_nan(),
        Exp => close(y * eval(Exp, &[-x]), 1.0) && close(eval(Log, &[y]), x),
        Exp2 => close(eval(Log2, &[y]), x),
        Expm1 => close(y + 1.0, eval(Exp, &[x])) && (x.abs() > 1e-8 || x == 0.0 || close(y / x, 1.0)),
        Log => close(eval(Exp, &[y]), x),
        Log2 => close(eval(Exp2, &[y]), x),
        Log10 => close(10f64.powf(y), x),
        Log1p => close(eval(Expm1, &[y]), x),
        Sin | Cos => {
            close(eval(Sin, &[x]).powi(2) + eval(Cos, &[x]).powi(2), 1.0)
                && close(eval(Sin, &[2.0 * x]), 2.0 * eval(Sin, &[x]) * eval(Cos, &[x]))
        }
        Tan => close(y * eval(Cos, &[x]), eval(Sin, &[x])),
        Asin => close(eval(Sin, &[y]), x) && y.abs() <= 1.58,
        Acos => close(eval(Cos, &[y]), x) && y >= 0.0,
        Atan => y.abs() < 1.58 && (x.abs() > 1e6 || close(eval(Tan, &[y]), x)),
        Sinh => close(2.0 * y, eval(Exp, &[x]) - eval(Exp, &[-x])),
        Cosh => close(2.0 * y, eval(Exp, &[x]) + eval(Exp, &[-x])),
        Tanh => x.abs() > 300.0 && y == x.signum() || close(y * eval(Cosh, &[x]), eval(Sinh, &[x])),
        Asinh => x.abs() > 1e100 || close(eval(Sinh, &[y]), x),
        Acosh => close(eval(Cosh, &[y]), x) && y >= 0.0,
        Atanh => close(eval(Tanh, &[y]), x),
        Sigmoid => close(y + eval(Sigmoid, &[-x]), 1.0) && close(y, 0.5 + 0.5 * eval(Tanh, &[x / 2.0])),
        Erf => close(y, -eval(Erf, &[-x])) && (x.abs() > 5.0 || close(y, erf_by_integral(x))),
        Erfc => close(y, 1.0 - eval(Erf, &[x])),
        Lgamma => close(eval(Lgamma, &[x + 1.0]) - y, x.abs().ln()) && close(eval(Lgamma, &[5.0]), 24f64.ln()),
        _ => unreachable!("{} has another number of arguments", op.name()),
    }
}

/// The same for two arguments.
fn binary_fits(op: PointOp, a: f64, b: f64, y: f64) -> bool {
    match op {
        Add => close(y - b, a) || a.abs() < b.abs() * 1e-6,
        Sub => close(y + b, a) || a.abs() < b.abs() * 1e-6,
        Mul => close(y / b, a) || b == 0.0 || y.abs() < 1e-300,
        Div => close(y * b, a) || y.abs() < 1e-300,
        DivFloor => y.fract() == 0.0 && (close(y, (a / b).floor()) || (a / b - y).abs() <= 1.0),
        DivTrunc => y == (a / b).trunc(),
        Remainder => y.abs() <= b.abs() && (y == 0.0 || (y < 0.0) == (b < 0.0)),
        Fmod => y.abs() < b.abs() && (y == 0.0 || (y < 0.0) == (a < 0.0)),
        Pow => a == 0.0 || y.abs() < 1e-300 || close(y.abs().ln(), b * a.abs().ln()),
        Maximum | Fmax => y >= a && y >= b && (y == a || y == b),
        Minimum | Fmin => y <= a && y <= b && (y == a || y == b),
        Atan2 => {
            (y.sin().signum() == b_sign(a))
                && (b == 0.0 || a == 0.0 || close(y.tan(), a / b) || (a / b).abs() > 1e6 || (a / b).abs() < 1e-6)
        }
        Copysign => y.abs() == a.abs() && y.is_sign_negative() == b.is_sign_negative(),
        _ => unreachable!("{} has another number of arguments", op.name()),
    }
}

fn b_sign(x: f64) -> f64 {
    1f64.copysign(x)
}

#[test]
fn rows_stand_in_the_order_of_the_ops() {
    let order: Vec<PointOp> = rows().map(|row| row.op).collect();
    assert_eq!(order, PointOp::ALL);
    for row in rows() {
        assert_eq!(row.float.is_some() || row.op == Where, row.op.accepts(DType::F32), "{} on floats", row.op.name());
        assert_eq!(row.int.is_some() || row.op == Where, row.op.accepts(DType::I64), "{} on integers", row.op.name());
        assert!(row.domain.len() >= row.op.arity() || row.op == Where, "{} has no domain", row.op.name());
    }
}

#[test]
fn float_functions_are_what_they_are_called() {
    for row in rows().filter(|row| matches!(row.float, Some(FloatMeaning::One(_)))) {
        for x in row.domain[0].samples() {
            let y = eval(row.op, &[x]);
            if x.is_nan() {
                assert!(y.is_nan() || row.op == Sign, "{}(nan) = {y}", row.op.name());
            } else if x.is_finite() && y.is_finite() {
                assert!(unary_fits(row.op, x, y), "{}({x}) = {y}", row.op.name());
            }
        }
    }
}

#[test]
fn float_functions_of_two_are_what_they_are_called() {
    let two = |row: &&PointRow| row.op.arity() == 2 && matches!(row.float, Some(FloatMeaning::Two(_) | FloatMeaning::Typed(_)));
    for row in rows().filter(two) {
        for (a, b) in pairs(row) {
            let y = eval(row.op, &[a, b]);
            if a.is_finite() && b.is_finite() && y.is_finite() {
                assert!(binary_fits(row.op, a, b, y), "{}({a}, {b}) = {y}", row.op.name());
            }
        }
    }
}

fn pairs(row: &PointRow) -> Vec<(f64, f64)> {
    let (first, second) = (row.domain[0].samples(), row.domain[1].samples());
    first.iter().flat_map(|a| second.iter().map(move |b| (*a, *b))).collect()
}

/// On integers, the exact result in i128, brought into the type.
#[test]
fn integers_wrap_the_exact_result() {
    let wide = |op: PointOp, a: i128, b: i128| -> Option<i128> {
        Some(match op {
            Add => a + b,
            Sub => a - b,
            Mul => a * b,
            DivFloor => a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0),
            DivTrunc => a / b,
            Fmod => a % b,
            Remainder => a - b * (a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)),
            Maximum => a.max(b),
            Minimum => a.min(b),
            And => a & b,
            Or => a | b,
            Xor => a ^ b,
            _ => return None,
        })
    };
    for dtype in [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64] {
        let values: Vec<i64> = Domain::integers().into_iter().map(|x| wrap(dtype, x)).collect();
        let pairs: Vec<(i64, i64)> = values.iter().flat_map(|a| values.iter().map(|b| (*a, *b))).collect();
        for (op, (a, b)) in PointOp::ALL.iter().flat_map(|op| pairs.iter().map(|pair| (*op, *pair))) {
            let division = matches!(op, DivFloor | DivTrunc | Fmod | Remainder);
            if op.arity() != 2 || !op.accepts(dtype) || (division && b == 0) {
                continue;
            }
            let Some(exact) = wide(op, a as i128, b as i128) else { continue };
            let got = apply(op, dtype, &[Scalar::Int(a), Scalar::Int(b)]);
            assert_eq!(got, Ok(Scalar::Int(wrap(dtype, exact as i64))), "{} {a} {b} on {dtype}", op.name());
        }
    }
}
