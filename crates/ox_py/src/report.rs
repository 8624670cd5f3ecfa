//! The report of the last compile, for people and tests: `oxytorch.last_compile()`.

use ox_driver::Report;
use ox_runtime::GraphStatus;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// An operation that Python does at run time, and why.
#[derive(Clone, Debug)]
pub struct PythonCall {
    pub name: String,
    pub location: String,
    pub reason: String,
}

#[derive(Clone, Debug, Default)]
pub struct LastCompile {
    pub import: Duration,
    pub report: Report,
    pub python_calls: Vec<PythonCall>,
    /// Why the graph runs in eager; None if it was compiled.
    pub eager: Option<String>,
    /// What becomes of recorded graphs, in a mode that has them.
    pub graphs: Option<GraphStatus>,
}

static LAST: Mutex<Option<LastCompile>> = Mutex::new(None);

pub fn remember(last: LastCompile) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
}

/// Seconds of the last compile, by stage.
pub fn stages() -> Vec<(&'static str, f64)> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(last) = last.as_ref().filter(|last| last.eager.is_none()) else { return Vec::new() };
    let stages = last.report.stages.iter().map(|(name, time)| (*name, time.as_secs_f64()));
    std::iter::once(("import", last.import.as_secs_f64())).chain(stages).collect()
}

/// What the last compile in this process did, or None if there was none.
#[pyfunction]
pub fn last_compile(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    last.map(|last| to_dict(py, &last)).transpose()
}

fn to_dict<'py>(py: Python<'py>, last: &LastCompile) -> PyResult<Bound<'py, PyDict>> {
    let LastCompile { import, report, python_calls, eager, graphs } = last;
    let stages = PyDict::new(py);
    stages.set_item("import", import.as_secs_f64())?;
    for (name, time) in &report.stages {
        stages.set_item(name, time.as_secs_f64())?;
    }
    let library = PyDict::new(py);
    for (name, count) in &report.library_calls {
        library.set_item(name, count)?;
    }
    let python: Vec<(&str, &str, &str)> =
        python_calls.iter().map(|c| (c.name.as_str(), c.location.as_str(), c.reason.as_str())).collect();
    let out = PyDict::new(py);
    out.set_item("outcome", if eager.is_some() { "eager" } else { "compiled" })?;
    out.set_item("reason", eager.as_deref())?;
    out.set_item("stages", stages)?;
    out.set_item("graph_nodes", report.graph_nodes)?;
    out.set_item("optimised_nodes", report.optimised_nodes)?;
    out.set_item("plan_steps", report.steps)?;
    out.set_item("launches", report.launches)?;
    out.set_item("arena_bytes", report.arena_bytes)?;
    out.set_item("kernels", report.kernels)?;
    out.set_item("kernels_compiled", report.kernels_compiled)?;
    out.set_item("kernels_read", report.kernels_read)?;
    out.set_item("library_calls", library)?;
    out.set_item("python_calls", PyList::new(py, python)?)?;
    out.set_item("cuda_graphs", graphs.as_ref().map(GraphStatus::text))?;
    Ok(out)
}

/// Waits for the kernels that are compiled in the background for sizes that recur; then how many lists of sizes have some, and how many kernels.
#[pyfunction]
pub fn background_variants(py: Python<'_>) -> (usize, usize) {
    py.detach(ox_runtime::wait_for_variants);
    let counts = ox_runtime::variant_counts();
    (counts.variants, counts.kernels)
}

/// The bytes that this process keeps for intermediates between calls of compiled functions.
#[pyfunction]
pub fn idle_arena_bytes() -> usize {
    ox_runtime::idle_arena_bytes()
}

/// How often launches that stand side by side were put on a GPU's stream in a row, in this process.
#[pyfunction]
pub fn launched_rows() -> u64 {
    ox_runtime::launched_rows()
}

/// For how many products the library's ways have been compared on a GPU, in this process.
#[pyfunction]
pub fn compared_products() -> usize {
    ox_runtime::compared_products()
}

/// The bytes of large results that torch has freed and this process keeps for the next ones.
#[pyfunction]
pub fn kept_result_bytes() -> usize {
    ox_runtime::kept_bytes()
}
