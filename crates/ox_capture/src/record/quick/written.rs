//! Calls that write their first argument.

use super::{Tensor, is_number};
use crate::obj::{Obj, py};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The argument, with a version of its own from now on: that it was written is seen by that.
pub fn written(tensor: &Tensor) -> PyResult<Obj> {
    static INCREMENT: PyOnceLock<Obj> = PyOnceLock::new();
    let import = || py().import("torch.autograd.graph").and_then(|graph| graph.getattr("increment_version")).map(Obj::from);
    INCREMENT.get_or_try_init(py(), import)?.call(std::slice::from_ref(&tensor.object), None)?;
    Ok(tensor.object.clone())
}

/// `lerp_`, `addcmul_`, `addcdiv_` with tensors of one type that can be spread over the first, and numbers.
pub fn of_three(first: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let mut fits = args.len() == 3 && first.has_elements();
    for (name, value) in kwargs {
        fits &= name.extract::<&str>()? == "value" && is_number(&value.into());
    }
    for arg in args.iter().skip(1).filter(|arg| !is_number(arg)) {
        fits &= Tensor::of(arg)?.is_some_and(|other| other.dtype == first.dtype && other.fits_into(&first.shape));
    }
    // Two numbers are refused.
    fits &= args.iter().filter(|arg| is_number(arg)).count() <= 1;
    if fits { written(first).map(Some) } else { Ok(None) }
}
