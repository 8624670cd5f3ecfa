//! The graph under construction, and what is known of its values.

use super::RandomConfig;
use super::rng::Rng;
use super::sizes::variables;
use ox_ir::graph::{Args, Graph, GraphInput, Node, NodeId, Op, Shape, SliceDim, TensorType, contiguous_strides};
use ox_ir::{DType, Scalar, Sym, Var};

/// What is known of a node's elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    /// Two right implementations may differ in the last bits.
    pub fuzzy: bool,
    /// No element is larger in size; infinite where NaN or infinity may come up.
    pub bound: f64,
}

pub(super) struct Gen<'a> {
    pub rng: Rng,
    pub graph: Graph,
    pub meta: Vec<Meta>,
    pub config: &'a RandomConfig,
}

/// No tensor has more elements, so that the slow interpreters stay quick enough.
const MOST_ELEMENTS: i64 = 300;
const MOST_OF_LARGE: i64 = 24_000;

const SMALL_SIZES: [i64; 10] = [1, 1, 2, 2, 3, 3, 4, 5, 6, 7];
/// Whole warps and vectors, and what is left over at their ends.
const LARGE_SIZES: [i64; 20] = [1, 1, 2, 3, 5, 8, 16, 31, 33, 48, 64, 100, 127, 128, 258, 512, 1000, 1023, 2049, 9000];
/// At most of a variable: two of them are a tensor.
const LARGE_VARIABLE: i64 = 150;

