//! `F.interpolate` of planes by a factor, to the nearest element.

use super::{Tensor, argument, contiguous_strides, made};
use crate::obj::Obj;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub fn interpolate(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let given = |place, name| argument(args, kwargs, place, name);
    let is_nearest = given(3, "mode")?.is_none_or(|mode| mode.to_str().as_deref() == Some("nearest"));
    let asked = given(6, "antialias")?.map_or(Ok(false), |asked| asked.truth())?;
    let is_plain = is_nearest && !asked && given(1, "size")?.is_none() && given(4, "align_corners")?.is_none();
    let scale = given(2, "scale_factor")?.filter(|scale| scale.class_is(types().int) || scale.class_is(types().float));
    let (Some(scale), [batch, channels, rows, columns]) = (scale, &x.shape[..]) else { return Ok(None) };
    let scale: f64 = scale.bind().extract()?;
    let grown = |size: i64| (size as f64 * scale) as i64;
    let shape = [*batch, *channels, grown(*rows), grown(*columns)];
    // One that lies in both orders may be taken for either.
    let is_usual = x.is_contiguous() && !x.is_channels_last() && given(5, "recompute_scale_factor")?.is_none();
    if !is_plain || !is_usual || shape.iter().any(|size| *size < 1) {
        return Ok(None);
    }
    made(&shape, &contiguous_strides(&shape), &x.object)
}
