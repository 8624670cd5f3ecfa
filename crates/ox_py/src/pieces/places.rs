//! Where to cut.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashSet;

type Node<'py> = Bound<'py, PyAny>;

/// A node's example, whatever made the graph.
pub fn example<'py>(node: &Node<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = node.py();
    let meta = node.getattr(intern!(py, "meta"))?;
    let meta = meta.cast::<PyDict>()?;
    match meta.get_item(intern!(py, "example_value"))? {
        Some(value) => Ok(Some(value)),
        None => meta.get_item(intern!(py, "val")),
    }
}

/// Whether an example holds a tensor that requires grad.
pub fn requires_grad(example: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = example.py();
    if let Some(requires) = example.getattr_opt(intern!(py, "requires_grad"))? {
        return requires.is_truthy();
    }
    if example.is_instance_of::<PyTuple>() || example.is_instance_of::<pyo3::types::PyList>() {
        for item in example.try_iter()? {
            if requires_grad(&item?)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn op_is(node: &Node<'_>, wanted: &str) -> PyResult<bool> {
    Ok(node.getattr(intern!(node.py(), "op"))?.extract::<&str>()? == wanted)
}

/// The computed results of the graph that require grad, by the addresses of their nodes.
fn differentiable(nodes: &[Node<'_>]) -> PyResult<FxHashSet<usize>> {
    let mut found = FxHashSet::default();
    let Some(output) = nodes.last() else { return Ok(found) };
    for node in output.getattr(intern!(output.py(), "all_input_nodes"))?.try_iter()? {
        let node = node?;
        if is_computed(&node)? && example(&node)?.is_some_and(|e| requires_grad(&e).unwrap_or(false)) {
            found.insert(node.as_ptr() as usize);
        }
    }
    Ok(found)
}

/// Where pieces begin so that no result that requires grad is computed in the same piece as something that is computed of it: in eager
/// the gradient flows through that very tensor, where hooks, `retain_grad` and `autograd.grad` find it.
/// `views` are made behind the piece, and so stand in none.
pub fn visible_cuts(nodes: &[Node<'_>], views: &FxHashSet<usize>) -> PyResult<Vec<usize>> {
    let visible = differentiable(nodes)?;
    let mut cuts = Vec::new();
    if visible.len() < 2 {
        return Ok(cuts);
    }
    let mut here: FxHashSet<usize> = FxHashSet::default();
    for (place, node) in nodes[..nodes.len() - 1].iter().enumerate() {
        if !views.contains(&place) && place_cut(node, &here)? {
            cuts.push(place);
            here.clear();
        }
        if visible.contains(&(node.as_ptr() as usize)) {
            here.insert(node.as_ptr() as usize);
        }
    }
    Ok(cuts)
}

/// Whether the node makes something new of a visible result of its piece.
fn place_cut(node: &Node<'_>, here: &FxHashSet<usize>) -> PyResult<bool> {
    if here.is_empty() {
        return Ok(false);
    }
    let Some(result) = example(node)?.filter(|e| requires_grad(e).unwrap_or(false)) else { return Ok(false) };
    for arg in node.getattr(intern!(node.py(), "all_input_nodes"))?.try_iter()? {
        let arg = arg?;
        // What is written in place stays what it is.
        let is_itself = example(&arg)?.is_some_and(|e| e.is(&result));
        if here.contains(&(arg.as_ptr() as usize)) && !is_itself {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the node is a call, not an argument, a constant or the result.
pub fn is_computed(node: &Node<'_>) -> PyResult<bool> {
    Ok(!(op_is(node, "placeholder")? || op_is(node, "get_attr")? || op_is(node, "output")?))
}

/// How many calls there are.
pub fn computed(nodes: &[Node<'_>]) -> PyResult<usize> {
    let mut count = 0;
    for node in nodes {
        count += usize::from(is_computed(node)?);
    }
    Ok(count)
}
