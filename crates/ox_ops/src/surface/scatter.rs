//! Writing by index tensors, as functions: each gives the new value of its first argument.

use super::gather::{Along, along, at_least_1d, check_index, gather};
use super::shared::wide;
use super::view::{select, slice};
use super::{Bound, Operand, Surface, fresh, slope};
use crate::builder::Builder;
use crate::decide::exceeds;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::functional::{chain_between, write_through};
use crate::infer::same_shape;
use crate::value::Value;
use ox_ir::graph::{Bounds, Combine, NodeId, ReduceOp, Shape};
use ox_ir::{DType, Device, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["scatter"], "input, dim, index, src=None, *, value=None, reduce=None", scatter_row),
    fresh(&["scatter_add"], "input, dim, index, src", |b, a| {
        let (x, dim, index) = place(b, a)?;
        let value = scatter(b, x, dim, index, a.operand("src")?, Combine::With(ReduceOp::Sum))?;
        back(b, a, value)
    }),
    fresh(&["scatter_reduce"], "input, dim, index, src, reduce, *, include_self=True", scatter_reduce),
    fresh(&["index_add"], "input, dim, index, source, *, alpha=1", index_add),
    fresh(&["index_copy"], "input, dim, index, source", index_copy),
    fresh(&["index_fill"], "input, dim, index, value", index_fill),
    fresh(&["select_scatter"], "input, src, dim, index", |b, a| {
        let x = a.tensor("input")?;
        let dim = a.dim("dim", b.rank(x))?;
        let seen = select(b, x, dim, &a.int("index")?)?;
        into_view(b, x, seen, a.tensor("src")?)
    }),
    fresh(&["slice_scatter"], "input, src, dim=0, start=None, end=None, step=1", |b, a| {
        let x = a.tensor("input")?;
        let dim = a.dim("dim", b.rank(x))?;
        let seen = slice(b, x, dim, a.opt_int("start")?, a.opt_int("end")?, &a.int("step")?)?;
        into_view(b, x, seen, a.tensor("src")?)
    }),
    fresh(&["diagonal_scatter"], "input, src, offset=0, dim1=0, dim2=1", |b, a| {
        let x = a.tensor("input")?;
        let (dim1, dim2) = (a.dim("dim1", b.rank(x))?, a.dim("dim2", b.rank(x))?);
        let seen = b.diagonal(x, a.const_int("offset")?, dim1, dim2)?;
        into_view(b, x, seen, a.tensor("src")?)
    }),
    fresh(&["masked_scatter"], "input, mask, source", masked_scatter),
    fresh(&["fill_diagonal"], "input, value, wrap=False", fill_diagonal),
];

/// The elements of `source`, in its order, where the mask holds: each takes the one that its count of such places leads to.
fn masked_scatter(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, mask, source) = (a.tensor("input")?, a.tensor("mask")?, a.tensor("source")?);
    let count = b.ty(source).numel();
    if b.dtype(mask) != DType::Bool || b.dtype(source) != b.dtype(x) || count.bounds().0 < 1 {
        return Err(OpError::unsupported("masked_scatter of such tensors"));
    }
    let pair = b.broadcast(&[x, mask])?;
    let (shape, all) = (b.shape(pair[0]), b.ty(pair[0]).numel());
    let flat = b.reshape(pair[1], &[all])?;
    let ones = b.cast(flat, DType::I64);
    let counted = b.scan(ReduceOp::Sum, ones, 0)?;
    let place = b.binary(PointOp::Sub, counted, 1i64)?;
    let place = b.choose(flat, place, 0i64)?;
    let line = b.reshape(source, &[count])?;
    let taken = b.index(line, &[place], &[0], 0, Bounds::RuntimeError)?;
    let taken = b.reshape(taken, &shape)?;
    Ok(b.choose(pair[1], taken, pair[0])?.into())
}

