//! What is done along dimensions that are named: norms and rolls.

use super::{Tensor, argument, contiguous_strides, is_number, made};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// `x.norm(2, dim, keepdim)`: row by row, whatever `x` is.
pub fn norm(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let is_power = argument(args, kwargs, 1, "p")?.is_some_and(|power| is_number(&power));
    let dim = argument(args, kwargs, 2, "dim")?.and_then(|dim| dimension(&dim, x.shape.len()));
    let keeps = argument(args, kwargs, 3, "keepdim")?.map_or(Ok(false), |flag| flag.truth())?;
    let is_plain = args.len() <= 4 && has_names_of(kwargs, &["p", "dim", "keepdim"]);
    let Some(dim) = dim.filter(|_| is_power && is_plain && x.has_elements()) else { return Ok(None) };
    let mut shape = x.shape.clone();
    if keeps {
        shape[dim] = 1;
    } else {
        shape.remove(dim);
    }
    made(&shape, &contiguous_strides(&shape), &x.object)
}

/// Along dimensions that are named. In which order the result lies is said by `memory_order`.
pub fn roll(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let (Some(shifts), Some(dims)) = (argument(args, kwargs, 1, "shifts")?, argument(args, kwargs, 2, "dims")?) else {
        return Ok(None);
    };
    let (shifts, dims) = (several(&shifts), several(&dims));
    let are_numbers = !shifts.is_empty() && shifts.iter().all(|shift| shift.class_is(types().int));
    let are_dims = shifts.len() == dims.len() && dims.iter().all(|dim| dimension(dim, x.shape.len()).is_some());
    let is_plain = args.len() <= 3 && has_names_of(kwargs, &["shifts", "dims"]);
    match are_numbers && are_dims && is_plain && x.has_elements() {
        true => made(&x.shape, &contiguous_strides(&x.shape), &x.object),
        false => Ok(None),
    }
}

fn has_names_of(kwargs: &Bound<'_, PyDict>, names: &[&str]) -> bool {
    kwargs.keys().iter().all(|name| name.extract::<&str>().quiet().is_some_and(|name| names.contains(&name)))
}

fn several(given: &Obj) -> Vec<Obj> {
    if given.class_is(types().tuple) || given.class_is(types().list) { items_of(given) } else { vec![given.clone()] }
}

/// From the front; None if there is no such dimension.
fn dimension(dim: &Obj, rank: usize) -> Option<usize> {
    let dim: i64 = if dim.class_is(types().int) { dim.bind().extract().quiet()? } else { return None };
    usize::try_from(if dim < 0 { dim + rank as i64 } else { dim }).ok().filter(|dim| *dim < rank)
}
