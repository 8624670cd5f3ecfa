//! The memory order of results, where torch's meta kernels have another one than its real kernels.

use super::Recording;
use super::graph::Shadow;
use super::tried::tried_order;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Row by row, whatever their arguments are.
const PLAIN: &[&str] = &["logsigmoid", "log_sigmoid", "rrelu", "one_hot", "poisson", "__rpow__"];

/// Channels last if their argument is, otherwise row by row.
const OF_TWO_FORMATS: &[&str] = &["batch_norm", "group_norm", "channel_shuffle"];

/// A copy of the first argument, gaps and all, with a part of it written. Elements of the copy do not share their places.
const WRITTEN_COPIES: &[&str] = &["select_scatter", "slice_scatter", "diagonal_scatter"];

impl Recording {
    /// The shadow of a result with the strides that eager gives it.
    pub fn memory_order(
        &mut self,
        callee: &Shadow,
        name: &str,
        args: &[Obj],
        kwargs: &Bound<'_, PyDict>,
        result: Obj,
    ) -> PyResult<Obj> {
        if name == "pad" {
            return padding_order(args, kwargs, result);
        }
        if name == "scaled_dot_product_attention" && types().is_tensor(&result) {
            return self.attention_order(args, kwargs, result);
        }
        if !self.is_on_cpu()? {
            return self.convolution_order(name, args, kwargs, result);
        }
        if !types().is_tensor(&result) {
            return tried_order(callee, name, args, kwargs, result);
        }
        let first = args.first().cloned().or(kwargs.get_item("input")?.map(Obj::from));
        let first = first.as_ref();
        if first.is_some_and(|first| first.is(&result)) {
            return Ok(result);
        }
        match name {
            "pow" | "float_power" if first.is_some_and(|base| !types().is_tensor(base)) => row_by_row(result),
            "roll" if stays_somewhere(&result, args, kwargs)? => row_by_row(result),
            "roll" if !is_flattened(args, kwargs)? => in_format_of(first, result),
            _ if PLAIN.contains(&name) => row_by_row(result),
            _ if OF_TWO_FORMATS.contains(&name) => in_format_of(first, result),
            _ if WRITTEN_COPIES.contains(&name) && overlaps(&result)? => result.attr("clone")?.call(&[], None),
            "conv2d" | "conv3d" | "conv_transpose2d" | "conv_transpose3d" => self.convolution_order(name, args, kwargs, result),
            _ => tried_order(callee, name, args, kwargs, result),
        }
    }
}

fn overlaps(tensor: &Obj) -> PyResult<bool> {
    let (sizes, strides) = dims_of(tensor)?;
    Ok(sizes.iter().zip(&strides).any(|(size, stride)| *size > 1 && *stride == 0))
}

/// Padding by reflection and replication keeps the order of the input.
fn padding_order(args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Obj> {
    let mode = args.get(2).cloned().or(kwargs.get_item("mode")?.map(Obj::from));
    let keeps = mode.is_some_and(|mode| matches!(mode.to_str().as_deref(), Some("reflect" | "replicate")));
    let rank: usize = result.attr("ndim")?.bind().extract()?;
    match keeps && rank >= 4 {
        true => in_format_of(args.first(), result),
        false => Ok(result),
    }
}

/// Whether no dimension is named: what lies in one row is rolled.
fn is_flattened(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let dims = args.get(2).cloned().or(kwargs.get_item("dims")?.map(Obj::from));
    Ok(dims.is_none_or(|dims| dims.bind().len().quiet().is_some_and(|count| count == 0)))
}

/// Whether a named dimension is rolled by nothing or by whole turns: eager then joins all of it with a piece of no length, row by row.
fn stays_somewhere(result: &Obj, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let several = |place: usize, name: &str| -> PyResult<Vec<i64>> {
        let Some(given) = args.get(place).cloned().or(kwargs.get_item(name)?.map(Obj::from)) else { return Ok(Vec::new()) };
        given.bind().extract().or_else(|_| given.bind().extract().map(|one| vec![one]))
    };
    let (sizes, _) = dims_of(result)?;
    if sizes.contains(&0) {
        return Ok(false);
    }
    let rank = sizes.len() as i64;
    let (shifts, dims) = (several(1, "shifts")?, several(2, "dims")?);
    let size = |dim: &i64| sizes.get((if *dim < 0 { dim + rank } else { *dim }) as usize);
    Ok(shifts.iter().zip(&dims).any(|(shift, dim)| size(dim).is_some_and(|size| shift % size == 0)))
}

/// In the format that the strides of a tensor suggest. torch's own function for that imports sympy.
fn in_format_of(tensor: Option<&Obj>, result: Obj) -> PyResult<Obj> {
    let Some(tensor) = tensor.filter(|tensor| types().is_tensor(tensor)) else { return Ok(result) };
    let (sizes, strides) = dims_of(tensor)?;
    let format = match sizes.len() {
        4 if steps_grow(&sizes, &strides, &[1, 3, 2, 0]) => "channels_last",
        5 if steps_grow(&sizes, &strides, &[1, 4, 3, 2, 0]) => "channels_last_3d",
        _ => "contiguous_format",
    };
    in_format(&result, format)
}

/// From dimension to dimension. Where batch and channels have one step, nothing tells the formats apart: the usual one is meant.
fn steps_grow(sizes: &[i64], strides: &[i64], order: &[usize]) -> bool {
    let mut least = 0;
    let grows = |dim: &usize| {
        let fits = sizes[*dim] > 0 && strides[*dim] >= least && !(*dim == 0 && least == strides[1]);
        least = strides[*dim] * sizes[*dim].max(1);
        fits
    };
    strides[1] != 0 && order.iter().all(grows)
}

pub(super) fn dims_of(tensor: &Obj) -> PyResult<(Vec<i64>, Vec<i64>)> {
    Ok((tensor.bind().getattr("shape")?.extract()?, tensor.bind().call_method0("stride")?.extract()?))
}

fn row_by_row(result: Obj) -> PyResult<Obj> {
    in_format(&result, "contiguous_format")
}

fn in_format(result: &Obj, format: &str) -> PyResult<Obj> {
    let options = PyDict::new(py());
    options.set_item("memory_format", py().import("torch")?.getattr(format)?)?;
    result.attr("contiguous")?.call(&[], Some(&options.into()))
}
