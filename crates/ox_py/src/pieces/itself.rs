//! Calls that give their argument back, as `contiguous` of what lies row by row does. TorchDynamo has a node for each, and eager one tensor for
//! all of them: hooks on one are hooks on the others.

use super::ordered;
use super::places::{example, is_computed};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

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
];

/// Changes the graph module in place: whoever uses such a call uses its argument.
pub fn merge_selves(gm: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = gm.py();
    let graph = gm.getattr(intern!(py, "graph"))?;
    let mut changed = false;
    for node in ordered(gm)? {
        if let Some(argument) = itself(&node)? {
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
        if example(&argument)?.is_some_and(|own| own.is(&result)) {
            return Ok(Some(argument));
        }
    }
    Ok(None)
}
