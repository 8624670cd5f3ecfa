//! Activation functions. Each is written in the formula of eager's own kernel, in f32 for the half types, with one rounding at the
//! end; the few that eager composes of tensor operations are composed here too, so that they round alike.

use super::binary::round_to;
use super::slope::{gated, sloped};
use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{Device, PointOp, Sym};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

const SELU_ALPHA: f64 = 1.6732632423543772848170429916717;
const SELU_SCALE: f64 = 1.0507009873554804934193349852946;

pub const ROWS: &[Surface] = &[
    fresh(&["relu"], "input, inplace=False", |b, a| {
        let x = a.tensor("input")?;
        let y = b.pointwise_in(PointOp::Maximum, number_type(b, x)?, &[x.into(), 0i64.into()])?;
        // By the result, so that the argument need not be kept.
        let closed = Expr::Node(y).le(0.0);
        Ok(gated(b, y, x, closed.unary(PointOp::Not))?.into())
    }),
    fresh(&["relu6"], "input, inplace=False", |b, a| bounded(b, a.tensor("input")?, 0.0, 6.0)),
    fresh(&["hardtanh"], "input, min_val=-1.0, max_val=1.0, inplace=False", |b, a| {
        bounded(b, a.tensor("input")?, a.float("min_val")?, a.float("max_val")?)
    }),
    fresh(&["leaky_relu"], "input, negative_slope=0.01, inplace=False", leaky_relu),
    fresh(&["rrelu"], "input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False", rrelu),
    fresh(&["prelu"], "input, weight", prelu),
    fresh(&["elu"], "input, alpha=1.0, scale=1, input_scale=1, inplace=False", elu_row),
    fresh(&["F.elu"], "input, alpha=1.0, inplace=False", |b, a| elu(b, a.tensor("input")?, a.float("alpha")?, 1.0, 1.0)),
    fresh(&["selu"], "input, inplace=False", |b, a| elu(b, a.tensor("input")?, SELU_ALPHA, SELU_SCALE, 1.0)),
    fresh(&["celu"], "input, alpha=1.0, inplace=False", celu),
    fresh(&["gelu"], "input, *, approximate=none", gelu),
    fresh(&["silu"], "input, inplace=False", |b, a| composite(b, a, silu)),
    fresh(&["mish"], "input, inplace=False", |b, a| composite(b, a, mish)),
    fresh(&["hardswish"], "input, inplace=False", |b, a| composite(b, a, hardswish)),
    fresh(&["hardsigmoid"], "input, inplace=False", |b, a| composite(b, a, hardsigmoid)),
    fresh(&["logsigmoid", "log_sigmoid"], "input", |b, a| composite(b, a, log_sigmoid)),
    fresh(&["softplus"], "input, beta=1.0, threshold=20.0", softplus),
    fresh(&["softsign"], "input", softsign),
    fresh(&["tanhshrink"], "input", tanhshrink),
    fresh(&["softshrink"], "input, lambd=0.5", softshrink),
    fresh(&["hardshrink"], "input, lambd=0.5", hardshrink),
    fresh(&["threshold", "_threshold"], "input, threshold, value, inplace=False", threshold),
    fresh(&["glu"], "input, dim=-1", glu),
];

/// A float tensor, or an error as eager's kernels give it.
fn float_input(b: &Builder, a: &Bound) -> OpResult<NodeId> {
    let x = a.tensor("input")?;
    if b.dtype(x).is_float() { Ok(x) } else { Err(OpError::unsupported(format!("activation on {}", b.dtype(x)))) }
}

fn number_type(b: &Builder, x: NodeId) -> OpResult<ox_ir::DType> {
    match b.dtype(x) {
        ox_ir::DType::Bool => Err(OpError::runtime("Boolean inputs not supported for relu")),
        dtype => Ok(dtype),
    }
}

fn composite(b: &mut Builder, a: &mut Bound, f: fn(&mut Builder, NodeId) -> OpResult<NodeId>) -> OpResult<Value> {
    let x = float_input(b, a)?;
    Ok(b.in_compute_type(x, f)?.into())
}

