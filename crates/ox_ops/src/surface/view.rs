//! Views of one tensor.

use super::shared::real;
use super::{Bound, Surface, fresh, maybe, view, wrap_dim, wrap_dims};
use crate::builder::Builder;
use crate::decide::{assured, is_one, left_of, lesser, undecided};
use crate::error::{OpError, OpResult};
use crate::infer::{differ, shape_text};
use crate::value::{Value, ValueOf};
use ox_ir::Sym;
use ox_ir::graph::{NodeId, Shape};

pub const ROWS: &[Surface] = &[
    view(&["view", "_unsafe_view", "_reshape_alias"], "input, *size", view_row),
    maybe(&["reshape"], "input, *shape", |b, a| reshape(b, a.tensor("input")?, &a.ints("shape")?)),
    view(&["view_as"], "input, other", |b, a| like(b, a, Builder::reshape)),
    maybe(&["reshape_as"], "input, other", |b, a| like(b, a, Builder::reshape)),
    maybe(&["flatten"], "input, start_dim=0, end_dim=-1", flatten),
    maybe(&["ravel"], "input", |b, a| reshape(b, a.tensor("input")?, &[Sym::from(-1i64)])),
    view(&["unflatten"], "input, dim, sizes", unflatten),
    view(&["permute"], "input, *dims", permute),
    view(&["transpose", "swapaxes", "swapdims"], "input, dim0, dim1", |b, a| {
        let (x, d0, d1) = (a.tensor("input")?, a.const_int("dim0")?, a.const_int("dim1")?);
        swap(b, x, d0, d1)
    }),
    view(&["t"], "input", t),
    view(&["T", "numpy_T"], "input", |b, a| {
        let x = a.tensor("input")?;
        let perm: Vec<usize> = (0..b.rank(x)).rev().collect();
        Ok(b.permute(x, &perm)?.into())
    }),
    view(&["mT"], "input", matrix_transpose),
    view(&["mH", "adjoint"], "input", |b, a| real(b, a, "input").and_then(|_| matrix_transpose(b, a))),
    view(&["H"], "input", |b, a| real(b, a, "input").and_then(|_| t(b, a))),
    view(&["movedim", "moveaxis"], "input, source, destination", movedim),
    view(&["expand"], "input, *size, implicit=False", |b, a| expand(b, a.tensor("input")?, &a.ints("size")?)),
    view(&["broadcast_to"], "input, size", |b, a| expand(b, a.tensor("input")?, &a.ints("size")?)),
    view(&["expand_as"], "input, other", |b, a| {
        let shape = b.shape(a.tensor("other")?);
        expand(b, a.tensor("input")?, &shape)
    }),
    view(&["squeeze"], "input, dim=None", squeeze),
    view(&["unsqueeze"], "input, dim", |b, a| {
        let x = a.tensor("input")?;
        let dim = wrap_dim(a.const_int("dim")?, b.rank(x) + 1)?;
        Ok(b.unsqueeze(x, dim)?.into())
    }),
    view(&["select"], "input, dim, index", |b, a| {
        let x = a.tensor("input")?;
        let dim = a.dim("dim", b.rank(x))?;
        Ok(select(b, x, dim, &a.int("index")?)?.into())
    }),
    view(&["narrow"], "input, dim, start, length", narrow),
    view(&["slice"], "input, dim=0, start=None, end=None, step=1", |b, a| {
        let x = a.tensor("input")?;
        let dim = a.dim("dim", b.rank(x))?;
        Ok(slice(b, x, dim, a.opt_int("start")?, a.opt_int("end")?, &a.int("step")?)?.into())
    }),
    view(&["diagonal"], "input, offset=0, dim1=0, dim2=1", diagonal),
    view(&["Tensor.unfold", "aten.unfold"], "input, dimension, size, step", unfold),
    fresh(&["diff"], "input, n=1, dim=-1, prepend=None, append=None", diff),
];

