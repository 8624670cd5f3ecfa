//! compile(): the only place that knows the order of the stages.
//!
//! - `options`: what a user may ask for.
//! - `settings`: what holds for the whole process, mostly for capture.
//! - `pipeline`: Graph in, Program out, every stage timed.
//! - `training`: Graph in, two Programs out: forward and backward.
//! - `program`: what is called.
//! - `race`: whether eager is faster, by the first calls.
//! - `variants`: kernels for sizes that recur.
//! - `forms`: how kernels with variable sizes are compiled, so that few suffice.
//! - `cache`: compiled kernels, shared by all graphs of the process.
//! - `disk`: what other processes have compiled.
//! - `gpu`: the same for kernels of GPUs.
//! - `dump`: every program of every stage as text, for people.

mod cache;
mod disk;
mod dump;
mod forms;
mod gpu;
mod options;
mod pipeline;
mod program;
mod race;
mod report;
pub mod settings;
mod training;
mod variants;

pub use disk::{disk_folder, use_disk};
pub use dump::write_bug;
pub use gpu::warm_up_gpu;
pub use options::{Mode, OptionValue, Options, OptionsError, nearest};
pub use ox_autodiff::{Held, Joint, Part, SMALL, Source, Undifferentiable, Wanted, gradient_graph, is_small, joint, part};
pub use ox_codegen_cpu::tidy::{forget_code, forget_code_once};
pub use ox_ir::failure::{Panic, guarded};
pub use ox_ops::derive::FusedAttention;
pub use pipeline::{CompileError, Compiled, compile};
pub use program::{Prepared, Program};
pub use race::{Outcome, Race, Turn};
pub use report::{PythonStep, Report};
pub use settings::Setting;
pub use training::{Training, TrainingError, compile_training, for_backward};
