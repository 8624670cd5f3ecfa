//! Shadows of the calls that models are made of. For many of them torch's meta kernels are Python programs that decompose the call, which
//! takes a hundred times as long as saying what comes out. What is said here is said of plain cases only: tensors of one floating type,
//! dense and in shapes that fit; everything else, all mistakes among it, is left to torch.

mod computed;
mod conv;
mod grow;
mod join;
mod rows;
mod signature;
mod written;

use super::grad;
use super::graph::tensors_in;
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Elementwise functions of one tensor, and others whose result is laid out like their argument. What stands behind the tensor are numbers.
const ALIKE: &[&str] = &[
    "relu",
    "relu6",
    "gelu",
    "silu",
    "mish",
    "elu",
    "leaky_relu",
    "hardswish",
    "hardsigmoid",
    "softplus",
    "sigmoid",
    "tanh",
    "exp",
    "sqrt",
    "rsqrt",
    "neg",
    "abs",
    "sin",
    "cos",
    "clamp",
    "clamp_min",
    "clamp_max",
    "pow",
];

/// Of those: where a flag behind the tensor says that the argument is written over.
const FLAGGED: &[&str] = &["relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid"];

/// The same, written over the argument.
const IN_PLACE: &[&str] = &["relu_", "silu_", "hardswish_", "sigmoid_", "tanh_", "leaky_relu_", "elu_"];

/// Written over the first of three operands.
const OF_THREE: &[&str] = &["lerp_", "addcmul_", "addcdiv_"];

/// Operators and functions of two tensors, or of a tensor and a number.
const BINARY: &[&str] =
    &["add", "sub", "mul", "truediv", "div", "maximum", "minimum", "__add__", "__sub__", "__mul__", "__truediv__", "__rsub__"];

pub(super) struct Tensor {
    object: Obj,
    shape: Vec<i64>,
    strides: Vec<i64>,
    dtype: usize,
}

impl Tensor {
    pub(super) fn of(object: &Obj) -> PyResult<Option<Tensor>> {
        if !types().is_tensor(object) || !object.attr("is_floating_point")?.call(&[], None)?.truth()? {
            return Ok(None);
        }
        let shape = object.bind().getattr("shape")?.extract()?;
        let strides = object.bind().call_method0("stride")?.extract()?;
        Ok(Some(Tensor { object: object.clone(), shape, strides, dtype: object.attr("dtype")?.id() }))
    }

    fn is_contiguous(&self) -> bool {
        self.is_dense_in(&(0..self.shape.len()).collect::<Vec<_>>())
    }

    /// Whether it fills its memory in some order of its dimensions.
    fn is_dense(&self) -> bool {
        self.is_dense_in(&self.order())
    }

