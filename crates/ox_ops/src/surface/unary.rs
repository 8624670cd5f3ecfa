//! Functions of one tensor, element by element.

use super::shared::real;
use super::slope::sloped;
use super::{Bound, Surface, fresh, maybe};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{DType, PointOp, Scalar};

/// A row that is one PointOp, promoted as that op's class says.
macro_rules! point {
    ($($name:literal)|+ => $op:ident) => {
        fresh(&[$($name),+], "input", |b, a| {
            let x = a.tensor("input")?;
            Ok(b.unary(PointOp::$op, x)?.into())
        })
    };
}

pub const ROWS: &[Surface] = &[
    point!("exp" => Exp),
    point!("exp2" | "special.exp2" => Exp2),
    point!("expm1" | "special.expm1" => Expm1),
    point!("log" => Log),
    point!("log2" => Log2),
    point!("log10" => Log10),
    point!("log1p" | "special.log1p" => Log1p),
    point!("sqrt" => Sqrt),
    point!("rsqrt" => Rsqrt),
    point!("reciprocal" => Reciprocal),
    point!("sin" => Sin),
    point!("cos" => Cos),
    point!("tan" => Tan),
    point!("asin" | "arcsin" => Asin),
    point!("acos" | "arccos" => Acos),
    point!("atan" | "arctan" => Atan),
    point!("sinh" => Sinh),
    point!("cosh" => Cosh),
    point!("tanh" => Tanh),
    point!("asinh" | "arcsinh" => Asinh),
    point!("acosh" | "arccosh" => Acosh),
    point!("atanh" | "arctanh" => Atanh),
    point!("sigmoid" | "special.expit" => Sigmoid),
    point!("erf" | "special.erf" => Erf),
    point!("erfc" | "special.erfc" => Erfc),
    point!("lgamma" | "special.gammaln" => Lgamma),
    fresh(&["floor"], "input", |b, a| rounding(b, a, PointOp::Floor)),
    fresh(&["ceil"], "input", |b, a| rounding(b, a, PointOp::Ceil)),
    fresh(&["trunc", "fix"], "input", |b, a| rounding(b, a, PointOp::Trunc)),
    fresh(&["round", "special.round"], "input, *, decimals=None", round),
    fresh(&["frac"], "input", frac),
    fresh(&["abs", "absolute"], "input", abs),
    fresh(&["neg", "negative"], "input", neg),
    fresh(&["sign", "sgn"], "input", sign),
    maybe(&["positive", "pos"], "input", positive),
    fresh(&["signbit"], "input", signbit),
    fresh(&["isnan"], "input", |b, a| float_test(b, a, PointOp::IsNan)),
    fresh(&["isinf"], "input", |b, a| float_test(b, a, PointOp::IsInf)),
    fresh(&["isfinite"], "input", isfinite),
    fresh(&["isposinf"], "input", |b, a| infinite_with_sign(b, a, f64::INFINITY)),
    fresh(&["isneginf"], "input", |b, a| infinite_with_sign(b, a, f64::NEG_INFINITY)),
    fresh(&["isreal"], "input", |b, a| Ok(b.constant_mask(real(b, a, "input")?, true)?.into())),
    fresh(&["deg2rad"], "input", |b, a| scale(b, a, std::f64::consts::PI / 180.0)),
    fresh(&["rad2deg"], "input", |b, a| scale(b, a, 180.0 / std::f64::consts::PI)),
    fresh(&["square"], "input", square),
    fresh(&["sinc", "special.sinc"], "input", sinc),
    fresh(&["logit", "special.logit"], "input, eps=None", logit),
    fresh(&["angle"], "input", angle),
    fresh(&["nan_to_num"], "input, nan=None, posinf=None, neginf=None", nan_to_num),
];

impl Builder {
    /// A bool tensor of x's shape with one value everywhere.
    pub(super) fn constant_mask(&mut self, x: NodeId, value: bool) -> OpResult<NodeId> {
        let shape = self.shape(x);
        Ok(self.full(Scalar::Bool(value), DType::Bool, &shape))
    }

