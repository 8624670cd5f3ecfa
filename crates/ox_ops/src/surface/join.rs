//! Several tensors into one, and one repeated, turned round or surrounded.

use super::{Bound, Operand, Surface, each, fresh, wrap_dim, wrap_dims};
use crate::builder::Builder;
use crate::decide::undecided;
use crate::error::{OpError, OpResult};
use crate::infer::{are_different, same_shape, shape_text};
use crate::value::{Value, ValueOf};
use ox_ir::Sym;
use ox_ir::graph::{NodeId, Shape, SliceDim};

pub const ROWS: &[Surface] = &[
    fresh(&["cat", "concat", "concatenate"], "tensors, dim=0", |b, a| {
        let tensors = a.tensors("tensors")?;
        let rank = tensors.iter().map(|t| b.rank(*t)).max().unwrap_or(0);
        Ok(cat(b, &tensors, a.dim("dim", rank)?)?.into())
    }),
    fresh(&["stack"], "tensors, dim=0", stack),
    fresh(&["hstack"], "tensors", |b, a| at_least(b, a, 1, |rank| if rank == 1 { 0 } else { 1 })),
    fresh(&["vstack", "row_stack"], "tensors", |b, a| at_least(b, a, 2, |_| 0)),
    fresh(&["dstack"], "tensors", |b, a| at_least(b, a, 3, |_| 2)),
    fresh(&["column_stack"], "tensors", |b, a| {
        let columns = a.tensors("tensors")?.into_iter().map(|t| match b.rank(t) {
            0 | 1 => {
                let numel = b.ty(t).numel();
                b.reshape(t, &[numel, Sym::ONE])
            }
            _ => Ok(t),
        });
        let columns = columns.collect::<OpResult<Vec<NodeId>>>()?;
        Ok(cat(b, &columns, 1)?.into())
    }),
    each(&["atleast_1d"], "*tensors", |b, a| raise_all(b, a, 1)),
    each(&["atleast_2d"], "*tensors", |b, a| raise_all(b, a, 2)),
    each(&["atleast_3d"], "*tensors", |b, a| raise_all(b, a, 3)),
    fresh(&["rot90"], "input, k=1, dims=None", rot90),
    fresh(&["repeat"], "input, *repeats", |b, a| repeat(b, a.tensor("input")?, &a.ints("repeats")?)),
    fresh(&["tile"], "input, *dims", |b, a| {
        let (x, mut counts) = (a.tensor("input")?, a.ints("dims")?);
        while counts.len() < b.rank(x) {
            counts.insert(0, Sym::ONE);
        }
        repeat(b, x, &counts)
    }),
    fresh(&["repeat_interleave"], "input, repeats, dim=None, *, output_size=None", repeat_interleave),
    fresh(&["roll"], "input, shifts, dims=None", roll),
    fresh(&["flip"], "input, *dims", |b, a| {
        let x = a.tensor("input")?;
        let dims = wrap_dims(&a.const_ints("dims")?, b.rank(x))?;
        Ok(flip(b, x, &dims)?.into())
    }),
    fresh(&["fliplr"], "input", |b, a| Ok(flip(b, a.tensor("input")?, &[1])?.into())),
    fresh(&["flipud"], "input", |b, a| Ok(flip(b, a.tensor("input")?, &[0])?.into())),
    each(&["meshgrid"], "*tensors, indexing=ij", meshgrid),
    each(&["broadcast_tensors"], "*tensors", |b, a| {
        let tensors = b.broadcast(&a.tensors("tensors")?)?;
        Ok(ValueOf::Tuple(tensors.into_iter().map(Value::Tensor).collect()))
    }),
];

/// Tensors of one promoted type along `dim`. Vectors of size 0 do not count, whatever the others' rank.
pub(super) fn cat(b: &mut Builder, tensors: &[NodeId], dim: usize) -> OpResult<NodeId> {
    let operands: Vec<Operand> = tensors.iter().map(|t| Operand::Tensor(*t)).collect();
    if operands.is_empty() {
        return Err(OpError::value("torch.cat(): expected a non-empty list of Tensors"));
    }
    let dtype = b.result_type(&operands);
    if let Some(place) = tensors.iter().position(|t| b.rank(*t) == 0) {
        return Err(OpError::runtime(format!("zero-dimensional tensor (at position {place}) cannot be concatenated")));
    }
    let empty = |b: &Builder, t: NodeId| b.rank(t) == 1 && b.shape(t)[0].is_zero();
    let kept: Vec<NodeId> = tensors.iter().copied().filter(|t| !empty(b, *t)).collect();
    let Some(first) = kept.first().copied() else { return Ok(b.cast(tensors[0], dtype)) };
    for (n, t) in kept.iter().enumerate() {
        check_joinable(&b.shape(first), &b.shape(*t), dim, n)?;
    }
    let kept: Vec<NodeId> = kept.into_iter().map(|t| b.cast(t, dtype)).collect();
    b.cat(&kept, dim)
}

