//! One tensor into several views of it.

use super::{Bound, Surface, view};
use crate::builder::Builder;
use crate::decide::{count, fixed, lesser};
use crate::error::{OpError, OpResult};
use crate::infer::same_shape;
use crate::value::{Value, ValueOf};
use ox_ir::Sym;
use ox_ir::graph::NodeId;

pub const ROWS: &[Surface] = &[
    view(&["split"], "input, split_size, dim=0", split),
    view(&["split_with_sizes"], "input, split_sizes, dim=0", |b, a| {
        let x = a.tensor("input")?;
        let dim = a.dim("dim", b.rank(x))?;
        split_sizes(b, x, dim, &a.ints("split_sizes")?)
    }),
    view(&["unsafe_split"], "input, split_size, dim=0", split),
    view(&["chunk"], "input, chunks, dim=0", chunk),
    view(&["unsafe_chunk"], "input, chunks, dim=0", chunk),
    view(&["tensor_split"], "input, indices_or_sections, dim=0", tensor_split),
    view(&["hsplit"], "input, indices_or_sections", |b, a| {
        let rank = b.rank(a.tensor("input")?);
        split_at(b, a, 1, if rank == 1 { 0 } else { 1 }, "hsplit")
    }),
    view(&["vsplit"], "input, indices_or_sections", |b, a| split_at(b, a, 2, 0, "vsplit")),
    view(&["dsplit"], "input, indices_or_sections", |b, a| split_at(b, a, 3, 2, "dsplit")),
    view(&["unbind"], "input, dim=0", unbind),
];

/// Consecutive pieces of these lengths.
fn pieces(b: &mut Builder, x: NodeId, dim: usize, lengths: &[Sym]) -> OpResult<Value> {
    let mut start = Sym::ZERO;
    let mut out = Vec::with_capacity(lengths.len());
    for len in lengths {
        out.push(Value::Tensor(b.slice_dim(x, dim, &start, len, 1)?));
        start = &start + len;
    }
    Ok(ValueOf::Tuple(out))
}

/// A size that decides how many results there are is relied on.
fn size_of(b: &Builder, x: NodeId, dim: usize) -> OpResult<i64> {
    let size = total_of(b, x, dim)?;
    let known = size.as_const().or_else(|| fixed(&size));
    known.ok_or_else(|| OpError::unsupported("split of a dimension whose size is not known"))
}

fn total_of(b: &Builder, x: NodeId, dim: usize) -> OpResult<Sym> {
    match b.rank(x) {
        0 => Err(OpError::runtime("split expects at least a 1-dimensional tensor")),
        _ => Ok(b.shape(x)[dim].clone()),
    }
}

/// `total` in steps of `step`, where one of them is not known: as many as there are now, the last one with the rest.
fn steps_of_sizes(total: &Sym, step: &Sym) -> OpResult<Vec<Sym>> {
    let count = count(total, step).ok_or_else(|| OpError::unsupported("split of a dimension whose size is not known"))?;
    let mut lengths = vec![step.clone(); count as usize - 1];
    lengths.push(total - &(step * (count - 1)));
    Ok(lengths)
}

/// `total` in steps of `step`, the last one shorter.
fn steps(total: i64, step: i64) -> Vec<Sym> {
    (0..total.max(1)).step_by(step.max(1) as usize).map(|at| Sym::from(step.min(total - at))).collect()
}

fn split(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dim = a.dim("dim", b.rank(x))?;
    if a.value("split_size").items().is_some() {
        return split_sizes(b, x, dim, &a.ints("split_size")?);
    }
    let size = a.int("split_size")?;
    if b.rank(x) > 0 && b.shape(x)[dim] == size {
        return pieces(b, x, dim, &[size]);
    }
    let total = total_of(b, x, dim)?;
    let is_known = size.as_const().is_some() && total.as_const().is_some();
    if !is_known && size.as_const().is_none_or(|size| size > 0) {
        let lengths = steps_of_sizes(&total, &size)?;
        return pieces(b, x, dim, &lengths);
    }
    let (size, total) = (a.const_int("split_size")?, size_of(b, x, dim)?);
    if size < 0 || (size == 0 && total != 0) {
        return Err(OpError::runtime(format!(
            "split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
        )));
    }
    pieces(b, x, dim, &steps(total, size))
}

