//! Calls that give their argument back, as `contiguous` of what lies row by row does. TorchDynamo has a node for each, and eager one tensor for
//! all of them: hooks on one are hooks on the others.
//!
//! torch's fake kernels copy what lies channels-last of sizes that vary when it is asked for in that very order. Eager does not: such a call gives
//! its argument back as well, and what fake kernels made of the copy lies in the argument. So does a dropout that drops nothing, which they copy, too.

use super::ordered;
use super::places::{example, is_computed};
use crate::fx::move_examples;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

type Node<'py> = Bound<'py, PyAny>;

/// What does nothing if it gives its argument back. Others may have written it first (`relu(inplace=True)`).
const HARMLESS: &[&str] = &[
    "contiguous",
    "to",
    "type",
    "type_as",
    "double",
    "float",
    "half",
    "bfloat16",
    "cpu",
    "cuda",
    "flatten",
    "getattr",
    "real",
    "conj",
    "resolve_conj",
    "resolve_neg",
    "positive",
    "as_tensor",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "dropout",
];

/// Changes the graph module in place: whoever uses such a call uses its argument.
pub fn merge_selves(gm: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = gm.py();
    let graph = gm.getattr(intern!(py, "graph"))?;
    let mut changed = false;
    let nodes = ordered(gm)?;
    for (place, node) in nodes.iter().enumerate() {
        if let Some(argument) = itself(node)? {
            if let (Some(copy), Some(own)) = (example(node)?, example(&argument)?)
                && !copy.is(&own)
            {
                let later = nodes[place..].iter().map(example).collect::<PyResult<Vec<_>>>()?;
                move_examples(later.into_iter().flatten(), &copy, &own)?;
            }
            node.call_method1(intern!(py, "replace_all_uses_with"), (argument,))?;
            graph.call_method1(intern!(py, "erase_node"), (node,))?;
            changed = true;
        }
    }
    if changed {
        gm.call_method0(intern!(py, "recompile"))?;
    }
    Ok(())
}

/// The argument that the node gives back, and does nothing else. What a checkpoint returns is its own.
fn itself<'py>(node: &Node<'py>) -> PyResult<Option<Node<'py>>> {
    let py = node.py();
    let target = node.getattr(intern!(py, "target"))?;
    let name: String = target.getattr_opt(intern!(py, "__name__"))?.unwrap_or(target).str()?.extract()?;
    let meta = node.getattr(intern!(py, "meta"))?.cast_into::<PyDict>()?;
    if !is_computed(node)? || !HARMLESS.contains(&name.as_str()) || meta.contains(intern!(py, "checkpoint"))? {
        return Ok(None);
    }
    let Some(result) = example(node)?.filter(|result| result.hasattr(intern!(py, "requires_grad")).unwrap_or(false)) else {
        return Ok(None);
    };
    for argument in node.getattr(intern!(py, "all_input_nodes"))?.try_iter()? {
        let argument = argument?;
        if let Some(own) = example(&argument)?
            && gives_back(node, &name, &own, &result)?
        {
            return Ok(Some(argument));
        }
    }
    Ok(None)
}

fn gives_back<'py>(node: &Node<'py>, name: &str, own: &Bound<'py, PyAny>, result: &Bound<'py, PyAny>) -> PyResult<bool> {
    match name {
        "dropout" => Ok(!drops(node)? && lies_alike(own, result)?),
        "contiguous" => Ok(own.is(result) || lies_alike(own, result)?),
        _ => Ok(own.is(result)),
    }
}

/// Whether a dropout drops anything, or may.
fn drops(node: &Node<'_>) -> PyResult<bool> {
    let py = node.py();
    let args = node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
    let kwargs = node.getattr(intern!(py, "kwargs"))?.cast_into::<PyDict>()?;
    let given = |place: usize, name: &str| args.get_item(place).map(Some).or_else(|_| kwargs.get_item(name));
    let training = given(2, "training")?.or(kwargs.get_item("train")?);
    let is_off = training.is_some_and(|training| matches!(training.extract(), Ok(false)));
    Ok(!is_off && given(1, "p")?.is_none_or(|p| !matches!(p.extract::<f64>(), Ok(0.0))))
}

/// Whether both lie in memory in one way. The stride of a dimension of size 1 reaches nothing. What does not follow from the sizes becomes a guard
/// of Dynamo's.
fn lies_alike<'py>(a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>) -> PyResult<bool> {
    let py = a.py();
    let sizes = a.getattr(intern!(py, "shape"))?.cast_into::<PyTuple>()?;
    let strides = [a, b].map(|tensor| Ok::<_, PyErr>(tensor.call_method0(intern!(py, "stride"))?.cast_into::<PyTuple>()?));
    let [ours, theirs] = strides;
    for ((size, ours), theirs) in sizes.iter().zip(ours?).zip(theirs?) {
        if !size.eq(1)? && !ours.eq(theirs)? {
            return Ok(false);
        }
    }
    Ok(true)
}
