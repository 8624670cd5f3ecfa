//! What capture asks of the rest of oxytorch.

use crate::obj::Obj;
use ox_gauge::{Body, TensorSpec, Words};
use ox_ops::{Noted, Sym};
use pyo3::prelude::*;

/// A compiled graph that knows some of its inputs already.
pub trait BoundGraph {
    /// Takes the others, in their order; returns the graph's outputs.
    fn call(&self, varying: &[Obj]) -> PyResult<Vec<Obj>>;
}

/// A compiled graph, and what must hold of its sizes.
pub struct Compiled {
    pub callable: Obj,
    pub facts: Vec<Noted>,
}

/// The sizes of the tensors of a graph that is being recorded.
pub trait Sizes {
    /// Takes in the next node. A call that is left to torch and cannot take sizes as variables fixes them; if it may stand between two graphs
    /// instead, it is not taken in: false.
    fn follow(&mut self, node: &Obj, may_stand_apart: bool) -> bool;

    /// Of the tensor that a node stands for. None if something could not be followed.
    fn of(&self, node: &Obj) -> Option<Vec<Sym>>;

    /// How many elements in front of it lie in the same memory. None if that is not known for all sizes.
    fn offset(&self, node: &Obj) -> Option<Sym>;

    /// Its strides, where no size that it is made of is 1. None if they are not known for all others.
    fn strides(&self, node: &Obj) -> Option<Vec<Sym>>;
}

pub trait Backend: Send + Sync {
    /// None for what a graph does not take: subclasses, other devices, sparse tensors, lazy bits.
    fn describe(&self, tensor: &Obj) -> Option<TensorSpec>;

    fn is_like(&self, tensor: &Obj, spec: &TensorSpec) -> bool;

    /// As `is_like`, but the sizes and strides are judged by the caller.
    fn measure(&self, tensor: &Obj, spec: &TensorSpec, fits: &mut dyn FnMut(&[i64], &[i64]) -> bool) -> bool;

    /// Where torch keeps what `measure` looks at. None if that is not known.
    fn body(&self) -> Option<Body>;

    /// Follows a graph that begins on this device.
    fn sizes(&self, graph: &Obj, device: &Obj) -> Option<Box<dyn Sizes>>;

    /// Adds the words that must stay the same for a tensor to keep its description and its memory; false if they cannot be given. `is_told`: but those
    /// that say its class and its body.
    fn portray(&self, tensor: &Obj, is_told: bool, words: &mut Words) -> bool;

    /// A compiled graph for calls in which these of its inputs are as they are now. `sizes`: those of the present
    /// call, by input.
    fn bind(&self, callable: &Obj, known: Vec<Option<Obj>>, sizes: &[Option<i64>]) -> Option<Box<dyn BoundGraph>>;

    /// A callable for a recorded `torch.fx.Graph` whose examples lie on the meta device, which stands for `device` (None: the CPU): takes the tensors of its placeholders, returns
    /// the tuple of its outputs. What cannot be compiled comes back as something that runs the graph in eager.
    fn compile(&self, graph: &Obj, device: Option<&Obj>) -> PyResult<Compiled>;

    /// Seconds that the last `compile` spent, by stage.
    fn stages(&self) -> Vec<(&'static str, f64)>;

    /// A setting of the process, by its name in `oxytorch.config`; flags are 0 or 1.
    fn setting(&self, name: &str) -> PyResult<i64>;

    /// Tells the user something once.
    fn warn(&self, text: &str) -> PyResult<()>;
}
