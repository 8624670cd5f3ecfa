//! `Builder`: a Graph under construction. Every method types what it adds; what does not type is a `Bug`.

mod broadcast;
mod compute;
mod limits;
mod pointwise;
mod random;
mod view;

use crate::error::{OpError, OpResult};
use crate::infer;
use ox_ir::graph::{Args, Graph, GraphInput, GraphOutput, Library, Mutation, Node, NodeId, Op, Shape};
use ox_ir::{DType, Device, PointOp, Scalar, Sym, TensorType, Var};
use rustc_hash::FxHashMap;

pub use broadcast::broadcast_shapes;
pub use limits::{Limit, Unknown};
pub use random::{Draw, is_seed};

pub struct Builder {
    graph: Graph,
    location: u32,
    locations: FxHashMap<String, u32>,
    /// torch.get_default_dtype().
    pub default_dtype: DType,
    /// The device of constants and of created tensors that name none.
    pub device: Device,
    /// Random numbers are eager's very own: its functions are called for them.
    pub fallback_random: bool,
    /// `torch.use_deterministic_algorithms`: memory that nobody has written holds NaN, or the largest integer.
    pub deterministic: bool,
    draws: random::Draws,
    limits: Vec<Limit>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    pub fn new() -> Builder {
        let graph = Graph { locations: vec![String::new()], ..Graph::default() };
        Builder {
            graph,
            location: 0,
            locations: FxHashMap::default(),
            default_dtype: DType::F32,
            device: Device::Cpu,
            fallback_random: false,
            deterministic: false,
            draws: random::Draws::default(),
            limits: Vec::new(),
        }
    }

    /// Goes on with a graph that was built before.
    pub fn resume(graph: Graph, device: Device) -> Builder {
        let known = graph.locations.iter().enumerate().skip(1).map(|(n, text)| (text.clone(), n as u32)).collect();
        Builder { graph, locations: known, device, ..Builder::new() }
    }

    /// A copy of a node of another graph, with arguments of this one.
    pub fn copy(&mut self, node: &Node, args: Args) -> NodeId {
        self.graph.push(Node { args, ..node.clone() })
    }