fn split_sizes(b: &mut Builder, x: NodeId, dim: usize, sizes: &[Sym]) -> OpResult<Value> {
    if b.rank(x) == 0 {
        return Err(OpError::runtime("split expects at least a 1-dimensional tensor"));
    }
    let (have, sum) = (b.shape(x)[dim].clone(), sizes.iter().sum::<Sym>());
    if !same_shape(std::slice::from_ref(&have), std::slice::from_ref(&sum))? {
        return Err(OpError::runtime(format!(
            "split_with_sizes expects split_sizes to sum exactly to {have} (input tensor's size at dimension {dim}), but got sum {sum}"
        )));
    }
    if sizes.iter().any(|s| s.bounds().1 < 0) {
        return Err(OpError::runtime("split_with_sizes expects split_sizes have only non-negative entries"));
    }
    pieces(b, x, dim, sizes)
}

fn chunk(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, chunks) = (a.tensor("input")?, a.const_int("chunks")?);
    let dim = a.dim("dim", b.rank(x))?;
    if b.rank(x) == 0 {
        return Err(OpError::runtime("chunk expects at least a 1-dimensional tensor"));
    }
    if chunks <= 0 {
        return Err(OpError::runtime(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
    }
    let size = b.shape(x)[dim].clone();
    if size.as_const().is_none() && size.is_multiple_of(chunks) {
        let each = size.div(&Sym::from(chunks));
        return pieces(b, x, dim, &vec![each; chunks as usize]);
    }
    if size.as_const().is_none() {
        let each = (&size + (chunks - 1)).div(&Sym::from(chunks));
        let lengths = steps_of_sizes(&size, &each)?;
        return pieces(b, x, dim, &lengths);
    }
    let total = size_of(b, x, dim)?;
    if total == 0 {
        return pieces(b, x, dim, &vec![Sym::ZERO; chunks as usize]);
    }
    pieces(b, x, dim, &steps(total, total.div_euclid(chunks) + (total % chunks != 0) as i64))
}

fn tensor_split(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dim = a.dim("dim", b.rank(x))?;
    into_sections(b, a, x, dim)
}

/// `hsplit` and its like: along a fixed dimension, which must divide evenly into sections.
fn split_at(b: &mut Builder, a: &mut Bound, rank: usize, dim: usize, name: &str) -> OpResult<Value> {
    let x = a.tensor("input")?;
    if b.rank(x) < rank {
        let message = format!(
            "torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with {} dimensions!",
            b.rank(x)
        );
        return Err(OpError::runtime(message));
    }
    if let Some(sections) = a.value("indices_or_sections").as_int() {
        let total = b.shape(x)[dim].clone();
        let divides = !sections.is_zero() && same_shape(&[total.rem(&sections)], &[Sym::ZERO])?;
        if !divides {
            return Err(OpError::runtime(format!(
                "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {total} is not divisible by the \
                 split_size {sections}!"
            )));
        }
    }
    into_sections(b, a, x, dim)
}

fn into_sections(b: &mut Builder, a: &Bound, x: NodeId, dim: usize) -> OpResult<Value> {
    let total = total_of(b, x, dim)?;
    if a.value("indices_or_sections").items().is_some() {
        let or_none = |length: Sym| &lesser(&(&length * -1), &Sym::ZERO) * -1;
        let clamp = |at: i64| if at < 0 { or_none(&total + at) } else { lesser(&Sym::from(at), &total) };
        let cuts: Vec<Sym> = a.const_ints("indices_or_sections")?.into_iter().map(clamp).collect();
        let begins = [Sym::ZERO].into_iter().chain(cuts.iter().cloned());
        let lengths: Vec<(Sym, Sym)> =
            begins.zip(cuts.iter().chain([&total])).map(|(from, to)| (from.clone(), or_none(to - &from))).collect();
        let slices = lengths.into_iter().map(|(from, len)| b.slice_dim(x, dim, &from, &len, 1));
        return Ok(ValueOf::Tuple(slices.map(|s| s.map(Value::Tensor)).collect::<OpResult<_>>()?));
    }
    let sections = a.const_int("indices_or_sections")?;
    if sections <= 0 {
        return Err(OpError::runtime(format!("number of sections must be larger than 0, got {sections}")));
    }
    // The first ones are longer by one where it does not divide.
    let lengths: Vec<Sym> = (0..sections).map(|n| (&total + (sections - 1 - n)).div(&Sym::from(sections))).collect();
    pieces(b, x, dim, &lengths)
}

fn unbind(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let dim = a.dim("dim", b.rank(x))?;
    let total = size_of(b, x, dim)?;
    let rows = (0..total).map(|at| b.select(x, dim, &Sym::from(at)).map(Value::Tensor));
    Ok(ValueOf::Tuple(rows.collect::<OpResult<_>>()?))
}