/// `x` with `src` in place of its view `seen`.
fn into_view(b: &mut Builder, x: NodeId, seen: NodeId, src: NodeId) -> OpResult<Value> {
    let src = b.cast(src, b.dtype(x));
    let shape = b.shape(seen);
    if !same_shape(&b.shape(src), &shape)? {
        return Err(OpError::runtime("expected src to have a size equal to the slice of self"));
    }
    let chain = chain_between(b.graph(), x, seen).ok_or_else(|| OpError::bug("a scatter into something that is not a view"))?;
    let new = write_through(b, x, &chain, src)?;
    if new != src || !b.dtype(x).is_float() {
        return Ok(new.into());
    }
    // All of it is overwritten: its gradient is zeros, which is not nothing.
    let none = b.binary(PointOp::Mul, x, 0.0)?;
    let path = b.point(PointOp::Add, &[src, none])?;
    Ok(b.graft(src, path)?.into())
}

/// The tensor (a vector if it has no dimensions), the dimension and the index.
fn place(b: &mut Builder, a: &Bound) -> OpResult<(NodeId, usize, NodeId)> {
    let (x, index) = (a.tensor("input")?, a.tensor("index")?);
    check_index(b, index, "scatter")?;
    let dim = a.dim("dim", b.rank(x))?;
    let (x, index) = (at_least_1d(b, x)?, at_least_1d(b, index)?);
    if b.rank(index) != b.rank(x) {
        return Err(OpError::runtime("Index tensor must have the same number of dimensions as self tensor"));
    }
    Ok((x, dim, index))
}

/// The result in the shape that the call was given.
fn back(b: &mut Builder, a: &Bound, value: NodeId) -> OpResult<Value> {
    let shape = b.shape(a.tensor("input")?);
    Ok(b.reshape(value, &shape)?.into())
}

/// Combines `src` into `x` where `gather` with the same index would read. Only the part of src that the index covers counts.
fn scatter(b: &mut Builder, x: NodeId, dim: usize, index: NodeId, src: Operand, combine: Combine) -> OpResult<NodeId> {
    let dtype = b.dtype(x);
    if let (Combine::With(ReduceOp::Sum | ReduceOp::Prod), DType::Bool) = (combine, dtype) {
        return Err(OpError::unsupported("scatter that adds bools"));
    }
    let (own, covered) = (b.shape(x), b.shape(index));
    let src = match src {
        Operand::Tensor(src) if b.rank(src) == 0 && b.dtype(src) == dtype => at_least_1d(b, src)?.into(),
        other => other,
    };
    let src = match src {
        Operand::Tensor(src) if b.rank(src) == covered.len() => {
            if b.dtype(src) != dtype {
                return Err(OpError::runtime("scatter(): Expected self.dtype to be equal to src.dtype"));
            }
            cover(b, src, &covered, dim, &own)?
        }
        Operand::Tensor(src) if b.rank(src) > 0 => {
            return Err(OpError::runtime("Index tensor must have the same number of dimensions as src tensor"));
        }
        number => {
            let number = b.materialise(&number, dtype);
            b.broadcast_to(number, &covered)?
        }
    };
    let same = (0..own.len()).all(|d| d == dim || own[d] == covered[d]);
    let (x, src) = if combine == Combine::Set { (x, src) } else { (widened(b, x), widened(b, src)) };
    let value = match along(b, index, dim, same)? {
        Along::Rows(row) => b.index_put(x, &[row], src, (&[dim], dim, Bounds::RuntimeError), combine)?,
        Along::Elements(indices) => {
            let dims: Vec<usize> = (0..own.len()).collect();
            b.index_put(x, &indices, src, (&dims, 0, Bounds::RuntimeError), combine)?
        }
    };
    Ok(b.cast(value, dtype))
}

/// On a CPU eager combines half types in f32 and rounds once: 300 ones that meet in one place are 300, where bf16 ends at 256.
pub(super) fn widened(b: &mut Builder, x: NodeId) -> NodeId {
    if b.ty(x).device == Device::Cpu { wide(b, x) } else { x }
}

