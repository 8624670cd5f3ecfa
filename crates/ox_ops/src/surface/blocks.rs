//! Tensors laid out beside one another: blocks along a diagonal, all tuples of elements, halves that change places.

use super::join::{cat, meshgrid_of, roll_dim};
use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["block_diag"], "*tensors", block_diag),
    fresh(&["cartesian_prod"], "*tensors", cartesian_prod),
    fresh(&["fft.fftshift"], "input, dim=None", |b, a| shift(b, a, |size| size.div(&Sym::from(2i64)))),
    fresh(&["fft.ifftshift"], "input, dim=None", |b, a| shift(b, a, |size| (size + 1).div(&Sym::from(2i64)))),
];

/// Each tensor a row of zeros around it, and the rows one below the other. A vector is a row, a number a matrix of one element.
fn block_diag(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let tensors = a.tensors("tensors")?;
    let dtype = b.result_type(&tensors.iter().map(|t| Operand::Tensor(*t)).collect::<Vec<_>>());
    let mut blocks = Vec::with_capacity(tensors.len());
    for t in &tensors {
        let shape = b.shape(*t);
        let (rows, columns) = match &shape[..] {
            [] => (Sym::ONE, Sym::ONE),
            [columns] => (Sym::ONE, columns.clone()),
            [rows, columns] => (rows.clone(), columns.clone()),
            _ => return Err(OpError::unsupported("blocks of more than two dimensions")),
        };
        let block = b.reshape(*t, &[rows, columns])?;
        blocks.push(b.cast(block, dtype));
    }
    let widths: Vec<Sym> = blocks.iter().map(|t| b.shape(*t)[1].clone()).collect();
    let mut rows = Vec::with_capacity(blocks.len());
    for (n, block) in blocks.iter().enumerate() {
        let (left, right) = (widths[..n].iter().sum::<Sym>(), widths[n + 1..].iter().sum::<Sym>());
        rows.push(b.pad(*block, &[Sym::ZERO, left], &[Sym::ZERO, right], Scalar::Int(0))?);
    }
    match rows.is_empty() {
        true => Err(OpError::unsupported("a matrix of no blocks")),
        false => Ok(cat(b, &rows, 0)?.into()),
    }
}

/// One tuple a row. Of one tensor it is that tensor.
fn cartesian_prod(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let tensors = a.tensors("tensors")?;
    let alike = tensors.windows(2).all(|pair| b.dtype(pair[0]) == b.dtype(pair[1]));
    if tensors.len() < 2 || !alike || tensors.iter().any(|t| b.rank(*t) != 1) {
        return Err(OpError::unsupported("tuples of such tensors"));
    }
    let mut columns: Vec<NodeId> = Vec::with_capacity(tensors.len());
    for grid in meshgrid_of(b, &tensors, false)? {
        let count = b.ty(grid).numel();
        columns.push(b.reshape(grid, &[count, Sym::ONE])?);
    }
    Ok(cat(b, &columns, 1)?.into())
}

/// Rolled by a part of its size in each of the dimensions.
fn shift(b: &mut Builder, a: &mut Bound, by: fn(&Sym) -> Sym) -> OpResult<Value> {
    let mut value = a.tensor("input")?;
    for dim in a.dims("dim", b.rank(value))? {
        let size = b.shape(value).get(dim).cloned().unwrap_or(Sym::ZERO);
        value = roll_dim(b, value, dim, &by(&size))?;
    }
    Ok(value.into())
}