    /// A composite as eager's own kernels compute it: in f32 for the half types, rounded once at the end.
    pub fn in_compute_type(&mut self, x: NodeId, f: impl FnOnce(&mut Builder, NodeId) -> OpResult<NodeId>) -> OpResult<NodeId> {
        let dtype = self.dtype(x);
        let wide = self.cast(x, dtype.compute());
        let result = f(self, wide)?;
        Ok(self.cast(result, dtype))
    }
}

fn not_for_bool(b: &Builder, x: NodeId, message: &str) -> OpResult<()> {
    if b.dtype(x) == DType::Bool { Err(OpError::runtime(message)) } else { Ok(()) }
}

/// Integers are whole already.
fn rounding(b: &mut Builder, a: &mut Bound, op: PointOp) -> OpResult<Value> {
    let x = a.tensor("input")?;
    if b.dtype(x).is_int() {
        return Ok(x.into());
    }
    Ok(b.pointwise_in(op, b.dtype(x), &[x.into()])?.into())
}

fn round(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    if !a.has("decimals") {
        return rounding(b, a, PointOp::Round);
    }
    let (x, decimals) = (a.tensor("input")?, a.const_int("decimals")?);
    if !b.dtype(x).is_float() {
        return Err(OpError::unsupported("round to decimals of a tensor that is not float"));
    }
    if decimals == 0 {
        return rounding(b, a, PointOp::Round);
    }
    let (before, after) = if decimals > 0 { (PointOp::Mul, PointOp::Div) } else { (PointOp::Div, PointOp::Mul) };
    let ten = 10f64.powi(decimals.unsigned_abs() as i32);
    let result = b.in_compute_type(x, |b, x| {
        let scaled = b.binary(before, x, ten)?;
        let whole = b.unary(PointOp::Round, scaled)?;
        b.binary(after, whole, ten)
    })?;
    Ok(result.into())
}

fn frac(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let whole = b.pointwise_in(PointOp::Trunc, b.dtype(x), &[x.into()])?;
    Ok(b.point(PointOp::Sub, &[x, whole])?.into())
}

fn abs(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    Ok(b.pointwise_in(PointOp::Abs, b.dtype(x), &[x.into()])?.into())
}

fn neg(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    not_for_bool(
        b,
        x,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
         `logical_not()` operator instead.",
    )?;
    Ok(b.pointwise_in(PointOp::Neg, b.dtype(x), &[x.into()])?.into())
}

fn sign(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    match b.dtype(x) {
        DType::Bool => Ok(x.into()),
        dtype => Ok(b.pointwise_in(PointOp::Sign, dtype, &[x.into()])?.into()),
    }
}

fn positive(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    not_for_bool(b, x, "The `+` operator, on a bool tensor is not supported.")?;
    Ok(x.into())
}

fn signbit(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    if b.dtype(x).is_float() {
        return Ok(b.unary(PointOp::SignBit, x)?.into());
    }
    match b.dtype(x) {
        DType::Bool => Ok(b.constant_mask(x, false)?.into()),
        dtype => Ok(b.pointwise_in(PointOp::Lt, dtype, &[x.into(), 0i64.into()])?.into()),
    }
}

/// False everywhere on integers.
fn float_test(b: &mut Builder, a: &mut Bound, op: PointOp) -> OpResult<Value> {
    let x = a.tensor("input")?;
    match b.dtype(x) {
        dtype if dtype.is_float() => Ok(b.unary(op, x)?.into()),
        dtype if dtype.is_complex() => Err(OpError::unsupported("class test of complex numbers")),
        _ => Ok(b.constant_mask(x, false)?.into()),
    }
}

/// |x| < inf is false for NaN too.
fn isfinite(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    match b.dtype(x) {
        dtype if dtype.is_float() => Ok(b.finite(x)?.into()),
        dtype if dtype.is_complex() => Err(OpError::unsupported("class test of complex numbers")),
        _ => Ok(b.constant_mask(x, true)?.into()),
    }
}

impl Builder {
    pub(super) fn finite(&mut self, x: NodeId) -> OpResult<NodeId> {
        let size = self.unary(PointOp::Abs, x)?;
        self.binary(PointOp::Lt, size, f64::INFINITY)
    }
}

