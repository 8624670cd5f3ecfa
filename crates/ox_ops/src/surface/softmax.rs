//! Softmax and its kin: a maximum over the row, then a sum of exponentials.

use super::shared::{drop_dims, float, not_implemented, only_float, real, reduced_dims, sum_over, wide};
use super::slope::{log_softmax_slope, shared_out, softmax_slope};
use super::{Bound, Surface, fresh, wrap_dim};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::promote::torch_name;
use crate::value::Value;
use ox_ir::graph::{NodeId, ReduceOp};
use ox_ir::{DType, PointOp};

const FUNCTIONAL: &str = "input, dim=None, _stacklevel=3, dtype=None";
const PLAIN: &str = "input, dim, dtype=None";

pub const ROWS: &[Surface] = &[
    fresh(&["F.softmax"], FUNCTIONAL, softmax),
    fresh(&["softmax", "special.softmax"], PLAIN, softmax),
    fresh(&["F.log_softmax"], FUNCTIONAL, log_softmax),
    fresh(&["log_softmax", "special.log_softmax"], PLAIN, log_softmax),
    fresh(&["F.softmin"], FUNCTIONAL, softmin),
    fresh(&["aten._softmax"], "input, dim, half_to_float", |b, args| aten(b, args, softmax_along)),
    fresh(&["aten._log_softmax"], "input, dim, half_to_float", |b, args| aten(b, args, log_softmax_along)),
    fresh(&["_safe_softmax"], PLAIN, |b, args| along_dim(b, args, safe_softmax_along)),
    fresh(&["logsumexp", "special.logsumexp"], "input, dim, keepdim=False", logsumexp),
];

type Along = fn(&mut Builder, NodeId, usize) -> OpResult<NodeId>;

fn softmax(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    along_dim(b, args, softmax_along)
}

fn log_softmax(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    along_dim(b, args, log_softmax_along)
}

/// Of whole numbers the negation comes before the conversion: uint8 has no negative ones.
fn softmin(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    only_float(b, args, "input", "softmin")?;
    along_dim(b, args, |b, x, dim| {
        let negated = b.unary(PointOp::Neg, x)?;
        softmax_along(b, negated, dim)
    })
}

fn aten(b: &mut Builder, args: &mut Bound, f: Along) -> OpResult<Value> {
    let x = float(b, args, "input", "\"softmax\"")?;
    if args.boolean("half_to_float")? {
        return Err(OpError::unsupported("softmax from half to float"));
    }
    let dim = args.dim("dim", b.rank(x))?;
    let dtype = b.dtype(x);
    Ok(apply(b, x, dim, dtype, f)?.into())
}

fn along_dim(b: &mut Builder, args: &mut Bound, f: Along) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dtype = args.opt_dtype("dtype")?.unwrap_or(b.dtype(x));
    if !dtype.is_float() {
        return Err(not_implemented(format!("\"softmax\" not implemented for '{}'", torch_name(dtype))));
    }
    let rank = b.rank(x);
    let dim = match args.has("dim") {
        true => args.dim("dim", rank)?,
        // What torch falls back to, with a warning, when it is not told.
        false => wrap_dim(if matches!(rank, 0 | 1 | 3) { 0 } else { 1 }, rank)?,
    };
    Ok(apply(b, x, dim, dtype, f)?.into())
}

/// `f` on `x` as a value of `dtype`, computed wide. A 0-dimensional tensor is a row of one.
fn apply(b: &mut Builder, x: NodeId, dim: usize, dtype: DType, f: Along) -> OpResult<NodeId> {
    let shape = b.shape(x);
    let x = b.cast(x, dtype);
    let x = wide(b, x);
    let row = if shape.is_empty() { b.unsqueeze(x, 0)? } else { x };
    let y = f(b, row, dim)?;
    let y = b.cast(y, dtype);
    b.reshape(y, &shape)
}

/// `x - max(x)` along `dim`, so that no exponential overflows.
fn below_max(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let max = b.reduce(ReduceOp::Max, x, &[dim])?;
    b.binary(PointOp::Sub, x, max)
}

/// `x` is of a type that is computed in, and has dimensions.
pub fn softmax_along(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let shifted = below_max(b, x, dim)?;
    let powers = b.unary(PointOp::Exp, shifted)?;
    let total = sum_over(b, powers, &[dim])?;
    let y = b.binary(PointOp::Div, powers, total)?;
    softmax_slope(b, y, x, dim)
}

/// A row that sees nothing has weights of 0, and no gradient, as in eager.
pub fn safe_softmax_along(b: &mut Builder, scores: NodeId, dim: usize) -> OpResult<NodeId> {
    let most = b.reduce(ReduceOp::Max, scores, &[dim])?;
    let blind = b.binary(PointOp::Eq, most, f64::NEG_INFINITY)?;
    let finite = b.choose(blind, 0.0, scores)?;
    let weights = softmax_along(b, finite, dim)?;
    b.choose(blind, 0.0, weights)
}

/// As `softmax_along`, the logarithm.
pub fn log_softmax_along(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let shifted = below_max(b, x, dim)?;
    let powers = b.unary(PointOp::Exp, shifted)?;
    let total = sum_over(b, powers, &[dim])?;
    let log = b.unary(PointOp::Log, total)?;
    let y = b.binary(PointOp::Sub, shifted, log)?;
    log_softmax_slope(b, y, x, dim)
}

/// An infinite maximum is not subtracted: inf - inf would be NaN.
fn logsumexp(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let dtype = b.float_type(b.dtype(x));
    let x = b.cast(x, dtype);
    let x = wide(b, x);
    let max = b.reduce(ReduceOp::Max, x, &dims)?;
    let infinite = b.unary(PointOp::IsInf, max)?;
    let shift = b.choose(infinite, 0.0, max)?;
    let shifted = b.binary(PointOp::Sub, x, shift)?;
    let powers = b.unary(PointOp::Exp, shifted)?;
    let total = sum_over(b, powers, &dims)?;
    let log = b.unary(PointOp::Log, total)?;
    let y = b.binary(PointOp::Add, log, shift)?;
    let share = (Expr::Node(x) - y).unary(PointOp::Exp);
    let y = shared_out(b, y, x, share, &dims)?;
    let y = b.cast(y, dtype);
    Ok(drop_dims(b, y, &dims, args.boolean("keepdim")?)?.into())
}
