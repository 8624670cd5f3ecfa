//! `F.pad` in its four modes.

use super::shared::size_operand;
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::decide::assured;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{Bounds, NodeId};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["F.pad", "aten.pad"], "input, pad, mode=constant, value=None", pad),
    fresh(&["constant_pad_nd"], "input, pad, value=0", |b, a| {
        let x = a.tensor("input")?;
        constant(b, x, &a.ints("pad")?, a.scalar("value")?)
    }),
    fresh(&["reflection_pad1d", "reflection_pad2d", "reflection_pad3d"], "input, padding", |b, a| {
        around(b, a.tensor("input")?, &a.ints("padding")?, reflect)
    }),
    fresh(&["replication_pad1d", "replication_pad2d", "replication_pad3d"], "input, padding", |b, a| {
        around(b, a.tensor("input")?, &a.ints("padding")?, replicate)
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
        "reflect" => around(b, x, &sizes, reflect),
        "replicate" => around(b, x, &sizes, replicate),
        "circular" => {
            let (cut, rest): (Vec<Sym>, Vec<Sym>) = sizes.iter().map(|n| (n.lesser(&Sym::ZERO), n.greater(&Sym::ZERO))).unzip();
            let cropped = constant(b, x, &cut, Scalar::Int(0))?.as_tensor().ok_or_else(|| OpError::bug("pad gives a tensor"))?;
            around(b, cropped, &rest, wrap)
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

/// Where an element of the padded dimension comes from: its place, counted from the first element of the unpadded one.
type Source = fn(&mut Builder, NodeId, &Sym, &Sym, &Sym) -> OpResult<NodeId>;

fn around(b: &mut Builder, x: NodeId, sizes: &[Sym], source: Source) -> OpResult<Value> {
    let spatial = sizes.len() / 2;
    let fits = matches!((spatial, b.rank(x)), (1, 2 | 3) | (2, 3 | 4) | (3, 4 | 5));
    if !fits {
        return Err(OpError::User {
            kind: crate::error::ExceptionKind::NotImplementedError,
            message: "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now".into(),
        });
    }
    let mut value = x;
    for (dim, before, after) in dims_of(b, x, sizes) {
        let size = b.shape(value)[dim].clone();
        let len = &(&size + &before) + &after;
        let places = b.counting(&len, DType::I64)?;
        let places = b.binary(PointOp::Sub, places, size_operand(&before))?;
        let index = source(b, places, &size, &before, &after)?;
        value = b.index(value, &[index], &[dim], dim, Bounds::IndexError)?;
    }
    Ok(value.into())
}

/// A dimension must have more elements than are mirrored, and as many as come around.
fn reaches(size: &Sym, least: i64, pads: [&Sym; 2]) -> OpResult<()> {
    match pads.iter().all(|pad| assured(&(&(size - *pad) - least))) {
        true => Ok(()),
        false => Err(OpError::unsupported("padding that may be longer than the dimension")),
    }
}

/// Mirrored at the first and the last element: `last - |last - |place||`.
fn reflect(b: &mut Builder, places: NodeId, size: &Sym, before: &Sym, after: &Sym) -> OpResult<NodeId> {
    if [before, after].iter().any(|p| (*p - size).is_nonneg()) {
        return Err(OpError::runtime(format!(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) \
             at a dimension of size {size}"
        )));
    }
    reaches(size, 1, [before, after])?;
    let last = size_operand(&(size - 1));
    let distance = b.unary(PointOp::Abs, places)?;
    let behind = b.binary(PointOp::Sub, last.clone(), distance)?;
    let behind = b.unary(PointOp::Abs, behind)?;
    b.binary(PointOp::Sub, last, behind)
}

fn replicate(b: &mut Builder, places: NodeId, size: &Sym, _: &Sym, _: &Sym) -> OpResult<NodeId> {
    let low = b.binary(PointOp::Maximum, places, 0i64)?;
    b.binary(PointOp::Minimum, low, size_operand(&(size - 1)))
}

fn wrap(b: &mut Builder, places: NodeId, size: &Sym, before: &Sym, after: &Sym) -> OpResult<NodeId> {
    if [before, after].iter().any(|p| (*p - size).is_positive()) {
        return Err(OpError::runtime("Padding value causes wrapping around more than once."));
    }
    reaches(size, 0, [before, after])?;
    b.binary(PointOp::Remainder, places, size_operand(size))
}
