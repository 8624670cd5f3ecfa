//! Which arguments and results eager's own graph of a call holds until its backward pass. Who writes to those is told so by torch. The others may be
//! written before gradients are computed, and eager's gradients do not change by that. The examples tell: they have gone through autograd.

use super::importer::{Importer, InputInfo};
use super::refusal::{Import, Refusal};
use crate::pieces::written_behind;
use ox_driver::{Held, is_small};
use ox_ir::graph::Graph;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;

/// What nodes of autograd's have saved.
#[derive(Default)]
pub struct SavedBy {
    /// By type of node, the names of what it may save.
    names: FxHashMap<usize, Vec<String>>,
}

impl SavedBy {
    /// None of a write through a view, which does not tell.
    pub fn tensors<'py>(&mut self, node: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let py = node.py();
        if node.call_method0(intern!(py, "name"))?.extract::<&str>()? == "CopySlices" {
            return Ok(None);
        }
        if let Some(saved) = node.getattr_opt(intern!(py, "saved_tensors"))? {
            return saved
                .try_iter()?
                .filter(|one| !one.as_ref().is_ok_and(|one| one.is_none()))
                .collect::<PyResult<_>>()
                .map(Some);
        }
        let names = match self.names.entry(node.get_type().as_ptr() as usize) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(names_of_saved(node)?),
        };
        let mut all = Vec::new();
        for name in names {
            let saved = node.getattr(name.as_str())?;
            match saved.cast::<PyTuple>() {
                Ok(several) => all.extend(several.iter().filter(|one| !one.is_none())),
                Err(_) if saved.is_none() => {}
                Err(_) => all.push(saved),
            }
        }
        Ok(Some(all))
    }
}

/// What a node of this type may save. torch has two names for each such tensor.
fn names_of_saved(node: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let names: Vec<String> = node.dir()?.extract()?;
    Ok(names.iter().filter_map(|name| name.strip_prefix("_raw_saved_")).map(|name| format!("_saved_{name}")).collect())
}

impl<'py> Importer<'py> {
    /// And for each output, which others lie in memory that is saved between its gradient and those of the arguments. `outputs`: what they are to eager,
    /// and their storages.
    pub(super) fn held(&self, graph: &Graph, outputs: &[(Bound<'py, PyAny>, usize)]) -> Import<(Held, Vec<Vec<bool>>)> {
        let nodes = self.gm.getattr(intern!(self.py, "graph"))?.getattr(intern!(self.py, "nodes"))?;
        let nodes = nodes.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let mut held = Held::all_inputs(graph);
        let mut walk = Walk::default();
        if !self.go_back(&nodes, &mut walk)? {
            return Ok((held, vec![vec![false; outputs.len()]; outputs.len()]));
        }
        let written = written_behind(&self.gm)?;
        walk.forget(&written);
        let saved: FxHashSet<usize> = walk.saved.values().flat_map(|saved| &saved.storages).copied().collect();
        let is_given = |input: &InputInfo| self.constants.iter().any(|(_, constant)| *constant == input.tensor);
        for (n, input) in self.inputs.iter().enumerate() {
            // A copy would cost too much for programs that hardly exist, and a write to them is found out all the same.
            let is_written = written.contains(&input.storage);
            let stays = (self.weights[n] || input.handed_on) && !is_written && !is_small(&graph.inputs[n].ty);
            held.inputs[n] = stays || is_given(input) || input.storage == usize::MAX || saved.contains(&input.storage);
        }
        held.outputs.iter_mut().zip(outputs).for_each(|(held, (_, storage))| *held = saved.contains(storage));
        held.written.iter_mut().zip(outputs).for_each(|(is_written, (_, storage))| *is_written = written.contains(storage));
        let mut behind = Vec::with_capacity(outputs.len());
        for (example, _) in outputs {
            let saved = walk.storages_behind(example)?;
            behind.push(outputs.iter().map(|(_, storage)| saved.contains(storage)).collect());
        }
        Ok((held, behind))
    }

    /// Through eager's graph between the placeholders and the results. What nothing behind it has a gradient of is not part of that. False where it
    /// cannot be told what is saved.
    fn go_back(&self, nodes: &[Bound<'py, PyAny>], walk: &mut Walk<'py>) -> Import<bool> {
        let (py, mut begins) = (self.py, Vec::new());
        for node in nodes {
            match node.getattr(intern!(py, "op"))?.extract::<&str>()? {
                "placeholder" | "get_attr" => self.each_maker(node, &mut |made_by| {
                    walk.is_new(&made_by);
                })?,
                "output" => {
                    for result in node.getattr(intern!(py, "all_input_nodes"))?.try_iter()? {
                        self.each_maker(&result?, &mut |made_by| begins.push(made_by))?;
                    }
                }
                _ => {}
            }
        }
        walk.go(begins)
    }

    /// The nodes of autograd's that a value was made by.
    fn each_maker(&self, node: &Bound<'py, PyAny>, see: &mut dyn FnMut(Bound<'py, PyAny>)) -> Import<()> {
        match self.meta(node)? {
            Some(example) => Ok(each_node(&example, see)?),
            None => Ok(()),
        }
    }
}

/// Whether torch says of what was saved that somebody has written to it.
fn is_written_since(error: &PyErr) -> bool {
    error.to_string().contains("modified by an inplace operation")
}

/// A Graph has values, which nobody writes: its gradients would be computed where eager's raise.
fn spoiled() -> Refusal {
    Refusal::unsupported("a write to what a gradient of the same graph needs as it was: its backward pass raises")
}

/// The nodes that tensors were made by.
pub(super) fn each_node<'py>(example: &Bound<'py, PyAny>, see: &mut dyn FnMut(Bound<'py, PyAny>)) -> PyResult<()> {
    if example.is_instance_of::<PyTuple>() || example.is_instance_of::<PyList>() {
        return example.try_iter()?.try_for_each(|item| each_node(&item?, see));
    }
    // A view that was made without grad has none, and says so by an error if its memory was written since.
    if let Ok(Some(made_by)) = example.getattr_opt(intern!(example.py(), "grad_fn"))
        && !made_by.is_none()
    {
        see(made_by);
    }
    Ok(())
}

/// The nodes that a node gives gradients to.
pub(super) fn behind<'py>(node: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let next = node.getattr(intern!(node.py(), "next_functions"))?.try_iter()?.map(|next| next?.get_item(0));
    next.filter(|next| !next.as_ref().is_ok_and(|next| next.is_none())).collect()
}

/// Through the nodes of eager's graph, each once.
#[derive(Default)]
struct Walk<'py> {
    /// They live until the end: another would get the address.
    objects: Vec<Bound<'py, PyAny>>,
    seen: FxHashSet<usize>,
    saved_by: SavedBy,
    saved: FxHashMap<usize, Saved>,
}