    /// The location of all nodes that follow, as a place in the graph's list.
    pub fn stand_at(&mut self, location: u32) {
        self.location = location;
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    pub fn ty(&self, id: NodeId) -> &TensorType {
        self.graph.ty(id)
    }

    pub fn dtype(&self, id: NodeId) -> DType {
        self.ty(id).dtype
    }

    pub fn rank(&self, id: NodeId) -> usize {
        self.ty(id).rank()
    }

    /// A copy, so that the builder stays free to be used.
    pub fn shape(&self, id: NodeId) -> Shape {
        self.ty(id).shape.clone()
    }

    /// The user's `file:line` for all nodes that follow; "" for none.
    pub fn set_location(&mut self, location: &str) {
        if let Some(place) = self.locations.get(location) {
            self.location = *place;
        } else if location.is_empty() {
            self.location = 0;
        } else {
            self.location = self.graph.locations.len() as u32;
            self.graph.locations.push(location.to_string());
            self.locations.insert(location.to_string(), self.location);
        }
    }

    /// A size that is passed at run time. Sizes are passed in the order of these calls.
    pub fn size(&mut self, var: Var) -> Sym {
        let sym = Sym::var(&var);
        self.graph.sizes.push(var);
        sym
    }

    pub fn input(&mut self, input: GraphInput) -> NodeId {
        let ty = input.ty.clone();
        self.graph.inputs.push(input);
        self.push(Op::Input(self.graph.inputs.len() as u32 - 1), Args::new(), ty)
    }

    /// A constant tensor. The value is brought to `dtype` (integers wrap).
    pub fn full(&mut self, value: Scalar, dtype: DType, shape: &[Sym]) -> NodeId {
        let ty = TensorType { dtype, device: self.device, shape: shape.iter().cloned().collect() };
        self.push(Op::Full(scalar_of(dtype, value)), Args::new(), ty)
    }

    pub fn full_like(&mut self, value: Scalar, like: NodeId) -> NodeId {
        let ty = self.ty(like).clone();
        self.push(Op::Full(scalar_of(ty.dtype, value)), Args::new(), ty)
    }

    /// A 0-dimensional tensor with the value of a size expression.
    pub fn sym_value(&mut self, value: Sym, dtype: DType) -> NodeId {
        if let Some(known) = value.as_const() {
            return self.full(Scalar::Int(known), dtype, &[]);
        }
        let ty = TensorType { dtype, device: self.device, shape: Shape::new() };
        self.push(Op::SymValue(value), Args::new(), ty)
    }

    /// i64: the position along `dim`.
    pub fn iota(&mut self, shape: &[Sym], dim: usize) -> OpResult<NodeId> {
        let ty = TensorType { dtype: DType::I64, device: self.device, shape: shape.iter().cloned().collect() };
        self.declare(Op::Iota { dim }, &[], ty)
    }

    /// Arguments of exactly equal shape and type; see `pointwise` for the forgiving form.
    pub fn point(&mut self, op: PointOp, args: &[NodeId]) -> OpResult<NodeId> {
        self.add(Op::Point(op), args)
    }

    pub fn cast(&mut self, x: NodeId, dtype: DType) -> NodeId {
        if self.dtype(x) == dtype {
            return x;
        }
        let ty = self.ty(x).with_dtype(dtype);
        self.push(Op::Cast, Args::from_iter([x]), ty)
    }

    /// A library call; its outputs, then (for each argument that it writes) the new value of that argument.
    pub fn library(&mut self, library: Library, args: &[NodeId]) -> OpResult<Vec<NodeId>> {
        let written = library.mutates.iter().map(|place| args.get(*place as usize).map(|arg| self.ty(*arg).clone()));
        let written: Option<Vec<TensorType>> = written.collect();
        let written = written.ok_or_else(|| OpError::bug("library call writes an argument that it does not have"))?;
        let types: Vec<TensorType> = library.outs.iter().map(|out| out.ty.clone()).chain(written).collect();
        let first = types.first().cloned().unwrap_or(TensorType::new(DType::F32, []));
        let call = self.push(Op::Library(Box::new(library)), args.iter().copied().collect(), first);
        Ok(types.into_iter().enumerate().map(|(n, ty)| self.project(call, n as u32, ty)).collect())
    }

    /// The n-th output of a library call.
    pub fn project(&mut self, call: NodeId, n: u32, ty: TensorType) -> NodeId {
        self.push(Op::Project(n), Args::from_iter([call]), ty)
    }

    /// Adds a node whose type follows from its arguments.
    pub fn add(&mut self, op: Op, args: &[NodeId]) -> OpResult<NodeId> {
        let types: Vec<&TensorType> = args.iter().map(|a| self.ty(*a)).collect();
        let ty = infer::infer(&op, &types)?;
        Ok(self.push(op, args.iter().copied().collect(), ty))
    }

    /// Adds a node of a given type, after checking that it can have it.
    pub fn declare(&mut self, op: Op, args: &[NodeId], ty: TensorType) -> OpResult<NodeId> {
        let types: Vec<&TensorType> = args.iter().map(|a| self.ty(*a)).collect();
        infer::check(&op, &types, &ty)?;
        Ok(self.push(op, args.iter().copied().collect(), ty))
    }

    fn push(&mut self, op: Op, args: Args, ty: TensorType) -> NodeId {
        self.graph.push(Node { op, args, ty, location: self.location })
    }

    pub fn finish(mut self, outputs: Vec<GraphOutput>, mutations: Vec<Mutation>) -> Graph {
        self.graph.outputs = outputs;
        self.graph.mutations = mutations;
        self.graph
    }
}

/// The value as an element of `dtype` has it; integers wrap. Floats keep their f64 value: each consumer rounds.
pub fn scalar_of(dtype: DType, value: Scalar) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(value.as_bool()),
        DType::U8 => Scalar::Int(value.as_i64() as u8 as i64),
        DType::I8 => Scalar::Int(value.as_i64() as i8 as i64),
        DType::I16 => Scalar::Int(value.as_i64() as i16 as i64),
        DType::I32 => Scalar::Int(value.as_i64() as i32 as i64),
        DType::I64 => Scalar::Int(value.as_i64()),
        _ => Scalar::Float(value.as_f64()),
    }
}
