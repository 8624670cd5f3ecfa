//! Products of vectors, how rows of numbers vary together, and rows that are made shorter.

use super::compare::clamp;
use super::matmul::product;
use super::moments::norm_over;
use super::shared::{centred, real, require_float, size_operand};
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::decide::{are_different, undecided};
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{DType, PointOp, Sym};

pub const ROWS: &[Surface] = &[
    // Without `dim` it is the first dimension of the first tensor, as that is, that has three elements.
    fresh(&["cross"], "input, other, dim=None", |b, a| {
        let pair = pair(b, a)?;
        match a.has("dim") {
            true => cross(b, pair, a.dim("dim", b.rank(pair[0]))?),
            false => {
                let dim = first_of_three(&b.shape(pair[0]))?;
                cross(b, pair, dim)
            }
        }
    }),
    fresh(&["linalg.cross"], "input, other, *, dim=-1", |b, a| {
        let pair = pair(b, a)?;
        cross(b, pair, a.dim("dim", b.rank(pair[0]))?)
    }),
    fresh(&["cov"], "input, *, correction=1, fweights=None, aweights=None", |b, a| Ok(covariance(b, a)?.into())),
    fresh(&["corrcoef"], "input", correlation),
    fresh(&["renorm"], "input, p, dim, maxnorm", renorm),
];

fn pair(b: &mut Builder, a: &Bound) -> OpResult<[NodeId; 2]> {
    let (x, y) = (real(b, a, "input")?, real(b, a, "other")?);
    if b.rank(x) != b.rank(y) || b.dtype(x) != b.dtype(y) || b.dtype(x) == DType::Bool {
        return Err(OpError::unsupported("the cross product of tensors of two kinds, or of bools"));
    }
    Ok([x, y])
}

/// Whether a size is 3. One that is not known must be told, if it was when the program ran.
fn is_three(size: &Sym) -> OpResult<bool> {
    let three = Sym::from(3i64);
    match size.as_const() {
        Some(known) => Ok(known == 3),
        None if are_different(size, &three) => Ok(false),
        None => Err(undecided(size, &three, "the cross product along a dimension of unknown size")),
    }
}

fn first_of_three(shape: &[Sym]) -> OpResult<usize> {
    for (dim, size) in shape.iter().enumerate() {
        if is_three(size)? {
            return Ok(dim);
        }
    }
    Err(OpError::unsupported("the cross product of tensors without a dimension of size 3"))
}

/// Both have three elements along `dim`; in the others they are broadcast.
fn cross(b: &mut Builder, pair: [NodeId; 2], dim: usize) -> OpResult<Value> {
    for side in pair {
        if !is_three(b.shape(side).get(dim).unwrap_or(&Sym::ONE))? {
            return Err(OpError::unsupported("the cross product along a dimension that is not of size 3"));
        }
    }
    let pair = b.broadcast(&pair)?;
    let mut rows = Vec::with_capacity(3);
    for k in 0..3i64 {
        let (next, after) = (Sym::from((k + 1) % 3), Sym::from((k + 2) % 3));
        let mut term = |first: &Sym, second: &Sym| {
            let x = b.slice_dim(pair[0], dim, first, &Sym::ONE, 1)?;
            let y = b.slice_dim(pair[1], dim, second, &Sym::ONE, 1)?;
            b.point(PointOp::Mul, &[x, y])
        };
        let (plus, minus) = (term(&next, &after)?, term(&after, &next)?);
        rows.push(b.point(PointOp::Sub, &[plus, minus])?);
    }
    Ok(b.cat(&rows, dim)?.into())
}

/// Rows are variables, columns are observations.
fn covariance(b: &mut Builder, a: &Bound) -> OpResult<NodeId> {
    let x = real(b, a, "input")?;
    let weighted = a.knows("fweights") && (a.has("fweights") || a.has("aweights"));
    if weighted || !(1..=2).contains(&b.rank(x)) || !b.dtype(x).is_float() || b.dtype(x) != b.dtype(x).compute() {
        return Err(OpError::unsupported("covariances of such a tensor"));
    }
    let x = if b.rank(x) == 1 { b.unsqueeze(x, 0)? } else { x };
    let shape = b.shape(x);
    let correction = if a.knows("correction") { a.const_int("correction")? } else { 1 };
    let free = (&shape[1] - correction).greater(&Sym::ZERO);
    let (gaps, _) = centred(b, x, &[1])?;
    let turned = b.transpose(gaps, 0, 1)?;
    let products = product(b, gaps, turned)?;
    let value = b.binary(PointOp::Div, products, size_operand(&free))?;
    if shape[0].is_one() { b.reshape(value, &[]) } else { Ok(value) }
}

fn correlation(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let c = covariance(b, a)?;
    if b.rank(c) == 0 {
        return Ok(b.binary(PointOp::Div, c, c)?.into());
    }
    let line = b.diagonal(c, 0, 0, 1)?;
    let spread = b.unary(PointOp::Sqrt, line)?;
    let column = b.unsqueeze(spread, 1)?;
    let c = b.binary(PointOp::Div, c, column)?;
    let c = b.binary(PointOp::Div, c, spread)?;
    clamp(b, c, Some((-1.0).into()), Some(1.0.into()))
}

/// Every slice along `dim` whose norm is above `maxnorm` is brought to it.
fn renorm(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = real(b, a, "input")?;
    require_float(b, x, "renorm")?;
    let (p, most) = (a.float("p")?, a.float("maxnorm")?);
    if b.rank(x) < 2 || b.dtype(x) != b.dtype(x).compute() || p <= 0.0 || most < 0.0 {
        return Err(OpError::unsupported("renorm of such a tensor"));
    }
    let dim = a.dim("dim", b.rank(x))?;
    let dims: Vec<usize> = (0..b.rank(x)).filter(|d| *d != dim).collect();
    let norm = norm_over(b, x, p, &dims)?;
    let above = b.binary(PointOp::Gt, norm, most)?;
    let factor = shrinking(b, norm, most)?;
    let factor = b.choose(above, factor, 1.0)?;
    let value = b.binary(PointOp::Mul, x, factor)?;
    let path = renorm_path(b, x, above, p, most, &dims)?;
    Ok(b.graft(value, path)?.into())
}

fn shrinking(b: &mut Builder, norm: NodeId, most: f64) -> OpResult<NodeId> {
    let raised = b.binary(PointOp::Add, norm, 1e-7)?;
    b.binary(PointOp::Div, most, raised)
}

/// Gradients of slices that stay as they are pass, whatever their norms are.
fn renorm_path(b: &mut Builder, x: NodeId, above: NodeId, p: f64, most: f64, dims: &[usize]) -> OpResult<NodeId> {
    let long = b.choose(above, x, 1.0)?;
    let norm = norm_over(b, long, p, dims)?;
    let factor = shrinking(b, norm, most)?;
    let shrunk = b.binary(PointOp::Mul, long, factor)?;
    b.choose(above, shrunk, x)
}
