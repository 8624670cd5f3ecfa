//! Checkpointed parts of a graph (`torch.utils.checkpoint`), and how eager runs those that are left to it.

use super::behind::written_behind;
use super::cut::{Piece, cut, ordered};
use super::places::{example, is_computed, op_is, requires_grad};
use super::{Pieces, Step, Undoing};
use crate::fx::storages;
use ox_capture::GradMode;
use ox_ops::surface::{first_argument, writes_first};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCFunction, PyDict, PyList, PyTuple};
use rustc_hash::FxHashSet;

type Node<'py> = Bound<'py, PyAny>;

/// What says of a node to which parts it was given as an argument, by their numbers.
pub const ARGUMENTS: &str = "checkpoint_arguments";

/// What says of a node that it may be one, or something that the function of a part holds.
pub const MAY_BE_ARGUMENT: &str = "checkpoint_may_be_argument";

/// A part of the program that is computed again in backward, as torch's own checkpoint would do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    pub id: i64,
    pub reentrant: bool,
    /// Nothing is done again behind the last value that was saved.
    pub early_stop: bool,
    /// What is done again draws the same random numbers.
    pub preserves: bool,
    /// The grad mode in which the program called the checkpoint. Without grad torch's does nothing, whatever the mode of what it runs.
    pub grad: bool,
}

/// The parts that the node belongs to, the outermost first. What ends a graph belongs to those that go on behind it.
pub fn regions(node: &Node<'_>) -> PyResult<Vec<Region>> {
    let py = node.py();
    let found = node.getattr(intern!(py, "meta"))?.cast::<PyDict>()?.get_item(intern!(py, "checkpoint"))?;
    let regions: Vec<(i64, bool, bool, bool, bool)> = found.map_or(Ok(Vec::new()), |found| found.extract())?;
    let region = |(id, reentrant, early_stop, preserves, grad)| Region { id, reentrant, early_stop, preserves, grad };
    Ok(regions.into_iter().map(region).collect())
}

/// Whether it is a result of a part under the older variant: one that the part has whether somebody uses it or not.
pub fn is_result(node: &Node<'_>) -> PyResult<bool> {
    let meta = node.getattr(intern!(node.py(), "meta"))?;
    Ok(meta.cast::<PyDict>()?.contains("checkpoint_result")?
        && example(node)?.is_some_and(|e| requires_grad(&e).unwrap_or(false)))
}

