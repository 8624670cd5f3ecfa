//! `torch.conv2d` of shapes that fit. In which order its result lies is said by `memory_order`, whoever made the shadow.

use super::{Tensor, argument, contiguous_strides, is_vector, made};
use crate::obj::{Obj, items_of};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub fn conv2d(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let weight = argument(args, kwargs, 1, "weight")?.map(|weight| Tensor::of(&weight)).transpose()?.flatten();
    let Some(weight) = weight.filter(|weight| weight.dtype == x.dtype && weight.has_elements() && x.has_elements()) else {
        return Ok(None);
    };
    let ([batch, channels, sizes @ ..], [out, inside, kernel @ ..]) = (&x.shape[..], &weight.shape[..]) else { return Ok(None) };
    let (Some(steps), Some(padding), Some(dilation)) = (
        pair(argument(args, kwargs, 3, "stride")?, 1, 1)?,
        pair(argument(args, kwargs, 4, "padding")?, 0, 0)?,
        pair(argument(args, kwargs, 5, "dilation")?, 1, 1)?,
    ) else {
        return Ok(None);
    };
    let groups = argument(args, kwargs, 6, "groups")?.map_or(Ok(1), |groups| groups.bind().extract::<i64>())?;
    let fits = sizes.len() == 2 && kernel.len() == 2 && groups > 0 && *channels == inside * groups && out % groups == 0;
    if !fits || !is_vector(argument(args, kwargs, 2, "bias")?, x, *out)? {
        return Ok(None);
    }
    let room = |n: usize| sizes[n] + 2 * padding[n] - dilation[n] * (kernel[n] - 1) - 1;
    if room(0) < 0 || room(1) < 0 {
        return Ok(None);
    }
    let shape = [*batch, *out, room(0) / steps[0] + 1, room(1) / steps[1] + 1];
    made(&shape, &contiguous_strides(&shape), &x.object)
}

/// A number for each of the two dimensions, none smaller than `least`.
fn pair(value: Option<Obj>, default: i64, least: i64) -> PyResult<Option<[i64; 2]>> {
    let Some(value) = value else { return Ok(Some([default; 2])) };
    let is_list = value.is_instance_of(types().tuple) || value.is_instance_of(types().list);
    let items = if is_list { items_of(&value) } else { vec![value] };
    if items.iter().any(|item| !item.class_is(types().int)) {
        return Ok(None);
    }
    let numbers = items.iter().map(|item| item.bind().extract()).collect::<PyResult<Vec<i64>>>()?;
    Ok(match numbers[..] {
        [both] if both >= least => Some([both; 2]),
        [first, second] if first >= least && second >= least => Some([first, second]),
        _ => None,
    })
}