/// Sizes with at most one -1, which takes what is left.
pub(super) fn resolve_sizes(numel: &Sym, sizes: &[Sym]) -> OpResult<Shape> {
    let mut shape: Shape = sizes.iter().cloned().collect();
    let open: Vec<usize> = (0..shape.len()).filter(|d| shape[*d].is_const(-1)).collect();
    if let Some(bad) = shape.iter().find(|s| s.bounds().1 < -1 || (s.bounds().1 < 0 && !s.is_const(-1))) {
        return Err(OpError::runtime(format!("invalid shape dimension {bad}")));
    }
    match open[..] {
        [] => {}
        [d] => {
            let known: Sym = shape.iter().enumerate().filter(|(k, _)| *k != d).map(|(_, s)| s).product();
            let invalid = || {
                OpError::runtime(format!(
                    "shape '{}' is invalid for input of size {numel}",
                    shape_text(&sizes.iter().cloned().collect())
                ))
            };
            if known.is_zero() {
                return Err(match numel.is_zero() {
                    true => OpError::runtime(format!(
                        "cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can be any value and is ambiguous",
                        shape_text(&shape)
                    )),
                    false => invalid(),
                });
            }
            let rest = left_of(numel, &known);
            if differ(&(&rest * &known), numel) {
                return Err(invalid());
            }
            shape[d] = rest;
        }
        _ => return Err(OpError::runtime("only one dimension can be inferred")),
    }
    Ok(shape)
}

/// `x.reshape(n, -1)` where the first size of `x` is another expression that was `n` when the program ran: what is left for -1 is no quotient
/// that one can write, unless they are one.
fn equal_in_front(own: &[Sym], sizes: &[Sym]) -> OpResult<()> {
    let known: Sym = sizes.iter().filter(|size| !size.is_const(-1)).product();
    let numel: Sym = own.iter().product();
    let is_open = sizes.iter().any(|size| size.is_const(-1));
    if !is_open || known.as_const().is_some() || &numel.div(&known) * &known == numel {
        return Ok(());
    }
    match own.iter().zip(sizes).find(|(own, new)| own != new).map(|(own, new)| undecided(own, new, "")) {
        Some(error @ OpError::Undecided(..)) => Err(error),
        _ => Ok(()),
    }
}

fn reshape(b: &mut Builder, x: NodeId, sizes: &[Sym]) -> OpResult<Value> {
    equal_in_front(&b.shape(x), sizes)?;
    let shape = resolve_sizes(&b.ty(x).numel(), sizes)?;
    Ok(b.reshape(x, &shape)?.into())
}

fn view_row(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    match a.value("size").items() {
        Some([ValueOf::DType(dtype)]) if *dtype == b.dtype(x) => Ok(x.into()),
        _ => reshape(b, x, &a.ints("size")?),
    }
}

fn like(b: &mut Builder, a: &Bound, f: fn(&mut Builder, NodeId, &[Sym]) -> OpResult<NodeId>) -> OpResult<Value> {
    let shape = b.shape(a.tensor("other")?);
    Ok(f(b, a.tensor("input")?, &shape)?.into())
}

fn flatten(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let rank = b.rank(x);
    let (start, end) = (a.dim("start_dim", rank)?, a.dim("end_dim", rank)?);
    if start > end {
        return Err(OpError::runtime("flatten() has invalid args: start_dim cannot come after end_dim"));
    }
    let shape = b.shape(x);
    if rank == 0 {
        return Ok(b.reshape(x, &[Sym::ONE])?.into());
    }
    let mut flat: Shape = shape[..start].iter().cloned().collect();
    flat.push(shape[start..=end].iter().product());
    flat.extend(shape[end + 1..].iter().cloned());
    Ok(b.reshape(x, &flat)?.into())
}

fn unflatten(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dim = a.dim("dim", b.rank(x))?;
    let shape = b.shape(x);
    let sizes = a.ints("sizes")?;
    if sizes.is_empty() {
        return Err(OpError::runtime("unflatten: sizes must be non-empty"));
    }
    let mut inner = resolve_sizes(&shape[dim], &sizes)?;
    if differ(&inner.iter().product(), &shape[dim]) {
        let message = format!(
            "unflatten: Provided sizes {} don't multiply up to the size of dim {dim} ({}) in the input tensor",
            shape_text(&inner),
            shape[dim]
        );
        return Err(OpError::runtime(message));
    }
    let mut out: Shape = shape[..dim].iter().cloned().collect();
    out.append(&mut inner);
    out.extend(shape[dim + 1..].iter().cloned());
    Ok(b.reshape(x, &out)?.into())
}

fn permute(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dims = a.const_ints("dims")?;
    if dims.len() != b.rank(x) {
        return Err(OpError::runtime(format!(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of \
             dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
            b.rank(x),
            dims.len()
        )));
    }
    let perm = wrap_dims(&dims, b.rank(x)).map_err(|error| match error {
        OpError::User { kind: crate::error::ExceptionKind::RuntimeError, .. } => {
            OpError::runtime("permute(): duplicate dims are not allowed.")
        }
        other => other,
    })?;
    Ok(b.permute(x, &perm)?.into())
}

