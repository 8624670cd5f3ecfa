//! Reading by index tensors.

use super::scatter::widened;
use super::{Bound, Operand, Surface, fresh};
use crate::builder::{Builder, broadcast_shapes};
use crate::decide::exceeds;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{Bounds, NodeId, Op, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["index_select"], "input, dim, index", index_select),
    fresh(&["gather"], "input, dim, index, *, sparse_grad=False", gather_row),
    fresh(&["take"], "input, index", |b, a| {
        let (x, index) = (a.tensor("input")?, a.tensor("index")?);
        Ok(take(b, x, index, Bounds::Wrap)?.into())
    }),
    fresh(&["take_along_dim"], "input, indices, dim=None", take_along_dim),
    fresh(
        &["F.embedding"],
        "input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False",
        |b, a| {
            if a.has("max_norm") {
                return Err(OpError::unsupported("embedding with max_norm, which writes its weight"));
            }
            embedding(b, a, "input")
        },
    ),
    fresh(
        &["torch.embedding", "aten.embedding"],
        "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False",
        |b, a| embedding(b, a, "indices"),
    ),
];

/// The index must be of a type that eager takes; what eager makes of others depends on more than the type.
pub(super) fn check_index(b: &Builder, index: NodeId, name: &str) -> OpResult<()> {
    match b.dtype(index) {
        DType::I64 | DType::I32 => Ok(()),
        other => Err(OpError::unsupported(format!("{name} by an index of type {other}"))),
    }
}

/// torch's index functions take a 0-dimensional tensor for a vector of one element.
pub(super) fn at_least_1d(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    if b.rank(x) == 0 { b.reshape(x, &[Sym::ONE]) } else { Ok(x) }
}

fn index_select(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, index) = (a.tensor("input")?, a.tensor("index")?);
    let dim = a.dim("dim", b.rank(x))?;
    check_index(b, index, "index_select")?;
    if b.rank(index) > 1 {
        return Err(OpError::index("index_select(): Index is supposed to be a vector"));
    }
    let count = b.ty(index).numel();
    let index = b.reshape(index, &[count])?;
    let shape = b.shape(x);
    let x = at_least_1d(b, x)?;
    let read = |b: &mut Builder, x: NodeId| b.index(x, &[index], &[dim], dim, Bounds::IndexError);
    // Eager's gradient is an `index_add`, whose way for vectors rounds every sum.
    let value = if b.rank(x) == 1 { read(b, x)? } else { gathered(b, x, read)? };
    Ok(if shape.is_empty() { b.reshape(value, &shape)? } else { value }.into())
}

fn embedding(b: &mut Builder, a: &Bound, index: &str) -> OpResult<Value> {
    let (weight, index) = (a.tensor("weight")?, a.tensor(index)?);
    if a.boolean("scale_grad_by_freq")? || a.boolean("sparse")? {
        return Err(OpError::unsupported("embedding with a gradient of its own kind"));
    }
    if b.rank(weight) != 2 {
        return Err(OpError::runtime("'weight' must be 2-D"));
    }
    check_index(b, index, "embedding")?;
    let rows = b.index(weight, &[index], &[0], 0, Bounds::IndexError)?;
    let Some(padding) = a.opt_int("padding_idx")?.and_then(|at| at.as_const()).filter(|at| *at != -1 || a.knows("input")) else {
        return Ok(rows.into());
    };
    // The row that pads has no gradient.
    let size = b.shape(weight)[0].clone();
    let padding = if padding < 0 { &size + padding } else { Sym::from(padding) };
    let size = padding.as_const().map_or_else(|| Operand::Sym(padding.clone()), |s| Operand::Scalar(Scalar::Int(s)));
    let pads = b.binary(PointOp::Eq, index, size)?;
    let pads = b.unsqueeze(pads, b.rank(pads))?;
    let path = b.choose(pads, 0.0, rows)?;
    Ok(b.graft(rows, path)?.into())
}

/// An index for `gather` and `scatter`, in the simplest form that says the same.
pub(super) enum Along {
    /// One index for each place along `dim` alone: whole rows move.
    Rows(NodeId),
    /// One index array per dimension.
    Elements(Vec<NodeId>),
}

/// `index` has the rank of `x`; `same` is whether the dimensions other than `dim` are covered in full.
pub(super) fn along(b: &mut Builder, index: NodeId, dim: usize, same: bool) -> OpResult<Along> {
    if same && let Some(row) = varies_only_along(b, index, dim) {
        let len = b.ty(row).numel();
        return Ok(Along::Rows(b.reshape(row, &[len])?));
    }
    let shape = b.shape(index);
    let indices = (0..shape.len()).map(|d| if d == dim { Ok(index) } else { b.iota(&shape, d) });
    Ok(Along::Elements(indices.collect::<OpResult<_>>()?))
}