    /// Its dimensions, the one with the largest steps first.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.shape.len()).collect();
        order.sort_by_key(|n| std::cmp::Reverse((self.strides[*n], self.shape[*n])));
        order
    }

    /// A new tensor of this shape whose dimensions lie in the same order, without gaps.
    fn in_its_order(&self) -> PyResult<Option<Obj>> {
        made(&self.shape, &self.strides_in_its_order(), &self.object)
    }

    fn strides_in_its_order(&self) -> Vec<i64> {
        let (mut strides, mut step) = (vec![0; self.shape.len()], 1);
        for n in self.order().into_iter().rev() {
            strides[n] = step;
            step *= self.shape[n];
        }
        strides
    }

    /// The strides of a new tensor that is to be like this one. None where torch must be asked: of a dimension without steps it has its own idea.
    pub(super) fn strides_of_another(&self) -> Option<Vec<i64>> {
        match self.is_dense() {
            true => Some(self.strides.clone()),
            false => self.has_steps().then(|| self.strides_in_its_order()),
        }
    }

    /// Row by row, and dimensions of one element have the strides that a new tensor has there.
    fn is_usual(&self) -> bool {
        self.has_elements() && self.strides == contiguous_strides(&self.shape)
    }

    /// Whether a new tensor that is computed of it element by element has its strides. Where it has them of its order alone, the stride of a
    /// dimension of one element is that of another order sometimes: torch is asked then.
    fn gives_its_strides(&self) -> bool {
        let is_of_another_order = || self.is_dense() && (!self.shape.contains(&1) || self.is_new_channels_last());
        self.is_usual() || is_of_another_order()
    }

    /// Channels last with the strides of a new tensor, and not row by row as well.
    fn is_new_channels_last(&self) -> bool {
        let [n, c, h, w] = self.shape[..] else { return false };
        let of_rows = contiguous_strides(&[n, h, w, c]);
        !self.is_contiguous() && self.strides == [of_rows[0], of_rows[3], of_rows[1], of_rows[2]]
    }

    fn has_elements(&self) -> bool {
        self.shape.iter().all(|n| *n > 0)
    }

    /// Whether all of its dimensions have an order: no element stands for many.
    fn has_steps(&self) -> bool {
        self.has_elements() && !self.strides.contains(&0)
    }

    /// Whether no two of its dimensions could as well lie in the other order.
    fn is_ordered(&self) -> bool {
        let mut steps = self.strides.clone();
        steps.sort_unstable();
        self.has_elements() && steps.first().is_none_or(|step| *step > 0) && steps.windows(2).all(|pair| pair[0] < pair[1])
    }

    fn is_dense_in(&self, order: &[usize]) -> bool {
        let mut step = 1;
        for n in order.iter().rev() {
            if self.shape[*n] != 1 && self.strides[*n] != step {
                return false;
            }
            step *= self.shape[*n];
        }
        // What is empty has strides of its own.
        step > 0
    }

    fn is_channels_last(&self) -> bool {
        self.shape.len() == 4 && self.is_dense_in(&[0, 2, 3, 1])
    }

    /// A result for which the library keeps no other order than these two.
    fn in_its_format(&self) -> PyResult<Option<Obj>> {
        match self.is_channels_last() && !self.is_contiguous() {
            true => made(&self.shape, &self.strides, &self.object),
            false => made(&self.shape, &contiguous_strides(&self.shape), &self.object),
        }
    }

    /// Whether it can be spread over a shape.
    fn fits_into(&self, shape: &[i64]) -> bool {
        self.shape.len() <= shape.len()
            && self.shape.iter().rev().zip(shape.iter().rev()).all(|(own, all)| own == all || *own == 1)
    }
}

/// Calls of which more is known than that their result is laid out like an argument.
const OTHERS: &[&str] = &[
    "linear",
    "layer_norm",
    "batch_norm",
    "group_norm",
    "scaled_dot_product_attention",
    "dropout",
    "grid_sample",
    "conv2d",
    "interpolate",
    "norm",
    "roll",
    "__rpow__",
];

/// Of those: where the CPU's kernels have ways of their own.
const OF_THE_CPU: &[&str] = &["grid_sample", "interpolate", "norm", "roll", "__rpow__"];

/// Where a call is made.
pub struct Made {
    /// The grad mode.
    pub grad: bool,
    pub is_on_cpu: bool,
    /// Of a function that is written in Python.
    pub is_python: bool,
}

/// The shadow of a call's result. None where torch must be asked.
pub fn shadow(name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>, call: Made) -> PyResult<Option<Obj>> {
    let Made { grad, is_on_cpu, is_python } = call;
    let writes = [IN_PLACE, OF_THREE].iter().any(|list| list.contains(&name));
    let known = writes || join::is_join(name) || [ALIKE, BINARY, OTHERS].iter().any(|list| list.contains(&name));
    let is_elsewhere = !is_on_cpu && (join::is_join(name) || OF_THE_CPU.contains(&name));
    if !known || is_elsewhere || !signature::fits(name, args, kwargs, is_python) {
        return Ok(None);
    }
    let is_computed = grad && requires_grad(args, kwargs)?;
    // Of attention it is known only which kernel is taken: see `attention_with_gradients`.
    if is_computed && name == "scaled_dot_product_attention" {
        return Ok(None);
    }
    // What is written over gets another history, of which torch knows.
    if is_computed && (writes || is_in_place(args, kwargs)?) {
        return Ok(None);
    }
    match laid_out(name, args, kwargs, is_on_cpu)? {
        Some(known) if is_computed && name == "linear" => computed::linear(args, kwargs, known),
        Some(known) if is_computed => computed::computed(name, args, kwargs, known),
        known => Ok(known),
    }
}

