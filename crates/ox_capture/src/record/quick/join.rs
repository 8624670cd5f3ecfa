//! `torch.cat` of tensors in the usual order.

use super::{Tensor, argument, contiguous_strides, made};
use crate::obj::{Obj, items_of};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub fn is_join(name: &str) -> bool {
    matches!(name, "cat" | "concat" | "concatenate")
}

/// The result's shadow.
pub fn join(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let Some(parts) = args.first().filter(|parts| parts.class_is(types().list) || parts.class_is(types().tuple)) else {
        return Ok(None);
    };
    let parts = items_of(parts);
    if kwargs.len() + args.len() > 2 || kwargs.contains("out")? {
        return Ok(None);
    }
    let Some(tensors) = parts.iter().map(Tensor::of).collect::<PyResult<Option<Vec<Tensor>>>>()? else { return Ok(None) };
    let Some(first) = tensors.first().filter(|first| (1..=4).contains(&first.shape.len())) else { return Ok(None) };
    let dim = argument(args, kwargs, 1, "dim")?.map_or(Ok(0), |dim| dim.bind().extract::<i64>())?;
    let rank = first.shape.len() as i64;
    if !(-rank..rank).contains(&dim) {
        return Ok(None);
    }
    let dim = dim.rem_euclid(rank) as usize;
    let fits = |tensor: &Tensor| {
        let beside =
            |shape: &[i64]| shape.iter().enumerate().filter(|(n, _)| *n != dim).map(|(_, size)| *size).collect::<Vec<_>>();
        // One that is in both orders may be taken for either.
        let is_usual = tensor.is_contiguous() && !tensor.is_channels_last();
        is_usual
            && tensor.dtype == first.dtype
            && tensor.shape.len() == first.shape.len()
            && beside(&tensor.shape) == beside(&first.shape)
    };
    if !tensors.iter().all(fits) {
        return Ok(None);
    }
    let mut shape = first.shape.clone();
    shape[dim] = tensors.iter().map(|tensor| tensor.shape[dim]).sum();
    made(&shape, &contiguous_strides(&shape), &first.object)
}