fn cover(b: &mut Builder, src: NodeId, covered: &Shape, dim: usize, own: &Shape) -> OpResult<NodeId> {
    let have = b.shape(src);
    let beyond = |d: usize| exceeds(&covered[d], &have[d]) || (d != dim && exceeds(&covered[d], &own[d]));
    if (0..covered.len()).any(beyond) {
        return Err(OpError::runtime(format!(
            "Expected index {} to be no larger than self {} apart from dimension {dim} and to be no larger size than src {}",
            crate::infer::shape_text(covered),
            crate::infer::shape_text(own),
            crate::infer::shape_text(&have)
        )));
    }
    let mut value = src;
    for (d, size) in covered.iter().enumerate() {
        value = b.slice_dim(value, d, &Sym::ZERO, size, 1)?;
    }
    Ok(value)
}

fn scatter_row(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, dim, index) = place(b, a)?;
    let src = if a.has("src") { a.operand("src")? } else { a.operand("value")? };
    let combine = match a.has("reduce").then(|| a.str("reduce")).transpose()? {
        None => Combine::Set,
        Some("add") => Combine::With(ReduceOp::Sum),
        Some("multiply") => Combine::With(ReduceOp::Prod),
        Some(_) => return Err(OpError::runtime("reduce argument must be either add or multiply.")),
    };
    let value = scatter(b, x, dim, index, src, combine)?;
    back(b, a, value)
}

fn scatter_reduce(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, dim, index) = place(b, a)?;
    let (src, include_self) = (a.operand("src")?, a.boolean("include_self")?);
    let reduce = match a.str("reduce")? {
        "sum" | "mean" => ReduceOp::Sum,
        "prod" => ReduceOp::Prod,
        "amax" => ReduceOp::Max,
        "amin" => ReduceOp::Min,
        _ => return Err(OpError::runtime("reduce argument must be either sum, prod, mean, amax or amin.")),
    };
    let dtype = b.dtype(x);
    let start = match include_self {
        true => x,
        false => scatter(b, x, dim, index, Operand::Scalar(reduce.neutral(dtype)), Combine::Set)?,
    };
    let total = scatter(b, start, dim, index, src.clone(), Combine::With(reduce))?;
    if let (ReduceOp::Max | ReduceOp::Min, false, Operand::Tensor(src)) = (reduce, include_self, src)
        && dtype.is_float()
    {
        let total = beside_the_old(b, x, total, (dim, index), src)?;
        return back(b, a, total);
    }
    if a.str("reduce")? != "mean" {
        return back(b, a, total);
    }
    if !dtype.is_float() {
        return Err(OpError::unsupported("scatter_reduce mean of integers"));
    }
    let counts = b.full_like(Scalar::Int(include_self as i64), x);
    let counts = scatter(b, counts, dim, index, Operand::Scalar(Scalar::Int(1)), Combine::With(ReduceOp::Sum))?;
    let counts = b.binary(PointOp::Maximum, counts, 1.0)?;
    let mean = b.point(PointOp::Div, &[total, counts])?;
    back(b, a, mean)
}

/// To eager what was there before takes its share of the gradient where it equals the new extreme, even if it did not count for that.
fn beside_the_old(b: &mut Builder, x: NodeId, total: NodeId, (dim, index): (usize, NodeId), src: NodeId) -> OpResult<NodeId> {
    let (own, covered) = (b.shape(x), b.shape(index));
    let src = at_least_1d(b, src)?;
    let src = cover(b, src, &covered, dim, &own)?;
    let found = gather(b, total, dim, index, Bounds::RuntimeError)?;
    let is_found = b.binary(PointOp::Eq, src, found)?;
    let is_found = b.cast(is_found, b.dtype(x));
    let none = b.full_like(Scalar::Int(0), x);
    let count = scatter(b, none, dim, index, is_found.into(), Combine::With(ReduceOp::Sum))?;
    let equals = b.binary(PointOp::Eq, x, total)?;
    let is_written = b.binary(PointOp::Gt, count, 0.0)?;
    let share = Expr::Node(equals).and(Expr::Node(is_written)).pick(Expr::Node(count) / (Expr::Node(count) + 1.0), 1.0);
    slope::sloped(b, total, total, share)
}

