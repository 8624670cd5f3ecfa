//! Sliding windows: an element that several windows show gets the sum of their gradients.

use super::{Gradients, Site, zeros};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use ox_ir::graph::{Bounds, Combine, NodeId, ReduceOp, Shape, SliceDim};
use ox_ir::{PointOp, Scalar, Sym};

/// More places in a window than this are added one by one in memory, not all in one expression.
const MOST_SUMMED: i64 = 16;

pub fn unfold(b: &mut Builder, site: &Site<'_>, dim: usize, step: i64, dilation: i64) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let window = b.shape(grad).last().and_then(|size| size.as_const());
    let shape = b.shape(site.arg(0));
    let slide = Slide { dim, step, dilation };
    site.only(match window {
        Some(size) if size <= MOST_SUMMED => slide.gather(b, grad, size, &shape),
        _ => slide.scatter(b, grad, &shape),
    })
}

struct Slide {
    dim: usize,
    step: i64,
    dilation: i64,
}

impl Slide {
    /// Each element asks the windows that show it: the sum over the places in a window.
    fn gather(&self, b: &mut Builder, grad: NodeId, size: i64, shape: &[Sym]) -> OpResult<NodeId> {
        let wide = b.cast(grad, b.dtype(grad).compute());
        let mut total: Option<NodeId> = None;
        for place in 0..size {
            let part = self.one_place(b, wide, place, shape)?;
            total = Some(match total {
                None => part,
                Some(total) => b.point(PointOp::Add, &[total, part])?,
            });
        }
        let total = total.ok_or_else(|| OpError::unsupported("windows of no elements"))?;
        Ok(b.cast(total, b.dtype(grad)))
    }

    /// What the element at `place` of every window gives: element `n * step + place * dilation` gets that of window n.
    fn one_place(&self, b: &mut Builder, grad: NodeId, place: i64, shape: &[Sym]) -> OpResult<NodeId> {
        let last = b.rank(grad) - 1;
        let part = b.select(grad, last, &Sym::from(place))?;
        let count = b.shape(part)[self.dim].clone();
        let start = Sym::from(place * self.dilation);
        if self.step == 1 {
            let behind = &(&shape[self.dim] - &count) - &start;
            return self.pad_one(b, part, start, behind);
        }
        let mut dims = vec![SliceDim { start: Sym::ZERO, step: 1 }; shape.len()];
        dims[self.dim] = SliceDim { start, step: self.step };
        let base = zeros(b, part, shape);
        b.slice_scatter(base, part, dims)
    }

    fn pad_one(&self, b: &mut Builder, x: NodeId, low: Sym, high: Sym) -> OpResult<NodeId> {
        let edges = |at: Sym| (0..b.rank(x)).map(|d| if d == self.dim { at.clone() } else { Sym::ZERO }).collect::<Shape>();
        let (low, high) = (edges(low), edges(high));
        b.pad(x, &low, &high, Scalar::Float(0.0))
    }

    /// Each window adds to the elements that it shows.
    fn scatter(&self, b: &mut Builder, grad: NodeId, shape: &[Sym]) -> OpResult<NodeId> {
        let from = b.shape(grad);
        let last = from.len() - 1;
        let pair = [from[self.dim].clone(), from[last].clone()];
        let (window, place) = (b.iota(&pair, 0)?, b.iota(&pair, 1)?);
        let window = b.binary(PointOp::Mul, window, self.step)?;
        let place = b.binary(PointOp::Mul, place, self.dilation)?;
        let position = b.point(PointOp::Add, &[window, place])?;
        // The window's places stand behind the windows, where an index of `dim` puts its shape.
        let order: Vec<usize> = (0..=self.dim).chain([last]).chain(self.dim + 1..last).collect();
        let grad = b.permute(grad, &order)?;
        let base = zeros(b, grad, shape);
        let at = (&[self.dim][..], self.dim, Bounds::IndexError);
        b.index_put(base, &[position], grad, at, Combine::With(ReduceOp::Sum))
    }
}
