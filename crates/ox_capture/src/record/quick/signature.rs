//! What calls may be given so that what is said of them holds. Everything else, what torch refuses among it, is left to torch.

use super::is_number;
use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

#[derive(Clone, Copy)]
enum Kind {
    /// It is looked at elsewhere.
    Any,
    Number,
    NumberOrNone,
    /// True or False, and not what counts as one of them.
    Truth,
    /// A flag of the Python function: the argument is written over if it holds. Operators of the same name have none.
    InPlace,
    Word,
}

use Kind::*;

/// The parameters by name, in order; None of functions that are not given here.
fn parameters(name: &str) -> Option<&'static [(&'static str, Kind)]> {
    Some(match name {
        "relu" | "relu6" | "silu" | "mish" | "hardswish" | "hardsigmoid" => &[("input", Any), ("inplace", InPlace)],
        "gelu" => &[("input", Any), ("approximate", Word)],
        "elu" => &[("input", Any), ("alpha", Number), ("inplace", InPlace)],
        "leaky_relu" => &[("input", Any), ("negative_slope", Number), ("inplace", InPlace)],
        "elu_" => &[("input", Any), ("alpha", Number)],
        "leaky_relu_" => &[("input", Any), ("negative_slope", Number)],
        "softplus" => &[("input", Any), ("beta", Number), ("threshold", Number)],
        "clamp" => &[("input", Any), ("min", NumberOrNone), ("max", NumberOrNone)],
        "clamp_min" => &[("input", Any), ("min", Number)],
        "clamp_max" => &[("input", Any), ("max", Number)],
        "pow" | "__rpow__" => &[("input", Any), ("exponent", Any)],
        "sigmoid" | "tanh" | "exp" | "sqrt" | "rsqrt" | "neg" | "abs" | "sin" | "cos" => &[("input", Any)],
        "relu_" | "silu_" | "hardswish_" | "sigmoid_" | "tanh_" => &[("input", Any)],
        "linear" => &[("input", Any), ("weight", Any), ("bias", Any)],
        "layer_norm" => &[("input", Any), ("normalized_shape", Any), ("weight", Any), ("bias", Any), ("eps", Number)],
        "group_norm" => &[("input", Any), ("num_groups", Any), ("weight", Any), ("bias", Any), ("eps", Number)],
        "batch_norm" => &[
            ("input", Any),
            ("running_mean", Any),
            ("running_var", Any),
            ("weight", Any),
            ("bias", Any),
            ("training", Truth),
            ("momentum", Number),
            ("eps", Number),
        ],
        "dropout" => &[("input", Any), ("p", Number), ("training", Truth), ("inplace", InPlace)],
        "norm" => &[("input", Any), ("p", Number), ("dim", Any), ("keepdim", Truth)],
        "cat" | "concat" | "concatenate" => &[("tensors", Any), ("dim", Any)],
        "conv2d" => &[
            ("input", Any),
            ("weight", Any),
            ("bias", Any),
            ("stride", Any),
            ("padding", Any),
            ("dilation", Any),
            ("groups", Any),
        ],
        "scaled_dot_product_attention" => &[
            ("query", Any),
            ("key", Any),
            ("value", Any),
            ("attn_mask", Any),
            ("dropout_p", Number),
            ("is_causal", Truth),
            ("scale", NumberOrNone),
            ("enable_gqa", Truth),
        ],
        _ => return None,
    })
}

/// Those whose operators, of the same name, take other things.
const OF_PYTHON: &[&str] = &["batch_norm", "dropout"];

/// `is_python`: a function of `torch.nn.functional` that is written in Python.
pub fn fits(name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>, is_python: bool) -> bool {
    let Some(parameters) = parameters(name) else { return true };
    let takes = |kind: Kind, value: &Obj| match kind {
        Any => true,
        Number => is_number(value),
        NumberOrNone => is_number(value) || value.is_none(),
        Truth => is_bool(value),
        InPlace => is_python && is_bool(value),
        Word => value.class_is(types().str),
    };
    let by_place = args.len() <= parameters.len() && args.iter().zip(parameters).all(|(value, (_, kind))| takes(*kind, value));
    let is_named = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let place = name.extract::<&str>().quiet().and_then(|name| parameters.iter().position(|(known, _)| *known == name));
        place.is_some_and(|place| place >= args.len() && takes(parameters[place].1, &value.into()))
    };
    by_place && kwargs.iter().all(is_named) && (is_python || !OF_PYTHON.contains(&name))
}

fn is_bool(value: &Obj) -> bool {
    value.is(&Obj::bool(true)) || value.is(&Obj::bool(false))
}
