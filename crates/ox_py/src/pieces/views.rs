//! Results that are views of one memory are made by torch, of what the piece before has computed: so autograd knows of them what eager's knows. Of what
//! came out of a `split` it refuses to write one part, also where nothing has a gradient but what is written; of others it carries a write over to the rest.

use super::places::{example, is_computed, requires_grad};
use super::regions::{may_be_written, regions};
use crate::fx::{called, is_detach, storages};
use ox_ops::surface::{Sharing, lookup};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

type Node<'py> = Bound<'py, PyAny>;

/// Views in a graph, by the places of nodes.
pub struct Views {
    /// What each is a view of, where torch may make it later.
    of: FxHashMap<usize, usize>,
    /// Those that came out of a function with several views, were made without grad, or whose elements share places: autograd takes them for more than what they show.
    special: FxHashSet<usize>,
    /// Those of the others that gradients flow through.
    tracked: FxHashSet<usize>,
    storages: Vec<Vec<usize>>,
    are_computed: Vec<bool>,
}

impl Views {
    pub fn of(nodes: &[Node<'_>]) -> PyResult<Views> {
        let places: FxHashMap<usize, usize> = nodes.iter().enumerate().map(|(place, node)| (address(node), place)).collect();
        let storages = nodes.iter().map(lies_in).collect::<PyResult<Vec<_>>>()?;
        let written = last_writes(nodes, &places, &storages)?;
        let are_computed = nodes.iter().map(is_computed).collect::<PyResult<Vec<_>>>()?;
        let (of, special, tracked) = Default::default();
        let mut views = Views { of, special, tracked, storages, are_computed };
        for (place, node) in nodes.iter().enumerate() {
            let Some(of) = viewed(node)?.map(|of| places[&address(&of)]) else { continue };
            let is_written = |storage: &usize| written.get(storage).is_some_and(|last| *last > place);
            let is_known = views.of.contains_key(&of) || views.is_root(&nodes[of], of, &places)?;
            if !is_known || views.storages[place].iter().any(is_written) || !views.lies_in(place, of) {
                continue;
            }
            views.of.insert(place, of);
            if came_of_several(node)? || has_no_history(node)? || (has_gradient(node)? && is_expanded(node)?) {
                views.special.insert(place);
            } else if has_gradient(node)? {
                views.tracked.insert(place);
            }
        }
        Ok(views)
    }

    fn lies_in(&self, view: usize, of: usize) -> bool {
        self.storages[of].len() == 1 && self.storages[view] == self.storages[of]
    }

    /// Whether autograd takes for no view what a call gives.
    fn is_root(&self, node: &Node<'_>, place: usize, places: &FxHashMap<usize, usize>) -> PyResult<bool> {
        if is_detach(node)? {
            return Ok(true);
        }
        for arg in node.getattr(intern!(node.py(), "all_input_nodes"))?.try_iter()? {
            if self.storages[places[&address(&arg?)]].iter().any(|storage| self.storages[place].contains(storage)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The views that torch has to make, so that these nodes are what they are in eager, with those that they are views of.
    pub fn leading_to(&self, wanted: &[usize]) -> FxHashSet<usize> {
        let mut found = FxHashSet::default();
        for place in wanted.iter().filter(|place| self.of.contains_key(place)) {
            let shares = |other: &usize| other != place && self.storages[*other] == self.storages[*place];
            let chain = self.chain(*place);
            let is_of_argument = || chain.last().is_some_and(|first| !self.are_computed[self.of[first]]);
            let is_seen = || self.tracked.contains(place) && (is_of_argument() || wanted.iter().any(shares));
            if chain.iter().any(|place| self.special.contains(place)) || is_seen() {
                found.extend(chain);
            }
        }
        found
    }

    /// The view, what it is a view of, and so on.
    fn chain(&self, mut place: usize) -> Vec<usize> {
        let mut chain = vec![place];
        while let Some(of) = self.of.get(&place).filter(|of| self.of.contains_key(of)) {
            place = *of;
            chain.push(place);
        }
        chain
    }
}

/// Those of the views of a graph that torch has to make since they are results.
pub fn visible_views(nodes: &[Node<'_>]) -> PyResult<FxHashSet<usize>> {
    let Some(output) = nodes.last() else { return Ok(FxHashSet::default()) };
    let shown = output.getattr(intern!(output.py(), "all_input_nodes"))?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let mut has_views = false;
    for node in &shown {
        has_views |= viewed(node)?.is_some() && (has_gradient(node)? || came_of_several(node)?);
    }
    if !has_views {
        return Ok(FxHashSet::default());
    }
    let wanted: Vec<usize> = (0..nodes.len()).filter(|n| shown.iter().any(|one| one.is(&nodes[*n]))).collect();
    Ok(Views::of(nodes)?.leading_to(&wanted))
}

/// Whether a result is one of several views whose memory was written behind the call that gave them: eager's says so when somebody uses it.
pub fn shows_outdated_parts(nodes: &[Node<'_>]) -> PyResult<bool> {
    let Some(output) = nodes.last() else { return Ok(false) };
    let py = output.py();
    for node in output.getattr(intern!(py, "all_input_nodes"))?.try_iter()? {
        let node = node?;
        let is_outdated = |example: Bound<'_, PyAny>| example.getattr(intern!(py, "grad_fn")).is_err();
        if came_of_several(&node)? && example(&node)?.is_some_and(is_outdated) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether elements share their places. Of such a tensor that is no view autograd cannot write a part.
fn is_expanded(node: &Node<'_>) -> PyResult<bool> {
    let py = node.py();
    let Some(shown) = example(node)?.filter(|shown| shown.hasattr(intern!(py, "stride")).unwrap_or(false)) else {
        return Ok(false);
    };
    // A symbol is not asked for its value, which would fix it: none is the step of what is expanded.
    let number = |size: Bound<'_, PyAny>| size.is_exact_instance_of::<PyInt>().then(|| size.extract::<i64>()).transpose();
    let sizes = shown.getattr(intern!(py, "shape"))?.try_iter()?.map(|size| number(size?)).collect::<PyResult<Vec<_>>>()?;
    let strides = shown.call_method0(intern!(py, "stride"))?.try_iter()?.map(|stride| number(stride?));
    let strides = strides.collect::<PyResult<Vec<_>>>()?;
    Ok(sizes.iter().zip(&strides).any(|(size, stride)| size.is_none_or(|size| size > 1) && *stride == Some(0)))
}

fn address(node: &Node<'_>) -> usize {
    node.as_ptr() as usize
}

/// The storages of what a node stands for, each once.
fn lies_in(node: &Node<'_>) -> PyResult<Vec<usize>> {
    let mut found = example(node)?.map_or(Ok(Vec::new()), |example| storages(&example))?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// By storage, the last place that may write it.
fn last_writes(
    nodes: &[Node<'_>],
    places: &FxHashMap<usize, usize>,
    storages: &[Vec<usize>],
) -> PyResult<FxHashMap<usize, usize>> {
    let mut last = FxHashMap::default();
    for (place, node) in nodes.iter().enumerate() {
        for written in may_be_written(node)? {
            last.extend(storages[places[&address(&written)]].iter().map(|storage| (*storage, place)));
        }
    }
    Ok(last)
}

/// What the node is a view of, if it does nothing but show it. Nothing is saved for a view, so it may stand behind a checkpointed part; but what comes out of
/// the older variant are results of one node.
fn viewed<'py>(node: &Node<'py>) -> PyResult<Option<Node<'py>>> {
    let py = node.py();
    let Some(shown) = example(node)? else { return Ok(None) };
    let is_of_one_node = regions(node)?.iter().any(|region| region.reentrant);
    if !is_computed(node)? || is_of_one_node || !are_views(&shown)? || !is_a_view_by_name(node)? {
        return Ok(None);
    }
    let Ok(first) = node.getattr(intern!(py, "args"))?.get_item(0) else { return Ok(None) };
    let mut is_alone = false;
    for arg in node.getattr(intern!(py, "all_input_nodes"))?.try_iter()? {
        let arg = arg?;
        if arg.is(&first) {
            is_alone = true;
        } else if example(&arg)?.is_some_and(|example| example.hasattr(intern!(py, "requires_grad")).unwrap_or(true)) {
            return Ok(None);
        }
    }
    Ok(is_alone.then_some(first))
}

fn is_a_view_by_name(node: &Node<'_>) -> PyResult<bool> {
    let name = called(node)?;
    let row = name.and_then(|name| lookup("Tensor", name.trim_start_matches("__").trim_end_matches("__")));
    Ok(row.is_some_and(|row| matches!(row.sharing, Sharing::View | Sharing::Maybe)))
}

/// Whether autograd takes all tensors of an example for views.
fn are_views(example: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = example.py();
    if example.is_instance_of::<PyTuple>() || example.is_instance_of::<PyList>() {
        let items = example.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        return Ok(!items.is_empty() && items.iter().map(are_views).collect::<PyResult<Vec<_>>>()?.into_iter().all(|is| is));
    }
    if !example.hasattr(intern!(py, "_is_view"))? || !example.call_method0(intern!(py, "_is_view"))?.is_truthy()? {
        return Ok(false);
    }
    Ok(example.getattr(intern!(py, "grad_fn")).is_ok())
}

fn has_gradient(node: &Node<'_>) -> PyResult<bool> {
    example(node)?.map_or(Ok(false), |example| requires_grad(&example))
}

/// A view of what requires grad that was made without it: it requires grad as a leaf does.
fn has_no_history(node: &Node<'_>) -> PyResult<bool> {
    let made_by = example(node)?
        .filter(|example| requires_grad(example).unwrap_or(false))
        .and_then(|example| example.getattr(intern!(node.py(), "grad_fn")).ok());
    Ok(made_by.is_some_and(|made_by| made_by.is_none()))
}

/// Whether autograd refuses to write it, since it is one of several views that a function has returned.
fn came_of_several(node: &Node<'_>) -> PyResult<bool> {
    let py = node.py();
    let Some(example) = example(node)?.filter(|example| example.hasattr(intern!(py, "_is_view")).unwrap_or(false)) else {
        return Ok(false);
    };
    if !example.call_method0(intern!(py, "_is_view"))?.is_truthy()? {
        return Ok(false);
    }
    let autograd = py.import(intern!(py, "torch._C._autograd"))?;
    let several = autograd.getattr(intern!(py, "CreationMeta"))?.getattr(intern!(py, "MULTI_OUTPUT_NODE"))?;
    autograd.call_method1(intern!(py, "_get_creation_meta"), (example,))?.eq(several)
}