/// Where parts begin and end that have `depth` others around them. What has no gradient is not kept in any case.
pub fn region_cuts(nodes: &[Node<'_>], depth: usize) -> PyResult<Vec<usize>> {
    if !have_gradients(nodes, depth)? {
        return Ok(Vec::new());
    }
    let (mut cuts, mut last) = (Vec::new(), None);
    for (place, node) in nodes.iter().enumerate() {
        if !is_computed(node)? {
            continue;
        }
        let here = regions(node)?.get(depth).map(|region| region.id);
        if here != last {
            cuts.push(place);
        }
        last = here;
    }
    Ok(cuts)
}

/// Whether anything is computed again for the parts that have `depth` others around them. Where nothing is, the graph is not cut for them.
pub fn have_gradients(nodes: &[Node<'_>], depth: usize) -> PyResult<bool> {
    for node in nodes {
        let requires = || Ok::<_, PyErr>(example(node)?.is_some_and(|e| requires_grad(&e).unwrap_or(false)));
        if is_computed(node)? && regions(node)?.len() > depth && requires()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of which one that nobody uses is to have zeros.
pub fn has_several_results(nodes: &[Node<'_>]) -> PyResult<bool> {
    let mut results = 0;
    for node in nodes {
        results += usize::from(is_result(node)?);
    }
    Ok(results > 1)
}

/// Takes from `visible` those cuts that lie in parts which may write, since torch's checkpoint repeats such a part as a whole, or which are under the
/// older variant, since their results have the gradients that come from outside. Where the parts begin that eager has to run for writes.
pub fn spare_writing(nodes: &[Node<'_>], parts: &[usize], visible: &mut Vec<usize>) -> PyResult<Vec<usize>> {
    let mut by_eager = Vec::new();
    let mut kept = Vec::with_capacity(visible.len());
    for at in visible.iter().copied() {
        let next = parts.partition_point(|cut| *cut <= at);
        let whole = next.checked_sub(1).map(|n| parts[n]..parts.get(next).copied().unwrap_or(nodes.len() - 1));
        match whole.filter(|whole| whole.start < at) {
            Some(whole) if is_region(&nodes[whole.start])? && may_write(&nodes[whole.clone()])? => by_eager.push(whole.start),
            Some(whole) if regions(&nodes[whole.start])?.first().is_some_and(|region| region.reentrant) => {}
            _ => kept.push(at),
        }
    }
    *visible = kept;
    Ok(by_eager)
}

fn is_region(node: &Node<'_>) -> PyResult<bool> {
    Ok(!regions(node)?.is_empty())
}

/// Whether one of the nodes writes something, as far as can be told by its name: if in doubt it does.
pub fn may_write(nodes: &[Node<'_>]) -> PyResult<bool> {
    for node in nodes {
        if is_computed(node)? && writes(node)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn writes(node: &Node<'_>) -> PyResult<bool> {
    let py = node.py();
    let target = node.getattr(intern!(py, "target"))?;
    if let Some(schema) = target.getattr_opt(intern!(py, "_schema"))? {
        return schema.getattr(intern!(py, "is_mutable"))?.is_truthy();
    }
    let name = name_of(&target)?;
    let keeps_statistics = name.contains("batch_norm") || name.contains("instance_norm");
    Ok(writes_first(&name) || keeps_statistics || node.getattr(intern!(py, "kwargs"))?.contains("out")?)
}

/// The arguments that a node may write, as far as can be told by its name.
pub fn may_be_written<'py>(node: &Node<'py>) -> PyResult<Vec<Node<'py>>> {
    let py = node.py();
    if !is_computed(node)? {
        return Ok(Vec::new());
    }
    if !writes(node)? {
        return Ok(written_by_flag(node)?.into_iter().collect());
    }
    let all = node.getattr(intern!(py, "all_input_nodes"))?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let target = node.getattr(intern!(py, "target"))?;
    let is_by_name = !target.hasattr(intern!(py, "_schema"))? && !node.getattr(intern!(py, "kwargs"))?.contains("out")?;
    let first = first_of(node)?.filter(|first| is_by_name && all.iter().any(|arg| arg.is(first)));
    match (first, writes_first(&name_of(&target)?)) {
        (Some(first), true) => Ok(vec![first]),
        // Statistics have no gradient, and stand behind what they are taken of.
        (Some(first), false) => {
            let is_weight = |arg: &Node<'py>| example(arg)?.map_or(Ok(false), |example| requires_grad(&example));
            let others = all.into_iter().filter(|arg| !arg.is(&first));
            others.filter_map(|arg| is_weight(&arg).map(|is_weight| (!is_weight).then_some(arg)).transpose()).collect()
        }
        (None, _) => Ok(all),
    }
}

/// The first argument of `relu(x, inplace=True)` and its like: it comes back as it is.
pub fn written_by_flag<'py>(node: &Node<'py>) -> PyResult<Option<Node<'py>>> {
    let py = node.py();
    let is_true = |arg: &Bound<'py, PyAny>| arg.is(PyBool::new(py, true));
    let (args, kwargs) = (node.getattr(intern!(py, "args"))?, node.getattr(intern!(py, "kwargs"))?);
    let is_flagged = args.cast::<PyTuple>()?.iter().any(|arg| is_true(&arg))
        || kwargs.cast::<PyDict>()?.get_item(intern!(py, "inplace"))?.is_some_and(|flag| is_true(&flag));
    let Some(first) = first_of(node)?.filter(|_| is_flagged) else { return Ok(None) };
    let all = node.getattr(intern!(py, "all_input_nodes"))?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    if !all.iter().any(|arg| arg.is(&first)) {
        return Ok(None);
    }
    let is_same = example(node)?.zip(example(&first)?).is_some_and(|(result, given)| result.is(&given));
    Ok(is_same.then_some(first))
}

/// The first argument of a node, by place or by name.
fn first_of<'py>(node: &Node<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = node.py();
    let (args, kwargs) = (node.getattr(intern!(py, "args"))?, node.getattr(intern!(py, "kwargs"))?);
    Ok(first_argument(args.get_item(0).ok(), |name| kwargs.get_item(name).ok()))
}

fn name_of(target: &Bound<'_, PyAny>) -> PyResult<String> {
    target.getattr_opt(intern!(target.py(), "__name__"))?.unwrap_or_else(|| target.clone()).str()?.extract()
}

/// What eager runs of a part that has `depth` parts around it, itself counted: those inside are under checkpoints of their own.
pub fn by_eager<'py>(gm: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = gm.py();
    let cuts = region_cuts(&ordered(gm)?, depth)?;
    if cuts.is_empty() {
        return gm.getattr(intern!(py, "forward"));
    }
    let parts = cut(gm, PyList::empty(py).as_any(), &cuts)?;
    let mut steps = Vec::with_capacity(parts.pieces.len());
    for Piece { module, regions, inputs, outputs, .. } in parts.pieces {
        let callable = match regions.get(depth) {
            Some(region) => checkpointed(&module, &by_eager(&module, depth + 1)?, *region)?,
            None => module.getattr(intern!(py, "forward"))?,
        };
        steps.push(Step { callable: callable.unbind(), inputs, outputs, last: Vec::new(), undoing: Undoing::default() });
    }
    Ok(Bound::new(py, Pieces::new(parts.values, steps, parts.result, None))?.into_any())
}

/// The function under torch's own checkpoint, which is called in the grad mode in which the program called it; the graph may begin in another.
pub fn checkpointed<'py>(gm: &Bound<'py, PyAny>, function: &Bound<'py, PyAny>, region: Region) -> PyResult<Bound<'py, PyAny>> {
    let (py, function) = (function.py(), function.clone().unbind());
    let saved = saved_arguments(gm, region)?;
    let call = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let py = args.py();
        let checkpoint = py.import(intern!(py, "torch.utils.checkpoint"))?.getattr(intern!(py, "checkpoint"))?;
        let kwargs = PyDict::new(py);
        kwargs.set_item("use_reentrant", region.reentrant)?;
        kwargs.set_item("preserve_rng_state", region.preserves)?;
        if !region.reentrant {
            kwargs.set_item("early_stop", region.early_stop)?;
        }
        let (whole, given) = closed_over(function.bind(py), args, &saved, region.reentrant)?;
        let _mode = GradMode::set(region.grad)?;
        let all: Vec<_> = std::iter::once(whole).chain(given).collect();
        Ok(checkpoint.call(PyTuple::new(py, all)?, Some(&kwargs))?.unbind())
    };
    Ok(PyCFunction::new_closure(py, None, None, call)?.into_any())
}

/// Whether something is written behind a part with gradients that reads it and has not computed it. Under the older variant eager refuses writes to views of
/// what the part has computed as well.
pub fn reads_what_others_write(nodes: &[Node<'_>]) -> PyResult<bool> {
    if !have_gradients(nodes, 0)? {
        return Ok(false);
    }
    // By part, the memory that it reads.
    let mut read: Vec<(i64, FxHashSet<usize>)> = Vec::new();
    for node in nodes {
        let (around, written) = (regions(node)?, may_be_written(node)?);
        let memory = memory_of(&written)?;
        let is_behind = |id: &i64| around.iter().all(|region| region.id != *id);
        if read.iter().any(|(id, read)| is_behind(id) && !read.is_disjoint(&memory)) {
            return Ok(true);
        }
        let Some(part) = around.first() else { continue };
        let mut given = node.getattr(intern!(node.py(), "all_input_nodes"))?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        given.retain(|arg| !written.iter().any(|written| written.is(arg)));
        if !part.reentrant {
            given = given.into_iter().filter_map(|arg| from_outside(arg, part.id).transpose()).collect::<PyResult<_>>()?;
        }
        match read.last_mut().filter(|(id, _)| *id == part.id) {
            Some((_, read)) => read.extend(memory_of(&given)?),
            None => read.push((part.id, memory_of(&given)?)),
        }
    }
    Ok(false)
}

fn from_outside<'py>(node: Node<'py>, part: i64) -> PyResult<Option<Node<'py>>> {
    Ok(regions(&node)?.iter().all(|region| region.id != part).then_some(node))
}

fn memory_of(nodes: &[Node<'_>]) -> PyResult<FxHashSet<usize>> {
    let mut found = FxHashSet::default();
    for node in nodes {
        found.extend(example(node)?.map_or(Ok(Vec::new()), |example| storages(&example))?);
    }
    Ok(found)
}

/// Whether the function of a part holds what is written behind the part. It is read again where it is computed again, as it is then.
pub fn reads_what_is_written(gm: &Bound<'_, PyAny>, region: Region) -> PyResult<bool> {
    let written = written_behind(gm)?;
    if written.is_empty() {
        return Ok(false);
    }
    let saved = saved_arguments(gm, region)?;
    for (_, node) in given(gm)?.iter().enumerate().filter(|(place, _)| !saved.contains(place)) {
        let memory = example(node)?.map_or(Ok(Vec::new()), |example| storages(&example))?;
        let is_held = !node.getattr(intern!(gm.py(), "meta"))?.contains(MAY_BE_ARGUMENT)?;
        if is_held && memory.iter().any(|memory| written.contains(memory)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The places of what the program has given the checkpoint as arguments. What its function holds besides is no argument.
fn saved_arguments(gm: &Bound<'_, PyAny>, region: Region) -> PyResult<Vec<usize>> {
    let mut saved = Vec::new();
    for (place, node) in given(gm)?.iter().enumerate() {
        let meta = node.getattr(intern!(gm.py(), "meta"))?.cast_into::<PyDict>()?;
        if meta.get_item(ARGUMENTS)?.is_some_and(|regions| regions.contains(region.id).unwrap_or(false)) {
            saved.push(place);
        }
    }
    Ok(saved)
}

/// What the graph is called with.
fn given<'py>(gm: &Bound<'py, PyAny>) -> PyResult<Vec<Node<'py>>> {
    let mut nodes = ordered(gm)?;
    nodes.retain(|node| op_is(node, "placeholder").unwrap_or(false));
    Ok(nodes)
}

/// The function, in the grad mode of now, of those arguments that the checkpoint must see: arguments are saved (`saved`), and must not be written then.
/// The reentrant variant gives gradients to nothing but its arguments; parameters, which its function holds, it finds in the backward pass of its own.
fn closed_over<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    saved: &[usize],
    reentrant: bool,
) -> PyResult<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>)> {
    let py = function.py();
    let parameter = py.import(intern!(py, "torch.nn"))?.getattr(intern!(py, "Parameter"))?;
    let mut shown = Vec::new();
    for (place, arg) in args.iter().enumerate() {
        let requires = arg.getattr_opt(intern!(py, "requires_grad"))?.filter(|_| reentrant);
        let is_saved = saved.contains(&place);
        if is_saved || requires.is_some_and(|requires| requires.is(PyBool::new(py, true))) && !arg.is_instance(&parameter)? {
            shown.push(place);
        }
    }
    let given = shown.iter().map(|place| args.get_item(*place)).collect::<PyResult<Vec<_>>>()?;
    let (function, args, grad) = (function.clone().unbind(), args.clone().unbind(), GradMode::is_on()?);
    let call = move |given: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let py = given.py();
        let mut all: Vec<Bound<'_, PyAny>> = args.bind(py).iter().collect();
        shown.iter().zip(given).for_each(|(place, arg)| all[*place] = arg);
        let _mode = GradMode::set(grad)?;
        Ok(function.bind(py).call1(PyTuple::new(py, all)?)?.unbind())
    };
    Ok((PyCFunction::new_closure(py, None, None, call)?.into_any(), given))
}
