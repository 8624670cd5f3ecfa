//! Arithmetic of two or three tensors, with torch's treatment of Python numbers.
//!
//! Where a half-precision tensor meets a number, eager's CPU kernels differ: `mul` and `div` take a number that stands behind the tensor in
//! f32; one in front, and those of all others, is rounded to the tensor's type first. `scaled` is the former.

use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{DType, Device, PointOp, Scalar};
use std::f64::consts::LOG2_E;

macro_rules! point {
    ($($name:literal)|+ => $op:ident) => {
        fresh(&[$($name),+], "input, other", |b, a| {
            Ok(b.pointwise(PointOp::$op, &[a.operand("input")?, a.operand("other")?])?.into())
        })
    };
}

/// As `point`, of tensors only: eager takes no numbers here.
macro_rules! tensors {
    ($($name:literal)|+ => $op:ident) => {
        fresh(&[$($name),+], "input, other", |b, a| {
            Ok(b.binary(PointOp::$op, a.tensor("input")?, a.tensor("other")?)?.into())
        })
    };
}

pub const ROWS: &[Surface] = &[
    fresh(&["add"], "input, other, *, alpha=1", |b, a| sum(b, a.operand("input")?, a.operand("other")?, a.number("alpha")?, 1)),
    fresh(&["sub", "subtract"], "input, other, *, alpha=1", |b, a| {
        sum(b, a.operand("input")?, a.operand("other")?, a.number("alpha")?, -1)
    }),
    fresh(&["rsub"], "input, other, *, alpha=1", |b, a| sum(b, a.operand("other")?, a.operand("input")?, a.number("alpha")?, -1)),
    fresh(&["mul", "multiply"], "input, other", |b, a| Ok(b.multiply(&a.operand("input")?, &a.operand("other")?)?.into())),
    // To Python's operator a number stands behind the tensor, wherever it is written.
    fresh(&["operator.mul"], "input, other", |b, a| match (a.operand("input")?, a.operand("other")?) {
        (number, x) if number.tensor().is_none() => Ok(b.multiply(&x, &number)?.into()),
        (x, y) => Ok(b.multiply(&x, &y)?.into()),
    }),
    fresh(&["div", "divide", "true_divide"], "input, other, *, rounding_mode=None", div),
    fresh(&["truediv"], "input, other", |b, a| match (a.operand("input")?, a.operand("other")?) {
        (number, Operand::Tensor(x)) if number.tensor().is_none() => divide_number(b, &number, x),
        (x, y) => Ok(b.divide(&x, &y)?.into()),
    }),
    fresh(&["rdiv", "rtruediv"], "input, other", |b, a| divide_number(b, &a.operand("other")?, a.tensor("input")?)),
    fresh(&["floor_divide", "floordiv"], "input, other", |b, a| {
        Ok(whole_division(b, PointOp::DivFloor, &a.operand("input")?, &a.operand("other")?)?.into())
    }),
    point!("remainder" | "mod" => Remainder),
    point!("fmod" => Fmod),
    fresh(&["pow"], "input, exponent", |b, a| Ok(power(b, a.operand("input")?, a.operand("exponent")?)?.into())),
    fresh(&["float_power"], "input, exponent", |b, a| {
        let (base, exponent) = (a.operand("input")?, a.operand("exponent")?);
        if b.result_type(&[base.clone(), exponent.clone()]).is_complex() {
            return Err(OpError::unsupported("float_power of complex numbers"));
        }
        if let (Operand::Tensor(x), Operand::Scalar(e)) = (&base, &exponent) {
            return Ok(power_of_tensor(b, *x, *e, DType::F64)?.into());
        }
        let args = [base, exponent].map(|o| Operand::Tensor(b.materialise(&o, DType::F64)));
        Ok(b.pointwise_in(PointOp::Pow, DType::F64, &args)?.into())
    }),
    tensors!("maximum" => Maximum),
    tensors!("minimum" => Minimum),
    fresh(&["fmax"], "input, other", |b, a| extreme(b, a, PointOp::Fmax, PointOp::Maximum)),
    fresh(&["fmin"], "input, other", |b, a| extreme(b, a, PointOp::Fmin, PointOp::Minimum)),
    tensors!("atan2" | "arctan2" => Atan2),
    point!("copysign" => Copysign),
    fresh(&["hypot"], "input, other", hypot),
    fresh(&["logaddexp"], "input, other", |b, a| {
        log_add(b, a, |b, gap| {
            let power = b.unary(PointOp::Exp, gap)?;
            b.unary(PointOp::Log1p, power)
        })
    }),
    fresh(&["logaddexp2"], "input, other", |b, a| {
        log_add(b, a, |b, gap| {
            let power = b.unary(PointOp::Exp2, gap)?;
            let natural = b.unary(PointOp::Log1p, power)?;
            b.binary(PointOp::Mul, natural, LOG2_E)
        })
    }),
    fresh(&["ldexp"], "input, other", ldexp),
    fresh(&["xlogy", "special.xlogy"], "input, other", |b, a| times_log(b, a, PointOp::Log)),
    fresh(&["special.xlog1py"], "input, other", |b, a| times_log(b, a, PointOp::Log1p)),
    fresh(&["heaviside"], "input, values", heaviside),
    fresh(&["lerp"], "input, end, weight", lerp),
    fresh(&["addcmul"], "input, tensor1, tensor2, *, value=1", |b, a| add_scaled(b, a, PointOp::Mul)),
    fresh(&["addcdiv"], "input, tensor1, tensor2, *, value=1", |b, a| add_scaled(b, a, PointOp::Div)),
];

