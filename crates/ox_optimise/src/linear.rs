//! Integer tensors whose elements are a linear function of their position: `start + sum of factor * i`, as `arange` and what is
//! computed from it. Gathers by such an index are slices, comparisons of them are triangular masks.

use crate::rewriter::Rewriter;
use crate::shapes::{proper_dims, same_but_units};
use ox_ir::graph::{NodeId, Op, SliceDim};
use ox_ir::{DType, PointOp, Scalar, Sym, TensorType};
use smallvec::SmallVec;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linear {
    pub start: Sym,
    /// (dimension, factor), sorted by dimension, factors not zero.
    pub along: SmallVec<[(usize, i64); 2]>,
}

/// How deep expressions are looked into.
const MAX_DEPTH: u32 = 16;
/// Constants beyond this are left alone, so that nothing here comes near to wrapping.
const MAX_CONSTANT: i64 = 1 << 40;

impl Linear {
    pub fn of(graph: &Rewriter, id: NodeId) -> Option<Linear> {
        Linear::to_depth(graph, id, MAX_DEPTH)
    }

    pub fn constant(start: Sym) -> Linear {
        Linear { start, along: SmallVec::new() }
    }

    fn to_depth(graph: &Rewriter, id: NodeId, depth: u32) -> Option<Linear> {
        let node = graph.node(id);
        let depth = depth.checked_sub(1)?;
        let of_arg = |n: usize| Linear::to_depth(graph, node.args[n], depth);
        if node.ty.dtype != DType::I64 {
            return None;
        }
        match &node.op {
            Op::Full(value) if value.as_i64().unsigned_abs() <= MAX_CONSTANT as u64 => {
                Some(Linear::constant(Sym::from(value.as_i64())))
            }
            Op::SymValue(value) => Some(Linear::constant(value.clone())),
            Op::Iota { dim } => Some(Linear { start: Sym::ZERO, along: SmallVec::from_iter([(*dim, 1)]) }),
            Op::Expand => of_arg(0),
            Op::Reshape => of_arg(0)?.reshaped(&graph.ty(node.args[0]).shape, &node.ty.shape),
            Op::Permute(perm) => of_arg(0)?.moved(|d| perm.iter().position(|p| *p == d)),
            Op::Point(PointOp::Neg) => of_arg(0)?.times(-1),
            Op::Point(PointOp::Add) => Some(of_arg(0)?.plus(&of_arg(1)?, 1)),
            Op::Point(PointOp::Sub) => Some(of_arg(0)?.plus(&of_arg(1)?, -1)),
            Op::Point(PointOp::Mul) => {
                let factor = of_arg(1)?;
                let factor = factor.start.as_const().filter(|_| factor.along.is_empty())?;
                of_arg(0)?.times(factor)
            }
            _ => None,
        }
    }

    /// None where the numbers grow too large.
    pub fn times(self, factor: i64) -> Option<Linear> {
        let small = |f: i64| f.checked_mul(factor).filter(|f| f.abs() <= MAX_CONSTANT);
        let scaled: Option<SmallVec<[(usize, i64); 2]>> = self.along.iter().map(|(d, f)| Some((*d, small(*f)?))).collect();
        let mut along = scaled?;
        along.retain(|(_, f)| *f != 0);
        small(self.start.constant())?;
        Some(Linear { start: &self.start * factor, along })
    }

    /// The least and the greatest value over a shape.
    pub fn range(&self, shape: &[Sym]) -> (Sym, Sym) {
        let (mut low, mut high) = (self.start.clone(), self.start.clone());
        for (dim, factor) in &self.along {
            let reach = &(&shape[*dim] - 1) * *factor;
            if *factor > 0 { high = &high + &reach } else { low = &low + &reach }
        }
        (low, high)
    }

    /// The part that a slice reads.
    pub fn sliced(&self, cuts: &[SliceDim]) -> Linear {
        let start = self.along.iter().fold(self.start.clone(), |sum, (d, f)| &sum + &(&cuts[*d].start * *f));
        Linear { start, along: self.along.iter().map(|(d, f)| (*d, f * cuts[*d].step)).collect() }
    }

    /// The tensor of type `ty` that holds this; None if its start is not a constant.
    pub fn emit(&self, graph: &mut Rewriter, ty: &TensorType) -> Option<NodeId> {
        let start = Scalar::Int(self.start.as_const()?);
        let mut sum = graph.full(start, ty.clone());
        for (dim, factor) in &self.along {
            let places = graph.make(Op::Iota { dim: *dim }, [], ty.clone());
            let factor = graph.full(Scalar::Int(*factor), ty.clone());
            let scaled = graph.point(PointOp::Mul, &[places, factor]);
            sum = graph.point(PointOp::Add, &[scaled, sum]);
        }
        Some(sum)
    }

    /// `self + factor * other`.
    pub fn plus(mut self, other: &Linear, factor: i64) -> Linear {
        for (dim, f) in &other.along {
            match self.along.iter_mut().find(|(d, _)| d == dim) {
                Some((_, sum)) => *sum += f * factor,
                None => self.along.push((*dim, f * factor)),
            }
        }
        self.along.retain(|(_, f)| *f != 0);
        self.along.sort_unstable();
        Linear { start: &self.start + &(&other.start * factor), along: self.along }
    }

    /// The same under other dimensions; None if one is lost.
    fn moved(self, to: impl Fn(usize) -> Option<usize>) -> Option<Linear> {
        let along: Option<SmallVec<_>> = self.along.iter().map(|(d, f)| Some((to(*d)?, *f))).collect();
        let mut along: SmallVec<[(usize, i64); 2]> = along?;
        along.sort_unstable();
        Some(Linear { start: self.start, along })
    }

    /// Only sizes 1 may come and go.
    fn reshaped(self, from: &[Sym], to: &[Sym]) -> Option<Linear> {
        if self.along.is_empty() {
            return Some(self);
        }
        let place = |d: usize| proper_dims(from).position(|p| p == d).and_then(|nth| proper_dims(to).nth(nth));
        same_but_units(from, to).then(|| self.moved(place))?
    }
}
