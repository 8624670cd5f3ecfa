//! Pads, joins, gathers and scatters: what was put somewhere is taken from there, and the other way round.

use super::pick::Pick;
use super::{Gradients, Site, zeros, zeros_like};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use ox_ir::graph::{Bounds, Combine, NodeId, ReduceOp, Shape, SliceDim};
use ox_ir::{Scalar, Sym};

type At<'a> = (&'a [usize], usize, Bounds);

pub fn pad(b: &mut Builder, site: &Site<'_>, low: &[Sym]) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let (small, large) = (b.shape(site.arg(0)), b.shape(grad));
    let front: Shape = low.iter().map(|n| -n).collect();
    let back: Shape = (0..low.len()).map(|d| &(&small[d] - &large[d]) + &low[d]).collect();
    site.only(b.pad(grad, &front, &back, Scalar::Float(0.0)))
}

pub fn cat(b: &mut Builder, site: &Site<'_>, dim: usize) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let sizes: Vec<Sym> = site.node.args.iter().map(|arg| b.ty(*arg).shape[dim].clone()).collect();
    site.each(|n| {
        let start: Sym = sizes[..n].iter().sum();
        Ok(Some(b.slice_dim(grad, dim, &start, &sizes[n], 1)?))
    })
}

pub fn slice_scatter(b: &mut Builder, site: &Site<'_>, dims: &[SliceDim]) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let source = b.shape(site.arg(1));
    site.each(|n| match n {
        0 => {
            let hidden = zeros(b, grad, &source);
            Ok(Some(b.slice_scatter(grad, hidden, dims.to_vec())?))
        }
        _ => Ok(Some(b.slice(grad, dims.to_vec(), &source)?)),
    })
}

/// Elements that are read several times sum their gradients.
pub fn index(b: &mut Builder, site: &Site<'_>, at: At<'_>) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let indices = &site.node.args[1..];
    site.each(|n| {
        if n > 0 {
            return Ok(None);
        }
        if let Some(pick) = Pick::of(b, site, at.0) {
            return pick.spread(b, grad, site.arg(0), at.2).map(Some);
        }
        let base = zeros_like(b, site.arg(0));
        Ok(Some(b.index_put(base, indices, grad, at, Combine::With(ReduceOp::Sum))?))
    })
}

pub fn index_put(b: &mut Builder, site: &Site<'_>, at: At<'_>, combine: Combine) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let put = Put { indices: &site.node.args[1..site.node.args.len() - 1], at };
    let (x, values) = (site.arg(0), site.arg(site.node.args.len() - 1));
    match combine {
        Combine::Set => site.each(|n| match n {
            0 => {
                let hidden = zeros_like(b, values);
                Ok(Some(b.index_put(grad, put.indices, hidden, at, Combine::Set)?))
            }
            _ => Ok(Some(put.read(b, grad)?)),
        }),
        Combine::With(ReduceOp::Sum) => site.each(|n| if n == 0 { Ok(Some(grad)) } else { Ok(Some(put.read(b, grad)?)) }),
        Combine::With(ReduceOp::Max | ReduceOp::Min) => put.extremum(b, site, grad, x, values),
        Combine::With(ReduceOp::Prod) => put.product(b, site, grad, x, values),
        Combine::With(op) => Err(OpError::unsupported(format!("a scatter with {} has no derivative", op.name()))),
    }
}

struct Put<'a> {
    indices: &'a [NodeId],
    at: At<'a>,
}

impl Put<'_> {
    fn read(&self, b: &mut Builder, from: NodeId) -> OpResult<NodeId> {
        b.index(from, self.indices, self.at.0, self.at.1, self.at.2)
    }

    fn write(&self, b: &mut Builder, x: NodeId, values: NodeId, op: ReduceOp) -> OpResult<NodeId> {
        b.index_put(x, self.indices, values, self.at, Combine::With(op))
    }

    /// All that equal the result share its gradient.
    fn extremum(&self, b: &mut Builder, site: &Site<'_>, grad: NodeId, x: NodeId, values: NodeId) -> OpResult<Gradients> {
        let read = self.read(b, site.result)?;
        let kept = Expr::Node(x).eq(site.result).pick(1.0, 0.0).build(b)?;
        let taken = Expr::Node(values).eq(read).pick(1.0, 0.0).build(b)?;
        let (kept, taken) = (b.cast(kept, b.dtype(x)), b.cast(taken, b.dtype(x)));
        let ties = self.write(b, kept, taken, ReduceOp::Sum)?;
        let share = (Expr::Node(grad) / ties).build(b)?;
        site.each(|n| match n {
            0 => Ok(Some((Expr::Node(kept) * share).build(b)?)),
            _ => {
                let share = self.read(b, share)?;
                Ok(Some((Expr::Node(taken) * share).build(b)?))
            }
        })
    }

    /// The product of the others: divided by where that can be, with the single zero left out where it cannot.
    fn product(&self, b: &mut Builder, site: &Site<'_>, grad: NodeId, x: NodeId, values: NodeId) -> OpResult<Gradients> {
        let dtype = b.dtype(x);
        site.each(|n| match n {
            0 => {
                let whole = Expr::Node(x).eq(0.0).pick(1.0, x).build(b)?;
                let others = self.write(b, whole, values, ReduceOp::Prod)?;
                Ok(Some((Expr::Node(grad) * others / whole).build(b)?))
            }
            _ => {
                let zero = Expr::Node(values).eq(0.0).build(b)?;
                let count = b.cast(zero, dtype);
                let base = zeros_like(b, x);
                let zeros = self.write(b, base, count, ReduceOp::Sum)?;
                let zeros = self.read(b, zeros)?;
                let single = Expr::Node(zero).and(Expr::Node(zeros).eq(1.0)).build(b)?;
                let without = Expr::Node(single).pick(1.0, values).build(b)?;
                let others = self.write(b, x, without, ReduceOp::Prod)?;
                let exact = (Expr::Node(grad) * others).build(b)?;
                let usual = (Expr::Node(grad) * site.result).build(b)?;
                let (exact, usual) = (self.read(b, exact)?, self.read(b, usual)?);
                let divisor = Expr::Node(zero).pick(1.0, values);
                Ok(Some(Expr::Node(single).pick(exact, Expr::Node(usual) / divisor).build(b)?))
            }
        })
    }
}