/// `x + sign * alpha * y`.
fn sum(b: &mut Builder, x: Operand, y: Operand, alpha: Operand, sign: i64) -> OpResult<Value> {
    let dtype = b.result_type(&[x.clone(), y.clone()]);
    let operands = [x, y];
    if sign == -1 && operands.iter().any(|o| b.result_type(std::slice::from_ref(o)) == DType::Bool) {
        return Err(OpError::runtime(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
             `logical_not()` operator instead.",
        ));
    }
    let Operand::Scalar(alpha) = alpha else { return Ok(sum_times(b, dtype, &operands, alpha, sign)?.into()) };
    if dtype == DType::Bool && !matches!(alpha, Scalar::Float(_)) {
        return match alpha.as_bool() {
            true => Ok(b.pointwise_in(PointOp::Or, dtype, &operands)?.into()),
            false => Err(OpError::unsupported("sum of bools with alpha 0")),
        };
    }
    if !dtype.is_float() && !dtype.is_complex() && matches!(alpha, Scalar::Float(_)) {
        return Err(OpError::runtime("For integral input tensors, argument alpha must not be a floating point number."));
    }
    if alpha.as_f64() == 1.0 {
        let op = if sign == 1 { PointOp::Add } else { PointOp::Sub };
        return Ok(b.pointwise_in(op, dtype, &operands)?.into());
    }
    Ok(sum_scaled(b, dtype, &operands, alpha, sign)?.into())
}

/// Eager multiplies and adds in one rounding, with alpha rounded to the tensors' type.
fn sum_scaled(b: &mut Builder, dtype: DType, operands: &[Operand], alpha: Scalar, sign: i64) -> OpResult<NodeId> {
    let args = b.together(operands, dtype)?;
    if !dtype.is_float() {
        let factor = b.full_like(Scalar::Int(alpha.as_i64().wrapping_mul(sign)), args[1]);
        let product = b.point(PointOp::Mul, &[args[1], factor])?;
        return b.point(PointOp::Add, &[args[0], product]);
    }
    let rounded = round_to(dtype, alpha.as_f64() * sign as f64);
    let wide: Vec<NodeId> = args.iter().map(|x| b.cast(*x, dtype.compute())).collect();
    let factor = b.full_like(Scalar::Float(rounded), wide[1]);
    let result = b.point(PointOp::Fma, &[wide[1], factor, wide[0]])?;
    Ok(b.cast(result, dtype))
}

/// As `sum_scaled`, with a number that is only known at run time.
fn sum_times(b: &mut Builder, dtype: DType, operands: &[Operand], alpha: Operand, sign: i64) -> OpResult<NodeId> {
    let whole = b.result_type(std::slice::from_ref(&alpha)) == DType::I64;
    if dtype == DType::Bool || !(dtype.is_float() || whole) {
        return Err(OpError::unsupported(format!("a sum of {dtype} with an alpha that is not known")));
    }
    let alpha = b.materialise(&alpha, dtype);
    let alpha = if sign == 1 { alpha } else { b.unary(PointOp::Neg, alpha)? };
    let terms = [operands[0].clone(), operands[1].clone(), alpha.into()];
    let terms = b.together(&terms, dtype)?;
    let [x, y, alpha] = terms[..] else { return Err(OpError::bug("a sum of other than three terms")) };
    if !dtype.is_float() {
        let product = b.point(PointOp::Mul, &[y, alpha])?;
        return b.point(PointOp::Add, &[x, product]);
    }
    let [x, y, alpha] = [x, y, alpha].map(|term| b.cast(term, dtype.compute()));
    let result = b.point(PointOp::Fma, &[y, alpha, x])?;
    Ok(b.cast(result, dtype))
}