/// What the index was expanded from, if that has size 1 everywhere but in `dim`.
fn varies_only_along(b: &Builder, index: NodeId, dim: usize) -> Option<NodeId> {
    let alone = |shape: &Shape| shape.iter().enumerate().all(|(d, s)| d == dim || s.is_one());
    let node = b.graph().node(index);
    match node.op {
        _ if alone(&node.ty.shape) => Some(index),
        Op::Expand if alone(&b.ty(node.args[0]).shape) && b.shape(node.args[0])[dim] == node.ty.shape[dim] => Some(node.args[0]),
        _ => None,
    }
}

fn gather_row(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, index) = (a.tensor("input")?, a.tensor("index")?);
    let dim = a.dim("dim", b.rank(x))?;
    check_index(b, index, "gather")?;
    Ok(gathered(b, x, |b, x| gather(b, x, dim, index, Bounds::RuntimeError))?.into())
}

/// What `read` makes of elements of `x`. The gradients of what is read more than once are added up as eager does it on a CPU: half types in f32.
pub(super) fn gathered(b: &mut Builder, x: NodeId, read: impl Fn(&mut Builder, NodeId) -> OpResult<NodeId>) -> OpResult<NodeId> {
    let (value, wide) = (read(b, x)?, widened(b, x));
    if wide == x {
        return Ok(value);
    }
    let path = read(b, wide)?;
    let path = b.cast(path, b.dtype(x));
    b.graft(value, path)
}

/// `out[i][j] = x[index[i][j]][j]` for dim 0, and so on.
pub(super) fn gather(b: &mut Builder, x: NodeId, dim: usize, index: NodeId, bounds: Bounds) -> OpResult<NodeId> {
    if b.rank(x) == 0 || b.rank(index) == 0 {
        let shape = b.shape(index);
        let (x, index) = (at_least_1d(b, x)?, at_least_1d(b, index)?);
        let value = gather(b, x, 0, index, bounds)?;
        return b.reshape(value, &shape);
    }
    if b.rank(x) != b.rank(index) {
        return Err(OpError::runtime("Index tensor must have the same number of dimensions as input tensor"));
    }
    let (own, want) = (b.shape(x), b.shape(index));
    for d in (0..own.len()).filter(|d| *d != dim) {
        if exceeds(&want[d], &own[d]) {
            return Err(OpError::runtime(format!(
                "Size does not match at dimension {d} expected index {} to be no larger than self {} apart from dimension {dim}",
                crate::infer::shape_text(&want),
                crate::infer::shape_text(&own)
            )));
        }
    }
    let same = (0..own.len()).all(|d| d == dim || own[d] == want[d]);
    match along(b, index, dim, same)? {
        Along::Rows(row) => b.index(x, &[row], &[dim], dim, bounds),
        Along::Elements(indices) => {
            let dims: Vec<usize> = (0..own.len()).collect();
            b.index(x, &indices, &dims, 0, bounds)
        }
    }
}

fn take(b: &mut Builder, x: NodeId, index: NodeId, bounds: Bounds) -> OpResult<NodeId> {
    if b.dtype(index) != DType::I64 {
        return Err(OpError::runtime("take(): Expected a long tensor for index"));
    }
    let numel = b.ty(x).numel();
    let flat = b.reshape(x, &[numel])?;
    b.index(flat, &[index], &[0], 0, bounds)
}

/// `gather` after broadcasting all dimensions but `dim` of tensor and indices.
fn take_along_dim(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, index) = (a.tensor("input")?, a.tensor("indices")?);
    if b.dtype(index) != DType::I64 {
        return Err(OpError::runtime("torch.take_along_dim(): dtype of indices should be Long"));
    }
    if !a.has("dim") {
        let (numel, count) = (b.ty(x).numel(), b.ty(index).numel());
        let (flat, index) = (b.reshape(x, &[numel])?, b.reshape(index, &[count])?);
        return Ok(gathered(b, flat, |b, flat| b.index(flat, &[index], &[0], 0, Bounds::RuntimeError))?.into());
    }
    let dim = a.dim("dim", b.rank(x))?;
    if b.rank(x) != b.rank(index) {
        return Err(OpError::runtime("torch.take_along_dim(): input and indices should have the same number of dimensions"));
    }
    let without = |mut shape: Shape| {
        shape[dim] = Sym::ONE;
        shape
    };
    let (own, want) = (b.shape(x), b.shape(index));
    let mut wide = broadcast_shapes(&[&without(own.clone()), &without(want.clone())])?;
    wide[dim] = own[dim].clone();
    let x = b.broadcast_to(x, &wide)?;
    // Eager takes the index modulo the size.
    let size = own[dim].as_const().map_or_else(|| Operand::Sym(own[dim].clone()), |s| Operand::Scalar(Scalar::Int(s)));
    let index = b.binary(PointOp::Remainder, index, size)?;
    wide[dim] = want[dim].clone();
    let index = b.broadcast_to(index, &wide)?;
    Ok(gathered(b, x, |b, x| gather(b, x, dim, index, Bounds::RuntimeError))?.into())
}
