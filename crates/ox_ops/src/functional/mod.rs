//! Aliasing without strides: a tensor is a base and the chain of views that leads from the base to it.
//!
//! Because views are pure Ops, writing a view means computing a new value of its base (the inverse of the chain), and reading
//! another view afterwards means applying that view's chain to the base's new value.

mod names;
mod python_values;
mod write;

use crate::builder::Builder;
use crate::error::OpResult;
use ox_ir::TensorType;
use ox_ir::graph::{Graph, NodeId, Op};

pub(crate) use names::resolve;
pub(crate) use python_values::python_value;
pub(crate) use write::{overlap_error, write_through};

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

/// All values along the chain, the base's first.
pub(crate) fn replay(builder: &mut Builder, base: NodeId, chain: &[ViewStep]) -> OpResult<Vec<NodeId>> {
    let mut values = vec![base];
    for step in chain {
        values.push(builder.declare(step.op.clone(), &[values[values.len() - 1]], step.ty.clone())?);
    }
    Ok(values)
}