fn swap(b: &mut Builder, x: NodeId, d0: i64, d1: i64) -> OpResult<Value> {
    let rank = b.rank(x);
    let (d0, d1) = (wrap_dim(d0, rank)?, wrap_dim(d1, rank)?);
    if rank == 0 {
        return Ok(x.into());
    }
    Ok(b.transpose(x, d0, d1)?.into())
}

fn t(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    match b.rank(x) {
        0 | 1 => Ok(x.into()),
        2 => Ok(b.transpose(x, 0, 1)?.into()),
        rank => Err(OpError::runtime(format!("t() expects a tensor with <= 2 dimensions, but self is {rank}D"))),
    }
}

fn matrix_transpose(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    if b.rank(x) < 2 {
        let rank = b.rank(x);
        return Err(OpError::runtime(format!(
            "tensor.mT is only supported on matrices or batches of matrices. Got {rank}-D tensor."
        )));
    }
    swap(b, x, -2, -1)
}

fn movedim(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let rank = b.rank(x);
    let from = wrap_dims(&a.const_ints("source")?, rank)?;
    let to = wrap_dims(&a.const_ints("destination")?, rank)?;
    if from.len() != to.len() {
        return Err(OpError::runtime("movedim: Invalid source or destination dims: they must have equal lengths"));
    }
    let mut rest = (0..rank).filter(|d| !from.contains(d));
    let perm: Option<Vec<usize>> =
        (0..rank).map(|d| to.iter().position(|t| *t == d).map_or_else(|| rest.next(), |n| Some(from[n]))).collect();
    let perm = perm.ok_or_else(|| OpError::bug("movedim runs out of dimensions"))?;
    Ok(b.permute(x, &perm)?.into())
}

/// -1 keeps the size.
fn expand(b: &mut Builder, x: NodeId, sizes: &[Sym]) -> OpResult<Value> {
    let own = b.shape(x);
    if sizes.len() < own.len() {
        return Err(OpError::runtime(format!(
            "expand: the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
            sizes.len(),
            own.len()
        )));
    }
    let added = sizes.len() - own.len();
    let mut aligned: Shape = smallvec::smallvec![Sym::ONE; added];
    aligned.extend(own);
    let mut shape = Shape::new();
    for (d, size) in sizes.iter().enumerate() {
        if size.is_const(-1) && d < added {
            return Err(OpError::runtime(format!(
                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
            )));
        }
        shape.push(if size.is_const(-1) { aligned[d].clone() } else { size.clone() });
    }
    let x = b.reshape(x, &aligned)?;
    Ok(b.expand(x, &shape)?.into())
}

fn squeeze(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let shape = b.shape(x);
    // `squeeze()` drops all, `squeeze([])` none.
    let dims = match a.has("dim") {
        false => (0..shape.len()).collect(),
        true => wrap_dims(&a.const_ints("dim")?, shape.len())?,
    };
    let ones: Vec<usize> = dims.into_iter().filter(|d| shape.get(*d).is_some_and(is_one)).collect();
    Ok(b.squeeze(x, &ones)?.into())
}

/// Whether an index counts from the end; if that is not known, what it is now is relied on.
fn is_from_end(index: &Sym) -> bool {
    let (least, most) = index.bounds();
    most < 0 || (least < 0 && assured(&(&-index - 1)))
}

/// An index from either end, checked.
pub(super) fn select(b: &mut Builder, x: NodeId, dim: usize, index: &Sym) -> OpResult<NodeId> {
    if b.rank(x) == 0 {
        return Err(OpError::index("select() cannot be applied to a 0-dim tensor."));
    }
    let size = b.shape(x)[dim].clone();
    let at = if is_from_end(index) { index + &size } else { index.clone() };
    if at.bounds().1 < 0 || (&at - &size).is_nonneg() {
        return Err(OpError::index(format!("index {index} is out of bounds for dimension {dim} with size {size}")));
    }
    if !assured(&at) || !assured(&(&(&size - &at) - 1)) {
        return Err(OpError::unsupported(format!("index {index} of a dimension of size {size}: it may be out of range")));
    }
    b.select(x, dim, &at)
}

/// A bound of a slice as Python takes it: from the end if negative, never outside of 0..=size.
fn bound(at: Sym, size: &Sym) -> OpResult<Sym> {
    let (low, high) = at.bounds();
    if high < 0 {
        return Ok(least_zero(size + &at));
    }
    if low < 0 && assured(&(&-&at - 1)) {
        return Ok(least_zero(size + &at));
    }
    if low < 0 && !assured(&at) {
        return Err(OpError::unsupported(format!("slice bound {at} of unknown sign")));
    }
    Ok(lesser(&at, size))
}

