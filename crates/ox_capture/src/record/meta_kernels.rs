//! Kernels for the meta device that torch has written in Python. Some are wrapped so that TorchDynamo leaves them alone, and the wrapper
//! imports TorchDynamo for that, which takes a second. Where nobody has imported it, there is nobody to be kept away.

use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of, items_of, py};
use crate::source::cell_contents;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use rustc_hash::FxHashSet;

const DYNAMO: &str = "torch._dynamo";

/// What the wrapper keeps its function's disabled form by.
const DISABLED: &str = "__dynamo_disable";

/// To be called before the first kernel runs.
pub fn run_without_dynamo() -> PyResult<()> {
    if is_imported()? {
        return Ok(());
    }
    let tables: Obj = py().import("torch._decomp")?.getattr("global_decomposition_table")?.into();
    let (mut seen, mut wrappers) = (FxHashSet::default(), Vec::new());
    for (_, table) in entries_of(&tables) {
        entries_of(&table).iter().for_each(|(_, kernel)| look(kernel, &mut seen, &mut wrappers));
    }
    wrappers.iter().try_for_each(defer)
}

fn is_imported() -> PyResult<bool> {
    py().import("sys")?.getattr("modules")?.contains(DYNAMO)
}

/// Finds the wrappers among the functions that a kernel is made of.
fn look(function: &Obj, seen: &mut FxHashSet<usize>, wrappers: &mut Vec<Obj>) {
    if !function.class_is(types().function) || !seen.insert(function.id()) {
        return;
    }
    if is_wrapper(function) {
        wrappers.push(function.clone());
    }
    let cells = function.attr("__closure__").map(|cells| items_of(&cells)).quiet().unwrap_or_default();
    let parts = cells.iter().filter_map(cell_contents).chain(function.attr("__wrapped__").quiet());
    parts.for_each(|part| look(&part, seen, wrappers));
}

fn is_wrapper(function: &Obj) -> bool {
    function
        .attr("__code__")
        .and_then(|code| code.attr("co_filename"))
        .quiet()
        .is_some_and(|file| file.to_str().is_some_and(|file| file.ends_with("torch/_compile.py")))
}

/// Gives the function inside a form that asks for TorchDynamo only once that is there.
fn defer(wrapper: &Obj) -> PyResult<()> {
    let names: Vec<String> = wrapper.attr("__code__")?.attr("co_freevars")?.bind().extract()?;
    let cells = items_of(&wrapper.attr("__closure__")?);
    let Some(inside) = names.iter().position(|name| name == "fn").and_then(|n| cell_contents(&cells[n])) else { return Ok(()) };
    if inside.bind().hasattr(DISABLED)? {
        return Ok(());
    }
    let function = inside.clone();
    let call = move |args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        if !is_imported()? {
            return Ok(function.bind().call(args, kwargs)?.unbind());
        }
        let options = PyDict::new(py());
        options.set_item("wrapping", false)?;
        let disabled = py().import(DYNAMO)?.getattr("disable")?.call((function.bind(),), Some(&options))?;
        function.bind().setattr(DISABLED, &disabled)?;
        Ok(disabled.call(args, kwargs)?.unbind())
    };
    inside.bind().setattr(DISABLED, PyCFunction::new_closure(py(), None, None, call)?)
}
