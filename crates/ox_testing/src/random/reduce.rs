//! Reductions and scans.

use super::build::{Gen, Meta};
use ox_ir::graph::{Dims, NodeId, Op, ReduceOp, Shape, TensorType};
use ox_ir::{DType, PointOp, Sym};

impl Gen<'_> {
    pub fn reduction(&mut self) -> Option<NodeId> {
        let x = self.any_where(|g, id| g.graph.ty(id).rank() > 0)?;
        let (ty, meta) = (self.graph.ty(x).clone(), self.meta[x.index()]);
        let op = *self.rng.pick(&ReduceOp::ALL);
        let logic = matches!(op, ReduceOp::Any | ReduceOp::All);
        let sums = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        if logic != (ty.dtype == DType::Bool) || (op.is_arg() && meta.fuzzy) || (sums && ty.dtype.size() < 4) {
            return None;
        }
        // A product of many fuzzy factors, or a sum to which infinities add up to NaN, is of no use.
        if ty.dtype.is_float() && sums && !meta.bound.is_finite() {
            return None;
        }
        let scans = !logic && !op.is_arg();
        if scans && self.rng.percent(25) {
            let dim = self.rng.below(ty.rank());
            if op == ReduceOp::Sum && ty.dtype.is_float() && self.rng.percent(40) {
                return self.recurrence(x, dim);
            }
            return self.push(Op::Scan { op, dim }, &[x], ty.clone(), self.reduced_meta(op, ty.dtype, meta));
        }
        let mut dims: Dims = (0..ty.rank()).collect();
        self.rng.shuffle(&mut dims);
        dims.truncate(if op.is_arg() { 1 } else { 1 + self.rng.below(ty.rank()) });
        dims.sort_unstable();
        let needs_elements = op.is_arg() || matches!(op, ReduceOp::Max | ReduceOp::Min);
        if needs_elements && dims.iter().any(|d| !ty.shape[*d].is_positive()) {
            return None;
        }
        let shape: Shape = (0..ty.rank()).map(|d| if dims.contains(&d) { Sym::ONE } else { ty.shape[d].clone() }).collect();
        let dtype = if op.is_arg() { DType::I64 } else { ty.dtype };
        self.push(Op::Reduce { op, dims }, &[x], TensorType::new(dtype, shape), self.reduced_meta(op, ty.dtype, meta))
    }

    /// By decays between -1 and 1, so that states stay bounded.
    fn recurrence(&mut self, x: NodeId, dim: usize) -> Option<NodeId> {
        let (ty, meta) = (self.graph.ty(x).clone(), self.meta[x.index()]);
        let raw = self.any_where(|g, id| *g.graph.ty(id) == ty && g.meta[id.index()].bound.is_finite())?;
        let decay = self.push(Op::Point(PointOp::Sin), &[raw], ty.clone(), Meta { fuzzy: true, bound: 1.0 })?;
        let meta = Meta { fuzzy: true, bound: meta.bound * self.most() as f64 };
        self.push(Op::Scan { op: ReduceOp::Sum, dim }, &[x, decay], ty, meta)
    }

    fn reduced_meta(&self, op: ReduceOp, dtype: DType, meta: Meta) -> Meta {
        let most = self.most() as f64;
        match op {
            ReduceOp::Max | ReduceOp::Min | ReduceOp::Any | ReduceOp::All => meta,
            ReduceOp::ArgMax | ReduceOp::ArgMin => Meta { fuzzy: false, bound: most },
            ReduceOp::Sum => Meta { fuzzy: dtype.is_float(), bound: meta.bound * most },
            ReduceOp::Prod => Meta { fuzzy: dtype.is_float(), bound: f64::INFINITY },
        }
    }
}
