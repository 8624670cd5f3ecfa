//! Graphs that fail before anybody can see anything of them.
//!
//! An index out of range is found when the graph runs, which may be behind the clause that the program has for it, and behind what the program
//! does next. So where a run has changed nothing the program itself does the work, from where the segment begins: the exception then comes
//! where it comes in eager, and everything before it has been done.

use crate::obj::{Obj, message, py};
use pyo3::exceptions::{PyBaseException, PyRuntimeError};
use pyo3::prelude::*;
use std::cell::Cell;

// With the exception that the run ended in, where eager has a poorer one.
pyo3::create_exception!(oxytorch, Undone, PyBaseException);

// A graph has failed by a mistake of the compiler's, or of the program's own fake kernels, behind what must not be done twice.
pyo3::create_exception!(oxytorch, InternalError, PyRuntimeError);

thread_local! {
    static OFFERED: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, a compiled graph may end in `Undone`.
pub struct Offer(bool);

impl Offer {
    pub fn new(on: bool) -> Offer {
        Offer(OFFERED.replace(on))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        OFFERED.set(self.0);
    }
}

/// Whether this graph may end in `Undone`. It is for the one that asks first: what is called from there has callers of its own.
pub fn take_offer() -> bool {
    OFFERED.replace(false)
}

/// A run ended so, and nothing came of it.
pub fn undone(error: Option<PyErr>) -> PyErr {
    Undone::new_err((error.map(|error| error.into_value(py())),))
}

pub fn is_undone(error: &PyErr) -> bool {
    error.is_instance_of::<Undone>(py())
}

/// What the program made of it; where that is the exception which the run ended in, the run's own.
pub fn instead(undone: &PyErr, done: PyResult<Obj>) -> PyResult<Obj> {
    let own = || -> PyResult<Obj> { Ok(undone.value(py()).getattr("args")?.get_item(0)?.into()) };
    done.map_err(|error| match own() {
        Ok(own) if !own.is_none() && is_same(&own, &error) => PyErr::from_value(own.bind().clone()),
        _ => error,
    })
}

fn is_same(own: &Obj, error: &PyErr) -> bool {
    error.is_instance_of::<PyRuntimeError>(py()) && own.to_string() == message(error)
}
