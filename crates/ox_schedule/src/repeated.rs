//! Results that eager repeats by strides of 0: what is repeated is stored once.

use crate::layout::is_spread;
use crate::prepare::Prepared;
use ox_ir::graph::{Node, Shape, SliceDim};
use ox_ir::{NodeId, Op, Sym};

impl Prepared {
    /// The value as a view of a copy that has each element once; None if nothing is repeated in these strides, or more than is in them.
    pub fn push_repeated(&mut self, of: NodeId, strides: &Shape) -> Option<NodeId> {
        let (ty, location) = (self.graph.ty(of).clone(), self.graph.node(of).location);
        let repeats = |d: usize| strides[d].is_zero() && !ty.shape[d].is_one() && ty.shape[d].is_positive();
        let small: Shape = (0..ty.rank()).map(|d| if repeats(d) { Sym::ONE } else { ty.shape[d].clone() }).collect();
        if small == ty.shape || !is_spread(&small, strides) {
            return None;
        }
        let firsts = vec![SliceDim { start: Sym::ZERO, step: 1 }; ty.rank()];
        let node = |op: Op, arg: NodeId, shape: Shape| Node {
            op,
            args: [arg].into_iter().collect(),
            ty: ty.with_shape(shape),
            location,
        };
        let once = self.push(node(Op::Slice(firsts), of, small.clone()), strides.clone());
        let copy = self.push_copy(once, strides.clone());
        Some(self.push(node(Op::Expand, copy, ty.shape.clone()), strides.clone()))
    }
}
