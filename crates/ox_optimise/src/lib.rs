//! Graph to Graph: rules and passes, one ordered list.

mod linear;
mod options;
pub mod passes;
mod pipeline;
mod rewriter;
mod rules;
mod scalar;
mod shapes;

pub use options::{FreeBias, FusePostOps, OptimiseOptions, PackWeights, PostOps};
pub use passes::split_frozen::{Optimised, Prelude, split_frozen};
pub use pipeline::{PassReport, optimise, optimise_reported};
