//! Comparison, logic, bits, choice and clamping.

use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{DType, PointOp, Scalar};

macro_rules! binary {
    ($($name:literal)|+ => $f:ident $op:ident) => {
        fresh(&[$($name),+], "input, other", |b, a| {
            Ok($f(b, PointOp::$op, [a.operand("input")?, a.operand("other")?])?.into())
        })
    };
}

pub const ROWS: &[Surface] = &[
    binary!("eq" => compare Eq),
    binary!("ne" | "not_equal" => compare Ne),
    binary!("lt" | "less" => compare Lt),
    binary!("le" | "less_equal" => compare Le),
    binary!("gt" | "greater" => compare Gt),
    binary!("ge" | "greater_equal" => compare Ge),
    binary!("logical_and" => logic And),
    binary!("logical_or" => logic Or),
    binary!("logical_xor" => logic Xor),
    binary!("bitwise_and" | "and" => bits And),
    binary!("bitwise_or" | "or" => bits Or),
    binary!("bitwise_xor" | "xor" => bits Xor),
    binary!("bitwise_left_shift" | "lshift" => shift Shl),
    binary!("bitwise_right_shift" | "rshift" => shift Shr),
    fresh(&["logical_not"], "input", |b, a| {
        let x = b.cast(a.tensor("input")?, DType::Bool);
        Ok(b.point(PointOp::Not, &[x])?.into())
    }),
    fresh(&["bitwise_not", "invert", "inv"], "input", |b, a| {
        let x = a.tensor("input")?;
        Ok(b.pointwise_in(PointOp::Not, b.dtype(x), &[x.into()])?.into())
    }),
    fresh(&["where"], "condition, input, other", where_),
    fresh(&["Tensor.where"], "input, condition, other", where_),
    fresh(&["masked_fill"], "input, mask, value", masked_fill),
    fresh(&["clamp", "clip"], "input, min=None, max=None", |b, a| {
        clamp(b, a.tensor("input")?, a.opt_operand("min")?, a.opt_operand("max")?)
    }),
    fresh(&["clamp_min"], "input, min", |b, a| bounded(b, a.tensor("input")?, Some(a.operand("min")?), None)),
    fresh(&["clamp_max"], "input, max", |b, a| bounded(b, a.tensor("input")?, None, Some(a.operand("max")?))),
    fresh(&["isclose"], "input, other, rtol=1e-05, atol=1e-08, equal_nan=False", isclose),
];

fn compare(b: &mut Builder, op: PointOp, operands: [Operand; 2]) -> OpResult<NodeId> {
    b.pointwise(op, &operands)
}

fn logic(b: &mut Builder, op: PointOp, operands: [Operand; 2]) -> OpResult<NodeId> {
    let args = operands.map(|o| match o {
        Operand::Tensor(x) => b.cast(x, DType::Bool).into(),
        other => other,
    });
    b.pointwise_in(op, DType::Bool, &args)
}

fn bits(b: &mut Builder, op: PointOp, operands: [Operand; 2]) -> OpResult<NodeId> {
    let dtype = b.result_type(&operands);
    if dtype.is_float() {
        let name = crate::promote::torch_name(dtype);
        let message = format!("\"bitwise_{}_cpu\" not implemented for '{name}'", op.name());
        return Err(OpError::User { kind: crate::error::ExceptionKind::NotImplementedError, message });
    }
    b.pointwise_in(op, dtype, &operands)
}

/// Only integers shift here; eager has odd rules for the others.
fn shift(b: &mut Builder, op: PointOp, operands: [Operand; 2]) -> OpResult<NodeId> {
    let dtype = b.result_type(&operands);
    if !dtype.is_int() {
        return Err(OpError::unsupported(format!("shift of {dtype}")));
    }
    b.pointwise_in(op, dtype, &operands)
}

fn where_(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let condition = a.tensor("condition")?;
    if !matches!(b.dtype(condition), DType::Bool | DType::U8) {
        let name = crate::promote::torch_name(b.dtype(condition)).to_lowercase();
        return Err(OpError::runtime(format!(
            "where expected condition to be a boolean tensor, but got a tensor with dtype {name}"
        )));
    }
    Ok(b.choose(condition, a.operand("input")?, a.operand("other")?)?.into())
}

/// The value takes the tensor's type, whatever its own.
fn masked_fill(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, mask, value) = (a.tensor("input")?, a.tensor("mask")?, a.operand("value")?);
    if b.dtype(mask) != DType::Bool {
        let name = crate::promote::torch_name(b.dtype(mask));
        return Err(OpError::runtime(format!("masked_fill only supports boolean masks, but got mask with dtype {name}")));
    }
    if value.tensor().is_some_and(|v| b.rank(v) > 0) {
        let rank = value.tensor().map_or(0, |v| b.rank(v));
        return Err(OpError::runtime(format!(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with {rank} dimension(s)."
        )));
    }
    let dtype = b.dtype(x);
    let value = b.materialise(&value, dtype);
    let args = b.broadcast(&[mask, value, x])?;
    Ok(b.point(PointOp::Where, &args)?.into())
}

