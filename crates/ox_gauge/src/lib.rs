//! What a call compares with what a trace relies on, where that is numbers and words of memory: nothing here knows Python.
//!
//! - `words`: words that must hold what they held; `portrait`: of many tensors that are alike, in one pass.
//! - `sizes`: tensors whose sizes are variables; `layout`: what sizes and strides must be, with those of all tensors in two arrays; `formula`: facts,
//!   with each expression that they are made of computed once.
//! - `body`: where torch keeps sizes, strides and types.

mod body;
mod formula;
mod layout;
mod portrait;
mod sizes;
mod words;

pub use body::{Body, Kind, ROOM};
pub use formula::Formulas;
pub use layout::{Layouts, Sizes};
pub use portrait::Portrait;
pub use sizes::{Bound, Size, SizedSpec, Stride, TensorSpec};
pub use words::{Depth, Words};