fn infinite_with_sign(b: &mut Builder, a: &mut Bound, value: f64) -> OpResult<Value> {
    let x = a.tensor("input")?;
    if !b.dtype(x).is_float() {
        return Ok(b.constant_mask(x, false)?.into());
    }
    Ok(b.binary(PointOp::Eq, x, value)?.into())
}

fn scale(b: &mut Builder, a: &mut Bound, factor: f64) -> OpResult<Value> {
    let x = a.tensor("input")?;
    Ok(b.multiply(&x.into(), &factor.into())?.into())
}

fn square(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let x = if b.dtype(x) == DType::Bool { b.cast(x, DType::I64) } else { x };
    Ok(b.pointwise_in(PointOp::Mul, b.dtype(x), &[x.into(), x.into()])?.into())
}

fn sinc(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let x = b.cast(x, b.float_type(b.dtype(x)));
    let result = b.in_compute_type(x, |b, x| {
        let angle = b.binary(PointOp::Mul, x, std::f64::consts::PI)?;
        let sine = b.unary(PointOp::Sin, angle)?;
        let ratio = b.binary(PointOp::Div, sine, angle)?;
        let zero = b.binary(PointOp::Eq, x, 0.0)?;
        let y = b.choose(zero, 1.0, ratio)?;
        let slope = (Expr::Node(angle).unary(PointOp::Cos) - ratio) / x;
        sloped(b, y, x, Expr::Node(zero).pick(0.0, slope))
    })?;
    Ok(result.into())
}

/// Eager rounds after each step.
fn logit(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let whole = b.cast(x, b.float_type(b.dtype(x)));
    let (mut x, eps) = (whole, a.opt_float("eps")?);
    // Where the bounds cross, each holds on its own side.
    if let Some(eps) = eps {
        let (below, above) = (b.binary(PointOp::Lt, x, eps)?, b.binary(PointOp::Gt, x, 1.0 - eps)?);
        let capped = b.choose(above, 1.0 - eps, x)?;
        x = b.choose(below, eps, capped)?;
    }
    let rest = b.binary(PointOp::Sub, 1.0, x)?;
    let odds = b.binary(PointOp::Div, x, rest)?;
    let y = b.unary(PointOp::Log, odds)?;
    let at = || Expr::Node(whole);
    let (low, high, beyond) = eps.map_or((0.0, 1.0, f64::NAN), |eps| (eps, 1.0 - eps, 0.0));
    let outside = at().lt(low).or(at().gt(high));
    Ok(sloped(b, y, whole, outside.pick(beyond, 1.0 / (at() * (1.0 - at()))))?.into())
}

/// Pi below zero, else 0.
fn angle(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    if b.dtype(x).is_complex() {
        return Err(OpError::unsupported("the angle of complex numbers"));
    }
    let x = b.cast(x, b.float_type(b.dtype(x)));
    let below = b.binary(PointOp::Lt, x, 0.0)?;
    let angle = b.choose(below, std::f64::consts::PI, 0.0)?;
    let angle = b.cast(angle, b.dtype(x));
    let nan = b.unary(PointOp::IsNan, x)?;
    Ok(b.choose(nan, x, angle)?.into())
}

fn nan_to_num(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return if dtype.is_complex() { Err(OpError::unsupported("nan_to_num of complex numbers")) } else { Ok(x.into()) };
    }
    let nan = a.opt_float("nan")?.unwrap_or(0.0);
    let top = a.opt_float("posinf")?.unwrap_or(largest(dtype));
    let bottom = a.opt_float("neginf")?.unwrap_or(-largest(dtype));
    let is_top = b.binary(PointOp::Eq, x, f64::INFINITY)?;
    let is_bottom = b.binary(PointOp::Eq, x, f64::NEG_INFINITY)?;
    let is_nan = b.unary(PointOp::IsNan, x)?;
    let x = b.choose(is_top, top, x)?;
    let x = b.choose(is_bottom, bottom, x)?;
    Ok(b.choose(is_nan, nan, x)?.into())
}

/// The largest finite value of a float type.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    }
}