/// The size, or 0 where it is negative.
fn least_zero(size: Sym) -> Sym {
    if assured(&size) { size } else { size.greater(&Sym::ZERO) }
}

pub(super) fn slice(
    b: &mut Builder,
    x: NodeId,
    dim: usize,
    start: Option<Sym>,
    end: Option<Sym>,
    step: &Sym,
) -> OpResult<NodeId> {
    if b.rank(x) == 0 {
        return Err(OpError::index("slice() cannot be applied to a 0-dim tensor."));
    }
    let Some(step) = step.as_const() else { return Err(OpError::unsupported("a slice of unknown step")) };
    if step <= 0 {
        return Err(OpError::value("step must be greater than zero"));
    }
    let size = b.shape(x)[dim].clone();
    let start = bound(start.unwrap_or(Sym::ZERO), &size)?;
    let end = bound(end.unwrap_or(size.clone()), &size)?;
    let len = least_zero(&end - &start).div_ceil(&Sym::from(step));
    b.slice_dim(x, dim, &start, &len, step)
}

fn narrow(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dim = a.dim("dim", b.rank(x))?;
    if b.rank(x) == 0 {
        return Err(OpError::runtime("narrow() cannot be applied to a 0-dim tensor."));
    }
    let (start, length) = (a.int("start")?, a.int("length")?);
    let size = b.shape(x)[dim].clone();
    if length.bounds().1 < 0 {
        return Err(OpError::runtime("narrow(): length must be non-negative."));
    }
    let begin = if is_from_end(&start) { &start + &size } else { start.clone() };
    let room = &size - &(&begin + &length);
    if begin.bounds().1 < 0 || (&begin - &size).is_positive() {
        return Err(OpError::index(format!(
            "start out of range (expected to be in range of [-{size}, {size}], but got {start})"
        )));
    }
    if room.bounds().1 < 0 {
        return Err(OpError::runtime(format!("start ({begin}) + length ({length}) exceeds dimension size ({size}).")));
    }
    if !assured(&room) || !assured(&begin) {
        return Err(OpError::unsupported("narrow that may be out of range"));
    }
    Ok(b.slice_dim(x, dim, &begin, &length, 1)?.into())
}

fn diagonal(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let rank = b.rank(x);
    let (dim1, dim2) = (a.dim("dim1", rank)?, a.dim("dim2", rank)?);
    if dim1 == dim2 {
        return Err(OpError::runtime(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
    }
    Ok(b.diagonal(x, a.const_int("offset")?, dim1, dim2)?.into())
}

fn unfold(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dim = a.dim("dimension", b.rank(x))?;
    let (size, step) = (a.int("size")?, a.const_int("step")?);
    if b.rank(x) == 0 {
        return Err(OpError::unsupported("unfold of a 0-dimensional tensor"));
    }
    let have = b.shape(x)[dim].clone();
    let room = &have - &size;
    if room.bounds().1 < 0 {
        let message = format!("maximum size for tensor at dimension {dim} is {have} but size is {size}");
        return Err(OpError::runtime(message));
    }
    if step <= 0 {
        return Err(OpError::runtime(format!("step is {step} but must be > 0")));
    }
    if !assured(&room) {
        return Err(OpError::unsupported("unfold of a dimension that may be too small"));
    }
    let count = &room.div(&Sym::from(step)) + 1;
    Ok(b.unfold(x, dim, &count, &size, step, 1)?.into())
}

/// Differences of neighbours, n times; of bools, whether they differ.
fn diff(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    use ox_ir::{DType, PointOp};
    let (x, n) = (a.tensor("input")?, a.const_int("n")?);
    let dim = a.dim("dim", b.rank(x))?;
    if b.rank(x) == 0 {
        return Err(OpError::runtime("diff expects input to be at least one-dimensional"));
    }
    if n < 0 {
        return Err(OpError::runtime(format!("order must be non-negative but got {n}")));
    }
    let parts: Vec<NodeId> = [a.opt_tensor("prepend")?, Some(x), a.opt_tensor("append")?].into_iter().flatten().collect();
    let mut value = super::join::cat(b, &parts, dim)?;
    for _ in 0..n {
        let size = b.shape(value)[dim].clone();
        if size.is_zero() {
            break;
        }
        let len = &size - 1;
        let high = b.slice_dim(value, dim, &Sym::ONE, &len, 1)?;
        let low = b.slice_dim(value, dim, &Sym::ZERO, &len, 1)?;
        let op = if b.dtype(value) == DType::Bool { PointOp::Xor } else { PointOp::Sub };
        value = b.point(op, &[high, low])?;
    }
    Ok(value.into())
}