fn laid_out(name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>, is_on_cpu: bool) -> PyResult<Option<Obj>> {
    if join::is_join(name) {
        return join::join(args, kwargs);
    }
    if let ("pow", [number, tensor]) | ("__rpow__", [tensor, number]) = (name, args)
        && is_number(number)
        && kwargs.is_empty()
    {
        return if is_on_cpu { number_to_the(tensor) } else { Ok(None) };
    }
    // `1 - x`
    if let [number, tensor] = args
        && is_number(number)
        && BINARY.contains(&name)
    {
        return binary(name, &[tensor.clone(), number.clone()], kwargs);
    }
    if let [tensor, number] = args
        && let Some(known) = integers_and_number(name, tensor, number, kwargs)?
    {
        return Ok(Some(known));
    }
    let Some(first) = args.first().map(Tensor::of).transpose()?.flatten() else { return Ok(None) };
    let like = |tensor: &Tensor| made(&tensor.shape, &tensor.strides, &tensor.object);
    // What of the CPU's kernels keeps another order may not of a GPU's.
    let is_kept = is_on_cpu || first.is_usual();
    match name {
        "batch_norm" | "group_norm" if !is_kept => Ok(None),
        "linear" => linear(&first, args, kwargs),
        "layer_norm" if is_layer_norm(&first, args, kwargs)? => {
            made(&first.shape, &contiguous_strides(&first.shape), &first.object)
        }
        "batch_norm" if is_batch_norm(&first, args, kwargs)? => first.in_its_format(),
        "group_norm" if is_group_norm(&first, args, kwargs)? => first.in_its_format(),
        "scaled_dot_product_attention" if is_attention(&first, args, kwargs)? => {
            made(&first.shape, &contiguous_strides(&first.shape), &first.object)
        }
        "dropout" if drops(&first, args, kwargs)? => like(&first),
        "conv2d" => conv::conv2d(&first, args, kwargs),
        "interpolate" => grow::interpolate(&first, args, kwargs),
        "grid_sample" => grid_sample(&first, args, kwargs),
        "norm" => rows::norm(&first, args, kwargs),
        "roll" => rows::roll(&first, args, kwargs),
        _ if BINARY.contains(&name) => binary(name, args, kwargs),
        _ if !first.gives_its_strides() => Ok(None),
        _ if OF_THREE.contains(&name) => written::of_three(name, &first, args, kwargs),
        _ if is_in_place(args, kwargs)? && FLAGGED.contains(&name) => written::written(&first).map(Some),
        _ if !are_numbers(&args[1..], kwargs)? => Ok(None),
        _ if IN_PLACE.contains(&name) => written::written(&first).map(Some),
        _ if ALIKE.contains(&name) && is_told(name, &args[1..], kwargs)? => like(&first),
        _ => Ok(None),
    }
}

fn requires_grad(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    grad::any_requires_grad(&tensors(args, kwargs))
}

fn tensors(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> Vec<Obj> {
    let named: Vec<Obj> = kwargs.values().iter().map(Obj::from).collect();
    args.iter().chain(&named).flat_map(tensors_in).collect()
}

fn made(shape: &[i64], strides: &[i64], like: &Obj) -> PyResult<Option<Obj>> {
    static MAKE: Found<Obj> = Found::new();
    let make = MAKE.or_try_find(|| py().import("torch").and_then(|torch| torch.getattr("empty_strided")).map(Obj::from))?;
    let options = PyDict::new(py());
    options.set_item("dtype", like.attr("dtype")?.bind())?;
    options.set_item("device", "meta")?;
    let shape = shape.into_pyobject(py())?.into_any().into();
    let strides = strides.into_pyobject(py())?.into_any().into();
    make.call(&[shape, strides], Some(&options.into())).map(Some)
}

fn contiguous_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for n in (1..shape.len()).rev() {
        strides[n - 1] = strides[n] * shape[n].max(1);
    }
    strides
}

/// An argument by its place or its name; None if it is not given or None.
fn argument(args: &[Obj], kwargs: &Bound<'_, PyDict>, place: usize, name: &str) -> PyResult<Option<Obj>> {
    let given = args.get(place).cloned().or(kwargs.get_item(name)?.map(Obj::from));
    Ok(given.filter(|value| !value.is_none()))
}

fn is_number(object: &Obj) -> bool {
    object.class_is(types().int) || object.class_is(types().float)
}

