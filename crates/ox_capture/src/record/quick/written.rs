//! Calls that write their first argument.

use super::{Tensor, is_number};
use crate::found::Found;
use crate::obj::{Obj, py};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The argument, with a version of its own from now on: that it was written is seen by that.
pub fn written(tensor: &Tensor) -> PyResult<Obj> {
    static INCREMENT: Found<Obj> = Found::new();
    let import = || py().import("torch.autograd.graph").and_then(|graph| graph.getattr("increment_version")).map(Obj::from);
    INCREMENT.or_try_find(import)?.call(std::slice::from_ref(&tensor.object), None)?;
    Ok(tensor.object.clone())
}

/// `lerp_`, `addcmul_`, `addcdiv_` with tensors of one type that can be spread over the first; the weight of `lerp_` may be a number.
pub fn of_three(name: &str, first: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let mut fits = args.len() == 3 && first.has_elements();
    for (key, value) in kwargs {
        fits &= key.extract::<&str>()? == "value" && name != "lerp_" && is_number(&value.into());
    }
    for (n, arg) in args.iter().enumerate().skip(1) {
        fits &= match name == "lerp_" && n == 2 && is_number(arg) {
            true => true,
            false => Tensor::of(arg)?.is_some_and(|other| other.dtype == first.dtype && other.fits_into(&first.shape)),
        };
    }
    if fits { written(first).map(Some) } else { Ok(None) }
}
