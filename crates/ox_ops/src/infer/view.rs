//! Type rules of views and of the slice scatter.

use super::{differ, require};
use crate::error::{OpError, OpResult};
use ox_ir::graph::SliceDim;
use ox_ir::{Sym, TensorType};

pub(super) fn infer_permute(perm: &[usize], arg: &TensorType) -> OpResult<TensorType> {
    let mut seen = vec![false; arg.rank()];
    let fits = perm.len() == arg.rank() && perm.iter().all(|p| *p < seen.len() && !std::mem::replace(&mut seen[*p], true));
    require(fits, || format!("permutation {perm:?} of {arg:?}"))?;
    Ok(arg.with_shape(perm.iter().map(|p| arg.shape[*p].clone()).collect()))
}

pub(super) fn infer_diagonal(offset: i64, dim1: usize, dim2: usize, arg: &TensorType) -> OpResult<TensorType> {
    require(dim1 != dim2 && dim1 < arg.rank() && dim2 < arg.rank(), || format!("diagonal {dim1},{dim2} of {arg:?}"))?;
    let (rows, cols) = (&arg.shape[dim1], &arg.shape[dim2]);
    let len = if offset >= 0 { rows.lesser(&(cols - offset)) } else { (rows + offset).lesser(cols) };
    let kept = arg.shape.iter().enumerate().filter(|(d, _)| *d != dim1 && *d != dim2).map(|(_, s)| s.clone());
    Ok(arg.with_shape(kept.chain([len.greater(&Sym::ZERO)]).collect()))
}

pub(super) fn infer_slice_scatter(dims: &[SliceDim], args: &[&TensorType]) -> OpResult<TensorType> {
    let [base, source] = args else { return Err(OpError::bug("slice_scatter takes a base and a source")) };
    check_slice(dims, base, source)?;
    Ok((*base).clone())
}

pub(super) fn check_reshape(arg: &TensorType, ty: &TensorType) -> OpResult<()> {
    let fits = arg.dtype == ty.dtype && !differ(&arg.numel(), &ty.numel());
    require(fits, || format!("reshape of {arg:?} to {ty:?}"))
}

pub(super) fn check_expand(arg: &TensorType, ty: &TensorType) -> OpResult<()> {
    let fits = arg.rank() == ty.rank() && arg.shape.iter().zip(&ty.shape).all(|(a, b)| a == b || a.is_one());
    require(fits && arg.dtype == ty.dtype, || format!("expand of {arg:?} to {ty:?}"))
}

pub(super) fn check_slice(dims: &[SliceDim], arg: &TensorType, ty: &TensorType) -> OpResult<()> {
    require(arg.dtype == ty.dtype && dims.len() == arg.rank() && ty.rank() == arg.rank(), || {
        format!("slice of {arg:?} to {ty:?}")
    })?;
    for ((dim, size), len) in dims.iter().zip(&arg.shape).zip(&ty.shape) {
        let last = &dim.start + &(&(len - 1) * dim.step);
        let outside = |at: &Sym| at.bounds().1 < 0 || (at - size).is_nonneg();
        let fits = dim.step != 0 && !(len.is_positive() && (outside(&dim.start) || outside(&last)));
        require(fits, || format!("slice {dims:?} of {arg:?} to {ty:?}"))?;
    }
    Ok(())
}

pub(super) fn check_unfold(dim: usize, step: i64, dilation: i64, arg: &TensorType, ty: &TensorType) -> OpResult<()> {
    let fits = dim < arg.rank() && ty.rank() == arg.rank() + 1 && arg.dtype == ty.dtype && step > 0 && dilation > 0;
    require(fits, || format!("unfold of {arg:?} to {ty:?}"))?;
    let last = &(&(&ty.shape[dim] - 1) * step) + &(&(&ty.shape[arg.rank()] - 1) * dilation);
    let overrun = ty.numel().is_positive() && (&last - &arg.shape[dim]).is_nonneg();
    require(!overrun, || format!("unfold of {arg:?} to {ty:?}"))
}