/// Numbers and words, no tensors and nothing that asks for the memory of the argument.
fn are_numbers(rest: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let is_plain =
        |value: &Obj| is_number(value) || value.is_none() || value.class_is(types().str) || value.is(&Obj::bool(false));
    let named =
        kwargs.iter().all(|(name, value)| name.extract::<&str>().quiet().is_some_and(|n| n != "out") && is_plain(&value.into()));
    Ok(named && rest.iter().all(is_plain))
}

/// Whether the function has what it asks for: a bound, a power, the name of a way to compute.
fn is_told(name: &str, rest: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let given: Vec<Obj> = rest.iter().cloned().chain(kwargs.values().iter().map(Obj::from)).collect();
    let words = given.iter().filter_map(Obj::to_str).collect::<Vec<_>>();
    let known = words.iter().all(|word| name == "gelu" && ["none", "tanh"].contains(&word.as_str()));
    Ok(known && (!matches!(name, "clamp" | "clamp_min" | "clamp_max" | "pow") || given.iter().any(is_number)))
}

/// `F.relu(x, inplace=True)`, with nothing else beside it.
fn is_in_place(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let named = kwargs.get_item("inplace")?.map(Obj::from).filter(|_| args.len() == 1 && kwargs.len() == 1);
    let flag = args.get(1).cloned().filter(|_| args.len() == 2 && kwargs.is_empty()).or(named);
    Ok(flag.is_some_and(|flag| flag.is(&Obj::bool(true))))
}

/// A vector of the given type and size; what is not there is fine.
fn is_vector(value: Option<Obj>, of: &Tensor, size: i64) -> PyResult<bool> {
    let Some(value) = value else { return Ok(true) };
    Ok(Tensor::of(&value)?.is_some_and(|vector| vector.dtype == of.dtype && vector.shape == [size]))
}

fn linear(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let Some(weight) = argument(args, kwargs, 1, "weight")?.map(|w| Tensor::of(&w)).transpose()?.flatten() else {
        return Ok(None);
    };
    let ([.., width], [out, inner]) = (&x.shape[..], &weight.shape[..]) else { return Ok(None) };
    let fits = width == inner && weight.dtype == x.dtype && x.shape.len() >= 2 && x.has_elements();
    if !fits || !is_vector(argument(args, kwargs, 2, "bias")?, x, *out)? || *out == 0 {
        return Ok(None);
    }
    let mut shape = x.shape.clone();
    *shape.last_mut().expect("two dimensions at least") = *out;
    made(&shape, &contiguous_strides(&shape), &x.object)
}

/// Of any tensor: what comes out lies row by row.
fn is_layer_norm(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Some(sizes) = argument(args, kwargs, 1, "normalized_shape")? else { return Ok(false) };
    let sizes: Vec<i64> = items_of(&sizes).iter().map(|size| size.bind().extract()).collect::<PyResult<_>>()?;
    let mut fits = x.has_elements() && !sizes.is_empty() && x.shape.ends_with(&sizes);
    for (place, name) in [(2, "weight"), (3, "bias")] {
        if let Some(given) = argument(args, kwargs, place, name)? {
            fits &= Tensor::of(&given)?.is_some_and(|given| given.dtype == x.dtype && given.shape == sizes);
        }
    }
    Ok(fits)
}

/// With the statistics that are given, or those of more than one number of each channel.
fn is_batch_norm(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let trains = argument(args, kwargs, 5, "training")?.map_or(Ok(false), |training| training.truth())?;
    let channels = x.shape.get(1).copied().unwrap_or(0);
    let eps = argument(args, kwargs, 7, "eps")?.map_or(Ok(1e-5), |eps| eps.bind().extract::<f64>())?;
    let given = [argument(args, kwargs, 1, "running_mean")?, argument(args, kwargs, 2, "running_var")?];
    let has_statistics = match &given {
        [Some(mean), Some(var)] => !requires_grad(&[mean.clone(), var.clone()], &PyDict::new(py()))?,
        [None, None] => trains,
        _ => false,
    };
    let has_more = !trains || x.shape.iter().product::<i64>() > channels;
    let mut fits = has_statistics && has_more && eps > 0.0 && x.is_dense();
    for (place, name) in [(1, "running_mean"), (2, "running_var"), (3, "weight"), (4, "bias")] {
        fits &= is_vector(argument(args, kwargs, place, name)?, x, channels)?;
    }
    Ok(fits)
}

