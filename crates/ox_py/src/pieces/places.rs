//! Where to cut.

use super::regions::may_be_written;
use crate::fx::{grad_mode, storages};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

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

pub(super) fn op_is(node: &Node<'_>, wanted: &str) -> PyResult<bool> {
    Ok(node.getattr(intern!(node.py(), "op"))?.extract::<&str>()? == wanted)
}

/// The computed results of the graph that require grad, by the addresses of their nodes.
fn differentiable(nodes: &[Node<'_>]) -> PyResult<FxHashSet<usize>> {
    let mut found = FxHashSet::default();
    let Some(output) = nodes.last() else { return Ok(found) };
    for node in output.getattr(intern!(output.py(), "all_input_nodes"))?.try_iter()? {
        let node = node?;
        if is_computed(&node)? && example(&node)?.is_some_and(|e| requires_grad(&e).unwrap_or(false)) {
            found.insert(address(&node));
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
    let finished = finished(nodes, &visible)?;
    let mut here: FxHashSet<usize> = FxHashSet::default();
    for (place, node) in nodes[..nodes.len() - 1].iter().enumerate() {
        if !views.contains(&place) && place_cut(node, &here)? {
            cuts.push(place);
            here.clear();
        }
        here.extend(finished.get(&place).into_iter().flatten());
    }
    Ok(cuts)
}

/// The visible results by the places from which on what is computed of them is computed of what others see: where they are made, or behind the
/// last write to them. What was computed of them before has the history in front of that write.
fn finished(nodes: &[Node<'_>], visible: &FxHashSet<usize>) -> PyResult<FxHashMap<usize, Vec<usize>>> {
    let writes = Writes::of(nodes)?;
    let mut found: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (place, node) in nodes.iter().enumerate().filter(|(_, node)| visible.contains(&address(node))) {
        let last = writes.last_to(node)?.filter(|last| *last > place);
        let last = last.map_or(Ok(None), |last| Ok::<_, PyErr>((!is_seen_otherwise(nodes, node, last)?).then_some(last)))?;
        found.entry(last.unwrap_or(place)).or_default().push(address(node));
    }
    Ok(found)
}

/// The last writes to memory, by its address; None where one gives no new history.
struct Writes(FxHashMap<usize, Option<usize>>);

impl Writes {
    fn of(nodes: &[Node<'_>]) -> PyResult<Writes> {
        let mut last = FxHashMap::default();
        for (place, node) in nodes.iter().enumerate() {
            if grad_mode(node)?.is_some() {
                return Ok(Writes(FxHashMap::default()));
            }
            for written in may_be_written(node)? {
                let Some(example) = example(&written)? else { continue };
                let has_history = requires_grad(&example)?;
                for memory in storages(&example)? {
                    let known = last.entry(memory).or_insert(Some(place));
                    *known = (has_history && known.is_some()).then_some(place);
                }
            }
        }
        Ok(Writes(last))
    }

    fn last_to(&self, node: &Node<'_>) -> PyResult<Option<usize>> {
        let memory = example(node)?.map_or(Ok(Vec::new()), |example| storages(&example))?;
        let [memory] = memory[..] else { return Ok(None) };
        Ok(self.0.get(&memory).copied().flatten())
    }
}

/// Whether something behind `last` reads the memory of a result by another node from in front of it: through that the gradient comes to the result, too.
fn is_seen_otherwise(nodes: &[Node<'_>], result: &Node<'_>, last: usize) -> PyResult<bool> {
    let py = result.py();
    let memory = |node: &Node<'_>| example(node)?.map_or(Ok(Vec::new()), |example| storages(&example));
    let own = memory(result)?;
    let later: FxHashSet<usize> = nodes[last + 1..].iter().map(address).collect();
    for node in nodes[..=last].iter().filter(|node| !node.is(result)) {
        if !memory(node)?.iter().any(|memory| own.contains(memory)) {
            continue;
        }
        for user in node.getattr(intern!(py, "users"))?.try_iter()? {
            if later.contains(&address(&user?)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn address(node: &Node<'_>) -> usize {
    node.as_ptr() as usize
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
        if here.contains(&address(&arg)) && !is_itself {
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