/// As a number, NaN is no bound if it is alone.
pub(super) fn clamp(b: &mut Builder, x: NodeId, low: Option<Operand>, high: Option<Operand>) -> OpResult<Value> {
    match (low, high) {
        (Some(low), None) => {
            let low = unless_nan(b, low, f64::NEG_INFINITY)?;
            bounded(b, x, Some(low), None)
        }
        (None, Some(high)) => {
            let high = unless_nan(b, high, f64::INFINITY)?;
            bounded(b, x, None, Some(high))
        }
        (low, high) => bounded(b, x, low, high),
    }
}

fn unless_nan(b: &mut Builder, number: Operand, otherwise: f64) -> OpResult<Operand> {
    Ok(match number {
        Operand::Scalar(value) if value.as_f64().is_nan() => otherwise.into(),
        Operand::Number(node) if b.dtype(node).is_float() => {
            let nan = b.unary(PointOp::IsNan, node)?;
            let wide = b.dtype(node);
            let otherwise = b.full(Scalar::Float(otherwise), wide, &[]);
            Operand::Number(b.choose(nan, otherwise, node)?)
        }
        other => other,
    })
}

/// The lower bound first: where the bounds cross the upper one wins, and NaN stays, be it a bound's.
fn bounded(b: &mut Builder, x: NodeId, low: Option<Operand>, high: Option<Operand>) -> OpResult<Value> {
    let operands: Vec<Operand> = [Some(x.into()), low.clone(), high.clone()].into_iter().flatten().collect();
    if operands.len() == 1 {
        return Err(OpError::runtime("torch.clamp: At least one of 'min' or 'max' must not be None"));
    }
    let dtype = b.result_type(&operands);
    let mut value = b.cast(x, dtype);
    let whole = value;
    if let Some(low) = &low {
        value = b.pointwise_in(PointOp::Maximum, dtype, &[value.into(), low.clone()])?;
    }
    if let Some(high) = &high {
        value = b.pointwise_in(PointOp::Minimum, dtype, &[value.into(), high.clone()])?;
    }
    if !dtype.is_float() {
        return Ok(value.into());
    }
    let path = clamp_path(b, whole, low, high, dtype)?;
    Ok(b.graft(value, path)?.into())
}

/// The gradient goes to the argument inside of the bounds, which belong to it; outside to the bound, where the bounds are apart.
fn clamp_path(b: &mut Builder, x: NodeId, low: Option<Operand>, high: Option<Operand>, dtype: DType) -> OpResult<NodeId> {
    let bounds = [low.is_some(), high.is_some()];
    let operands: Vec<Operand> = [Some(x.into()), low, high].into_iter().flatten().collect();
    let mut nodes = b.together(&operands, dtype)?.into_iter().map(Expr::Node);
    let mut next = || nodes.next().unwrap_or(Expr::Number(0.0));
    let x = next();
    let path = match bounds {
        [true, true] => {
            let (low, high) = (next(), next());
            let inside = x.clone().ge(low.clone()).and(x.clone().le(high.clone()));
            let below = low.clone().lt(high.clone()).and(x.clone().lt(low.clone()));
            let above = x.clone().gt(high.clone()).or(high.clone().lt(low.clone()));
            inside.pick(x, 0.0) + below.pick(low, 0.0) + above.pick(high, 0.0)
        }
        [true, false] => {
            let low = next();
            x.clone().ge(low.clone()).pick(x.clone(), 0.0) + x.lt(low.clone()).pick(low, 0.0)
        }
        _ => {
            let high = next();
            x.clone().le(high.clone()).pick(x.clone(), 0.0) + x.gt(high.clone()).pick(high, 0.0)
        }
    };
    path.build(b)
}

fn isclose(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, y) = (a.tensor("input")?, a.tensor("other")?);
    let (rtol, atol) = (a.float("rtol")?, a.float("atol")?);
    if b.dtype(x) != b.dtype(y) || !b.dtype(x).is_float() {
        return Err(OpError::unsupported("isclose of tensors that are not of one float type"));
    }
    let mut close = b.binary(PointOp::Eq, x, y)?;
    if a.boolean("equal_nan")? {
        let (nan_x, nan_y) = (b.unary(PointOp::IsNan, x)?, b.unary(PointOp::IsNan, y)?);
        let both = b.binary(PointOp::And, nan_x, nan_y)?;
        close = b.binary(PointOp::Or, close, both)?;
    }
    let slack = b.multiply(&y.into(), &rtol.into())?;
    let slack = b.unary(PointOp::Abs, slack)?;
    let allowed = b.binary(PointOp::Add, slack, atol)?;
    let gap = b.binary(PointOp::Sub, x, y)?;
    let gap = b.unary(PointOp::Abs, gap)?;
    let near = b.binary(PointOp::Le, gap, allowed)?;
    let finite = b.finite(gap)?;
    let near = b.binary(PointOp::And, near, finite)?;
    Ok(b.binary(PointOp::Or, close, near)?.into())
}
