//! `F.pad` in its four modes.

use super::shared::size_operand;
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::decide::assured;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{Bounds, NodeId};
use ox_ir::{DType, Device, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["F.pad", "aten.pad"], "input, pad, mode=constant, value=None", pad),
    fresh(&["constant_pad_nd"], "input, pad, value=0", |b, a| {
        let x = a.tensor("input")?;
        constant(b, x, &a.ints("pad")?, a.scalar("value")?)
    }),
    fresh(&["reflection_pad1d", "reflection_pad2d", "reflection_pad3d"], "input, padding", |b, a| {
        around(b, a.tensor("input")?, &a.ints("padding")?, &REFLECT)
    }),
    fresh(&["replication_pad1d", "replication_pad2d", "replication_pad3d"], "input, padding", |b, a| {
        around(b, a.tensor("input")?, &a.ints("padding")?, &REPLICATE)
    }),
];

fn pad(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, sizes) = (a.tensor("input")?, a.ints("pad")?);
    if sizes.len() % 2 != 0 {
        return Err(OpError::runtime("Padding length must be divisible by 2"));
    }
    if sizes.len() / 2 > b.rank(x) {
        return Err(OpError::runtime("Padding length should be less than or equal to two times the input dimension"));
    }
    match a.str("mode")? {
        "constant" => {
            let value = if a.has("value") { a.scalar("value")? } else { Scalar::Int(0) };
            constant(b, x, &sizes, value)
        }
        "reflect" if b.dtype(x) == DType::Bool => Err(OpError::unsupported("reflection of bools, which eager refuses")),
        "reflect" => around(b, x, &sizes, &REFLECT),
        "replicate" => around(b, x, &sizes, &REPLICATE),
        "circular" => {
            let (cut, rest): (Vec<Sym>, Vec<Sym>) = sizes.iter().map(|n| (n.lesser(&Sym::ZERO), n.greater(&Sym::ZERO))).unzip();
            let cropped = constant(b, x, &cut, Scalar::Int(0))?.as_tensor().ok_or_else(|| OpError::bug("pad gives a tensor"))?;
            around(b, cropped, &rest, &WRAP)
        }
        other => Err(OpError::User {
            kind: crate::error::ExceptionKind::NotImplementedError,
            message: format!("Unrecognised padding mode {other}"),
        }),
    }
}

/// Pads come in pairs (before, after), the last dimension's first.
fn dims_of(b: &Builder, x: NodeId, sizes: &[Sym]) -> Vec<(usize, Sym, Sym)> {
    let rank = b.rank(x);
    sizes.chunks_exact(2).enumerate().map(|(k, pair)| (rank - 1 - k, pair[0].clone(), pair[1].clone())).collect()
}

fn constant(b: &mut Builder, x: NodeId, sizes: &[Sym], value: Scalar) -> OpResult<Value> {
    let mut low = vec![Sym::ZERO; b.rank(x)];
    let mut high = low.clone();
    for (dim, before, after) in dims_of(b, x, sizes) {
        low[dim] = before;
        high[dim] = after;
    }
    let shape = b.shape(x);
    for (d, size) in shape.iter().enumerate() {
        let padded = &(size + &low[d]) + &high[d];
        if padded.bounds().1 >= 0 && !assured(&padded) {
            return Err(OpError::unsupported("padding that may cut off more than there is"));
        }
        if padded.bounds().1 < 0 {
            return Err(OpError::runtime(format!(
                "The input size {size}, plus negative padding {} and {} resulted in a negative output size, which is invalid.",
                low[d], high[d]
            )));
        }
    }
    Ok(b.pad(x, &low, &high, value)?.into())
}

/// How many elements stand before and after a dimension.
type Pads<'a> = [&'a Sym; 2];

/// What stands around a tensor, in two ways: rows on a CPU are concatenations of `sides`, and all else reads one element by its place (`source`).
struct Around {
    /// Whether there is enough of a dimension for what is to stand before and after it.
    check: fn(&Sym, Pads) -> OpResult<()>,
    /// Where an element of the padded dimension comes from: its place, counted from the first element of the unpadded one.
    source: fn(&mut Builder, NodeId, &Sym) -> OpResult<NodeId>,
    /// What stands before and after a dimension, as parts of it.
    sides: fn(&mut Builder, NodeId, usize, Pads) -> OpResult<[NodeId; 2]>,
}

const REFLECT: Around = Around { check: reflects, source: reflected, sides: mirrors };
const REPLICATE: Around = Around { check: |_, _| Ok(()), source: clamped, sides: edges };
const WRAP: Around = Around { check: wraps, source: wrapped, sides: others_ends };