/// The nearest value of a float type.
pub fn round_to(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f64(x).to_f64(),
        DType::BF16 => half::bf16::from_f64(x).to_f64(),
        DType::F32 => x as f32 as f64,
        _ => x,
    }
}

impl Builder {
    /// `torch.mul`.
    pub fn multiply(&mut self, x: &Operand, y: &Operand) -> OpResult<NodeId> {
        let operands = [x.clone(), y.clone()];
        match self.result_type(&operands) {
            DType::Bool => self.pointwise_in(PointOp::And, DType::Bool, &operands),
            dtype => self.scaled(PointOp::Mul, dtype, &operands),
        }
    }

    /// An op that takes numbers (and 0-dimensional tensors) in f32 when the result is of a half type; on the CPU only those behind the tensor.
    fn scaled(&mut self, op: PointOp, dtype: DType, operands: &[Operand; 2]) -> OpResult<NodeId> {
        let is_number = |o: &Operand| o.tensor().is_none_or(|t| self.rank(t) == 0 && self.dtype(t) != dtype);
        let places = if self.device == Device::Cpu { &operands[1..] } else { &operands[..] };
        if dtype.compute() == dtype || !places.iter().any(is_number) {
            return self.pointwise_in(op, dtype, operands);
        }
        let result = self.pointwise_in(op, dtype.compute(), operands)?;
        Ok(self.cast(result, dtype))
    }

    /// A number, or a tensor of one element.
    fn is_single(&self, operand: &Operand) -> bool {
        operand.tensor().is_none_or(|t| self.ty(t).shape.iter().all(|size| size.as_const() == Some(1)))
    }

    /// `torch.true_divide`.
    pub fn divide(&mut self, x: &Operand, y: &Operand) -> OpResult<NodeId> {
        let operands = [x.clone(), y.clone()];
        let dtype = self.float_type(self.result_type(&operands));
        self.scaled(PointOp::Div, dtype, &operands)
    }
}

/// What a tensor does when a number is divided by it: two steps, each rounded.
fn divide_number(b: &mut Builder, number: &Operand, x: NodeId) -> OpResult<Value> {
    let inverse = b.unary(PointOp::Reciprocal, x)?;
    Ok(b.multiply(&inverse.into(), number)?.into())
}

fn div(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, y) = (a.operand("input")?, a.operand("other")?);
    if !a.has("rounding_mode") {
        return Ok(b.divide(&x, &y)?.into());
    }
    let op = match a.str("rounding_mode")? {
        "floor" => PointOp::DivFloor,
        "trunc" => PointOp::DivTrunc,
        other => {
            let message = format!("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'");
            return Err(OpError::runtime(message));
        }
    };
    Ok(whole_division(b, op, &x, &y)?.into())
}

/// Half types are rounded after each step, but once where the divisor is a single number.
fn whole_division(b: &mut Builder, op: PointOp, x: &Operand, y: &Operand) -> OpResult<NodeId> {
    let operands = [x.clone(), y.clone()];
    let dtype = b.result_type(&operands);
    if dtype.compute() == dtype {
        return b.pointwise_in(op, dtype, &operands);
    }
    if b.device == Device::Cpu && b.is_single(y) {
        let result = b.pointwise_in(op, dtype.compute(), &operands)?;
        return Ok(b.cast(result, dtype));
    }
    let args = b.together(&operands, dtype)?;
    if op == PointOp::DivFloor {
        return half_div_floor(b, args[0], args[1]);
    }
    let quotient = b.point(PointOp::Div, &args)?;
    b.point(PointOp::Trunc, &[quotient])
}

