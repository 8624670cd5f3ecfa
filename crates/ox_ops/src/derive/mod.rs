//! Derivatives: for each Op the gradients of its arguments, as Ops. Scalar ops have theirs in their rows (`crate::point`).
//!
//! A gradient has the type of the value that it belongs to, and is rounded where eager rounds it: half types are summed and
//! multiplied in f32, then rounded once. `None` is zero.

mod assembly;
mod attention;
mod contract;
mod fused;
mod library;
mod operators;
mod pick;
mod pointwise;
mod reduce;
mod views;
mod windows;

use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use ox_ir::graph::{Node, NodeId, Op, ReduceOp};
use ox_ir::{Scalar, Sym};

pub use attention::differentiable as differentiable_attention;
pub use fused::FusedAttention;

/// A node whose result has a gradient.
pub struct Site<'a> {
    pub node: &'a Node,
    pub result: NodeId,
    /// Of each output: a library call may have several.
    pub grads: &'a [Option<NodeId>],
    /// The arguments whose gradients are asked for.
    pub wanted: &'a [bool],
}

/// One for each argument.
pub type Gradients = Vec<Option<NodeId>>;

impl Site<'_> {
    pub fn arg(&self, n: usize) -> NodeId {
        self.node.args[n]
    }

    /// The gradient of the only output.
    pub fn grad(&self) -> OpResult<NodeId> {
        self.grads[0].ok_or_else(|| OpError::bug("a derivative without a gradient"))
    }

    /// The gradients of a node with one argument.
    fn only(&self, grad: OpResult<NodeId>) -> OpResult<Gradients> {
        Ok(vec![Some(grad?)])
    }

    /// Computes the gradients that are asked for.
    fn each(&self, mut f: impl FnMut(usize) -> OpResult<Option<NodeId>>) -> OpResult<Gradients> {
        self.wanted.iter().enumerate().map(|(n, wanted)| if *wanted { f(n) } else { Ok(None) }).collect()
    }
}

/// `Unsupported` if the op has no derivative.
pub fn derive(b: &mut Builder, site: &Site<'_>) -> OpResult<Gradients> {
    match &site.node.op {
        Op::Input(_) | Op::Full(_) | Op::SymValue(_) | Op::Iota { .. } | Op::Detach => Ok(vec![None; site.node.args.len()]),
        Op::Graft => Ok(vec![None, site.grads[0]]),
        Op::Point(op) => pointwise::point(b, site, *op),
        Op::Cast => {
            let (grad, dtype) = (site.grad()?, b.dtype(site.arg(0)));
            site.only(Ok(b.cast(grad, dtype)))
        }
        Op::Reshape | Op::Permute(_) | Op::Expand | Op::Slice(_) | Op::Diagonal { .. } => views::view(b, site),
        Op::Unfold { dim, step, dilation } => windows::unfold(b, site, *dim, *step, *dilation),
        Op::Pad { low, .. } => assembly::pad(b, site, low),
        Op::Cat { dim } => assembly::cat(b, site, *dim),
        Op::SliceScatter(dims) => assembly::slice_scatter(b, site, dims),
        Op::Index { dims, at, bounds } => assembly::index(b, site, (dims, *at, *bounds)),
        Op::IndexPut { dims, at, bounds, combine } => assembly::index_put(b, site, (dims, *at, *bounds), *combine),
        Op::Reduce { op, dims } => reduce::reduce(b, site, *op, dims),
        Op::Scan { op, dim } => reduce::scan(b, site, *op, *dim),
        Op::Matmul { .. } => contract::matmul(b, site),
        Op::Conv(attrs) => contract::conv(b, site, attrs),
        Op::Attention(_) => Err(OpError::bug("attention that was not made differentiable")),
        Op::Library(library) => library::library(b, site, library),
        Op::Project(_) => Err(OpError::bug("the output of a call has no derivative of its own")),
        Op::Pack(_) => Err(OpError::unsupported("a packed weight")),
    }
}

/// The sum of `x` over `dims`, which stay with size 1, in the type that torch sums in, rounded once.
fn sum(b: &mut Builder, x: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let dtype = b.dtype(x);
    let wide = b.cast(x, dtype.compute());
    let total = b.reduce(ReduceOp::Sum, wide, dims)?;
    Ok(b.cast(total, dtype))
}

fn zeros_like(b: &mut Builder, x: NodeId) -> NodeId {
    b.full_like(Scalar::Float(0.0), x)
}

fn zeros(b: &mut Builder, like: NodeId, shape: &[Sym]) -> NodeId {
    b.full(Scalar::Float(0.0), b.dtype(like), shape)
}
