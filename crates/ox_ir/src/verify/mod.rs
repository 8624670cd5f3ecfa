//! Verifiers: what must hold for every Graph, Kernel and Plan. They run between passes in debug builds and in tests.
//!
//! Sizes are compared as far as they can be decided: only what is certainly wrong is an error.

mod calls;
mod graph;
mod kernel;
mod memory;
mod plan;
mod views;

use crate::graph::TensorType;
use crate::sym::Sym;
use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{at}: {message}")]
pub struct VerifyError {
    /// The node, value or step.
    pub at: String,
    pub message: String,
}

/// What is wrong, without the place.
type Check = Result<(), String>;

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(message()) }
}

fn at(place: impl fmt::Display, check: Check) -> Result<(), VerifyError> {
    check.map_err(|message| VerifyError { at: place.to_string(), message })
}

/// Certainly different for all values of their variables.
fn differ(a: &Sym, b: &Sym) -> bool {
    a != b && (less(a, b) || less(b, a))
}

/// Certainly `a < b`.
fn less(a: &Sym, b: &Sym) -> bool {
    (b - a).is_positive()
}

fn same_shape(a: &[Sym], b: &[Sym]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| !differ(a, b))
}

fn same_type(a: &TensorType, b: &TensorType) -> Check {
    ensure(a.dtype == b.dtype && a.device == b.device && same_shape(&a.shape, &b.shape), || format!("{a} where {b} is expected"))
}

/// Whether `index` runs inside of `0..extent`, as far as can be told.
fn may_lie_inside(index: &Sym, extent: &Sym) -> bool {
    !less(index, &Sym::ZERO) && !less(&(extent - 1), index)
}