fn bounded(b: &mut Builder, x: NodeId, low: f64, high: f64) -> OpResult<Value> {
    let dtype = number_type(b, x)?;
    if !dtype.is_float() && (low.fract() != 0.0 || high.fract() != 0.0) {
        return Err(OpError::unsupported("hardtanh of integers between fractions"));
    }
    let least = low;
    let low = b.pointwise_in(PointOp::Maximum, dtype, &[x.into(), low.into()])?;
    let y = b.pointwise_in(PointOp::Minimum, dtype, &[low.into(), high.into()])?;
    // The bounds of the gradient are not rounded.
    let wide = Expr::Node(b.cast(x, dtype.compute()));
    let outside = wide.clone().le(least).or(wide.ge(high));
    Ok(gated(b, y, x, outside.unary(PointOp::Not))?.into())
}

/// `x` where it is above zero, `slope * x` elsewhere.
fn leak(b: &mut Builder, x: NodeId, slope: impl Into<Operand>) -> OpResult<NodeId> {
    let above = b.binary(PointOp::Gt, x, 0.0)?;
    let leaked = b.binary(PointOp::Mul, x, slope)?;
    b.choose(above, x, leaked)
}

fn leaky_relu(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = float_input(b, a)?;
    let slope = match a.operand("negative_slope")? {
        Operand::Scalar(slope) => slope.as_f64().into(),
        number => Operand::Tensor(b.materialise(&number, b.dtype(x).compute())),
    };
    Ok(b.in_compute_type(x, |b, x| leak(b, x, slope))?.into())
}

fn rrelu(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, lower, upper) = (float_input(b, a)?, a.float("lower")?, a.float("upper")?);
    if !a.boolean("training")? {
        return Ok(b.in_compute_type(x, |b, x| leak(b, x, (lower + upper) / 2.0))?.into());
    }
    if !(lower <= upper && (upper - lower).is_finite()) {
        return Err(OpError::unsupported(format!("slopes from {lower} to {upper}")));
    }
    let (shape, wide) = (b.shape(x), b.dtype(x).compute());
    let share = b.draw(None, &shape)?.uniform(b, wide)?;
    let slope = (Expr::Node(share) * (upper - lower) + lower).build(b)?;
    Ok(b.in_compute_type(x, |b, x| leak(b, x, slope))?.into())
}

/// One weight for all, or one for each channel (dimension 1).
fn prelu(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, weight) = (float_input(b, a)?, a.tensor("weight")?);
    if b.dtype(weight) != b.dtype(x) {
        return Err(OpError::runtime("prelu: Type promoting not supported."));
    }
    let mut shape: Vec<Sym> = vec![Sym::ONE; b.rank(x)];
    let channels = b.ty(weight).numel();
    if b.rank(x) >= 2 {
        shape[1] = channels.clone();
    }
    let weight = b.reshape(weight, &shape)?;
    let wide = b.cast(weight, b.dtype(x).compute());
    Ok(b.in_compute_type(x, |b, x| leak(b, x, wide))?.into())
}

/// `scale * x` above zero, `scale * alpha * expm1(x * input_scale)` elsewhere.
fn elu(b: &mut Builder, x: NodeId, alpha: f64, scale: f64, input_scale: f64) -> OpResult<Value> {
    if !b.dtype(x).is_float() {
        return Err(OpError::unsupported(format!("activation on {}", b.dtype(x))));
    }
    let result = b.in_compute_type(x, |b, x| {
        let inner = if input_scale == 1.0 { x } else { b.binary(PointOp::Mul, x, input_scale)? };
        let below = b.unary(PointOp::Expm1, inner)?;
        let below = b.binary(PointOp::Mul, below, alpha * scale)?;
        let above = if scale == 1.0 { x } else { b.binary(PointOp::Mul, x, scale)? };
        let negative = b.binary(PointOp::Le, x, 0.0)?;
        let y = b.choose(negative, below, above)?;
        let steep = Expr::Node(inner).unary(PointOp::Exp) * (alpha * scale * input_scale);
        sloped(b, y, x, Expr::Node(negative).pick(steep, scale))
    })?;
    Ok(result.into())
}

fn elu_row(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    elu(b, a.tensor("input")?, a.float("alpha")?, a.float("scale")?, a.float("input_scale")?)
}

fn celu(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let alpha = a.float("alpha")?;
    if alpha == 0.0 {
        return Err(OpError::User {
            kind: crate::error::ExceptionKind::ZeroDivisionError,
            message: "ZeroDivisionError: alpha cannot be 0 for CELU".into(),
        });
    }
    elu(b, a.tensor("input")?, alpha, 1.0, 1.0 / alpha)
}

