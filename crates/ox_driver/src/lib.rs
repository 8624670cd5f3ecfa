//! compile(): the only place that knows the order of the stages.
//!
//! - `options`: what a user may ask for.
//! - `pipeline`: Graph in, Executable out, every stage timed.
//! - `cache`: compiled kernels, shared by all graphs of the process.
//! - `dump`: every program of every stage as text, for people.
//! - `guard`: a panic inside a stage is a Bug of that stage, not the end of the process.

mod cache;
mod dump;
mod guard;
mod options;
mod pipeline;
mod report;

pub use dump::write_bug;
pub use guard::{Panic, guarded};
pub use options::{Mode, OptionValue, Options, OptionsError};
pub use pipeline::{CompileError, Compiled, compile};
pub use report::{PythonStep, Report};
