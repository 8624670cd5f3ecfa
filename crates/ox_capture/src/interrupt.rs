//! Exceptions that say nothing of the code in which they came: those of signal handlers.

use crate::attr::type_lookup;
use crate::obj::{Obj, py};
use pyo3::exceptions::{PyException, PyGeneratorExit};
use pyo3::prelude::*;
use std::cell::RefCell;

/// Whether a signal's handler raised it. What is no `Exception` is meant to end things, whoever raised it.
pub fn is_interrupt(error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py()) || passed_a_handler(error).unwrap_or(false)
}

/// Whether one of the frames of its traceback is that of a handler.
fn passed_a_handler(error: &PyErr) -> PyResult<bool> {
    let Some(traceback) = error.traceback(py()) else { return Ok(false) };
    let handlers = handlers()?;
    let mut line: Obj = traceback.into_any().into();
    while !line.is_none() {
        let code = line.attr("tb_frame")?.attr("f_code")?;
        if handlers.iter().any(|handler| handler.is(&code)) {
            return Ok(true);
        }
        line = line.attr("tb_next")?;
    }
    Ok(false)
}

/// The code of what Python calls when a signal comes.
fn handlers() -> PyResult<Vec<Obj>> {
    let signal = py().import("signal")?;
    let mut codes = Vec::new();
    for number in signal.call_method0("valid_signals")?.try_iter()? {
        codes.extend(code_of(&signal.call_method1("getsignal", (number?,))?.into()));
    }
    Ok(codes)
}

/// Of a function, a method, a partial, or an object that can be called. None for what is written in C.
fn code_of(handler: &Obj) -> Option<Obj> {
    // Of the class itself: `SIG_DFL` is a member of an enumeration, whose class can be called.
    let method = type_lookup(&handler.class(), &Obj::str("__call__"));
    let called = [Some(handler.clone()), handler.attr("func").ok(), method];
    called.into_iter().flatten().find_map(|function| function.attr("__code__").ok())
}

thread_local! {
    /// One that has come while something was done that had to be finished.
    static LATE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Does it again if an interrupt comes in between: that is raised a little later, by whoever calls `take_late`. Not for ever: signals may
/// come faster than it can be done.
pub fn postponing<T>(mut work: impl FnMut() -> PyResult<T>) -> PyResult<T> {
    const TRIES: usize = 8;
    for _ in 1..TRIES {
        match work() {
            Err(error) if is_interrupt(&error) => drop(LATE.replace(Some(error))),
            done => return done,
        }
    }
    work()
}

/// Results of questions to which no answer is an answer.
pub trait Quiet<T> {
    /// As `ok`, but an interrupt that came while it was found out is raised a little later.
    fn quiet(self) -> Option<T>;
}

impl<T> Quiet<T> for PyResult<T> {
    fn quiet(self) -> Option<T> {
        let keep = |error: PyErr| {
            if is_interrupt(&error) && !error.is_instance_of::<PyGeneratorExit>(py()) {
                LATE.set(Some(error));
            }
        };
        self.map_err(keep).ok()
    }
}

/// What came meanwhile.
pub fn take_late() -> Option<PyErr> {
    LATE.take()
}
