//! Shadows of results that gradients flow through. Their history says what torch says: which arguments gradients go to, and what is saved for them.

use super::{Tensor, argument, is_number, join, made, tensors};
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py, tuple_of};
use crate::record::grad::requires_grad;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};

/// Functions whose derivative is computed of their result.
const OF_RESULT: &[&str] = &["relu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt"];

/// Of nothing that a program has.
const OF_NOTHING: &[&str] = &["neg", "add", "sub", "__add__", "__sub__", "__rsub__", "dropout", "interpolate", "roll"];

/// Of their argument, but for those above.
use super::ALIKE as OF_ARGUMENT;

/// The result of a call as one that was computed of those arguments. None where only torch knows what is saved.
pub fn computed(name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Option<Obj>> {
    let Some(saved) = saved(name, args, kwargs, &result)? else { return Ok(None) };
    let mut given = vec![result];
    given.extend(saved);
    let mut all = vec![tuple_of(&given)?];
    for tensor in tensors(args, kwargs) {
        if requires_grad(&tensor)? {
            all.push(tensor);
        }
    }
    function()?.call(&all, None).map(Some)
}

/// With a bias torch computes a matrix, and gives a view of it.
pub fn linear(args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Option<Obj>> {
    let shape: Vec<i64> = result.bind().getattr("shape")?.extract()?;
    let (Some(width), true) = (shape.last(), shape.len() > 2 && argument(args, kwargs, 2, "bias")?.is_some()) else {
        return computed("linear", args, kwargs, result);
    };
    let rows: i64 = shape[..shape.len() - 1].iter().product();
    let Some(matrix) = made(&[rows, *width], &[*width, 1], &result)? else { return Ok(None) };
    let matrix = computed("linear", args, kwargs, matrix)?;
    matrix.map(|matrix| Ok(matrix.bind().call_method1("view", (shape,))?.into())).transpose()
}

/// What eager's graph holds of a call: arguments and the result.
fn saved(name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>, result: &Obj) -> PyResult<Option<Vec<Obj>>> {
    let all = |places: &[(usize, &str)]| -> PyResult<Vec<Obj>> {
        let given = places.iter().map(|(place, name)| argument(args, kwargs, *place, name)).collect::<PyResult<Vec<_>>>()?;
        Ok(given.into_iter().flatten().collect())
    };
    Ok(Some(match name {
        _ if join::is_join(name) || OF_NOTHING.contains(&name) => vec![],
        "pow" | "__rpow__" if args.iter().any(is_number) && (name == "__rpow__" || is_number(&args[0])) => {
            args.iter().filter(|arg| types().is_tensor(arg)).chain([result]).cloned().collect()
        }
        _ if OF_RESULT.contains(&name) => vec![result.clone()],
        "mul" | "__mul__" | "truediv" | "div" | "__truediv__" if args.iter().any(is_number) => vec![],
        "mul" | "__mul__" => for_each_other(&args[0], &args[1])?,
        "truediv" | "div" | "__truediv__" => {
            let numerator = requires_grad(&args[1])?.then(|| args[0].clone());
            numerator.into_iter().chain([args[1].clone()]).collect()
        }
        "maximum" | "minimum" => args.to_vec(),
        "linear" => {
            let [x, weight] = &all(&[(0, "input"), (1, "weight")])?[..] else { return Ok(None) };
            // Of another order a copy is saved.
            if Tensor::of(x)?.is_none_or(|x| x.shape.len() > 2 && !x.is_contiguous()) {
                return Ok(None);
            }
            for_each_other(x, weight)?
        }
        "scaled_dot_product_attention" => {
            let mut saved = all(&[(0, "query"), (1, "key"), (2, "value")])?;
            // Of one of bools a copy of another type is.
            saved.extend(
                argument(args, kwargs, 3, "attn_mask")?
                    .filter(|mask| Tensor::of(mask).quiet().is_some_and(|mask| mask.is_some())),
            );
            saved.push(result.clone());
            saved
        }
        "conv2d" => all(&[(0, "input"), (1, "weight")])?,
        "layer_norm" => all(&[(0, "input"), (2, "weight"), (3, "bias")])?,
        "group_norm" => all(&[(0, "input"), (2, "weight")])?,
        "batch_norm" => all(&[(0, "input"), (1, "running_mean"), (2, "running_var"), (3, "weight")])?,
        _ if OF_ARGUMENT.contains(&name) => vec![args[0].clone()],
        _ => return Ok(None),
    }))
}

/// The derivative of a product by one of the two is the other.
fn for_each_other(a: &Obj, b: &Obj) -> PyResult<Vec<Obj>> {
    let for_a = requires_grad(a)?.then(|| b.clone());
    let for_b = requires_grad(b)?.then(|| a.clone());
    Ok(for_a.into_iter().chain(for_b).collect())
}

/// Of a tuple, a result and what is saved with it, and of the arguments that require grad: the result, as torch would have computed it.
fn function() -> PyResult<&'static Obj> {
    static APPLY: Found<Obj> = Found::new();
    APPLY.or_try_find(|| {
        let builtins = py().import("builtins")?;
        let base = py().import("torch.autograd")?.getattr("Function")?;
        // The result stands in a tuple: of an argument it would be a view.
        let forward = PyCFunction::new_closure(py(), None, None, |args, _| -> PyResult<Py<PyAny>> {
            let (ctx, given) = (args.get_item(0)?, args.get_item(1)?);
            let saved = given.get_item(pyo3::types::PySlice::new(args.py(), 1, isize::MAX, 1))?;
            ctx.call_method1("save_for_backward", saved.cast_into::<pyo3::types::PyTuple>()?)?;
            Ok(given.get_item(0)?.unbind())
        })?;
        let members = PyDict::new(py());
        members.set_item("forward", builtins.call_method1("staticmethod", (forward,))?)?;
        let class = base.get_type().call1(("Computed", (&base,), members))?;
        // Without what Python adds to it for transforms.
        Ok(builtins.call_method1("super", (&base, class))?.getattr("apply")?.into())
    })
}
