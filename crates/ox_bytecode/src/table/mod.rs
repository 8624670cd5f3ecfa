//! The packed tables of a code object. Both are written in groups of six bits, a seventh saying that more follow.

mod exceptions;
mod lines;

pub(crate) use exceptions::{ExceptionEntry, exceptions};
pub(crate) use lines::positions;
