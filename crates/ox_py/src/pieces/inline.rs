//! Checkpointed functions as TorchDynamo shows them: one node with a graph of its own. Its nodes take that node's place, marked as what is to be
//! computed again.

use super::regions::{ARGUMENTS, MAY_BE_ARGUMENT};
use super::{is_computed, ordered};
use crate::fx::grad_mode;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

type Node<'py> = Bound<'py, PyAny>;

/// Changes the graph module in place. `grad`: the mode in which it is called.
pub fn inline_checkpoints(gm: &Bound<'_, PyAny>, mut grad: bool) -> PyResult<()> {
    let py = gm.py();
    let mut changed = false;
    for (region, node) in ordered(gm)?.iter().enumerate() {
        grad = grad_mode(node)?.unwrap_or(grad);
        if let Some(module) = module_of(gm, node)? {
            inline_checkpoints(&module, grad)?;
            inline(gm, node, &module, region, grad)?;
            changed = true;
        }
    }
    if changed {
        gm.call_method0(intern!(py, "recompile"))?;
    }
    Ok(())
}

/// The checkpointed function that the node calls. None if it is another call, or one that only torch can make.
fn module_of<'py>(gm: &Bound<'py, PyAny>, node: &Node<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = gm.py();
    let name = node.getattr(intern!(py, "target"))?.getattr_opt(intern!(py, "__name__"))?;
    let is_checkpoint = name.is_some_and(|name| name.extract::<&str>().is_ok_and(|name| name == "tag_activation_checkpoint"));
    if !is_checkpoint || node.getattr(intern!(py, "kwargs"))?.contains("context_fn")? {
        return Ok(None);
    }
    let function = arguments(node)?.get_item(0)?.getattr(intern!(py, "target"))?;
    gm.getattr_opt(function.extract::<&str>()?)
}

fn arguments<'py>(node: &Node<'py>) -> PyResult<Bound<'py, PyTuple>> {
    Ok(node.getattr(intern!(node.py(), "args"))?.cast_into::<PyTuple>()?)
}

fn inline<'py>(gm: &Bound<'py, PyAny>, node: &Node<'py>, module: &Bound<'py, PyAny>, region: usize, grad: bool) -> PyResult<()> {
    let py = gm.py();
    let graph = gm.getattr(intern!(py, "graph"))?;
    let place = graph.call_method1(intern!(py, "inserting_before"), (node,))?;
    place.call_method0(intern!(py, "__enter__"))?;
    let mut given = arguments(node)?.iter().skip(1);
    arguments(node)?.iter().skip(1).try_for_each(|arg| mark_argument(&arg, region))?;
    let map = PyDict::new(py);
    let around = described(node, region, grad)?;
    for part in &ordered(module)? {
        match part.getattr(intern!(py, "op"))?.extract::<&str>()? {
            "placeholder" => map.set_item(part, given.next())?,
            "output" => replace(&graph, node, &arguments(part)?.get_item(0)?, &map)?,
            "get_attr" => map.set_item(part, adopt(gm, module, part, region)?)?,
            _ => {
                let made = graph.call_method1(intern!(py, "node_copy"), (part, look_up(&map)?))?;
                let meta = made.getattr(intern!(py, "meta"))?.cast_into::<PyDict>()?;
                let inside = meta.get_item("checkpoint")?.unwrap_or_else(|| PyTuple::empty(py).into_any());
                meta.set_item("checkpoint", PyTuple::new(py, [around])?.add(inside)?)?;
                map.set_item(part, made)?;
            }
        }
    }
    place.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
    graph.call_method1(intern!(py, "erase_node"), (node,)).map(drop)
}

/// What the graph has computed is taken for an argument of the program's. Of the graph's own arguments Dynamo does not say whether they are, or whether the
/// function holds them: buffers that it writes are no arguments.
fn mark_argument(arg: &Bound<'_, PyAny>, region: usize) -> PyResult<()> {
    let py = arg.py();
    if !arg.hasattr(intern!(py, "meta"))? {
        return Ok(());
    }
    let meta = arg.getattr(intern!(py, "meta"))?.cast_into::<PyDict>()?;
    if !is_computed(arg)? {
        return meta.set_item(MAY_BE_ARGUMENT, true);
    }
    let known = meta.get_item(ARGUMENTS)?.unwrap_or_else(|| PyTuple::empty(py).into_any());
    meta.set_item(ARGUMENTS, PyTuple::new(py, [region])?.add(known)?)
}

/// As `regions` reads it.
fn described<'py>(node: &Node<'py>, region: usize, grad: bool) -> PyResult<(usize, bool, bool, bool, bool)> {
    let kwargs = node.getattr(intern!(node.py(), "kwargs"))?.cast_into::<PyDict>()?;
    let flag = |name: &str, default: bool| kwargs.get_item(name)?.map_or(Ok(default), |value| value.is_truthy());
    Ok((region, flag("use_reentrant", false)?, flag("early_stop", true)?, flag("preserve_rng_state", true)?, grad))
}

/// What hangs on the function (the two halves of an `autograd.Function`) hangs on the whole, by a name that nothing else has.
fn adopt<'py>(gm: &Bound<'py, PyAny>, module: &Bound<'py, PyAny>, part: &Node<'py>, region: usize) -> PyResult<Node<'py>> {
    let py = gm.py();
    let target: String = part.getattr(intern!(py, "target"))?.extract()?;
    let name = format!("checkpoint_{region}_{}", part.getattr(intern!(py, "name"))?.str()?.to_string_lossy());
    let found = target.split('.').try_fold(module.clone(), |object, name| object.getattr(name))?;
    gm.setattr(name.as_str(), found)?;
    gm.getattr(intern!(py, "graph"))?.call_method1(intern!(py, "get_attr"), (name,))
}

fn look_up<'py>(map: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyCFunction>> {
    let known = map.clone().unbind();
    PyCFunction::new_closure(map.py(), None, None, move |args, _| -> PyResult<Py<PyAny>> {
        let node = args.get_item(0)?;
        Ok(known.bind(args.py()).get_item(&node)?.unwrap_or(node).unbind())
    })
}

/// Whoever used the call, or an item of what it returned, uses what the function returns.
fn replace<'py>(
    graph: &Bound<'py, PyAny>,
    node: &Node<'py>,
    returned: &Bound<'py, PyAny>,
    map: &Bound<'py, PyDict>,
) -> PyResult<()> {
    let py = graph.py();
    let users: Vec<Node<'py>> = node.getattr(intern!(py, "users"))?.try_iter()?.collect::<PyResult<_>>()?;
    let value = |found: Bound<'py, PyAny>| -> PyResult<Bound<'py, PyAny>> { Ok(map.get_item(&found)?.unwrap_or(found)) };
    for user in users {
        let index = arguments(&user)?.get_item(1)?;
        user.call_method1(intern!(py, "replace_all_uses_with"), (value(returned.get_item(index)?)?,))?;
        graph.call_method1(intern!(py, "erase_node"), (user,))?;
    }
    Ok(())
}
