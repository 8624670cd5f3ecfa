//! Along a line: areas under it, and powers one behind the other.

use super::join::cat;
use super::shared::sum_over;
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{NodeId, ReduceOp, Shape};
use ox_ir::{PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["trapezoid", "trapz"], "y, x=None, *, dx=1, dim=-1", trapezoid),
    fresh(&["cumulative_trapezoid"], "y, x=None, *, dx=1, dim=-1", cumulative_trapezoid),
    fresh(&["vander"], "input, N=None, increasing=False", |b, a| {
        let increasing = a.boolean("increasing")?;
        let powers = powers(b, a)?;
        match increasing {
            true => Ok(powers.into()),
            false => Ok(super::join::flip(b, powers, &[1])?.into()),
        }
    }),
    fresh(&["linalg.vander"], "input, *, N=None", |b, a| Ok(powers(b, a)?.into())),
];

/// The values, the dimension, and whether there are places beside a constant step.
fn line(b: &Builder, a: &Bound) -> OpResult<(NodeId, usize, Option<NodeId>)> {
    let y = a.tensor("y")?;
    let dim = a.dim("dim", b.rank(y))?;
    if b.rank(y) == 0 || !b.dtype(y).is_float() || b.dtype(y) != b.dtype(y).compute() || b.shape(y)[dim].is_zero() {
        return Err(OpError::unsupported("the area under such a line"));
    }
    Ok((y, dim, a.opt_tensor("x")?))
}

/// All but the last along `dim`, and all but the first.
fn neighbours(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<(NodeId, NodeId)> {
    let len = &b.shape(x)[dim] - 1;
    Ok((b.slice_dim(x, dim, &Sym::ZERO, &len, 1)?, b.slice_dim(x, dim, &Sym::ONE, &len, 1)?))
}

/// How far apart the values are: places in one dimension run along `dim`.
fn distances(b: &mut Builder, x: NodeId, y: NodeId, dim: usize) -> OpResult<NodeId> {
    let (own, rank) = (b.shape(x), b.rank(y));
    let places: Shape = match own.len() {
        1 => (0..rank).map(|d| if d == dim { own[0].clone() } else { Sym::ONE }).collect(),
        len if len < rank => vec![Sym::ONE; rank - len].into_iter().chain(own).collect(),
        len if len == rank => own,
        _ => return Err(OpError::unsupported("places with more dimensions than the values")),
    };
    if !b.dtype(x).is_float() || places[dim] != b.shape(y)[dim] {
        return Err(OpError::unsupported("the area over such places"));
    }
    let x = b.reshape(x, &places)?;
    let (left, right) = neighbours(b, x, dim)?;
    b.binary(PointOp::Sub, right, left)
}

fn trapezoid(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (y, dim, x) = line(b, a)?;
    let Some(x) = x else {
        let last = &b.shape(y)[dim] - 1;
        let total = sum_over(b, y, &[dim])?;
        let total = b.squeeze(total, &[dim])?;
        let (first, last) = (b.select(y, dim, &Sym::ZERO)?, b.select(y, dim, &last)?);
        let ends = b.binary(PointOp::Add, first, last)?;
        let ends = b.binary(PointOp::Mul, ends, 0.5)?;
        let area = b.binary(PointOp::Sub, total, ends)?;
        return Ok(b.multiply(&area.into(), &a.number("dx")?)?.into());
    };
    let apart = distances(b, x, y, dim)?;
    let (left, right) = neighbours(b, y, dim)?;
    let sums = b.binary(PointOp::Add, left, right)?;
    let areas = b.binary(PointOp::Mul, sums, apart)?;
    let total = sum_over(b, areas, &[dim])?;
    let total = b.squeeze(total, &[dim])?;
    Ok(b.binary(PointOp::Div, total, 2.0)?.into())
}

fn cumulative_trapezoid(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (y, dim, x) = line(b, a)?;
    let (left, right) = neighbours(b, y, dim)?;
    let sums = b.binary(PointOp::Add, left, right)?;
    let areas = match x {
        None => b.multiply(&sums.into(), &(a.float("dx")? / 2.0).into())?,
        Some(x) => {
            let apart = distances(b, x, y, dim)?;
            let half = b.binary(PointOp::Div, apart, 2.0)?;
            b.binary(PointOp::Mul, half, sums)?
        }
    };
    Ok(b.scan(ReduceOp::Sum, areas, dim)?.into())
}

/// 1, x, x², ... in the last dimension, each a product with the one before.
fn powers(b: &mut Builder, a: &mut Bound) -> OpResult<NodeId> {
    let x = a.tensor("input")?;
    let mut shape = b.shape(x);
    let Some(size) = shape.last().cloned().filter(|_| b.dtype(x).is_float() && b.dtype(x) == b.dtype(x).compute()) else {
        return Err(OpError::unsupported("powers of such a tensor"));
    };
    let count = a.opt_int("N")?.unwrap_or(size);
    let rank = shape.len();
    match count.as_const() {
        Some(n) if n >= 2 => {}
        _ => return Err(OpError::unsupported("that many powers")),
    }
    let column = b.unsqueeze(x, rank)?;
    shape.push(Sym::ONE);
    let ones = b.full(Scalar::Float(1.0), b.dtype(x), &shape);
    shape[rank] = &count - 1;
    let rows = b.expand(column, &shape)?;
    let products = b.scan(ReduceOp::Prod, rows, rank)?;
    cat(b, &[ones, products], rank)
}
