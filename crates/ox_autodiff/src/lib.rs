//! Graph to forward and backward Graph.
//!
//! - `joint`: the graph, then the gradients of its inputs, given those of its outputs; by the derivatives in `ox_ops::derive`.
//! - `again`: gradients as a graph of their own, to be differentiated once more.
//! - `prepare`: attention in a form that has a derivative.
//! - `active`: which values carry a gradient.
//! - `partition`: the joint graph cut in two: what the backward graph needs of the forward one is saved or computed again.
//! - `part`: of the backward graph, what some of its gradients need.
//! - `cost`: what may be computed again, and what saving costs.
//! - `flow`: the cheapest cut.
//! - `strides`: how gradients lie in memory.
//! - `text`: both as text.

mod active;
mod again;
mod cost;
mod flow;
mod joint;
mod part;
mod partition;
mod prepare;
mod strides;
mod text;

pub use again::gradient_graph;
pub use cost::{SMALL, is_small};
pub use joint::{Held, Joint, Undifferentiable, Wanted, joint};
pub use part::{Part, part};
pub use partition::{Source, Split, partition};
