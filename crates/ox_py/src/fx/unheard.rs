//! Writes that autograd does not count for what eager's graph has saved: by way of `.data`, or to what `.data` was taken of while that is saved. Eager's
//! gradients are then computed of what was written, as far as they were saved in that memory: which that is, only eager knows.

use super::detached::called;
use super::fake::storages;
use super::grad::Apart;
use super::held::{SavedBy, behind, each_node};
use super::importer::{Importer, Slot};
use crate::pieces::{example, is_computed, may_be_written, requires_grad};
use ox_ir::graph::{Alias, Graph};
use ox_ops::TensorRef;
use pyo3::intern;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

type Node<'py> = Bound<'py, PyAny>;

/// Whether something is written so that a gradient of what stands before it needs. A tensor and its `.data` have versions of their own: where both lie in
/// what was saved, each write is unheard by one of them.
pub fn writes_saved_unheard(nodes: &[Node<'_>]) -> PyResult<bool> {
    let (mut unheard, mut saved) = (FxHashSet::default(), None);
    for (place, node) in nodes.iter().enumerate() {
        if is_called(node, "data")? {
            unheard.extend(memory(node)?);
            if saved.is_none() {
                saved = Some(Saved::in_front_of(nodes, place)?);
            }
        }
        let Some(saved) = saved.as_mut().filter(|_| is_computed(node).unwrap_or(false)) else { continue };
        for written in &may_be_written(node)? {
            if memory(written)?.iter().any(|memory| unheard.contains(memory) && saved.storages.contains(memory)) {
                return Ok(true);
            }
        }
        saved.note(node)?;
    }
    Ok(false)
}

/// What eager's graph has saved until a place for the gradients of what the whole gives and writes.
struct Saved<'py> {
    /// By address. They live until the end: another would get the address.
    needed: FxHashMap<usize, Node<'py>>,
    seen: FxHashSet<usize>,
    saved_by: SavedBy,
    storages: FxHashSet<usize>,
}

impl<'py> Saved<'py> {
    fn in_front_of(nodes: &[Node<'py>], place: usize) -> PyResult<Saved<'py>> {
        let mut begins = Vec::new();
        for node in nodes {
            let is_argument = !is_computed(node)?;
            for seen in if is_argument { [vec![node.clone()], arguments(node)?].concat() } else { Vec::new() } {
                makers(&seen, &mut begins)?;
            }
        }
        let mut needed = FxHashMap::default();
        while let Some(made_by) = begins.pop() {
            if needed.insert(address(&made_by), made_by.clone()).is_none() {
                begins.extend(behind(&made_by)?);
            }
        }
        let (seen, saved_by, storages) = Default::default();
        let mut saved = Saved { needed, seen, saved_by, storages };
        nodes[..place].iter().try_for_each(|node| saved.note(node))?;
        Ok(saved)
    }

    /// What was saved for the call. The example of what was written since was made by the last write, behind which the call's own node stands.
    fn note(&mut self, node: &Node<'py>) -> PyResult<()> {
        let mut stack = Vec::new();
        if is_computed(node)? {
            makers(node, &mut stack)?;
        }
        while let Some(made_by) = stack.pop() {
            if !self.needed.contains_key(&address(&made_by)) || !self.seen.insert(address(&made_by)) {
                continue;
            }
            // What was written since raises: nobody will compute this gradient.
            for tensor in self.saved_by.tensors(&made_by).ok().flatten().unwrap_or_default() {
                self.storages.extend(storages(&tensor)?);
            }
            stack.extend(behind(&made_by)?);
        }
        self.note_write(node)
    }

    /// A write through a view does not tell what it has saved, be it what it has written; a store saves nothing.
    fn note_write(&mut self, node: &Node<'py>) -> PyResult<()> {
        for written in may_be_written(node)? {
            let is_view = |example: &Node<'py>| example.getattr(intern!(node.py(), "_base")).is_ok_and(|base| !base.is_none());
            let has_grad = |example: &Node<'py>| requires_grad(example).unwrap_or(false);
            if example(&written)?.is_some_and(|example| is_view(&example) && has_grad(&example)) && !is_called(node, "setitem")? {
                for arg in &arguments(node)? {
                    self.storages.extend(memory(arg)?);
                }
            }
        }
        Ok(())
    }
}

/// Writes to inputs, as far as autograd counts them.
#[derive(Default)]
pub(super) struct Heard {
    /// By input.
    counted: FxHashSet<usize>,
    /// By way of `.data`.
    uncounted: FxHashSet<usize>,
}

impl Importer<'_> {
    pub(super) fn note_heard(&mut self, written: &[TensorRef]) {
        for tensor in written {
            let inputs = (0..self.inputs.len()).filter(|n| self.recorder.aliases(self.inputs[*n].tensor, *tensor));
            match self.grad.apart.get(tensor) {
                Some(Apart::Data) => self.heard.uncounted.extend(inputs),
                _ => self.heard.counted.extend(inputs),
            }
        }
    }

    /// The arguments that are written by way of `.data` alone: their versions stay. Views of them that are returned have the versions of what the
    /// program is called with, but for those that are returned as a `.data`. `apart`: by result.
    pub(super) fn unheard_arguments(&self, graph: &Graph, apart: &[Option<Apart>]) -> Vec<usize> {
        let views = graph.outputs.iter().zip(apart).filter(|(_, apart)| **apart != Some(Apart::Data)).map(|(output, _)| output);
        let is_shown =
            |input: usize| views.clone().any(|output| matches!(&output.alias, Some(Alias::Input(n, _)) if *n as usize == input));
        let is_unheard =
            |input: usize| self.heard.uncounted.contains(&input) && !self.heard.counted.contains(&input) && !is_shown(input);
        let passed = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Tensor | Slot::Number(_)));
        passed.enumerate().filter(|(input, _)| is_unheard(*input)).map(|(_, (place, _))| place).collect()
    }
}

fn address(node: &Node<'_>) -> usize {
    node.as_ptr() as usize
}

fn is_called(node: &Node<'_>, what: &str) -> PyResult<bool> {
    Ok(called(node)?.is_some_and(|name| name == what))
}

fn arguments<'py>(node: &Node<'py>) -> PyResult<Vec<Node<'py>>> {
    node.getattr(intern!(node.py(), "all_input_nodes"))?.try_iter()?.collect()
}

fn memory(node: &Node<'_>) -> PyResult<Vec<usize>> {
    example(node)?.map_or(Ok(Vec::new()), |example| storages(&example))
}

fn makers<'py>(node: &Node<'py>, found: &mut Vec<Node<'py>>) -> PyResult<()> {
    example(node)?.map_or(Ok(()), |example| each_node(&example, &mut |made_by| found.push(made_by)))
}