fn check_joinable(first: &Shape, other: &Shape, dim: usize, place: usize) -> OpResult<()> {
    if first.len() != other.len() {
        return Err(OpError::runtime(format!(
            "Tensors must have same number of dimensions: got {} and {}",
            first.len(),
            other.len()
        )));
    }
    for (d, (a, b)) in first.iter().zip(other).enumerate().filter(|(d, _)| *d != dim) {
        if a == b {
            continue;
        }
        return Err(match a.as_const().is_some() && b.as_const().is_some() {
            true => OpError::runtime(format!(
                "Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} for tensor number {place} \
                 in the list (dimension {d})."
            )),
            false => undecided(a, b, format!("cat of sizes {a} and {b}, which may or may not be equal")),
        });
    }
    Ok(())
}

fn stack(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let tensors = a.tensors("tensors")?;
    let Some(first) = tensors.first().copied() else { return Err(OpError::runtime("stack expects a non-empty TensorList")) };
    let dim = wrap_dim(a.const_int("dim")?, b.rank(first) + 1)?;
    let mut rows = Vec::with_capacity(tensors.len());
    for (n, t) in tensors.into_iter().enumerate() {
        let (want, have) = (b.shape(first), b.shape(t));
        if !same_shape(&want, &have)? {
            let (want, have) = (shape_text(&want), shape_text(&have));
            let message =
                format!("stack expects each tensor to be equal size, but got {want} at entry 0 and {have} at entry {n}");
            return Err(OpError::runtime(message));
        }
        rows.push(b.unsqueeze(t, dim)?);
    }
    Ok(cat(b, &rows, dim)?.into())
}

/// Dimensions of size 1 are added in front, the third one behind.
fn raise(b: &mut Builder, t: NodeId, rank: usize) -> OpResult<NodeId> {
    let mut shape = b.shape(t);
    while shape.len() < rank {
        let place = if shape.len() == 2 { 2 } else { 0 };
        shape.insert(place, Sym::ONE);
    }
    b.reshape(t, &shape)
}

/// `atleast_1d(x)` gives a tensor, `atleast_1d(x, y)` and `atleast_1d([x])` a tuple.
fn raise_all(b: &mut Builder, a: &mut Bound, rank: usize) -> OpResult<Value> {
    let tensors = a.tensors("tensors")?;
    if let [one] = tensors[..] {
        return Ok(raise(b, one, rank)?.into());
    }
    let raised = tensors.into_iter().map(|t| raise(b, t, rank).map(Value::Tensor));
    Ok(ValueOf::Tuple(raised.collect::<OpResult<_>>()?))
}

/// Quarter turns from the first dimension towards the second.
fn rot90(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, turns) = (a.tensor("input")?, a.const_int("k")?.rem_euclid(4));
    let given = if a.has("dims") { a.const_ints("dims")? } else { vec![0, 1] };
    let [from, to] = given[..] else {
        return Err(OpError::runtime(format!("expected total rotation dims == 2, but got dims = {}", given.len())));
    };
    let rank = b.rank(x);
    if rank < 2 {
        return Err(OpError::runtime(format!("expected total dims >= 2, but got total dims = {rank}")));
    }
    let (from, to) = (wrap_dim(from, rank)?, wrap_dim(to, rank)?);
    if from == to {
        return Err(OpError::runtime(format!("expected rotation dims to be different, but got dim0 = {from} and dim1 = {to}")));
    }
    let value = match turns {
        1 => {
            let flipped = flip(b, x, &[to])?;
            b.transpose(flipped, from, to)?
        }
        2 => flip(b, x, &[from, to])?,
        3 => {
            let flipped = flip(b, x, &[from])?;
            b.transpose(flipped, from, to)?
        }
        _ => x,
    };
    Ok(value.into())
}

/// Gives all tensors at least `rank` dimensions, as `atleast_1d`, `_2d`, `_3d` do, and joins them.
fn at_least(b: &mut Builder, a: &mut Bound, rank: usize, dim: fn(usize) -> usize) -> OpResult<Value> {
    let mut raised = Vec::new();
    for t in a.tensors("tensors")? {
        raised.push(raise(b, t, rank)?);
    }
    let Some(first) = raised.first().copied() else { return Err(OpError::runtime("stack expects a non-empty TensorList")) };
    let dim = dim(b.rank(first));
    Ok(cat(b, &raised, dim)?.into())
}

/// Each dimension becomes (count, size) by expansion, and the two are flattened.
fn repeat(b: &mut Builder, x: NodeId, counts: &[Sym]) -> OpResult<Value> {
    let own = b.shape(x);
    if counts.len() < own.len() {
        return Err(OpError::runtime(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
        ));
    }
    if let Some(bad) = counts.iter().find(|c| c.bounds().1 < 0) {
        return Err(OpError::runtime(format!("Trying to create tensor with negative dimension {bad}")));
    }
    let mut sizes: Shape = smallvec::smallvec![Sym::ONE; counts.len() - own.len()];
    sizes.extend(own);
    let (mut split, mut wide, mut flat) = (Shape::new(), Shape::new(), Shape::new());
    for (count, size) in counts.iter().zip(&sizes) {
        if !count.is_one() {
            split.push(Sym::ONE);
            wide.push(count.clone());
        }
        split.push(size.clone());
        wide.push(size.clone());
        flat.push(count * size);
    }
    let x = b.reshape(x, &split)?;
    let x = b.expand(x, &wide)?;
    Ok(b.reshape(x, &flat)?.into())
}