/// Eager rounds every step of this formula to the half type: the remainder taken off, divided, corrected down, made whole.
fn half_div_floor(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    let rest = b.point(PointOp::Fmod, &[x, y])?;
    let multiple = b.point(PointOp::Sub, &[x, rest])?;
    let quotient = b.point(PointOp::Div, &[multiple, y])?;
    let (y_below, rest_below) = (b.binary(PointOp::Lt, y, 0.0)?, b.binary(PointOp::Lt, rest, 0.0)?);
    let signs = b.point(PointOp::Ne, &[y_below, rest_below])?;
    let inexact = b.binary(PointOp::Ne, rest, 0.0)?;
    let above = b.point(PointOp::And, &[signs, inexact])?;
    let lower = b.binary(PointOp::Sub, quotient, 1.0)?;
    let quotient = b.choose(above, lower, quotient)?;
    let whole = b.point(PointOp::Floor, &[quotient])?;
    let gap = b.point(PointOp::Sub, &[quotient, whole])?;
    let far = b.binary(PointOp::Gt, gap, 0.5)?;
    let next = b.binary(PointOp::Add, whole, 1.0)?;
    let whole = b.choose(far, next, whole)?;
    let plain = b.point(PointOp::Div, &[x, y])?;
    let zero = b.binary(PointOp::Copysign, 0.0, plain)?;
    let none = b.binary(PointOp::Eq, quotient, 0.0)?;
    let whole = b.choose(none, zero, whole)?;
    let by_zero = b.binary(PointOp::Eq, y, 0.0)?;
    b.choose(by_zero, plain, whole)
}

fn power(b: &mut Builder, base: Operand, exponent: Operand) -> OpResult<NodeId> {
    let dtype = b.result_type(&[base.clone(), exponent.clone()]);
    match (&base, &exponent) {
        (Operand::Tensor(x), Operand::Scalar(e)) => power_of_tensor(b, *x, *e, dtype),
        (Operand::Scalar(Scalar::Int(2)), Operand::Tensor(e)) if dtype.is_float() => {
            let e = b.cast(*e, dtype);
            b.unary(PointOp::Exp2, e)
        }
        (Operand::Tensor(_), Operand::Sym(e)) if dtype.is_int() && e.bounds().0 < 0 => unknown_sign(),
        (Operand::Tensor(_), Operand::Number(_)) if dtype.is_int() => unknown_sign(),
        _ => b.pointwise_in(PointOp::Pow, dtype, &[base, exponent]),
    }
}

/// Eager refuses negative numbers as exponents of integers, but not negative tensors.
fn unknown_sign() -> OpResult<NodeId> {
    Err(OpError::unsupported("the power of an integer with an exponent that may be negative"))
}

/// The exponents that eager computes by other means, each step rounded; on the CPU those of f16 once, and without roots: -inf has none, but
/// a power.
fn power_of_tensor(b: &mut Builder, x: NodeId, exponent: Scalar, dtype: DType) -> OpResult<NodeId> {
    if dtype.is_int() && exponent.as_i64() < 0 {
        return Err(OpError::runtime("Integers to negative integer powers are not allowed."));
    }
    let shape = b.shape(x);
    let x = b.cast(x, dtype);
    let e = exponent.as_f64();
    if dtype == DType::F16 && b.device == Device::Cpu && (e == 3.0 || e == -2.0) {
        let power = power_of_tensor(b, x, exponent, DType::F32)?;
        return Ok(b.cast(power, dtype));
    }
    if (dtype == DType::Bool && e != 1.0) || dtype.is_complex() {
        return Err(OpError::unsupported(format!("power of {dtype}")));
    }
    if e == 0.0 {
        return Ok(b.full(Scalar::Int(1), dtype, &shape));
    }
    if e == 1.0 {
        return Ok(x);
    }
    if e == 2.0 {
        return b.point(PointOp::Mul, &[x, x]);
    }
    if e == 3.0 {
        let squared = b.point(PointOp::Mul, &[x, x])?;
        return b.point(PointOp::Mul, &[squared, x]);
    }
    let by = |b: &mut Builder, op| b.point(op, &[x]);
    match e {
        0.5 | -0.5 if dtype == DType::F16 && b.device == Device::Cpu => {
            b.pointwise_in(PointOp::Pow, dtype, &[x.into(), Operand::Scalar(exponent)])
        }
        0.5 if dtype.is_float() => by(b, PointOp::Sqrt),
        -0.5 if dtype.is_float() => by(b, PointOp::Rsqrt),
        -1.0 if dtype.is_float() => by(b, PointOp::Reciprocal),
        -2.0 if dtype.is_float() => {
            let squared = b.point(PointOp::Mul, &[x, x])?;
            b.point(PointOp::Reciprocal, &[squared])
        }
        _ => b.pointwise_in(PointOp::Pow, dtype, &[x.into(), Operand::Scalar(exponent)]),
    }
}

