//! `compile_fx`: a graph module in, a callable out. Whatever cannot be compiled comes back as it was.

use crate::callable::NativeCallable;
use crate::error::{options_error, report_bug, warn_once};
use crate::fx::{Imported, Refusal, import};
use crate::report::{LastCompile, remember};
use ox_driver::{CompileError, OptionValue, Options, Panic, guarded};
use ox_ir::{Device, Graph};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Compiles a graph that Dynamo captured.
#[pyfunction]
#[pyo3(signature = (gm, example_inputs, mode=None, options=None))]
pub fn compile_fx<'py>(
    gm: &Bound<'py, PyAny>,
    example_inputs: &Bound<'py, PyAny>,
    mode: Option<&str>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = parse_options(mode, options)?;
    compile_graph(gm, example_inputs, &options, None)
}

/// `device` is where the examples' tensors stand for, if they lie on the meta device.
pub fn compile_graph<'py>(
    gm: &Bound<'py, PyAny>,
    example_inputs: &Bound<'py, PyAny>,
    options: &Options,
    device: Option<Device>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = gm.py();
    let start = Instant::now();
    let imported = match guarded(|| import(gm, example_inputs, options.freezing, device)) {
        Ok(Ok(imported)) => imported,
        Ok(Err(refusal)) => return refused(gm, refusal),
        Err(Panic(message)) => return refused(gm, Refusal::Bug(message)),
    };
    let import = start.elapsed();
    let Imported { graph, slots, constants, outputs, host, python_calls, pinned } = imported;
    let host = Arc::new(host.into_host());
    let compiled = match py.detach(|| ox_driver::compile(&graph, options, host)) {
        Ok(compiled) => compiled,
        Err(CompileError::Unsupported(what)) => return refused(gm, Refusal::unsupported(what)),
        Err(error @ CompileError::Bug { .. }) => return bug(gm, &error.to_string(), Some(&graph)),
    };
    for note in &compiled.report.notes {
        warn_once(py, &format!("oxytorch: {note}"))?;
    }
    remember(LastCompile { import, report: compiled.report, python_calls, eager: None });
    let eager = gm.getattr(intern!(py, "forward"))?.unbind();
    let broken = AtomicBool::new(false);
    let callable = NativeCallable { program: compiled.program, graph, slots, constants, outputs, eager, broken, pinned };
    Ok(Bound::new(py, callable)?.into_any())
}

/// Raises ValueError for an unknown mode or option.
#[pyfunction]
#[pyo3(signature = (mode=None, options=None))]
pub fn check_options(mode: Option<&str>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    parse_options(mode, options).map(|_| ())
}

pub fn parse_options(mode: Option<&str>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut named: Vec<(String, OptionValue)> = Vec::new();
    for (key, value) in options.into_iter().flat_map(|dict| dict.iter()) {
        named.push((key.str()?.extract()?, option_value(&value)?));
    }
    Options::new(mode, named.iter().map(|(k, v)| (k.as_str(), v.clone()))).map_err(options_error)
}

fn option_value(value: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    if value.is_exact_instance_of::<PyBool>() {
        return Ok(OptionValue::Bool(value.is_truthy()?));
    }
    if value.is_instance_of::<PyInt>()
        && let Ok(number) = value.extract()
    {
        return Ok(OptionValue::Int(number));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(OptionValue::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(OptionValue::Str(value.extract()?));
    }
    Ok(OptionValue::Other(value.get_type().name()?.extract()?))
}

/// Eager, with one warning that says why.
fn refused<'py>(gm: &Bound<'py, PyAny>, refusal: Refusal) -> PyResult<Bound<'py, PyAny>> {
    let py = gm.py();
    let reason = match refusal {
        Refusal::Bug(message) => return bug(gm, &message, None),
        Refusal::Python(error) => return bug(gm, &format!("reading the graph raised {error}"), None),
        Refusal::Training => {
            "training is not compiled yet: a result requires grad; use torch.no_grad() for inference".to_string()
        }
        Refusal::Unsupported { what, location } if location.is_empty() => what,
        Refusal::Unsupported { what, location } => format!("{what} (at {location})"),
    };
    warn_once(py, &format!("oxytorch: this graph runs in eager: {reason}"))?;
    eager(gm, reason)
}

fn bug<'py>(gm: &Bound<'py, PyAny>, message: &str, graph: Option<&Graph>) -> PyResult<Bound<'py, PyAny>> {
    let py = gm.py();
    let fx: String = gm.getattr(intern!(py, "code")).and_then(|code| code.extract()).unwrap_or_default();
    let mut details: Vec<(&str, &dyn Display)> = vec![("fx graph", &fx)];
    if let Some(graph) = graph {
        details.push(("graph", graph));
    }
    report_bug(py, message, &details)?;
    eager(gm, format!("internal error: {message}"))
}

fn eager<'py>(gm: &Bound<'py, PyAny>, reason: String) -> PyResult<Bound<'py, PyAny>> {
    remember(LastCompile { eager: Some(reason), ..LastCompile::default() });
    gm.getattr(intern!(gm.py(), "forward"))
}
