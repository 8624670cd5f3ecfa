//! Views: a gradient goes back to where its element came from; what was repeated is summed.

use super::{Gradients, Site, sum, zeros};
use crate::builder::Builder;
use crate::error::OpResult;
use crate::functional::inverse;
use ox_ir::graph::{Dims, NodeId, Op, Shape, SliceDim};
use ox_ir::{PointOp, Scalar, Sym};

pub fn view(b: &mut Builder, site: &Site<'_>) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let shape = b.shape(site.arg(0));
    site.only(match &site.node.op {
        Op::Reshape => b.reshape(grad, &shape),
        Op::Permute(perm) => b.permute(grad, &inverse(perm)),
        Op::Expand => sum_repeated(b, grad, &shape),
        Op::Slice(dims) => unslice(b, grad, dims, &shape),
        Op::Diagonal { offset, dim1, dim2 } => undiagonal(b, grad, (*offset, *dim1, *dim2), &shape),
        _ => unreachable!("a derivative of views"),
    })
}

/// The sum over the dimensions that have size 1 in `shape`.
fn sum_repeated(b: &mut Builder, grad: NodeId, shape: &[Sym]) -> OpResult<NodeId> {
    let large = b.shape(grad);
    let dims: Dims = (0..shape.len()).filter(|d| shape[*d].is_one() && !large[*d].is_one()).collect();
    if dims.is_empty() { Ok(grad) } else { sum(b, grad, &dims) }
}

/// Zeros of `shape` with `grad` in the slice.
pub fn unslice(b: &mut Builder, grad: NodeId, dims: &[SliceDim], shape: &[Sym]) -> OpResult<NodeId> {
    if dims.iter().all(|d| d.step == 1) {
        let len = b.shape(grad);
        let low: Shape = dims.iter().map(|d| d.start.clone()).collect();
        let high: Shape = (0..shape.len()).map(|d| &(&shape[d] - &len[d]) - &low[d]).collect();
        return b.pad(grad, &low, &high, Scalar::Float(0.0));
    }
    let base = zeros(b, grad, shape);
    b.slice_scatter(base, grad, dims.to_vec())
}

/// Zeros but for the diagonal.
fn undiagonal(b: &mut Builder, grad: NodeId, (offset, dim1, dim2): (i64, usize, usize), shape: &[Sym]) -> OpResult<NodeId> {
    let outer: Dims = (0..shape.len()).filter(|d| *d != dim1 && *d != dim2).collect();
    let last = outer.len();
    // The k-th element lies in row k + above.
    let above = Sym::from((-offset).max(0));
    let below = &(&shape[dim1] - &above) - &b.shape(grad)[last];
    let edges = |at: Sym| (0..=last).map(move |d| if d == last { at.clone() } else { Sym::ZERO });
    let (low, high): (Shape, Shape) = (edges(above).collect(), edges(below).collect());
    let rows = b.pad(grad, &low, &high, Scalar::Float(0.0))?;
    let rows = b.unsqueeze(rows, last + 1)?;
    let full: Shape = outer.iter().chain([&dim1, &dim2]).map(|d| shape[*d].clone()).collect();
    let rows = b.expand(rows, &full)?;
    let (row, column) = (b.iota(&full, last)?, b.iota(&full, last + 1)?);
    let row = b.binary(PointOp::Add, row, offset)?;
    let on = b.point(PointOp::Eq, &[row, column])?;
    let square = b.choose(on, rows, 0.0)?;
    let order: Dims = outer.into_iter().chain([dim1, dim2]).collect();
    b.permute(square, &inverse(&order))
}