fn is_group_norm(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Some(groups) = argument(args, kwargs, 1, "num_groups")? else { return Ok(false) };
    let groups: i64 = groups.bind().extract()?;
    let channels = x.shape.get(1).copied().unwrap_or(0);
    // One number for each group is refused.
    let is_more = groups > 0 && x.shape.iter().product::<i64>() / groups > 1;
    let mut fits = (x.is_contiguous() || x.is_channels_last()) && is_more && channels % groups == 0;
    for (place, name) in [(2, "weight"), (3, "bias")] {
        fits &= is_vector(argument(args, kwargs, place, name)?, x, channels)?;
    }
    Ok(fits)
}

/// Whether some of it is set to zero: the result is new then.
fn drops(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let given = |place, name| argument(args, kwargs, place, name);
    let Some(p) = given(1, "p")?.filter(is_number) else { return Ok(false) };
    let p: f64 = p.bind().extract()?;
    let flag = |value: Option<Obj>, default: bool| value.map_or(Ok(default), |value| value.truth());
    Ok(x.gives_its_strides() && 0.0 < p && p < 1.0 && flag(given(2, "training")?, true)? && !flag(given(3, "inplace")?, false)?)
}

/// Whether gradients flow through attention whose result has the shape of its queries.
pub(super) fn is_attention_with_gradients(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Some(query) = args.first().map(Tensor::of).transpose()?.flatten() else { return Ok(false) };
    let fits = signature::fits("scaled_dot_product_attention", args, kwargs, false);
    Ok(fits && requires_grad(args, kwargs)? && is_attention(&query, args, kwargs)?)
}

/// Its result, by a fused kernel.
pub(super) fn attention_with_gradients(
    args: &[Obj],
    kwargs: &Bound<'_, PyDict>,
    sizes: &[i64],
    strides: &[i64],
) -> PyResult<Option<Obj>> {
    let Some(result) = made(sizes, strides, &args[0])? else { return Ok(None) };
    computed::computed("scaled_dot_product_attention", args, kwargs, result)
}

/// Of shapes that fit. In which order the result lies is said by `memory_order`, whoever made the shadow.
fn is_attention(query: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let tensor = |place, name| argument(args, kwargs, place, name)?.map(|t| Tensor::of(&t)).transpose().map(Option::flatten);
    let (Some(key), Some(value)) = (tensor(1, "key")?, tensor(2, "value")?) else { return Ok(false) };
    let ([batch, heads, rows, width], [_, served, columns, _]) = (&query.shape[..], &key.shape[..]) else { return Ok(false) };
    let number = |place, name| -> PyResult<f64> { argument(args, kwargs, place, name)?.map_or(Ok(0.0), |n| n.bind().extract()) };
    let asked = |place, name| -> PyResult<bool> { argument(args, kwargs, place, name)?.map_or(Ok(false), |flag| flag.truth()) };
    let mut fits = number(4, "dropout_p")? == 0.0;
    fits &= [query, &key, &value].iter().all(|t| t.dtype == query.dtype && t.has_elements());
    fits &= key.shape == [*batch, *served, *columns, *width] && value.shape == key.shape;
    // A head of keys and values serves several of the queries where that is asked for.
    fits &= served == heads || (fits && heads % served == 0 && asked(7, "enable_gqa")?);
    if let Some(mask) = argument(args, kwargs, 3, "attn_mask")? {
        fits &= !asked(5, "is_causal")? && is_mask(&mask, query, &[*batch, *heads, *rows, *columns])?;
    }
    Ok(fits)
}

fn is_mask(mask: &Obj, query: &Tensor, shape: &[i64]) -> PyResult<bool> {
    let is_bool = mask.attr("dtype")?.is(&Obj::from(py().import("torch")?.getattr("bool")?));
    let sizes: Vec<i64> = mask.bind().getattr("shape")?.extract()?;
    let same_type = mask.attr("dtype")?.id() == query.dtype;
    let spread = Tensor { object: mask.clone(), shape: sizes, strides: vec![], dtype: query.dtype };
    Ok((is_bool || same_type) && [2, 4].contains(&spread.shape.len()) && spread.fits_into(shape))
}