fn gelu(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = float_input(b, a)?;
    match a.str("approximate")? {
        "none" => Ok(b.in_compute_type(x, gelu_exact)?.into()),
        "tanh" => Ok(b.in_compute_type(x, gelu_tanh)?.into()),
        _ => Err(OpError::runtime("approximate argument must be either none or tanh.")),
    }
}

/// `x * 0.5 * (1 + erf(x / sqrt(2)))`.
fn gelu_exact(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let half = b.binary(PointOp::Mul, x, 0.5)?;
    let inner = b.binary(PointOp::Mul, x, FRAC_1_SQRT_2)?;
    let erf = b.unary(PointOp::Erf, inner)?;
    let factor = b.binary(PointOp::Add, erf, 1.0)?;
    b.binary(PointOp::Mul, half, factor)
}

/// `x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))`.
fn gelu_tanh(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let cube = b.binary(PointOp::Mul, x, x)?;
    let cube = b.binary(PointOp::Mul, cube, x)?;
    let cube = b.binary(PointOp::Mul, cube, 0.044715)?;
    let inner = b.binary(PointOp::Add, x, cube)?;
    let inner = b.binary(PointOp::Mul, inner, SQRT_2 * FRAC_2_SQRT_PI * 0.5)?;
    let tanh = b.unary(PointOp::Tanh, inner)?;
    let factor = b.binary(PointOp::Add, tanh, 1.0)?;
    let half = b.binary(PointOp::Mul, x, 0.5)?;
    b.binary(PointOp::Mul, half, factor)
}

/// `x / (1 + exp(-x))`.
fn silu(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let negative = b.unary(PointOp::Neg, x)?;
    let exp = b.unary(PointOp::Exp, negative)?;
    let below = b.binary(PointOp::Add, exp, 1.0)?;
    let y = b.binary(PointOp::Div, x, below)?;
    let gate = Expr::Node(x).unary(PointOp::Sigmoid);
    sloped(b, y, x, gate.clone() * (1.0 + Expr::Node(x) * (1.0 - gate)))
}

fn mish(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let exp = b.unary(PointOp::Exp, x)?;
    let soft = b.unary(PointOp::Log1p, exp)?;
    let tanh = b.unary(PointOp::Tanh, soft)?;
    let y = b.binary(PointOp::Mul, x, tanh)?;
    let gate = Expr::Node(x).unary(PointOp::Sigmoid);
    sloped(b, y, x, Expr::Node(tanh) + Expr::Node(x) * gate * (1.0 - Expr::Node(tanh).square()))
}

/// `min(max(x + 3, 0), 6)`.
fn hard_ramp(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let shifted = b.binary(PointOp::Add, x, 3.0)?;
    let low = b.binary(PointOp::Maximum, shifted, 0.0)?;
    b.binary(PointOp::Minimum, low, 6.0)
}

fn hardswish(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let ramp = hard_ramp(b, x)?;
    let product = b.binary(PointOp::Mul, x, ramp)?;
    let y = b.binary(PointOp::Div, product, 6.0)?;
    let at = || Expr::Node(x);
    let inside = at().lt(3.0).pick(at() / 3.0 + 0.5, 1.0);
    sloped(b, y, x, at().le(-3.0).pick(0.0, inside))
}

fn hardsigmoid(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let ramp = hard_ramp(b, x)?;
    let y = b.binary(PointOp::Div, ramp, 6.0)?;
    let inside = Expr::Node(x).gt(-3.0).and(Expr::Node(x).lt(3.0));
    sloped(b, y, x, inside.pick(1.0 / 6.0, 0.0))
}

/// `min(x, 0) - log1p(exp(-|x|))`.
fn log_sigmoid(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let low = b.binary(PointOp::Minimum, x, 0.0)?;
    let size = b.unary(PointOp::Abs, x)?;
    let negative = b.unary(PointOp::Neg, size)?;
    let exp = b.unary(PointOp::Exp, negative)?;
    let log = b.unary(PointOp::Log1p, exp)?;
    b.binary(PointOp::Sub, low, log)
}

