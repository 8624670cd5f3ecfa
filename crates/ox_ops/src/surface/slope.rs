//! Derivatives that eager takes in another way than the function is computed. Each gives the value, grafted on something whose
//! derivative is eager's: a linear function of the argument with constant (detached) factors. After derivatives are taken, or where
//! nobody asks for them, nothing of it is left.

use super::shared::mean_over;
use crate::builder::Builder;
use crate::error::OpResult;
use crate::formula::Expr;
use ox_ir::PointOp;
use ox_ir::graph::{NodeId, ReduceOp};

/// A scalar function of `x`: the gradient is multiplied by `slope`.
pub fn sloped(b: &mut Builder, value: NodeId, x: NodeId, slope: impl Into<Expr>) -> OpResult<NodeId> {
    if !b.dtype(value).is_float() {
        return Ok(value);
    }
    let slope = slope.into().build(b)?;
    let slope = b.cast(slope, b.dtype(x));
    let slope = b.detach(slope)?;
    let path = b.binary(PointOp::Mul, x, slope)?;
    let path = b.cast(path, b.dtype(value));
    b.graft(value, path)
}

/// As `sloped`, where the gradient passes unchanged or not at all.
pub fn gated(b: &mut Builder, value: NodeId, x: NodeId, open: impl Into<Expr>) -> OpResult<NodeId> {
    if !b.dtype(value).is_float() {
        return Ok(value);
    }
    let open = open.into().build(b)?;
    let path = b.choose(open, x, 0.0)?;
    let path = b.cast(path, b.dtype(value));
    b.graft(value, path)
}

/// A reduction of `x` over `dims`, which stay with size 1: each element's gradient is that of the result times its `share`.
pub fn shared_out(b: &mut Builder, value: NodeId, x: NodeId, share: impl Into<Expr>, dims: &[usize]) -> OpResult<NodeId> {
    let share = share.into().build(b)?;
    let share = b.cast(share, b.dtype(x));
    let share = b.detach(share)?;
    let parts = b.binary(PointOp::Mul, x, share)?;
    let path = b.reduce(ReduceOp::Sum, parts, dims)?;
    b.graft(value, path)
}

/// Softmax along `dim`: `y * (g - sum(g * y))`.
pub fn softmax_slope(b: &mut Builder, y: NodeId, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let fixed = b.detach(y)?;
    let scaled = b.point(PointOp::Mul, &[x, fixed])?;
    let total = b.reduce(ReduceOp::Sum, scaled, &[dim])?;
    let path = (Expr::Node(scaled) - Expr::Node(fixed) * total).build(b)?;
    b.graft(y, path)
}

/// Its logarithm: `g - exp(y) * sum(g)`.
pub fn log_softmax_slope(b: &mut Builder, y: NodeId, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let powers = b.unary(PointOp::Exp, y)?;
    let powers = b.detach(powers)?;
    let parts = b.point(PointOp::Mul, &[x, powers])?;
    let total = b.reduce(ReduceOp::Sum, parts, &[dim])?;
    let path = (Expr::Node(x) - total).build(b)?;
    b.graft(y, path)
}

/// Mean 0 and variance 1 over `dims`: `scale * (g - mean(g) - y * mean(g * y))`, where `y` is the result and `scale` is what `x`
/// without its mean was multiplied by.
pub fn standardised_slope(b: &mut Builder, y: NodeId, x: NodeId, scale: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let (fixed, scale) = (b.detach(y)?, b.detach(scale)?);
    let scaled = b.binary(PointOp::Mul, x, scale)?;
    let products = b.point(PointOp::Mul, &[scaled, fixed])?;
    let (mean, along) = (mean_over(b, scaled, dims)?, mean_over(b, products, dims)?);
    let path = (Expr::Node(scaled) - mean - Expr::Node(fixed) * along).build(b)?;
    b.graft(y, path)
}
