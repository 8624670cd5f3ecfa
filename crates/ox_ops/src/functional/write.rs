//! The inverse of a chain of views: what the base becomes when a view of it is written.

use super::{ViewStep, replay};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use ox_ir::Sym;
use ox_ir::graph::{Bounds, Combine, Dims, NodeId, Op};

/// The base's new value when the view at the end of `chain` takes the value `new`.
pub(crate) fn write_through(builder: &mut Builder, base: NodeId, chain: &[ViewStep], new: NodeId) -> OpResult<NodeId> {
    if chain.iter().any(|step| step.op == Op::Expand) {
        return Err(overlap_error());
    }
    let values = replay(builder, base, &chain[..chain.len().saturating_sub(1)])?;
    let mut written = new;
    for (step, before) in chain.iter().zip(values).rev() {
        written = undo(builder, step, before, written)?;
    }
    Ok(written)
}

pub(crate) fn overlap_error() -> OpError {
    OpError::runtime(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation.",
    )
}

/// The value before `step` when the value behind it is `written`.
fn undo(builder: &mut Builder, step: &ViewStep, before: NodeId, written: NodeId) -> OpResult<NodeId> {
    match &step.op {
        Op::Reshape => {
            let shape = builder.shape(before);
            builder.reshape(written, &shape)
        }
        Op::Permute(perm) => builder.permute(written, &inverse(perm)),
        Op::Slice(dims) => builder.slice_scatter(before, written, dims.clone()),
        _ => scatter_places(builder, step, before, written),
    }
}

pub(crate) fn inverse(perm: &[usize]) -> Dims {
    let mut out: Dims = smallvec::smallvec![0; perm.len()];
    for (k, p) in perm.iter().enumerate() {
        out[*p] = k;
    }
    out
}

/// Works for any view: the view of the elements' own positions says where each written element belongs.
fn scatter_places(builder: &mut Builder, step: &ViewStep, before: NodeId, written: NodeId) -> OpResult<NodeId> {
    let shape = builder.shape(before);
    let numel: Sym = shape.iter().product();
    let places = builder.iota(std::slice::from_ref(&numel), 0)?;
    let places = builder.reshape(places, &shape)?;
    let mut ty = step.ty.clone();
    ty.dtype = builder.dtype(places);
    let places = builder.declare(step.op.clone(), &[places], ty)?;
    let count = [step.ty.numel()];
    let places = builder.reshape(places, &count)?;
    let flat = builder.reshape(before, &[numel])?;
    let written = builder.reshape(written, &count)?;
    let flat = builder.index_put(flat, &[places], written, (&[0], 0, Bounds::IndexError), Combine::Set)?;
    builder.reshape(flat, &shape)
}
