//! Integer tensors whose elements are a linear function of their position: `start + sum of factor * i`, as `arange` and what is
//! computed from it. Gathers by such an index are slices, comparisons of them are triangular masks.

use crate::rewriter::Rewriter;
use crate::shapes::{proper_dims, same_but_units};
use ox_ir::graph::{NodeId, Op};
use ox_ir::{DType, PointOp, Sym};
use smallvec::SmallVec;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linear {
    pub start: Sym,
    /// (dimension, factor), sorted by dimension, factors not zero.
    pub along: SmallVec<[(usize, i64); 2]>,
}

/// How deep expressions are looked into.
const MAX_DEPTH: u32 = 16;

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
            Op::Full(value) => Some(Linear::constant(Sym::from(value.as_i64()))),
            Op::SymValue(value) => Some(Linear::constant(value.clone())),
            Op::Iota { dim } => Some(Linear { start: Sym::ZERO, along: SmallVec::from_iter([(*dim, 1)]) }),
            Op::Expand => of_arg(0),
            Op::Reshape => of_arg(0)?.reshaped(&graph.ty(node.args[0]).shape, &node.ty.shape),
            Op::Permute(perm) => of_arg(0)?.moved(|d| perm.iter().position(|p| *p == d)),
            Op::Point(PointOp::Neg) => Some(of_arg(0)?.times(-1)),
            Op::Point(PointOp::Add) => Some(of_arg(0)?.plus(&of_arg(1)?, 1)),
            Op::Point(PointOp::Sub) => Some(of_arg(0)?.plus(&of_arg(1)?, -1)),
            Op::Point(PointOp::Mul) => {
                let factor = of_arg(1)?;
                let factor = factor.start.as_const().filter(|_| factor.along.is_empty())?;
                Some(of_arg(0)?.times(factor))
            }
            _ => None,
        }
    }

    pub fn times(mut self, factor: i64) -> Linear {
        self.along.iter_mut().for_each(|(_, f)| *f *= factor);
        self.along.retain(|(_, f)| *f != 0);
        Linear { start: &self.start * factor, along: self.along }
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
