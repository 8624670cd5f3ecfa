//! What the programs mean, slowly and plainly: reference interpreters for Graph, Kernel and Plan over ordinary Rust values, random
//! graphs to run them on, and the runner of the golden files. Schedulers and code generators are tested against this crate.

pub mod compare;
pub mod error;
pub mod golden;
pub mod graph;
pub mod kernel;
pub mod plan;
pub mod random;
pub mod scalar;
pub mod tensor;

pub use compare::{assert_close, plan_difference, result_difference};
pub use error::InterpretError;
pub use golden::golden;
pub use graph::{GraphResult, interpret_graph};
pub use kernel::{KernelMemory, interpret_kernel};
pub use plan::{NativeKernels, PlanResult, interpret_plan, interpret_plan_with};
pub use random::{RandomConfig, random_graph, random_inputs, random_sizes};
pub use tensor::{Elem, TensorData};