/// The vector of row numbers, and `source` checked against it.
fn rows(b: &mut Builder, a: &Bound, name: &str) -> OpResult<(NodeId, usize, NodeId)> {
    let (x, index) = (a.tensor("input")?, a.tensor("index")?);
    let dim = a.dim("dim", b.rank(x))?;
    check_index(b, index, name)?;
    if b.rank(index) > 1 {
        return Err(OpError::index(format!("{name}(): Index is supposed to be a vector")));
    }
    let count = b.ty(index).numel();
    Ok((at_least_1d(b, x)?, dim, b.reshape(index, &[count])?))
}

fn check_source(b: &Builder, x: NodeId, dim: usize, index: NodeId, source: NodeId, name: &str) -> OpResult<()> {
    if b.dtype(source) != b.dtype(x) {
        return Err(OpError::runtime(format!("{name}(): self and source expected to have the same dtype")));
    }
    let mut expected = b.shape(x);
    expected[dim] = b.ty(index).numel();
    if !same_shape(&b.shape(source), &expected)? {
        let text = crate::infer::shape_text(&expected);
        return Err(OpError::runtime(format!("{name}(): source must have the shape {text}")));
    }
    Ok(())
}

fn index_add(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, dim, index) = rows(b, a, "index_add")?;
    let (source, alpha) = (at_least_1d(b, a.tensor("source")?)?, a.scalar("alpha")?);
    check_source(b, x, dim, index, source, "index_add")?;
    if b.dtype(x) == DType::Bool {
        return Err(OpError::unsupported("index_add of bools"));
    }
    let source = if alpha.as_f64() == 1.0 { source } else { b.multiply(&source.into(), &Operand::Scalar(alpha))? };
    // Eager's way for vectors, and with a factor, rounds every sum.
    let is_rounded = b.rank(x) == 1 || alpha.as_f64() != 1.0;
    let (old, source) = if is_rounded { (x, source) } else { (widened(b, x), widened(b, source)) };
    let combine = Combine::With(ReduceOp::Sum);
    let value = b.index_put(old, &[index], source, (&[dim], dim, Bounds::IndexError), combine)?;
    let value = b.cast(value, b.dtype(x));
    back(b, a, value)
}

fn index_copy(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, dim, index) = rows(b, a, "index_copy")?;
    let source = at_least_1d(b, a.tensor("source")?)?;
    check_source(b, x, dim, index, source, "index_copy")?;
    let value = b.index_put(x, &[index], source, (&[dim], dim, Bounds::IndexError), Combine::Set)?;
    back(b, a, value)
}

fn index_fill(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, dim, index) = rows(b, a, "index_fill")?;
    let value = b.materialise(&a.operand("value")?, b.dtype(x));
    if b.rank(value) > 0 {
        return Err(OpError::runtime("index_fill_ only supports a 0-dimensional value tensor"));
    }
    let mut shape = b.shape(x);
    shape[dim] = b.ty(index).numel();
    let value = b.broadcast_to(value, &shape)?;
    let value = b.index_put(x, &[index], value, (&[dim], dim, Bounds::Wrap), Combine::Set)?;
    back(b, a, value)
}

fn fill_diagonal(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, value) = (a.tensor("input")?, a.scalar("value")?);
    if b.rank(x) != 2 || a.boolean("wrap")? {
        return Err(OpError::unsupported("fill_diagonal of another than a matrix, or wrapped"));
    }
    let shape = b.shape(x);
    let (row, col) = (b.iota(&shape, 0)?, b.iota(&shape, 1)?);
    let mask = b.point(PointOp::Eq, &[row, col])?;
    let value = b.full_like(value, x);
    Ok(b.point(PointOp::Where, &[mask, value, x])?.into())
}