impl<'a> Gen<'a> {
    pub fn new(seed: u64, config: &'a RandomConfig) -> Gen<'a> {
        let mut graph = Graph { locations: vec![String::new()], ..Graph::default() };
        let mut rng = Rng::new(seed);
        graph.sizes = match (config.symbolic, config.expressions) {
            (true, true) => variables(&mut rng),
            (true, false) => {
                let most = if config.large { LARGE_VARIABLE } else { 6 };
                vec![Var::size(0, 2, most, 1), Var::size(1, 2, most, 2)]
            }
            (false, _) => Vec::new(),
        };
        Gen { rng, graph, meta: Vec::new(), config }
    }

    /// The most elements that a tensor has.
    pub fn most(&self) -> i64 {
        if self.config.large { MOST_OF_LARGE } else { MOST_ELEMENTS }
    }

    /// None if the result would be too large.
    pub fn push(&mut self, op: Op, args: &[NodeId], ty: TensorType, meta: Meta) -> Option<NodeId> {
        if ty.numel().bounds().1 > self.most() || ty.rank() > 5 {
            return None;
        }
        self.meta.push(meta);
        Some(self.graph.push(Node { op, args: Args::from_slice(args), ty, location: 0 }))
    }

    /// A node whose elements are all elements of its arguments.
    pub fn rearrange(&mut self, op: Op, args: &[NodeId], shape: Shape) -> Option<NodeId> {
        let ty = self.graph.ty(args[0]).with_shape(shape);
        let meta = self.meta_of(args);
        self.push(op, args, ty, meta)
    }

    /// The worst of several nodes.
    pub fn meta_of(&self, nodes: &[NodeId]) -> Meta {
        let metas = nodes.iter().map(|id| self.meta[id.index()]);
        metas.fold(Meta { fuzzy: false, bound: 0.0 }, |a, b| Meta { fuzzy: a.fuzzy || b.fuzzy, bound: a.bound.max(b.bound) })
    }

    pub fn any(&mut self) -> NodeId {
        NodeId(self.rng.below(self.graph.nodes.len()) as u32)
    }

    /// A node that fulfils a condition; newer ones are likelier.
    pub fn any_where(&mut self, fits: impl Fn(&Self, NodeId) -> bool) -> Option<NodeId> {
        let all: Vec<NodeId> = self.graph.ids().filter(|id| fits(self, *id)).collect();
        if all.is_empty() {
            return None;
        }
        let at = self.rng.below(all.len()).max(self.rng.below(all.len()));
        Some(all[at])
    }

    pub fn size(&mut self) -> Sym {
        if self.config.expressions && self.rng.percent(60) {
            return self.expression();
        }
        if !self.graph.sizes.is_empty() && self.rng.percent(40) {
            return Sym::var(self.rng.pick(&self.graph.sizes));
        }
        Sym::from(*self.rng.pick(if self.config.large { &LARGE_SIZES[..] } else { &SMALL_SIZES[..] }))
    }

    pub fn dtype(&mut self) -> DType {
        *self.rng.pick(&self.config.dtypes)
    }

    pub fn input(&mut self) {
        let rank = *self.rng.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 3, 4]);
        let mut shape: Shape = (0..rank).map(|_| self.size()).collect();
        if rank > 0 && self.rng.percent(4) {
            let d = self.rng.below(rank);
            shape[d] = Sym::ZERO;
        }
        let ty = TensorType::new(self.dtype(), shape.clone());
        let strides = match self.rng.below(10) {
            0..6 => contiguous_strides(&shape),
            6..8 => self.permuted_strides(&shape),
            8 => contiguous_strides(&shape).iter().map(|s| s * 2).collect(),
            _ => shape.iter().map(|_| Sym::ZERO).collect(),
        };
        let n = self.graph.inputs.len() as u32;
        if self.push(Op::Input(n), &[], ty.clone(), Meta { fuzzy: false, bound: 4.0 }).is_some() {
            self.graph.inputs.push(GraphInput { name: format!("x{n}"), ty, strides, frozen: false, packed: false });
        }
    }

    /// A constant, positions, or the value of a size.
    pub fn source(&mut self) -> Option<NodeId> {
        let like = self.any();
        let shape = self.graph.ty(like).shape.clone();
        match self.rng.below(3) {
            0 if !shape.is_empty() => {
                let dim = self.rng.below(shape.len());
                let bound = self.most() as f64;
                self.push(Op::Iota { dim }, &[], TensorType::new(DType::I64, shape), Meta { fuzzy: false, bound })
            }
            1 if !self.graph.sizes.is_empty() => {
                let value = &self.size() * 2;
                let bound = (value.bounds().1 as f64).max(20.0);
                self.push(Op::SymValue(value), &[], TensorType::new(DType::I64, []), Meta { fuzzy: false, bound })
            }
            _ => {
                let dtype = self.dtype();
                self.full(dtype, &shape)
            }
        }
    }

    pub fn full(&mut self, dtype: DType, shape: &Shape) -> Option<NodeId> {
        let value = match dtype {
            DType::Bool => Scalar::Bool(self.rng.percent(50)),
            d if d.is_float() => Scalar::Float(self.rng.int(-12, 12) as f64 / 4.0),
            DType::U8 => Scalar::Int(self.rng.int(0, 3)),
            _ => Scalar::Int(self.rng.int(-3, 3)),
        };
        self.push(Op::Full(value), &[], TensorType::new(dtype, shape.clone()), Meta { fuzzy: false, bound: 4.0 })
    }

    /// A value of a given shape made of `id`, whatever shape that has: by expansion, by cutting, else a constant of its type.
    pub fn conform(&mut self, id: NodeId, shape: &Shape) -> Option<NodeId> {
        let own = self.graph.ty(id).clone();
        if own.shape == *shape {
            return Some(id);
        }
        if own.numel() == shape.iter().product() {
            return self.rearrange(Op::Reshape, &[id], shape.clone());
        }
        if own.rank() > shape.len() {
            return self.full(own.dtype, shape);
        }
        let mut padded: Shape = (own.rank()..shape.len()).map(|_| Sym::ONE).collect();
        padded.extend(own.shape.iter().cloned());
        let mut id = if padded == own.shape { id } else { self.rearrange(Op::Reshape, &[id], padded.clone())? };
        let fits = |(a, b): (&Sym, &Sym)| a == b || a.is_one();
        if !padded.iter().zip(shape).all(fits) {
            if padded.iter().any(|n| !n.is_positive()) {
                return self.full(own.dtype, shape);
            }
            let cut: Shape = padded.iter().zip(shape).map(|(a, b)| if a == b { a.clone() } else { Sym::ONE }).collect();
            let at = cut.iter().map(|_| SliceDim { start: Sym::ZERO, step: 1 }).collect();
            id = self.rearrange(Op::Slice(at), &[id], cut)?;
        }
        if self.graph.ty(id).shape == *shape { Some(id) } else { self.rearrange(Op::Expand, &[id], shape.clone()) }
    }

    /// Any node's values in a given type and shape.
    pub fn operand(&mut self, dtype: DType, shape: &Shape) -> Option<NodeId> {
        let same = self.any_where(|g, id| g.graph.ty(id).dtype == dtype && (g.graph.ty(id).shape == *shape || id.0 % 3 == 0));
        match same {
            Some(id) if self.rng.percent(90) => self.conform(id, shape),
            _ => {
                let any = self.any();
                let cast = self.cast_to(any, dtype)?;
                self.conform(cast, shape)
            }
        }
    }
}
