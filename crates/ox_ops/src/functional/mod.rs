//! Aliasing without strides: a tensor is a base and the chain of views that leads from the base to it.
//!
//! Because views are pure Ops, writing a view means computing a new value of its base (the inverse of the chain), and reading
//! another view afterwards means applying that view's chain to the base's new value.

mod names;
mod python_values;
mod write;

use crate::builder::Builder;
use crate::error::OpResult;
use ox_ir::graph::{Graph, NodeId, Op, SliceDim};
use ox_ir::{Sym, TensorType};

pub use names::is_elementwise;
pub(crate) use names::resolve;
pub(crate) use python_values::python_value;
pub use write::are_apart;
pub(crate) use write::{inverse, overlap_error, write_through};

/// One view of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ViewStep {
    pub op: Op,
    pub ty: TensorType,
}

pub(crate) type Chain = Vec<ViewStep>;

/// The views that lead from `base` to `to`, if nothing but views does.
pub(crate) fn chain_between(graph: &Graph, base: NodeId, to: NodeId) -> Option<Chain> {
    let mut chain = Chain::new();
    let mut at = to;
    while at != base {
        let node = graph.node(at);
        if !node.op.is_view() {
            return None;
        }
        chain.push(ViewStep { op: node.op.clone(), ty: node.ty.clone() });
        at = node.args[0];
    }
    chain.reverse();
    Some(chain)
}

/// Whether two views of one base have no element in common, as far as the first slice in which they differ tells.
pub(crate) fn are_disjoint(a: &[ViewStep], b: &[ViewStep]) -> bool {
    let Some((a, b)) = a.iter().zip(b).find(|(a, b)| a != b) else { return false };
    let (Op::Slice(ours), Op::Slice(theirs)) = (&a.op, &b.op) else { return false };
    let dims = ours.iter().zip(&a.ty.shape).zip(theirs.iter().zip(&b.ty.shape));
    dims.into_iter().any(|((ours, n), (theirs, m))| {
        let ((first, last), (other_first, other_last)) = (ends(ours, n), ends(theirs, m));
        (&other_first - &last).is_positive() || (&first - &other_last).is_positive() || are_interleaved(ours, theirs)
    })
}

/// `0::2` and `1::2`.
fn are_interleaved(a: &SliceDim, b: &SliceDim) -> bool {
    a.step == b.step && (&a.start - &b.start).as_const().is_some_and(|apart| apart % a.step != 0)
}

/// The least and the greatest index that a slice of `len` elements takes.
fn ends(slice: &SliceDim, len: &Sym) -> (Sym, Sym) {
    let other = &slice.start + &(&(len - 1) * slice.step);
    if slice.step > 0 { (slice.start.clone(), other) } else { (other, slice.start.clone()) }
}

/// All values along the chain, the base's first.
pub(crate) fn replay(builder: &mut Builder, base: NodeId, chain: &[ViewStep]) -> OpResult<Vec<NodeId>> {
    let mut values = vec![base];
    for step in chain {
        values.push(builder.declare(step.op.clone(), &[values[values.len() - 1]], step.ty.clone())?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::{DType, Device};

    fn slice(start: i64, len: i64, step: i64) -> Chain {
        let ty = TensorType { dtype: DType::F32, device: Device::Cpu, shape: [Sym::from(len)].into_iter().collect() };
        vec![ViewStep { op: Op::Slice(vec![SliceDim { start: Sym::from(start), step }]), ty }]
    }

    #[test]
    fn slices_are_disjoint_if_their_ranges_are() {
        assert!(are_disjoint(&slice(0, 3, 1), &slice(3, 3, 1)));
        assert!(are_disjoint(&slice(7, 3, -1), &slice(0, 3, 2)));
        assert!(are_disjoint(&slice(0, 3, 2), &slice(1, 3, 2)));
        assert!(!are_disjoint(&slice(0, 3, 2), &slice(4, 3, 2)));
        assert!(!are_disjoint(&slice(0, 3, 1), &slice(2, 3, 1)));
        assert!(!are_disjoint(&slice(0, 3, 1), &slice(0, 3, 1)));
        assert!(!are_disjoint(&slice(0, 3, 1), &[]));
    }
}
