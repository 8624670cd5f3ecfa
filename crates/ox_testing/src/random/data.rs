//! Joining, padding, and access by indices that are data.

use super::build::{Gen, Meta};
use ox_ir::graph::{Bounds, Combine, Dims, NodeId, Op, ReduceOp, Shape, SliceDim, TensorType};
use ox_ir::{DType, PointOp, Scalar, Sym};

impl Gen<'_> {
    pub fn reshuffle(&mut self) -> Option<NodeId> {
        match self.rng.below(4) {
            0 => self.pad(),
            1 => self.slice_scatter(),
            _ => self.cat(),
        }
    }

    fn pad(&mut self) -> Option<NodeId> {
        let x = self.any();
        let ty = self.graph.ty(x).clone();
        let (mut low, mut shape) = (Shape::new(), Shape::new());
        for n in &ty.shape {
            let least = if (n - 1).is_nonneg() { -1 } else { 0 };
            let before = self.rng.int(least, 2);
            let after = self.rng.int(0, 2);
            low.push(Sym::from(before));
            shape.push(n + (before + after));
        }
        let value = if ty.dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(self.rng.int(0, 2)) };
        let meta = self.meta[x.index()];
        self.push(Op::Pad { low, value }, &[x], ty.with_shape(shape), Meta { bound: meta.bound.max(2.0), ..meta })
    }

    fn cat(&mut self) -> Option<NodeId> {
        let x = self.any_where(|g, id| g.graph.ty(id).rank() > 0)?;
        let ty = self.graph.ty(x).clone();
        let dim = self.rng.below(ty.rank());
        let mut parts = vec![x];
        let mut total = ty.shape[dim].clone();
        for _ in 0..1 + self.rng.below(2) {
            let mut shape = ty.shape.clone();
            if self.rng.percent(40) {
                shape[dim] = self.size();
            }
            let part = self.operand(ty.dtype, &shape)?;
            total = &total + &shape[dim];
            parts.push(part);
        }
        self.rng.shuffle(&mut parts);
        let mut shape = ty.shape;
        shape[dim] = total;
        self.rearrange(Op::Cat { dim }, &parts, shape)
    }

    fn slice_scatter(&mut self) -> Option<NodeId> {
        let x = self.any();
        let ty = self.graph.ty(x).clone();
        let parts: Vec<(SliceDim, Sym)> = ty.shape.iter().map(|n| self.slice_dim(n)).collect();
        let (at, shape): (Vec<SliceDim>, Shape) = parts.into_iter().unzip();
        let source = self.operand(ty.dtype, &shape)?;
        self.rearrange(Op::SliceScatter(at), &[x, source], ty.shape)
    }

    pub fn indexed(&mut self) -> Option<NodeId> {
        let x = self.any_where(|g, id| g.graph.ty(id).shape.iter().any(|n| n.is_positive()))?;
        let ty = self.graph.ty(x).clone();
        let mut dims: Dims = (0..ty.rank()).filter(|d| ty.shape[*d].is_positive()).collect();
        self.rng.shuffle(&mut dims);
        dims.truncate(1 + self.rng.below(2));
        dims.sort_unstable();
        let rank = self.rng.below(3);
        let shape: Shape = (0..rank).map(|_| self.size()).collect();
        let bounds = *self.rng.pick(&[Bounds::Wrap, Bounds::IndexError, Bounds::RuntimeError]);
        let mut args = vec![x];
        for d in dims.clone() {
            args.push(self.index(&ty.shape[d], &shape, bounds)?);
        }
        let mut result: Shape = (0..ty.rank()).filter(|d| !dims.contains(d)).map(|d| ty.shape[d].clone()).collect();
        let at = self.rng.below(result.len() + 1);
        result.insert_many(at, shape);
        if self.rng.percent(60) {
            return self.rearrange_first(Op::Index { dims, at, bounds }, &args, result);
        }
        args.push(self.operand(ty.dtype, &result)?);
        let (combine, grows) = self.combine(ty.dtype);
        let worst = self.meta_of(&[x, args[args.len() - 1]]);
        let sums = ty.dtype.is_float() && grows;
        let meta = Meta { fuzzy: worst.fuzzy || sums, bound: if grows { f64::INFINITY } else { worst.bound } };
        self.push(Op::IndexPut { dims, at, bounds, combine }, &args, ty, meta)
    }

    /// What is written, and whether it becomes larger than what was there.
    fn combine(&mut self, dtype: DType) -> (Combine, bool) {
        match self.rng.below(4) {
            0 => (Combine::With(ReduceOp::Max), false),
            1 | 2 if dtype != DType::Bool && dtype.size() >= 4 => (Combine::With(ReduceOp::Sum), true),
            _ => (Combine::Set, false),
        }
    }

    /// Elements of the first argument alone.
    fn rearrange_first(&mut self, op: Op, args: &[NodeId], shape: Shape) -> Option<NodeId> {
        let (ty, meta) = (self.graph.ty(args[0]).with_shape(shape), self.meta[args[0].index()]);
        self.push(op, args, ty, meta)
    }

    /// Indices into a dimension of `extent` elements: the remainder of some integers, sometimes counted from the end.
    fn index(&mut self, extent: &Sym, shape: &Shape, bounds: Bounds) -> Option<NodeId> {
        let raw = self.operand(DType::I64, shape)?;
        let ty = TensorType::new(DType::I64, shape.clone());
        let meta = Meta { fuzzy: false, bound: self.most() as f64 };
        let scalar = self.push(Op::SymValue(extent.clone()), &[], TensorType::new(DType::I64, []), meta)?;
        let extent = self.conform(scalar, shape)?;
        let index = self.push(Op::Point(PointOp::Remainder), &[raw, extent], ty.clone(), meta)?;
        if bounds != Bounds::Wrap || self.rng.percent(50) {
            return Some(index);
        }
        self.push(Op::Point(PointOp::Sub), &[index, extent], ty, meta)
    }
}
