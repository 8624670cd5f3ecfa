//! The inverse of a chain of views: what the base becomes when a view of it is written.

use super::{ViewStep, replay};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use ox_ir::Sym;
use ox_ir::graph::{Bounds, Combine, Dims, NodeId, Op};
use smallvec::SmallVec;

/// The base's new value when the view at the end of `chain` takes the value `new`.
pub(crate) fn write_through(builder: &mut Builder, base: NodeId, chain: &[ViewStep], new: NodeId) -> OpResult<NodeId> {
    if chain.iter().any(repeats) {
        return Err(overlap_error());
    }
    let values = replay(builder, base, &chain[..chain.len().saturating_sub(1)])?;
    let mut written = new;
    for (step, before) in chain.iter().zip(values).rev() {
        written = undo(builder, step, before, written)?;
    }
    Ok(written)
}

/// Whether a view may show one element in several places.
fn repeats(step: &ViewStep) -> bool {
    match &step.op {
        Op::Expand => true,
        Op::Unfold { step: between, dilation, .. } => {
            let window = step.ty.shape.last().map_or(Sym::ONE, |size| &(size - 1) * *dilation);
            !(&Sym::from(*between) - &window).is_positive()
        }
        _ => false,
    }
}

/// What eager does then depends on the function: some it refuses, with others the last write wins.
pub(crate) fn overlap_error() -> OpError {
    OpError::unsupported("a write to a tensor of which several elements may share one place in memory")
}

/// Whether it is certain that no two elements of a tensor with these strides share memory: each dimension steps over all that the
/// ones with smaller strides span.
pub fn are_apart(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: SmallVec<[(i64, i64); 8]> =
        strides.iter().copied().zip(sizes.iter().copied()).filter(|dim| dim.1 > 1).collect();
    dims.sort_unstable();
    let mut span = 1i64;
    dims.into_iter().all(|(stride, size)| {
        let steps_over = stride >= span;
        span = span.saturating_add(stride.saturating_mul(size - 1));
        steps_over
    })
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
        // The written tensor keeps the gradient that it had before the write.
        Op::Detach => {
            // What is grafted on the result of a call itself is taken for that result: here it is another value.
            let is_result = matches!(builder.graph().node(before).op, Op::Project(_));
            let path = if is_result { builder.graft(before, before)? } else { before };
            builder.graft(written, path)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_apart_if_every_stride_steps_over_the_smaller_ones() {
        assert!(are_apart(&[3, 4], &[4, 1]));
        assert!(are_apart(&[4, 3, 2], &[1, 8, 4]));
        assert!(are_apart(&[1, 3], &[0, 1]));
        assert!(are_apart(&[], &[]));
        assert!(!are_apart(&[5, 2], &[1, 1]));
        assert!(!are_apart(&[3], &[0]));
        assert!(!are_apart(&[3, 4], &[3, 1]));
    }
}
