//! Capture: a Python function becomes a tree of traces while it runs.
//!
//! The first call runs the function's bytecode on real objects; only tensors are lazy. What a later call needs is noted on the way: where
//! objects came from (`source`), what was relied on (`guard`), how to make again what was made (`recipe`), what was computed (`record`).
//!
//! - `vm`: the machine: frames, instructions by subject, breaks, snapshots.
//! - `record`: what is noted while it runs.
//! - `lazy`: tensors that are computed later.
//! - `source`, `guard`, `recipe`, `tree`: what a trace is, and how it runs without the machine.
//! - `sizes`: sizes that are no constants; `declared`: what the user says of them.
//! - `builtins`, `attr`, `types`, `state`, `numpy`: what is known of CPython, torch and NumPy.
//! - `found`: what is found out once in a process.
//! - `interrupt`: what signal handlers raise; `undone`: graphs that fail.
//! - `class_portrait`: classes that traces write to.
//! - `gauge`: tensors with variable sizes are looked at all at once.
//! - `warm`: which checks need not be made again.
//! - `backend`: what the rest of oxytorch does for capture.
//! - `callable`: what the user calls; `policy`: what is done with a call that no trace fits.
//! - `explain`, `advice`, `why`, `log`: what people see of all this.

mod advice;
mod attr;
mod backend;
mod builtins;
mod callable;
mod class_portrait;
mod declared;
mod explain;
mod found;
mod gauge;
mod gc;
mod guard;
mod interrupt;
mod lazy;
mod log;
mod numpy;
mod obj;
mod policy;
mod recipe;
mod record;
mod shared;
mod sizes;
mod source;
mod state;
mod tree;
mod types;
mod undone;
mod vm;
mod warm;
mod why;

pub use backend::{Backend, BoundGraph, Compiled, Sizes};
pub use callable::{Captured, Settings, show_get};
pub use found::Found;
pub use interrupt::is_interrupt;
pub use lazy::is_kept;
pub use log::{Topic, log};
pub use obj::{Obj, items_of, py, tuple_of};
pub use ox_gauge::{Body, Depth, Portrait, ROOM, TensorSpec, Words};
pub use record::grad::GradMode;
pub use record::{PlainSizes, forget_shadows};
pub use sizes::SizeObject;
pub use undone::{InternalError, Offer, instead, take_offer, undone};
pub use vm::at_line;
