//! Ops that make new elements: pads, concatenations, gathers, scatters, reductions and library contractions.

use super::Builder;
use super::view::slice_dims;
use crate::error::OpResult;
use crate::surface::Operand;
use ox_ir::graph::{AttentionAttrs, Bounds, Combine, ConvAttrs, Dims, NodeId, Op, Post, ReduceOp, Shape, SliceDim};
use ox_ir::{DType, PointOp, Scalar, Sym};

impl Builder {
    /// `value` around `x`: `low[k]` elements in front of dimension k and `high[k]` behind it; negative cuts.
    pub fn pad(&mut self, x: NodeId, low: &[Sym], high: &[Sym], value: Scalar) -> OpResult<NodeId> {
        if low.iter().chain(high).all(|n| n.is_zero()) {
            return Ok(x);
        }
        let shape: Shape = self.ty(x).shape.iter().zip(low).zip(high).map(|((s, l), h)| &(s + l) + h).collect();
        let ty = self.ty(x).with_shape(shape);
        let value = super::scalar_of(ty.dtype, value);
        self.declare(Op::Pad { low: low.iter().cloned().collect(), value }, &[x], ty)
    }

    pub fn cat(&mut self, tensors: &[NodeId], dim: usize) -> OpResult<NodeId> {
        match tensors {
            [one] => Ok(*one),
            _ => self.add(Op::Cat { dim }, tensors),
        }
    }

    /// `base` with `source` written into the slice.
    pub fn slice_scatter(&mut self, base: NodeId, source: NodeId, dims: Vec<SliceDim>) -> OpResult<NodeId> {
        let whole = self.ty(base).shape == self.ty(source).shape && dims.iter().all(|d| d.start.is_zero() && d.step == 1);
        if whole {
            return Ok(source);
        }
        self.add(Op::SliceScatter(dims), &[base, source])
    }

    /// As `slice_scatter`, into a slice of one dimension.
    pub fn slice_scatter_dim(&mut self, base: NodeId, source: NodeId, dim: usize, start: &Sym, step: i64) -> OpResult<NodeId> {
        let dims = slice_dims(self.rank(base), dim, start, step);
        self.slice_scatter(base, source, dims)
    }

    /// `indices` have one shape; `dims[k]` of `x` is indexed by the k-th.
    pub fn index(&mut self, x: NodeId, indices: &[NodeId], dims: &[usize], at: usize, bounds: Bounds) -> OpResult<NodeId> {
        let args: Vec<NodeId> = [x].iter().chain(indices).copied().collect();
        self.add(Op::Index { dims: Dims::from_slice(dims), at, bounds }, &args)
    }

    /// `values` has the shape that `index` with the same arguments would give.
    pub fn index_put(
        &mut self,
        x: NodeId,
        indices: &[NodeId],
        values: NodeId,
        (dims, at, bounds): (&[usize], usize, Bounds),
        combine: Combine,
    ) -> OpResult<NodeId> {
        let args: Vec<NodeId> = [x].iter().chain(indices).copied().chain([values]).collect();
        self.add(Op::IndexPut { dims: Dims::from_slice(dims), at, bounds, combine }, &args)
    }

    /// Reduced dimensions stay with size 1. No dimensions: the value itself.
    pub fn reduce(&mut self, op: ReduceOp, x: NodeId, dims: &[usize]) -> OpResult<NodeId> {
        if dims.is_empty() {
            return Ok(x);
        }
        let mut sorted = Dims::from_slice(dims);
        sorted.sort_unstable();
        self.add(Op::Reduce { op, dims: sorted }, &[x])
    }

    pub fn scan(&mut self, op: ReduceOp, x: NodeId, dim: usize) -> OpResult<NodeId> {
        self.add(Op::Scan { op, dim }, &[x])
    }

    /// `y[t] = decay[t] * y[t - 1] + x[t]` along `dim`, from nothing.
    pub fn recurrence(&mut self, x: NodeId, decay: NodeId, dim: usize) -> OpResult<NodeId> {
        self.add(Op::Scan { op: ReduceOp::Sum, dim }, &[x, decay])
    }

    /// The plain product of equal batch dimensions.
    pub fn matmul(&mut self, a: NodeId, b: NodeId) -> OpResult<NodeId> {
        let one = Scalar::Float(1.0);
        self.add(Op::Matmul { bias: false, add: false, alpha: one, beta: one, post: Post::None }, &[a, b])
    }

    /// `alpha * a @ b + beta * bias`.
    pub fn matmul_bias(&mut self, a: NodeId, b: NodeId, bias: NodeId, alpha: Scalar, beta: Scalar) -> OpResult<NodeId> {
        self.add(Op::Matmul { bias: true, add: false, alpha, beta, post: Post::None }, &[a, b, bias])
    }

    /// `attrs.bias` is set by whether there is one.
    pub fn conv(&mut self, x: NodeId, weight: NodeId, bias: Option<NodeId>, attrs: ConvAttrs) -> OpResult<NodeId> {
        let attrs = ConvAttrs { bias: bias.is_some(), ..attrs };
        let args: Vec<NodeId> = [x, weight].into_iter().chain(bias).collect();
        self.add(Op::Conv(Box::new(attrs)), &args)
    }

    pub fn attention(
        &mut self,
        [q, k, v]: [NodeId; 3],
        mask: Option<NodeId>,
        causal: bool,
        scale: Option<Scalar>,
    ) -> OpResult<NodeId> {
        let args: Vec<NodeId> = [q, k, v].into_iter().chain(mask).collect();
        self.add(Op::Attention(AttentionAttrs { causal, scale, mask: mask.is_some() }), &args)
    }

    /// What `as_strided` reads from memory in which `x` lies densely, its dimensions in `order` from the slowest to the fastest.
    pub fn as_strided(&mut self, x: NodeId, order: &[usize], shape: &[Sym], strides: &[Sym], offset: &Sym) -> OpResult<NodeId> {
        let ordered = self.permute(x, order)?;
        let flat = self.reshape(ordered, &[self.ty(x).numel()])?;
        let mut index = self.full(Scalar::Int(0), DType::I64, shape);
        for (dim, stride) in strides.iter().enumerate() {
            let place = self.iota(shape, dim)?;
            let step = self.binary(PointOp::Mul, place, Operand::Sym(stride.clone()))?;
            index = self.binary(PointOp::Add, index, step)?;
        }
        index = self.binary(PointOp::Add, index, Operand::Sym(offset.clone()))?;
        self.index(flat, &[index], &[0], 0, Bounds::IndexError)
    }

    /// 0, 1, 2 ... as a vector.
    pub fn counting(&mut self, len: &Sym, dtype: DType) -> OpResult<NodeId> {
        let places = self.iota(std::slice::from_ref(len), 0)?;
        Ok(self.cast(places, dtype))
    }
}