fn repeat_interleave(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (mut x, count) = (a.tensor("input")?, a.int("repeats")?);
    if count.bounds().1 < 0 {
        return Err(OpError::runtime("Repeats must be non-negative"));
    }
    let dim = if a.has("dim") { a.dim("dim", b.rank(x))? } else { 0 };
    if !a.has("dim") || b.rank(x) == 0 {
        let numel = b.ty(x).numel();
        x = b.reshape(x, &[numel])?;
    }
    let own = b.shape(x);
    let x = b.unsqueeze(x, dim + 1)?;
    let mut wide = own.clone();
    wide.insert(dim + 1, count.clone());
    let x = b.expand(x, &wide)?;
    let mut flat = own;
    flat[dim] = &flat[dim] * &count;
    Ok(b.reshape(x, &flat)?.into())
}

/// The last `shift` elements come first.
fn roll(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, shifts) = (a.tensor("input")?, a.ints("shifts")?);
    let dims = if a.has("dims") { a.const_ints("dims")? } else { Vec::new() };
    let shape = b.shape(x);
    if dims.is_empty() {
        let [shift] = &shifts[..] else {
            return Err(OpError::runtime(format!("shifts and dimensions must align. shifts: {}, dims:0", shifts.len())));
        };
        let flat = b.reshape(x, &[shape.iter().product()])?;
        let rolled = roll_dim(b, flat, 0, shift)?;
        return Ok(b.reshape(rolled, &shape)?.into());
    }
    if shifts.len() != dims.len() {
        let (s, d) = (shifts.len(), dims.len());
        return Err(OpError::runtime(format!("shifts and dimensions must align. shifts: {s}, dims:{d}")));
    }
    let mut value = x;
    for (shift, dim) in shifts.iter().zip(dims) {
        let dim = wrap_dim(dim, shape.len())?;
        // By whole turns (of one element, by anything) eager gives another memory order: that it is none is noted.
        if shape.len() > 3 && !shape[dim].is_zero() {
            are_different(&shift.rem(&shape[dim]), &Sym::ZERO);
        }
        value = roll_dim(b, value, dim, shift)?;
    }
    Ok(value.into())
}

pub(super) fn roll_dim(b: &mut Builder, x: NodeId, dim: usize, shift: &Sym) -> OpResult<NodeId> {
    let Some(size) = b.shape(x).get(dim).cloned() else { return Ok(x) };
    if size.is_zero() {
        return Ok(x);
    }
    let shift = shift.rem(&size);
    if shift.is_zero() {
        return Ok(x);
    }
    let start = &size - &shift;
    let tail = b.slice_dim(x, dim, &start, &shift, 1)?;
    let head = b.slice_dim(x, dim, &Sym::ZERO, &start, 1)?;
    b.cat(&[tail, head], dim)
}

pub(super) fn flip(b: &mut Builder, x: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let shape = b.shape(x);
    if dims.iter().any(|d| *d >= shape.len().max(1)) {
        return Err(OpError::runtime("Input must be >= 2-d."));
    }
    let slice = |(d, size): (usize, &Sym)| match dims.contains(&d) && !size.is_zero() {
        true => SliceDim { start: size - 1, step: -1 },
        false => SliceDim { start: Sym::ZERO, step: 1 },
    };
    let slices: Vec<SliceDim> = shape.iter().enumerate().map(slice).collect();
    if slices.iter().all(|s| s.step == 1) {
        return Ok(x);
    }
    b.slice(x, slices, &shape)
}

/// The n-th grid varies along dimension n; with "xy" indexing the first two dimensions are swapped.
fn meshgrid(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let tensors = a.tensors("tensors")?;
    let grids = meshgrid_of(b, &tensors, a.str("indexing")? == "xy")?;
    Ok(ValueOf::Tuple(grids.into_iter().map(Value::Tensor).collect()))
}

pub(super) fn meshgrid_of(b: &mut Builder, tensors: &[NodeId], xy: bool) -> OpResult<Vec<NodeId>> {
    let swap = xy && tensors.len() >= 2;
    let place = |n: usize| if swap && n < 2 { 1 - n } else { n };
    let mut shape: Shape = smallvec::smallvec![Sym::ONE; tensors.len()];
    for (n, t) in tensors.iter().enumerate() {
        if b.rank(*t) > 1 {
            let rank = b.rank(*t);
            return Err(OpError::runtime(format!(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {rank}D"
            )));
        }
        shape[place(n)] = b.ty(*t).numel();
    }
    let mut grids = Vec::with_capacity(tensors.len());
    for (n, t) in tensors.iter().enumerate() {
        let mut line: Shape = smallvec::smallvec![Sym::ONE; shape.len()];
        line[place(n)] = shape[place(n)].clone();
        let line = b.reshape(*t, &line)?;
        grids.push(b.expand(line, &shape)?);
    }
    Ok(grids)
}
