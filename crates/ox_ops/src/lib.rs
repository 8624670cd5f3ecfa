//! The op table, and the torch surface on top of it.

pub mod builder;
pub mod decide;
pub mod derive;
pub mod error;
pub mod formula;
pub mod functional;
pub mod infer;
pub mod point;
pub mod promote;
pub mod recorder;
pub mod surface;
pub mod unseen;
pub mod value;

pub use builder::{Builder, Limit, Unknown, is_seed};
pub use decide::{Fact, Hints, Noted, at_hints};
pub use error::{ExceptionKind, OpError, OpResult};
pub use functional::{are_apart, is_elementwise};
pub use infer::{check, infer};
pub use ox_ir::sym::Atom;
pub use ox_ir::{Sym, Var};
pub use recorder::{FrontValue, Layout, OutputSpec, Recorder, Seen, TensorRef};
pub use surface::{Bound, Operand, Surface};
pub use unseen::with_unseen;
pub use value::{Value, ValueOf};
