//! Writes in a checkpointed part. Eager computes the part again when backward comes to it, and writes again then, until it has all that was saved:
//! what it does behind the last value that is saved, it does once.

use crate::pieces::{example, is_argument, ordered};
use crate::torch::Torch;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCFunction, PyTuple};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether eager does all writes of the graph again: seen by a run of it on tensors without memory. False where such a run fails.
pub fn writes_all_again(gm: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(last_save(gm).is_ok_and(|found| found.is_some_and(|(at_last_save, at_end)| at_last_save == at_end)))
}

type Versions = Vec<i64>;

/// How often each argument was written when the last value was saved, and how often in all.
fn last_save(gm: &Bound<'_, PyAny>) -> PyResult<Option<(Versions, Versions)>> {
    let py = gm.py();
    let arguments = stand_ins(gm)?;
    let seen: Arc<Mutex<Option<Versions>>> = Arc::default();
    let (noted, watched) = (seen.clone(), arguments.clone().unbind());
    let pack = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, pyo3::types::PyDict>>| -> PyResult<Py<PyAny>> {
        let now = versions(watched.bind(args.py()))?;
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(args.get_item(0)?.unbind())
    };
    let pack = PyCFunction::new_closure(py, None, None, pack)?;
    let unpack = PyCFunction::new_closure(py, None, None, |_, _| -> PyResult<()> {
        Err(PyRuntimeError::new_err("nothing is differentiated here"))
    })?;
    let hooks = py.import(intern!(py, "torch.autograd.graph"))?.getattr("saved_tensors_hooks")?.call1((pack, unpack))?;
    hooks.call_method0(intern!(py, "__enter__"))?;
    let outcome = gm.getattr(intern!(py, "forward"))?.call1(&arguments);
    hooks.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
    drop(outcome?);
    let at_end = versions(&arguments)?;
    let at_last_save = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(at_last_save.map(|at_last_save| (at_last_save, at_end)))
}

fn versions(arguments: &Bound<'_, PyTuple>) -> PyResult<Versions> {
    let py = arguments.py();
    let tensor = Torch::get(py)?.tensor.bind(py);
    let mut found = Vec::with_capacity(arguments.len());
    for argument in arguments.iter() {
        found.push(match argument.is_instance(tensor)? {
            true => argument.getattr(intern!(py, "_version"))?.extract()?,
            false => 0,
        });
    }
    Ok(found)
}

/// What the graph may be called with: tensors of the meta device.
fn stand_ins<'py>(gm: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let py = gm.py();
    let torch = Torch::get(py)?;
    let mut arguments = Vec::new();
    for node in ordered(gm)?.iter() {
        if !is_argument(node)? {
            continue;
        }
        let Some(shown) = example(node)? else { return Err(PyRuntimeError::new_err("an argument without an example")) };
        if !shown.is_instance(torch.tensor.bind(py))? {
            arguments.push(shown);
            continue;
        }
        let kwargs = [("device", "meta")].into_py_dict(py)?;
        let made = py.import(intern!(py, "torch"))?.call_method(intern!(py, "empty_like"), (&shown,), Some(&kwargs))?;
        let requires = node.getattr(intern!(py, "meta"))?.get_item(intern!(py, "requires_grad"))?;
        arguments.push(made.call_method1(intern!(py, "requires_grad_"), (requires,))?);
    }
    PyTuple::new(py, arguments)
}
