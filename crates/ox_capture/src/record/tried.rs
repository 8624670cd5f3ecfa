//! The memory order of results that torch's meta kernels do not know: its real ones are tried on tensors that lie as the arguments do.

use super::graph::{Shadow, tensors_in};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, list_of, py, tuple_of};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Their orders differ where arguments do not lie row by row.
const TRIED: &[&str] = &[
    "angle",
    "binary_cross_entropy",
    "copysign",
    "cross_entropy",
    "floor_divide",
    "floordiv",
    "__floordiv__",
    "__rfloordiv__",
    "heaviside",
    "huber_loss",
    "isin",
    "ldexp",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_or",
    "logical_xor",
    "max_pool1d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "nll_loss",
    "special_xlog1py",
    "special_xlogy",
    "xlogy",
];

/// Theirs wherever arguments lie.
const ALWAYS_TRIED: &[&str] = &["linalg_eig", "linalg_svd", "svd"];

/// The most elements that an argument is made with, or a result has.
const ELEMENTS: i64 = 1 << 20;

/// The shadow of a result with the strides that eager gives it.
pub fn tried_order(callee: &Shadow, name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Obj> {
    let is_open = match name {
        _ if ALWAYS_TRIED.contains(&name) || name.starts_with("fft_") => true,
        "div" | "divide" => kwargs.contains("rounding_mode")? && !lie_row_by_row(args, kwargs)?,
        _ => TRIED.contains(&name) && !lie_row_by_row(args, kwargs)?,
    };
    if !is_open || kwargs.contains("out")? || !is_torchs(callee)? || is_large(&result)? {
        return Ok(result);
    }
    // What the real kernels refuse of such elements stays as it is.
    match [0, 1].into_iter().find_map(|element| call(callee, args, kwargs, element).quiet().flatten()) {
        Some(real) => in_order_of(&real, result),
        None => Ok(result),
    }
}

/// Operators of the program's own are called as often as it calls them.
fn is_torchs(callee: &Shadow) -> PyResult<bool> {
    match callee {
        Shadow::Function(function) => Ok(function.class().attr("__module__")?.to_str().as_deref() == Some("builtins")),
        _ => Ok(true),
    }
}

fn is_large(result: &Obj) -> PyResult<bool> {
    let mut counts = tensors_in(result).into_iter().map(|shadow| shadow.bind().call_method0("numel")?.extract::<i64>());
    counts.try_fold(false, |any, count| Ok(any || count? >= ELEMENTS))
}

fn lie_row_by_row(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let named = kwargs.values().iter().map(Obj::from);
    let shadows: Vec<Obj> = args.iter().cloned().chain(named).flat_map(|arg| tensors_in(&arg)).collect();
    let mut all = shadows.iter().map(|shadow| shadow.bind().call_method0("is_contiguous")?.is_truthy());
    all.try_fold(true, |all, one| Ok(all && one?))
}

/// The call on tensors full of `element`. None if they would be large.
fn call(callee: &Shadow, args: &[Obj], kwargs: &Bound<'_, PyDict>, element: i64) -> PyResult<Option<Obj>> {
    let Some(args) = args.iter().map(|arg| real(arg, element)).collect::<PyResult<Option<Vec<Obj>>>>()? else { return Ok(None) };
    let named = PyDict::new(py());
    for (key, value) in kwargs {
        let Some(value) = real(&value.into(), element)? else { return Ok(None) };
        named.set_item(key, value.bind())?;
    }
    let named = Obj::from(named);
    match callee {
        Shadow::Function(function) => function.call(&args, Some(&named)).map(Some),
        Shadow::Method(method) => args[0].get_attr(method)?.call(&args[1..], Some(&named)).map(Some),
        Shadow::Attribute(_) => Ok(None),
    }
}

fn real(arg: &Obj, element: i64) -> PyResult<Option<Obj>> {
    if !types().is_tensor(arg) {
        return Ok(tensors_in(arg).is_empty().then(|| arg.clone()));
    }
    let (sizes, strides) = super::order::dims_of(arg)?;
    let last: i64 = sizes.iter().zip(&strides).map(|(size, stride)| (size - 1).max(0) * stride).sum();
    if last.max(sizes.iter().product()) >= ELEMENTS {
        return Ok(None);
    }
    let options = PyDict::new(py());
    options.set_item("dtype", arg.attr("dtype")?.bind())?;
    options.set_item("device", "cpu")?;
    let memory = py().import("torch")?.call_method("full", ((last + 1,), element), Some(&options))?;
    Ok(Some(memory.call_method1("as_strided", (sizes, strides))?.into()))
}

fn in_order_of(real: &Obj, result: Obj) -> PyResult<Obj> {
    let types = types();
    if types.is_tensor(&result) {
        return if types.is_tensor(real) { laid_as(real, result) } else { Ok(result) };
    }
    let (shadows, reals) = (items_of(&result), items_of(real));
    if shadows.len() != reals.len() || !shadows.iter().chain(&reals).all(|item| types.is_tensor(item)) {
        return Ok(result);
    }
    let items = shadows.into_iter().zip(&reals).map(|(shadow, real)| laid_as(real, shadow)).collect::<PyResult<Vec<Obj>>>()?;
    match () {
        _ if result.class_is(types.tuple) => tuple_of(&items),
        _ if result.class_is(types.list) => list_of(&items),
        _ => result.class().call(&[tuple_of(&items)?], None),
    }
}

/// The shadow with the dimensions in the order of the real tensor's.
fn laid_as(real: &Obj, shadow: Obj) -> PyResult<Obj> {
    let ((sizes, strides), (own_sizes, own_strides)) = (super::order::dims_of(real)?, super::order::dims_of(&shadow)?);
    let differs = |d: usize| sizes[d] > 1 && strides[d] != own_strides[d];
    if sizes != own_sizes || sizes.contains(&0) || !(0..sizes.len()).any(differs) {
        return Ok(shadow);
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(strides[*d]));
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, d)| back[*d] = place);
    let outermost_first = shadow.bind().call_method1("permute", (order,))?.call_method0("contiguous")?;
    Ok(outermost_first.call_method1("permute", (back,))?.call_method0("clone")?.into())
}
