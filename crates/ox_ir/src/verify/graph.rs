//! What must hold for a Graph.

use super::{Check, VerifyError, at, differ, ensure, less, same_shape, same_type};
use crate::dtype::DType;
use crate::graph::{Alias, Graph, GraphOutput, Node, NodeId, Op, ReduceOp, TensorType};
use crate::point::{PointClass, PointOp};
use crate::sym::Sym;

impl Graph {
    /// Checks the order of the nodes, and every node against its arguments.
    pub fn verify(&self) -> Result<(), VerifyError> {
        for (n, input) in self.inputs.iter().enumerate() {
            let place = format!("input {n}");
            at(&place, self.known_sizes(input.ty.shape.iter().chain(&input.strides)))?;
            at(&place, ensure(input.strides.len() == input.ty.rank(), || "strides of another rank".into()))?;
        }
        for id in self.ids() {
            at(format!("{id} = {}", self.node(id)), self.verify_node(id))?;
        }
        for (n, output) in self.outputs.iter().enumerate() {
            at(format!("output {n}"), self.verify_output(output))?;
        }
        for mutation in &self.mutations {
            at(format!("mutation of input {}", mutation.input), self.verify_mutation(mutation.input, mutation.value))?;
        }
        Ok(())
    }

    fn verify_node(&self, id: NodeId) -> Check {
        let node = self.node(id);
        for arg in &node.args {
            ensure(arg < &id, || format!("its argument {arg} comes later"))?;
        }
        ensure((node.location as usize) < self.locations.len().max(1), || "its location does not exist".into())?;
        self.known_sizes(&node.ty.shape)?;
        for size in &node.ty.shape {
            ensure(!less(size, &Sym::ZERO), || format!("the size {size} is negative"))?;
        }
        if !matches!(node.op, Op::Library(_) | Op::Project(_)) {
            let same = |arg: &NodeId| self.ty(*arg).device == node.ty.device;
            ensure(node.args.iter().all(same), || "arguments on another device".into())?;
        }
        self.only_weights_are_packed(node)?;
        Checked { graph: self, node, ty: &node.ty }.op()
    }

    fn only_weights_are_packed(&self, node: &Node) -> Check {
        let takes = |n: usize| n == 1 && matches!(node.op, Op::Matmul { .. } | Op::Conv(_));
        let wrong = node.args.iter().enumerate().find(|(n, arg)| self.is_packed(**arg) && !takes(*n));
        ensure(wrong.is_none(), || format!("its argument {} is packed", wrong.map_or(0, |(n, _)| n)))
    }

    fn verify_output(&self, output: &GraphOutput) -> Check {
        self.exists(output.value)?;
        ensure(output.strides.len() == self.ty(output.value).rank(), || "strides of another rank".into())?;
        self.known_sizes(&output.strides)?;
        match &output.alias {
            Some(Alias::Input(n, _)) => ensure((*n as usize) < self.inputs.len(), || format!("there is no input {n}")),
            Some(Alias::Output(n, _)) => ensure((*n as usize) < self.outputs.len(), || format!("there is no output {n}")),
            None => Ok(()),
        }
    }

    fn verify_mutation(&self, input: u32, value: NodeId) -> Check {
        self.exists(value)?;
        let Some(input) = self.inputs.get(input as usize) else { return Err("there is no such input".into()) };
        same_type(self.ty(value), &input.ty)
    }

    fn exists(&self, id: NodeId) -> Check {
        ensure(id.index() < self.nodes.len(), || format!("there is no {id}"))
    }

    fn known_sizes<'a>(&self, syms: impl IntoIterator<Item = &'a Sym>) -> Check {
        for var in syms.into_iter().flat_map(|s| s.vars()) {
            ensure(self.sizes.contains(&var), || format!("{var} is not a size of the graph"))?;
        }
        Ok(())
    }
}

/// A node whose arguments exist.
pub(super) struct Checked<'a> {
    pub graph: &'a Graph,
    pub node: &'a Node,
    pub ty: &'a TensorType,
}