fn grid_sample(x: &Tensor, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let grid = argument(args, kwargs, 1, "grid")?.map(|grid| Tensor::of(&grid)).transpose()?.flatten();
    let Some(grid) = grid.filter(|grid| grid.dtype == x.dtype) else { return Ok(None) };
    let ([batch, channels, _, _], [same, rows, columns, 2]) = (&x.shape[..], &grid.shape[..]) else { return Ok(None) };
    let shape = [*batch, *channels, *rows, *columns];
    // Without a word on corners torch warns; some modes it does not know.
    let is_told = argument(args, kwargs, 4, "align_corners")?.is_some()
        && [(2, "mode", "bilinear"), (3, "padding_mode", "zeros")].iter().all(|(place, name, usual)| {
            argument(args, kwargs, *place, name)
                .quiet()
                .is_some_and(|word| word.is_none_or(|word| word.to_str().as_deref() == Some(*usual)))
        });
    let fits = is_told && batch == same && x.is_contiguous() && shape.iter().all(|n| *n > 0);
    if fits { made(&shape, &contiguous_strides(&shape), &x.object) } else { Ok(None) }
}

/// `torch.arange(n) * 0.5`: of the default type. Other combinations with integers are left to torch, for which they are no programs.
fn integers_and_number(name: &str, tensor: &Obj, number: &Obj, kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let is_asked = BINARY.contains(&name) && !matches!(name, "maximum" | "minimum") && kwargs.is_empty();
    if !is_asked || !number.class_is(types().float) || !types().is_tensor(tensor) {
        return Ok(None);
    }
    let torch = py().import("torch")?;
    if !tensor.attr("dtype")?.bind().is(&torch.getattr("int64")?) {
        return Ok(None);
    }
    let (shape, strides) = (tensor.bind().getattr("shape")?.extract()?, tensor.bind().call_method0("stride")?.extract()?);
    let integers = Tensor { object: tensor.clone(), shape, strides, dtype: 0 };
    let options = PyDict::new(py());
    options.set_item("dtype", torch.call_method0("get_default_dtype")?)?;
    options.set_item("device", "meta")?;
    let made = || torch.getattr("empty_strided")?.call((&integers.shape, integers.strides_in_its_order()), Some(&options));
    if integers.has_steps() { made().map(|made| Some(made.into())) } else { Ok(None) }
}

/// A number to the power of a tensor is laid out in the usual way, of which torch's meta kernel knows nothing.
fn number_to_the(tensor: &Obj) -> PyResult<Option<Obj>> {
    match Tensor::of(tensor)?.filter(Tensor::has_elements) {
        Some(power) => made(&power.shape, &contiguous_strides(&power.shape), &power.object),
        None => Ok(None),
    }
}

/// One of the two has the result's shape, and lies in its order.
fn binary(name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let [left, right] = args else { return Ok(None) };
    let Some(left) = Tensor::of(left)?.filter(|_| kwargs.is_empty()) else { return Ok(None) };
    let (left, takes_number) = (&left, !matches!(name, "maximum" | "minimum"));
    let like = |tensor: &Tensor| made(&tensor.shape, &tensor.strides, &tensor.object);
    if is_number(right) {
        return if takes_number && left.has_steps() { left.in_its_order() } else { Ok(None) };
    }
    let Some(right) = Tensor::of(right)? else { return Ok(None) };
    // A single number in a tensor decides neither about type nor about shape.
    if right.shape.is_empty() && !left.shape.is_empty() && left.has_steps() {
        return left.in_its_order();
    }
    if right.dtype != left.dtype {
        return Ok(None);
    }
    if left.shape == right.shape && left.strides == right.strides && left.gives_its_strides() {
        return like(left);
    }
    // Of dimensions of one element the order does not tell the strides.
    if [left, &right].iter().any(|tensor| tensor.is_contiguous() && !tensor.is_usual()) {
        return Ok(None);
    }
    // The first operand decides where it can.
    if right.fits_into(&left.shape) && left.is_ordered() && right.has_elements() {
        return left.in_its_order();
    }
    // Both in the usual order: so is the result.
    let usual = left.is_contiguous() && right.is_contiguous();
    match (usual && right.fits_into(&left.shape), usual && left.fits_into(&right.shape)) {
        (true, _) => like(left),
        (_, true) => like(&right),
        _ => Ok(None),
    }
}
