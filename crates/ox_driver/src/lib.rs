//! compile(): the only place that knows the order of the stages.
//!
//! - `options`: what a user may ask for.
//! - `pipeline`: Graph in, Program out, every stage timed.
//! - `program`: what is called.
//! - `cache`: compiled kernels, shared by all graphs of the process.
//! - `dump`: every program of every stage as text, for people.
//! - `guard`: a panic inside a stage is a Bug of that stage, not the end of the process.

mod cache;
mod dump;
mod guard;
mod options;
mod pipeline;
mod program;
mod report;

pub use dump::write_bug;
pub use guard::{Panic, guarded};
pub use options::{Mode, OptionValue, Options, OptionsError};
pub use pipeline::{CompileError, Compiled, compile};
pub use program::Program;
pub use report::{PythonStep, Report};