/// Of f64 and of the half types the two is a tensor without dimensions, which counts when types meet; otherwise a number.
fn ldexp(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let other = a.tensor("other")?;
    if b.dtype(other) == DType::Bool {
        // Refused by eager for some types of the first operand.
        return Err(OpError::unsupported("ldexp by booleans"));
    }
    let two = match b.dtype(x) {
        dtype if dtype.is_complex() => return Err(OpError::unsupported("ldexp of complex numbers")),
        DType::F64 | DType::F16 | DType::BF16 => b.full(Scalar::Float(2.0), b.dtype(x), &[]).into(),
        _ => 2.0.into(),
    };
    let power = power(b, two, other.into())?;
    Ok(b.multiply(&x.into(), &power.into())?.into())
}

fn extreme(b: &mut Builder, a: &mut Bound, float: PointOp, other: PointOp) -> OpResult<Value> {
    let operands = [a.tensor("input")?.into(), a.tensor("other")?.into()];
    let dtype = b.result_type(&operands);
    Ok(b.pointwise_in(if dtype.is_float() { float } else { other }, dtype, &operands)?.into())
}

/// Two float tensors in one shape, in the type that eager computes in; and the type of the result.
fn wide_floats(b: &mut Builder, a: &Bound) -> OpResult<(Vec<NodeId>, DType)> {
    let operands = &[a.tensor("input")?.into(), a.tensor("other")?.into()];
    let dtype = b.result_type(operands);
    if !dtype.is_float() {
        return Err(OpError::unsupported(format!("a float function of {dtype}")));
    }
    let rounded = b.together(operands, dtype)?;
    Ok((rounded.into_iter().map(|x| b.cast(x, dtype.compute())).collect(), dtype))
}

/// Scaled by the larger side, so that squares do not overflow.
fn hypot(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (args, dtype) = wide_floats(b, a)?;
    let sides = [b.unary(PointOp::Abs, args[0])?, b.unary(PointOp::Abs, args[1])?];
    let long = b.point(PointOp::Maximum, &sides)?;
    let short = b.point(PointOp::Minimum, &sides)?;
    let ratio = b.binary(PointOp::Div, short, long)?;
    let square = b.binary(PointOp::Mul, ratio, ratio)?;
    let inner = b.binary(PointOp::Add, square, 1.0)?;
    let root = b.unary(PointOp::Sqrt, inner)?;
    let length = b.binary(PointOp::Mul, long, root)?;
    let flat = b.binary(PointOp::Eq, short, 0.0)?;
    let length = b.choose(flat, long, length)?;
    let first = b.unary(PointOp::IsInf, args[0])?;
    let second = b.unary(PointOp::IsInf, args[1])?;
    let infinite = b.binary(PointOp::Or, first, second)?;
    let length = b.choose(infinite, f64::INFINITY, length)?;
    Ok(b.cast(length, dtype).into())
}

/// `max + log1p(exp(-|x - y|))`; equal infinities are their own result.
fn log_add(b: &mut Builder, a: &mut Bound, rest: fn(&mut Builder, NodeId) -> OpResult<NodeId>) -> OpResult<Value> {
    let (args, dtype) = wide_floats(b, a)?;
    let high = b.point(PointOp::Maximum, &args)?;
    let gap = b.point(PointOp::Sub, &args)?;
    let gap = b.unary(PointOp::Abs, gap)?;
    let gap = b.unary(PointOp::Neg, gap)?;
    let rest = rest(b, gap)?;
    let value = b.binary(PointOp::Add, high, rest)?;
    let same = b.point(PointOp::Eq, &args)?;
    let infinite = b.unary(PointOp::IsInf, args[0])?;
    let keep = b.binary(PointOp::And, same, infinite)?;
    let value = b.choose(keep, args[0], value)?;
    Ok(b.cast(value, dtype).into())
}

/// `x * log(y)`, 0 where x is 0 (and y is not NaN). Both steps round, as eager's.
fn times_log(b: &mut Builder, a: &mut Bound, log: PointOp) -> OpResult<Value> {
    let operands = [a.operand("input")?, a.operand("other")?];
    let dtype = b.float_type(b.result_type(&operands));
    let args = b.together(&operands, dtype)?;
    let logarithm = b.unary(log, args[1])?;
    let product = b.point(PointOp::Mul, &[args[0], logarithm])?;
    let zero = b.binary(PointOp::Eq, args[0], 0.0)?;
    let value = b.choose(zero, 0.0, product)?;
    let nan = b.unary(PointOp::IsNan, args[1])?;
    let value = b.choose(nan, f64::NAN, value)?;
    let path = times_log_path(b, &args, logarithm, if log == PointOp::Log { 0.0 } else { 1.0 })?;
    Ok(b.graft(value, path)?.into())
}