/// What a node has saved, and the nodes that it gives gradients to.
struct Saved {
    storages: Vec<usize>,
    behind: Vec<usize>,
}

impl<'py> Walk<'py> {
    fn is_new(&mut self, node: &Bound<'py, PyAny>) -> bool {
        let is_new = self.seen.insert(address_of(node));
        if is_new {
            self.objects.push(node.clone());
        }
        is_new
    }

    fn go(&mut self, mut stack: Vec<Bound<'py, PyAny>>) -> Import<bool> {
        while let Some(node) = stack.pop() {
            if !self.is_new(&node) {
                continue;
            }
            let py = node.py();
            let saved = match self.saved_by.tensors(&node) {
                Ok(saved) => saved,
                Err(error) if is_written_since(&error) => return Err(spoiled()),
                // Nobody will compute this gradient.
                Err(_) => Some(Vec::new()),
            };
            let Some(saved) = saved else { return Ok(false) };
            let storage = |tensor: &Bound<'py, PyAny>| {
                tensor.call_method0(intern!(py, "untyped_storage"))?.getattr(intern!(py, "_cdata"))?.extract::<usize>()
            };
            let storages = saved.iter().map(storage).collect::<PyResult<_>>()?;
            let next = behind(&node)?;
            self.saved.insert(address_of(&node), Saved { storages, behind: next.iter().map(address_of).collect() });
            stack.extend(next);
        }
        Ok(true)
    }

    /// What is written behind the graph was saved behind it, or torch would have refused to show it. A result that is written has the history of later.
    fn forget(&mut self, written: &FxHashSet<usize>) {
        self.saved.values_mut().for_each(|saved| saved.storages.retain(|storage| !written.contains(storage)));
    }

    /// What is saved between this result and the placeholders.
    fn storages_behind(&self, result: &Bound<'py, PyAny>) -> PyResult<FxHashSet<usize>> {
        let (mut open, mut seen, mut found) = (Vec::new(), FxHashSet::default(), FxHashSet::default());
        each_node(result, &mut |made_by| open.push(address_of(&made_by)))?;
        while let Some(node) = open.pop() {
            if let Some(Saved { storages, behind }) = self.saved.get(&node).filter(|_| seen.insert(node)) {
                found.extend(storages);
                open.extend(behind);
            }
        }
        Ok(found)
    }
}

fn address_of(node: &Bound<'_, PyAny>) -> usize {
    node.as_ptr() as usize
}
