//! The data of oxytorch: element types, size expressions, and the three programs (Graph, Kernel, Plan) with their text forms.
//! No stage's logic lives here. `failure` is what all stages share: a panic is a value; and so are the ways in which code
//! generators fail.

pub mod abi;
pub mod arena;
mod bind;
mod codegen_error;
pub mod dtype;
pub mod failure;
pub mod graph;
pub mod kernel;
pub mod lift;
mod op_sizes;
pub mod plan;
pub mod point;
pub mod rows;
pub mod sym;
pub mod text;
pub mod verify;

pub use codegen_error::CodegenError;
pub use dtype::{DType, Device, Scalar};
pub use graph::{Graph, Node, NodeId, Op, TensorType};
pub use kernel::Kernel;
pub use plan::Plan;
pub use point::PointOp;
pub use sym::{Sym, Var};
pub use text::ParseError;
pub use verify::VerifyError;