/// `x * log(y + one)`: nothing for `x` where it is 0 and the logarithm is not one.
fn times_log_path(b: &mut Builder, args: &[NodeId], logarithm: NodeId, one: f64) -> OpResult<NodeId> {
    let (x, y) = (Expr::Node(args[0]), Expr::Node(args[1]));
    let undefined = x.clone().eq(0.0).and(y.clone().le(-one));
    let by_x = undefined.pick(0.0, logarithm).build(b)?;
    let by_y = (x.clone() / (y.clone() + one)).build(b)?;
    let (by_x, by_y) = (b.detach(by_x)?, b.detach(by_y)?);
    (x * by_x + y * by_y).build(b)
}

fn heaviside(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, values) = (a.tensor("input")?, a.tensor("values")?);
    if b.dtype(x) != b.dtype(values) {
        return Err(OpError::runtime("heaviside is not yet implemented for tensors with different dtypes."));
    }
    let dtype = b.dtype(x);
    let zero = b.pointwise_in(PointOp::Eq, dtype, &[x.into(), 0i64.into()])?;
    let above = b.pointwise_in(PointOp::Gt, dtype, &[x.into(), 0i64.into()])?;
    let step = b.cast(above, dtype);
    Ok(b.choose(zero, values, step)?.into())
}

/// From whichever end is nearer, as eager does: `x + w*(y - x)` below one half, else `y - (y - x)*(1 - w)`.
fn lerp(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, y, weight) = (a.tensor("input")?, a.tensor("end")?, a.operand("weight")?);
    let dtype = b.dtype(x);
    if !dtype.is_float() || b.dtype(y) != dtype || weight.tensor().is_some_and(|w| b.dtype(w) != dtype) {
        return Err(OpError::unsupported("lerp of different types"));
    }
    let wide = dtype.compute();
    let args = b.together(&[x.into(), y.into(), weight], wide)?;
    let [x, y, weight] = args[..] else { return Err(OpError::bug("lerp takes three tensors")) };
    let gap = b.point(PointOp::Sub, &[y, x])?;
    let part = b.point(PointOp::Mul, &[weight, gap])?;
    let from_start = b.point(PointOp::Add, &[x, part])?;
    let rest = b.binary(PointOp::Sub, 1.0, weight)?;
    let part = b.point(PointOp::Mul, &[gap, rest])?;
    let from_end = b.point(PointOp::Sub, &[y, part])?;
    let size = b.unary(PointOp::Abs, weight)?;
    let near_start = b.binary(PointOp::Lt, size, 0.5)?;
    let value = b.choose(near_start, from_start, from_end)?;
    Ok(b.cast(value, dtype).into())
}

/// `input + value * tensor1 (* or /) tensor2`.
fn add_scaled(b: &mut Builder, a: &mut Bound, op: PointOp) -> OpResult<Value> {
    let tensors = [a.operand("input")?, a.operand("tensor1")?, a.operand("tensor2")?];
    let value = a.number("value")?;
    let dtype = b.result_type(&tensors);
    if op == PointOp::Div && !dtype.is_float() {
        return Err(OpError::runtime(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division \
             of tensor1 and tensor2.",
        ));
    }
    let args: Vec<NodeId> = b.together(&tensors, dtype)?.into_iter().map(|x| b.cast(x, dtype.compute())).collect();
    let first = match value {
        Operand::Scalar(value) if value.as_f64() == 1.0 => args[1],
        Operand::Scalar(value) => {
            let factor = b.full_like(value, args[1]);
            b.point(PointOp::Mul, &[factor, args[1]])?
        }
        value if dtype.is_float() => b.pointwise_in(PointOp::Mul, dtype.compute(), &[value, args[1].into()])?,
        _ => return Err(OpError::unsupported(format!("a factor of {dtype} that is not known"))),
    };
    let product = b.point(op, &[first, args[2]])?;
    let result = b.point(PointOp::Add, &[args[0], product])?;
    Ok(b.cast(result, dtype).into())
}
