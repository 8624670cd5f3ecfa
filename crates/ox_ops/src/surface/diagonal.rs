//! Matrices from diagonals and triangles.

use super::{Surface, fresh, maybe, wrap_dim};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::{Value, ValueOf};
use ox_ir::graph::{NodeId, Shape};
use ox_ir::{PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    maybe(&["diag"], "input, diagonal=0", |b, a| {
        let (x, offset) = (a.tensor("input")?, a.const_int("diagonal")?);
        match b.rank(x) {
            1 => embed(b, x, offset, 0, 1),
            2 => Ok(b.diagonal(x, offset, 0, 1)?.into()),
            rank => Err(OpError::runtime(format!("diag(): Supports 1D or 2D tensors. Got {rank}D"))),
        }
    }),
    fresh(&["diagflat"], "input, offset=0", |b, a| {
        let x = a.tensor("input")?;
        let numel = b.ty(x).numel();
        let flat = b.reshape(x, &[numel])?;
        embed(b, flat, a.const_int("offset")?, 0, 1)
    }),
    fresh(&["diag_embed"], "input, offset=0, dim1=-2, dim2=-1", |b, a| {
        let x = a.tensor("input")?;
        let rank = b.rank(x) + 1;
        let (dim1, dim2) = (wrap_dim(a.const_int("dim1")?, rank)?, wrap_dim(a.const_int("dim2")?, rank)?);
        if dim1 == dim2 {
            return Err(OpError::runtime(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
        }
        embed(b, x, a.const_int("offset")?, dim1, dim2)
    }),
];

/// The last dimension of `x` on the diagonal of two new dimensions; zero elsewhere.
fn embed(b: &mut Builder, x: NodeId, offset: i64, dim1: usize, dim2: usize) -> OpResult<Value> {
    let shape = b.shape(x);
    let (len, outer) = shape.split_last().ok_or_else(|| OpError::runtime("diag_embed of a 0-dimensional tensor"))?;
    let side = len + (offset.unsigned_abs() as i64);
    let mut square: Shape = outer.iter().cloned().collect();
    square.extend([side.clone(), side]);
    let rank = square.len();
    // Shifted so that element k stands in row k - min(offset, 0), then spread over the columns.
    let mut low = vec![Sym::ZERO; rank - 1];
    let mut high = low.clone();
    low[rank - 2] = Sym::from((-offset).max(0));
    high[rank - 2] = Sym::from(offset.max(0));
    let rows = b.pad(x, &low, &high, Scalar::Int(0))?;
    let rows = b.unsqueeze(rows, rank - 1)?;
    let rows = b.expand(rows, &square)?;
    let (row, col) = (b.iota(&square, rank - 2)?, b.iota(&square, rank - 1)?);
    let distance = b.point(PointOp::Sub, &[col, row])?;
    let mask = b.binary(PointOp::Eq, distance, offset)?;
    let zero = b.full_like(Scalar::Int(0), rows);
    let value = b.point(PointOp::Where, &[mask, rows, zero])?;
    move_last_two(b, value, dim1, dim2)
}

/// The last two dimensions, rows and columns, become `dim1` and `dim2`.
fn move_last_two(b: &mut Builder, x: NodeId, dim1: usize, dim2: usize) -> OpResult<Value> {
    let rank = b.rank(x);
    let mut rest = 0..rank - 2;
    let place = |d: usize, rest: &mut std::ops::Range<usize>| match d {
        _ if d == dim1 => Some(rank - 2),
        _ if d == dim2 => Some(rank - 1),
        _ => rest.next(),
    };
    let perm: Option<Vec<usize>> = (0..rank).map(|d| place(d, &mut rest)).collect();
    let perm = perm.ok_or_else(|| OpError::bug("more dimensions than there are"))?;
    Ok(ValueOf::Tensor(b.permute(x, &perm)?))
}