impl Checked<'_> {
    pub fn arg(&self, n: usize) -> &TensorType {
        self.graph.ty(self.node.args[n])
    }

    pub fn args(&self) -> impl Iterator<Item = &TensorType> {
        self.node.args.iter().map(|id| self.graph.ty(*id))
    }

    pub fn arity(&self, n: usize) -> Check {
        ensure(self.node.args.len() == n, || format!("{} arguments, not {n}", self.node.args.len()))
    }

    pub fn dim(&self, dim: usize, rank: usize) -> Check {
        ensure(dim < rank, || format!("dimension {dim} of {rank}"))
    }

    pub fn distinct_dims(&self, dims: &[usize], rank: usize) -> Check {
        dims.iter().try_for_each(|d| self.dim(*d, rank))?;
        ensure((1..dims.len()).all(|k| !dims[..k].contains(&dims[k])), || "a dimension twice".into())
    }

    pub fn same_dtype(&self) -> Check {
        ensure(self.args().all(|a| a.dtype == self.ty.dtype), || "arguments of another element type".into())
    }

    pub fn has_shape(&self, shape: &[Sym]) -> Check {
        ensure(same_shape(&self.ty.shape, shape), || format!("the shape should be {shape:?}"))
    }

    pub fn known_sizes<'a>(&self, syms: impl IntoIterator<Item = &'a Sym>) -> Check {
        self.graph.known_sizes(syms)
    }

    fn op(&self) -> Check {
        match &self.node.op {
            Op::Input(n) => self.input(*n),
            Op::Full(_) => self.arity(0),
            Op::SymValue(sym) => {
                self.arity(0)?;
                self.known_sizes([sym])?;
                ensure(self.ty.shape.is_empty(), || "the value of a size has no dimensions".into())
            }
            Op::Iota { dim } => {
                self.arity(0)?;
                self.dim(*dim, self.ty.rank())?;
                ensure(self.ty.dtype == DType::I64, || "positions are i64".into())
            }
            Op::Point(op) => self.point(*op),
            Op::Cast => {
                self.arity(1)?;
                self.has_shape(&self.arg(0).shape)
            }
            Op::Reduce { op, dims } => self.reduce(*op, dims),
            Op::Scan { op, dim } => self.scan(*op, *dim),
            Op::Cat { dim } => self.cat(*dim),
            Op::Matmul { .. } | Op::Conv(_) | Op::Pack(_) | Op::Attention(_) | Op::Library(_) | Op::Project(_) => self.call(),
            _ => self.view(),
        }
    }

    fn input(&self, n: u32) -> Check {
        self.arity(0)?;
        let Some(input) = self.graph.inputs.get(n as usize) else { return Err(format!("there is no input {n}")) };
        same_type(self.ty, &input.ty)
    }

    fn point(&self, op: PointOp) -> Check {
        self.arity(op.arity())?;
        let dtype = self.arg(op.arity() - 1).dtype;
        for (n, arg) in self.args().enumerate() {
            let expected = if op.class() == PointClass::Select && n == 0 { DType::Bool } else { dtype };
            ensure(arg.dtype == expected, || format!("argument {n} is {}, not {expected}", arg.dtype))?;
            self.has_shape(&arg.shape)?;
        }
        ensure(op.accepts(dtype), || format!("{} is not defined on {dtype}", op.name()))?;
        ensure(self.ty.dtype == op.result(dtype), || format!("the result is {}", op.result(dtype)))
    }

    fn reduce(&self, op: ReduceOp, dims: &[usize]) -> Check {
        self.arity(1)?;
        let x = self.arg(0);
        self.distinct_dims(dims, x.rank())?;
        ensure(!op.is_arg() || dims.len() == 1, || "a position is along one dimension".into())?;
        let dtype = match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I64,
            ReduceOp::Any | ReduceOp::All => DType::Bool,
            _ => x.dtype,
        };
        ensure(self.ty.dtype == dtype, || format!("the result is {dtype}"))?;
        let shape: Vec<Sym> =
            x.shape.iter().enumerate().map(|(d, n)| if dims.contains(&d) { Sym::ONE } else { n.clone() }).collect();
        self.has_shape(&shape)
    }

    fn scan(&self, op: ReduceOp, dim: usize) -> Check {
        let decays = op == ReduceOp::Sum && self.node.args.len() == 2;
        self.arity(if decays { 2 } else { 1 })?;
        self.dim(dim, self.ty.rank())?;
        let running = matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min);
        ensure(running, || format!("there is no running {}", op.name()))?;
        self.args().try_for_each(|arg| same_type(self.ty, arg))
    }

    fn cat(&self, dim: usize) -> Check {
        ensure(!self.node.args.is_empty(), || "nothing to join".into())?;
        self.dim(dim, self.ty.rank())?;
        self.same_dtype()?;
        let mut total = Sym::ZERO;
        for part in self.args() {
            let mut shape = part.shape.clone();
            ensure(shape.len() == self.ty.rank(), || format!("{part} is of another rank"))?;
            total = &total + &shape[dim];
            shape[dim] = self.ty.shape[dim].clone();
            self.has_shape(&shape)?;
        }
        ensure(!differ(&total, &self.ty.shape[dim]), || format!("the parts have {total} elements along dimension {dim}"))
    }
}
