//! Errors as Python sees them. There are three kinds: what is unsupported is left to eager with one warning; what is the user's
//! mistake is raised, with the user's own line; a bug of ours is reported in one line and served by eager.

use crate::torch::device_object;
use ox_capture::Found;
use ox_capture::is_interrupt;
use ox_driver::{OptionsError, Setting};
use ox_ir::Device;
use ox_runtime::{Exception, RunError};
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyUserWarning, PyValueError, PyZeroDivisionError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyTuple, PyType};
use rustc_hash::FxHashSet;
use std::ffi::CString;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Set in tests: a bug must not hide behind eager.
pub fn bugs_are_fatal() -> bool {
    let suppressed = Setting::find("suppress_errors").is_none_or(|setting| setting.get() != 0);
    !suppressed || std::env::var_os("OXYTORCH_BUG").is_some_and(|v| v == "fatal")
}

pub fn options_error(error: OptionsError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The exception for a mistake of the user's, in eager's words; the user's line stands in its traceback.
pub fn user_error(kind: Exception, message: &str, location: &str) -> PyErr {
    let text = message.to_string();
    let error = match kind {
        Exception::IndexError => PyIndexError::new_err(text),
        Exception::RuntimeError => PyRuntimeError::new_err(text),
        Exception::ZeroDivisionError => division_error(text),
    };
    at_location(error, location)
}

/// The exception with the user's `file:line` in its traceback, if that is known.
pub fn at_location(error: PyErr, location: &str) -> PyErr {
    match location.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => ox_capture::at_line(error, "compiled", file, line),
        None => error,
    }
}

/// Eager raises a RuntimeError that says "ZeroDivisionError": ours looks like it and is both, so that either can be caught.
fn division_error(text: String) -> PyErr {
    static CLASS: Found<Py<PyType>> = Found::new();
    Python::attach(|py| {
        let made = CLASS.or_try_find(|| -> PyResult<Py<PyType>> {
            let bases = PyTuple::new(py, [py.get_type::<PyRuntimeError>(), py.get_type::<PyZeroDivisionError>()])?;
            let body = [("__module__", "builtins")].into_py_dict(py)?;
            let class = py.get_type::<PyType>().call1(("RuntimeError", bases, body))?;
            Ok(class.cast_into::<PyType>()?.unbind())
        });
        made.map_or_else(|error| error, |class| PyErr::from_type(class.bind(py).clone(), text))
    })
}

/// How a failed run goes on.
pub enum Verdict {
    Raise(PyErr),
    /// The user's mistake, and where. Eager raises it in its own words, when it has done what stands before; this is for those who cannot
    /// ask eager, and for divisions by zero: eager's exception is none that Python has for them, ours can be caught as both.
    Mistake(PyErr, String),
    /// Eager serves this call: torch refused something (at this line) and eager has the right words for it, or the inputs are others
    /// than the guards promised.
    Eager {
        why: String,
        location: String,
    },
    /// As `Eager`, for want of memory. Who cannot ask eager raises what torch does.
    NoMemory {
        bytes: usize,
        device: Device,
    },
    /// Eager serves this call and all later ones.
    Bug(String),
    /// Eager serves all later calls. It cannot serve this one: some of its effects have been seen already.
    LateBug(String),
}

pub fn judge(py: Python<'_>, error: RunError) -> Verdict {
    match error {
        RunError::User { kind, message, location } => Verdict::Mistake(user_error(kind, &message, &location), location),
        RunError::Host { raised, location } => match raised.downcast::<PyErr>() {
            // An interrupt is nobody's mistake.
            Ok(error) if is_interrupt(&error) => Verdict::Raise(*error),
            Ok(error) => Verdict::Mistake(at_location(error.clone_ref(py), &location), location),
            Err(_) => Verdict::Bug("a host call failed without an exception".into()),
        },
        RunError::Mismatch(why) => Verdict::Eager { why, location: String::new() },
        RunError::Torch { message, location } => Verdict::Eager { why: format!("{message} {location}"), location },
        RunError::Memory { bytes, device } => Verdict::NoMemory { bytes, device },
        RunError::Bug(message) => Verdict::Bug(message),
        RunError::Spent(error) => match judge(py, *error) {
            Verdict::Mistake(error, _) => Verdict::Raise(error),
            Verdict::Eager { why, location } => Verdict::Raise(at_location(PyRuntimeError::new_err(why), &location)),
            Verdict::NoMemory { bytes, device } => Verdict::Raise(out_of_memory(py, bytes, device)),
            Verdict::Bug(message) => Verdict::LateBug(message),
            settled => settled,
        },
    }
}

/// Why eager serves a call.
pub fn no_memory(bytes: usize, device: Device) -> String {
    RunError::Memory { bytes, device }.to_string()
}

/// torch's own exception: who catches it to go on with less knows it by its class and its words.
pub fn out_of_memory(py: Python<'_>, bytes: usize, device: Device) -> PyErr {
    match refused_by_torch(py, bytes, device) {
        Ok(Some(error)) | Err(error) => error,
        Ok(None) => {
            PyRuntimeError::new_err(format!("DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes."))
        }
    }
}

/// What torch says if it is asked once more. The run has given back what it held, so there may be room now: then the words are ours. None for those of a CPU.
fn refused_by_torch(py: Python<'_>, bytes: usize, device: Device) -> PyResult<Option<PyErr>> {
    let torch = py.import("torch")?;
    let kwargs = [("dtype", torch.getattr("uint8")?), ("device", device_object(py, device)?)].into_py_dict(py)?;
    if let Err(error) = torch.call_method("empty", (bytes,), Some(&kwargs)) {
        return Ok(Some(error));
    }
    let Device::Cuda(n) = device else { return Ok(None) };
    let text = format!("CUDA out of memory. Tried to allocate {bytes} bytes. GPU {n} had no room for them in a compiled graph.");
    Ok(Some(PyErr::from_value(torch.getattr("OutOfMemoryError")?.call1((text,))?)))
}

/// Warns once in a process for each text.
pub fn warn_once(py: Python<'_>, text: &str) -> PyResult<()> {
    static SAID: Mutex<Option<FxHashSet<String>>> = Mutex::new(None);
    let fresh = SAID.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(text.to_string());
    if !fresh {
        return Ok(());
    }
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
}

/// The same, for what must not end a program that makes errors of warnings.
pub fn tell_once(py: Python<'_>, text: &str) -> PyResult<()> {
    match warn_once(py, text) {
        Err(error) if error.is_instance_of::<PyUserWarning>(py) => {
            // Nobody reads it if it is closed.
            let _ = writeln!(std::io::stderr(), "{text}");
            Ok(())
        }
        told => told,
    }
}

/// A bug of ours: an exception where bugs are fatal, otherwise one line that says where the details lie.
pub fn report_bug(py: Python<'_>, message: &str, details: &[(&str, &dyn std::fmt::Display)]) -> PyResult<()> {
    let mut parts: Vec<(&str, &dyn std::fmt::Display)> = vec![("message", &message)];
    parts.extend_from_slice(details);
    let place = match ox_driver::write_bug(&parts) {
        Ok(path) => format!("details in {}", path.display()),
        Err(error) => format!("no details could be written: {error}"),
    };
    if bugs_are_fatal() {
        return Err(PyRuntimeError::new_err(format!("oxytorch: {message}; {place}")));
    }
    warn_once(py, &format!("oxytorch: internal error, running in eager: {message}; {place}"))
}
