//! Type rules of gathers and scatters.

use super::{common_device, require};
use crate::error::{OpError, OpResult};
use ox_ir::TensorType;
use ox_ir::graph::Shape;

/// The shape of `x[index...]`: the common index shape stands at position `at` among the dimensions that are not indexed.
pub fn index_shape(x: &TensorType, index: &Shape, dims: &[usize], at: usize) -> Shape {
    let mut shape: Shape = (0..x.rank()).filter(|d| !dims.contains(d)).map(|d| x.shape[d].clone()).collect();
    shape.insert_many(at, index.iter().cloned());
    shape
}

pub(super) fn infer_index(dims: &[usize], at: usize, args: &[&TensorType]) -> OpResult<TensorType> {
    let (x, indices) = args.split_first().ok_or_else(|| OpError::bug("index of nothing"))?;
    let first = *indices.first().ok_or_else(|| OpError::bug("index without indices"))?;
    let fits = indices.len() == dims.len()
        && dims.iter().all(|d| *d < x.rank())
        && dims.iter().enumerate().all(|(n, d)| !dims[..n].contains(d))
        && at <= x.rank() - dims.len()
        && indices.iter().all(|i| i.dtype.is_int() && i.shape == first.shape);
    require(fits, || format!("index dims={dims:?} at={at} of {args:?}"))?;
    Ok(TensorType { dtype: x.dtype, device: common_device(args), shape: index_shape(x, &first.shape, dims, at) })
}

pub(super) fn infer_index_put(dims: &[usize], at: usize, args: &[&TensorType]) -> OpResult<TensorType> {
    let (values, rest) = args.split_last().ok_or_else(|| OpError::bug("index_put of nothing"))?;
    let read = infer_index(dims, at, rest)?;
    let fits = values.dtype == read.dtype && values.shape == read.shape;
    require(fits, || format!("index_put of {values:?} where {read:?} is read"))?;
    Ok(rest[0].clone())
}