fn around(b: &mut Builder, x: NodeId, sizes: &[Sym], mode: &Around) -> OpResult<Value> {
    let spatial = sizes.len() / 2;
    let fits = matches!((spatial, b.rank(x)), (1, 2 | 3) | (2, 3 | 4) | (3, 4 | 5));
    if !fits {
        return Err(OpError::User {
            kind: crate::error::ExceptionKind::NotImplementedError,
            message: "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now".into(),
        });
    }
    let dims = dims_of(b, x, sizes);
    for (dim, before, after) in &dims {
        (mode.check)(&b.shape(x)[*dim], [before, after])?;
    }
    // The last dimension first: places in the others are then the same for all of its parts.
    dims.iter().try_fold(x, |x, (dim, before, after)| around_dim(b, x, *dim, [before, after], mode)).map(Value::from)
}

fn around_dim(b: &mut Builder, x: NodeId, dim: usize, pads: Pads, mode: &Around) -> OpResult<NodeId> {
    if pads.iter().all(|pad| pad.is_zero()) {
        return Ok(x);
    }
    let is_row = dim + 1 == b.rank(x) && b.ty(x).device == Device::Cpu;
    if is_row && pads.iter().all(|pad| pad.is_nonneg()) {
        let [before, after] = (mode.sides)(b, x, dim, pads)?;
        let side = |part: NodeId, len: &Sym| Some(part).filter(|_| !len.is_zero());
        let parts: Vec<NodeId> = [side(before, pads[0]), Some(x), side(after, pads[1])].into_iter().flatten().collect();
        return b.cat(&parts, dim);
    }
    let size = b.shape(x)[dim].clone();
    let places = b.counting(&(&(&size + pads[0]) + pads[1]), DType::I64)?;
    let places = b.binary(PointOp::Sub, places, size_operand(pads[0]))?;
    let index = (mode.source)(b, places, &size)?;
    b.index(x, &[index], &[dim], dim, Bounds::IndexError)
}

/// A dimension must have more elements than are mirrored, and as many as come around.
fn reaches(size: &Sym, least: i64, pads: Pads) -> OpResult<()> {
    match pads.iter().all(|pad| assured(&(&(size - *pad) - least))) {
        true => Ok(()),
        false => Err(OpError::unsupported("padding that may be longer than the dimension")),
    }
}

fn reflects(size: &Sym, pads: Pads) -> OpResult<()> {
    if pads.iter().any(|pad| (*pad - size).is_nonneg()) {
        return Err(OpError::runtime(format!(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({}, {}) \
             at a dimension of size {size}",
            pads[0], pads[1]
        )));
    }
    reaches(size, 1, pads)
}

/// Mirrored at the first and the last element: `last - |last - |place||`.
fn reflected(b: &mut Builder, places: NodeId, size: &Sym) -> OpResult<NodeId> {
    let last = size_operand(&(size - 1));
    let distance = b.unary(PointOp::Abs, places)?;
    let behind = b.binary(PointOp::Sub, last.clone(), distance)?;
    let behind = b.unary(PointOp::Abs, behind)?;
    b.binary(PointOp::Sub, last, behind)
}

fn mirrors(b: &mut Builder, x: NodeId, dim: usize, [before, after]: Pads) -> OpResult<[NodeId; 2]> {
    let last_but_one = &b.shape(x)[dim] - 2;
    Ok([b.slice_dim(x, dim, before, before, -1)?, b.slice_dim(x, dim, &last_but_one, after, -1)?])
}

fn clamped(b: &mut Builder, places: NodeId, size: &Sym) -> OpResult<NodeId> {
    let low = b.binary(PointOp::Maximum, places, 0i64)?;
    b.binary(PointOp::Minimum, low, size_operand(&(size - 1)))
}

fn edges(b: &mut Builder, x: NodeId, dim: usize, [before, after]: Pads) -> OpResult<[NodeId; 2]> {
    let mut shape = b.shape(x);
    let last = &shape[dim] - 1;
    let mut edge = |b: &mut Builder, at: &Sym, times: &Sym| {
        let edge = b.slice_dim(x, dim, at, &Sym::ONE, 1)?;
        shape[dim] = times.clone();
        b.expand(edge, &shape)
    };
    Ok([edge(b, &Sym::ZERO, before)?, edge(b, &last, after)?])
}

fn wraps(size: &Sym, pads: Pads) -> OpResult<()> {
    if pads.iter().any(|pad| (*pad - size).is_positive()) {
        return Err(OpError::runtime("Padding value causes wrapping around more than once."));
    }
    reaches(size, 0, pads)
}

fn wrapped(b: &mut Builder, places: NodeId, size: &Sym) -> OpResult<NodeId> {
    b.binary(PointOp::Remainder, places, size_operand(size))
}

fn others_ends(b: &mut Builder, x: NodeId, dim: usize, [before, after]: Pads) -> OpResult<[NodeId; 2]> {
    let from = &b.shape(x)[dim] - before;
    Ok([b.slice_dim(x, dim, &from, before, 1)?, b.slice_dim(x, dim, &Sym::ZERO, after, 1)?])
}
