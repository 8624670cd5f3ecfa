//! Writes by way of `.data`, which autograd does not count. Eager's gradients are then computed of what was written, as far as they were saved in that
//! memory: which that is, only eager knows.

use super::detached::called;
use super::fake::storages;
use super::held::{SavedBy, each_node};
use crate::pieces::{example, is_computed, may_write};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::FxHashSet;

type Node<'py> = Bound<'py, PyAny>;

/// Whether something is written so that a gradient of what stands before it needs.
pub fn writes_saved_unheard(nodes: &[Node<'_>]) -> PyResult<bool> {
    let (mut unheard, mut saved, mut saved_by) = (FxHashSet::default(), FxHashSet::default(), SavedBy::default());
    for (place, node) in nodes.iter().enumerate() {
        if is_data(node)? {
            if unheard.is_empty() {
                nodes[..place].iter().try_for_each(|before| note_saved(before, &mut saved_by, &mut saved))?;
            }
            unheard.insert(address(node));
        }
        if unheard.is_empty() || !is_computed(node)? {
            continue;
        }
        if let Some(first) = first_argument(node)?.filter(|first| unheard.contains(&address(first))) {
            let memory = memory(&first)?;
            match may_write(std::slice::from_ref(node))? {
                true if memory.iter().any(|memory| saved.contains(memory)) => return Ok(true),
                true => {}
                false if memory == self::memory(node)? => drop(unheard.insert(address(node))),
                false => {}
            }
        }
        note_saved(node, &mut saved_by, &mut saved)?;
    }
    Ok(false)
}

fn address(node: &Node<'_>) -> usize {
    node.as_ptr() as usize
}

/// `x.data`
fn is_data(node: &Node<'_>) -> PyResult<bool> {
    Ok(called(node)?.is_some_and(|name| name == "data"))
}

fn first_argument<'py>(node: &Node<'py>) -> PyResult<Option<Node<'py>>> {
    let args = node.getattr(intern!(node.py(), "args"))?.cast_into::<PyTuple>()?;
    Ok(args.iter().next())
}

fn memory(node: &Node<'_>) -> PyResult<Vec<usize>> {
    example(node)?.map_or(Ok(Vec::new()), |example| storages(&example))
}

/// What the call saves for its gradient.
fn note_saved(node: &Node<'_>, saved_by: &mut SavedBy, saved: &mut FxHashSet<usize>) -> PyResult<()> {
    let Some(example) = example(node)?.filter(|_| is_computed(node).unwrap_or(false)) else { return Ok(()) };
    let mut makers = Vec::new();
    each_node(&example, &mut |made_by| makers.push(made_by))?;
    for made_by in makers {
        // What was written since raises: nobody will compute this gradient.
        for tensor in saved_by.tensors(&made_by).ok().flatten().unwrap_or_default() {
            saved.extend(storages(&tensor)?);
        }
    }
    Ok(())
}
