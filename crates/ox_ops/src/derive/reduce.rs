//! Reductions and running reductions.

use super::{Gradients, Site};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use ox_ir::graph::{Dims, NodeId, ReduceOp, Shape, SliceDim};
use ox_ir::{DType, Scalar, Sym};

pub fn reduce(b: &mut Builder, site: &Site<'_>, op: ReduceOp, dims: &[usize]) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let x = site.arg(0);
    let shape = b.shape(x);
    let spread = b.expand(grad, &shape)?;
    site.only(match op {
        ReduceOp::Sum => Ok(spread),
        ReduceOp::Max | ReduceOp::Min => share_ties(b, x, site.result, spread, dims),
        ReduceOp::Prod => {
            let others = product_of_others(b, x, dims)?;
            (Expr::Node(spread) * others).build(b)
        }
        _ => Err(OpError::unsupported(format!("{} has no derivative", op.name()))),
    })
}

/// All elements that equal the extremum get the same share of its gradient.
fn share_ties(b: &mut Builder, x: NodeId, result: NodeId, grad: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let shape = b.shape(x);
    let result = b.expand(result, &shape)?;
    let chosen = Expr::Node(x).eq(result).build(b)?;
    let ones = b.cast(chosen, b.dtype(x).compute());
    let ties = b.reduce(ReduceOp::Sum, ones, dims)?;
    let ties = b.cast(ties, b.dtype(x));
    // A NaN equals nothing: no ties, and NaN for all.
    let share = (Expr::Node(chosen).pick(1.0, 0.0) * (Expr::Node(grad) / ties)).build(b)?;
    Ok(b.cast(share, b.dtype(x)))
}

/// For each element the product of all others in `dims`: those before it times those behind it. No division, so that zeros are
/// no exception.
fn product_of_others(b: &mut Builder, x: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let shape = b.shape(x);
    let kept = (0..shape.len()).filter(|d| !dims.contains(d));
    let order: Dims = kept.chain(dims.iter().copied()).collect();
    let moved = b.permute(x, &order)?;
    let mut rows: Shape = b.shape(moved)[..shape.len() - dims.len()].iter().cloned().collect();
    rows.push(dims.iter().map(|d| &shape[*d]).product());
    let flat = b.reshape(moved, &rows)?;
    let last = rows.len() - 1;
    let before = exclusive(b, flat, last)?;
    let backwards = flip(b, flat, last)?;
    let behind = exclusive(b, backwards, last)?;
    let behind = flip(b, behind, last)?;
    let others = (Expr::Node(before) * behind).build(b)?;
    let moved_shape = b.shape(moved);
    let others = b.reshape(others, &moved_shape)?;
    b.permute(others, &crate::functional::inverse(&order))
}

/// The running product of the elements before each one.
fn exclusive(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let shifted = shift(b, x, dim, Scalar::Float(1.0))?;
    b.scan(ReduceOp::Prod, shifted, dim)
}

/// Everything one place further along `dim`; `first` comes in, the last falls out.
fn shift(b: &mut Builder, x: NodeId, dim: usize, first: Scalar) -> OpResult<NodeId> {
    let edge = |n: i64| (0..b.rank(x)).map(|d| if d == dim { Sym::from(n) } else { Sym::ZERO }).collect::<Shape>();
    let (low, high) = (edge(1), edge(-1));
    b.pad(x, &low, &high, first)
}

fn flip(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let shape = b.shape(x);
    let mut dims = vec![SliceDim { start: Sym::ZERO, step: 1 }; shape.len()];
    dims[dim] = SliceDim { start: &shape[dim] - 1, step: -1 };
    b.slice(x, dims, &shape)
}

/// The running sum from the end.
fn sum_from_end(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let x = flip(b, x, dim)?;
    let sums = b.scan(ReduceOp::Sum, x, dim)?;
    flip(b, sums, dim)
}

pub fn scan(b: &mut Builder, site: &Site<'_>, op: ReduceOp, dim: usize) -> OpResult<Gradients> {
    if site.node.args.len() == 2 {
        return recurrence(b, site, dim);
    }
    let (x, dtype) = (site.arg(0), b.dtype(site.arg(0)));
    let grad = site.grad()?;
    let grad = b.cast(grad, dtype.compute());
    let result = match op {
        ReduceOp::Sum => sum_from_end(b, grad, dim)?,
        ReduceOp::Prod => running_product(b, x, site.result, grad, dim)?,
        _ => return Err(OpError::unsupported(format!("a running {} has no derivative", op.name()))),
    };
    site.only(Ok(b.cast(result, dtype)))
}

/// What comes to a result goes on to the one before it, times the decay between them: the same recurrence from the end.
fn recurrence(b: &mut Builder, site: &Site<'_>, dim: usize) -> OpResult<Gradients> {
    let dtype = b.dtype(site.arg(0));
    let wide = dtype.compute();
    let grad = site.grad()?;
    let (grad, decay) = (b.cast(grad, wide), b.cast(site.arg(1), wide));
    let backwards = flip(b, grad, dim)?;
    let decay = flip(b, decay, dim)?;
    let decay = shift(b, decay, dim, Scalar::Float(0.0))?;
    let total = b.recurrence(backwards, decay, dim)?;
    let total = flip(b, total, dim)?;
    site.each(|n| {
        if n == 0 {
            return Ok(Some(b.cast(total, dtype)));
        }
        let result = b.cast(site.result, wide);
        let before = shift(b, result, dim, Scalar::Float(0.0))?;
        let product = (Expr::Node(total) * before).build(b)?;
        Ok(Some(b.cast(product, dtype)))
    })
}

/// Up to the first zero, the sum of the later products without this factor; at the first zero, the same with the zero left out;
/// behind it every product stays zero.
fn running_product(b: &mut Builder, x: NodeId, result: NodeId, grad: NodeId, dim: usize) -> OpResult<NodeId> {
    let wide = b.dtype(grad);
    let (x, result) = (b.cast(x, wide), b.cast(result, wide));
    let zero = Expr::Node(x).eq(0.0).build(b)?;
    let count = b.cast(zero, DType::I64);
    let count = b.scan(ReduceOp::Sum, count, dim)?;
    let first = b.binary(ox_ir::PointOp::Eq, count, 1i64)?;
    let first = Expr::Node(first).and(zero.into()).build(b)?;
    let usual = (Expr::Node(grad) * result).build(b)?;
    let usual = sum_from_end(b, usual, dim)?;
    let without = Expr::Node(first).pick(1.0, x).build(b)?;
    let products = b.scan(ReduceOp::Prod, without, dim)?;
    let at_zero = (Expr::Node(grad) * products).build(b)?;
    let at_zero = sum_from_end(b, at_zero, dim)?;
    let divided = Expr::Node(zero).pick(0.0, Expr::Node(usual) / x);
    Expr::Node(first).pick(at_zero, divided).build(b)
}
