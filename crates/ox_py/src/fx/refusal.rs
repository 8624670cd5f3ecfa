//! Why a graph is not compiled.

use ox_ir::Var;
use ox_ops::Noted;
use pyo3::PyErr;
use pyo3::exceptions::PyRuntimeError;

#[derive(Debug)]
pub enum Refusal {
    /// Left to eager, with one warning: what it is, and the user's line ("" if not known).
    Unsupported { what: String, location: String },
    /// Eager must make this one call: autograd has to see it.
    Cut { place: usize, what: String },
    /// The graph can be imported if this holds of its sizes, as it does now.
    Undecided(Noted),
    /// These sizes must be constants.
    Fixed { sizes: Vec<Var>, why: String },
    /// The same, of a call that is left to torch: it might as well stand between two graphs.
    Left { sizes: Vec<Var>, why: String },
    /// A mistake of ours.
    Bug(String),
    /// Python raised while we read the graph.
    Python(PyErr),
}

pub type Import<T> = Result<T, Refusal>;

impl Refusal {
    pub fn unsupported(what: impl Into<String>) -> Refusal {
        Refusal::Unsupported { what: what.into(), location: String::new() }
    }

    /// Whether it is another graph once more is known of its sizes.
    pub fn asks_of_sizes(&self) -> bool {
        matches!(self, Refusal::Undecided(_) | Refusal::Fixed { .. } | Refusal::Left { .. })
    }

    /// Adds the line where none is known yet.
    pub fn at(self, line: &str) -> Refusal {
        match self {
            Refusal::Unsupported { what, location } if location.is_empty() => {
                Refusal::Unsupported { what, location: line.to_string() }
            }
            other => other,
        }
    }
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Refusal {
        Refusal::Python(error)
    }
}

impl From<pyo3::CastError<'_, '_>> for Refusal {
    fn from(error: pyo3::CastError<'_, '_>) -> Refusal {
        Refusal::Python(PyRuntimeError::new_err(error.to_string()))
    }
}

impl From<pyo3::CastIntoError<'_>> for Refusal {
    fn from(error: pyo3::CastIntoError<'_>) -> Refusal {
        Refusal::Python(PyRuntimeError::new_err(error.to_string()))
    }
}