fn softplus(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, beta, threshold) = (float_input(b, a)?, a.float("beta")?, a.float("threshold")?);
    let result = b.in_compute_type(x, |b, x| {
        let scaled = b.binary(PointOp::Mul, x, beta)?;
        let exp = b.unary(PointOp::Exp, scaled)?;
        let log = b.unary(PointOp::Log1p, exp)?;
        let soft = b.binary(PointOp::Div, log, beta)?;
        let linear = b.binary(PointOp::Gt, scaled, threshold)?;
        let y = b.choose(linear, x, soft)?;
        sloped(b, y, x, Expr::Node(linear).pick(1.0, Expr::Node(scaled).unary(PointOp::Sigmoid)))
    })?;
    Ok(result.into())
}

/// Composed in eager: every step rounds.
fn softsign(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let size = b.pointwise_in(PointOp::Abs, b.dtype(x), &[x.into()])?;
    let below = b.binary(PointOp::Add, size, 1i64)?;
    Ok(b.divide(&x.into(), &below.into())?.into())
}

/// Composed in eager: every step rounds.
fn tanhshrink(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let tanh = b.unary(PointOp::Tanh, x)?;
    Ok(b.binary(PointOp::Sub, x, tanh)?.into())
}

fn softshrink(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, lambda) = (float_input(b, a)?, a.float("lambd")?);
    if lambda < 0.0 {
        return Err(OpError::runtime(format!("lambda must be greater or equal to 0, but found to be {lambda}.")));
    }
    let result = b.in_compute_type(x, |b, x| {
        let down = b.binary(PointOp::Sub, x, lambda)?;
        let up = b.binary(PointOp::Add, x, lambda)?;
        let zero = b.binary(PointOp::Mul, x, 0.0)?;
        let (above, below) = (b.binary(PointOp::Gt, x, lambda)?, b.binary(PointOp::Lt, x, -lambda)?);
        let low = b.choose(below, up, zero)?;
        b.choose(above, down, low)
    })?;
    let inside = within(b, x, lambda)?;
    Ok(gated(b, result, x, Expr::Node(inside).unary(PointOp::Not))?.into())
}

/// Between two bounds that are rounded to the type of `x`.
fn within(b: &mut Builder, x: NodeId, bound: f64) -> OpResult<NodeId> {
    let bound = round_to(b.dtype(x), bound);
    let (from, to) = (b.binary(PointOp::Ge, x, -bound)?, b.binary(PointOp::Le, x, bound)?);
    b.binary(PointOp::And, from, to)
}

fn hardshrink(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, lambda) = (float_input(b, a)?, a.float("lambd")?);
    let inside = within(b, x, lambda)?;
    Ok(b.choose(inside, 0.0, x)?.into())
}

fn threshold(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dtype = b.dtype(x);
    let (threshold, value) = (a.operand("threshold")?, a.operand("value")?);
    // On the CPU the number is not rounded.
    let wide = if b.device == Device::Cpu { dtype.compute() } else { dtype };
    let below = b.pointwise_in(PointOp::Le, wide, &[x.into(), threshold])?;
    let value = b.materialise(&value, dtype);
    let args = b.broadcast(&[below, value, x])?;
    Ok(b.point(PointOp::Where, &args)?.into())
}

fn glu(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = float_input(b, a)?;
    let dim = a.dim("dim", b.rank(x))?;
    if b.rank(x) == 0 {
        return Err(OpError::runtime("glu does not support 0-dimensional tensors"));
    }
    let size = b.shape(x)[dim].clone();
    if !size.is_multiple_of(2) && size.as_const().is_none() {
        return Err(OpError::unsupported(format!("glu of a dimension of size {size}, which may be odd")));
    }
    if !size.is_multiple_of(2) {
        return Err(OpError::runtime(format!("Halving dimension must be even, but dimension {dim} is size {size}")));
    }
    let half = size.div(&Sym::from(2i64));
    let value = b.slice_dim(x, dim, &Sym::ZERO, &half, 1)?;
    let gate = b.slice_dim(x, dim, &half, &half, 1)?;
    let gate = b.cast(gate, b.dtype(x).compute());
    let gate = b.unary(PointOp::Sigmoid, gate)?;
    Ok(b.in_compute_type(value, |b, value| b.binary(PointOp::Mul, value, gate))?.into())
}
