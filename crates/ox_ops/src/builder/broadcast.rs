//! Broadcasting, made explicit.

use super::Builder;
use crate::decide::undecided;
use crate::error::{OpError, OpResult};
use ox_ir::Sym;
use ox_ir::graph::{NodeId, Op, Shape};

/// The shape that all of these broadcast to.
pub fn broadcast_shapes(shapes: &[&[Sym]]) -> OpResult<Shape> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out: Shape = smallvec::smallvec![Sym::ONE; rank];
    for shape in shapes {
        let skip = rank - shape.len();
        for (d, size) in shape.iter().enumerate() {
            let place = &mut out[skip + d];
            if *place == *size || size.is_one() {
                continue;
            }
            if !place.is_one() {
                return Err(mismatch(place, size, skip + d));
            }
            *place = size.clone();
        }
    }
    Ok(out)
}

fn mismatch(a: &Sym, b: &Sym, dim: usize) -> OpError {
    match (a.as_const(), b.as_const()) {
        (Some(_), Some(_)) => OpError::runtime(format!(
            "The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"
        )),
        _ => undecided(a, b, format!("broadcast of sizes {a} and {b}, which may or may not be equal")),
    }
}

impl Builder {
    /// The tensors brought to one shape.
    pub fn broadcast(&mut self, tensors: &[NodeId]) -> OpResult<Vec<NodeId>> {
        let shapes: Vec<Shape> = tensors.iter().map(|t| self.shape(*t)).collect();
        let shapes: Vec<&[Sym]> = shapes.iter().map(|s| s.as_slice()).collect();
        let shape = broadcast_shapes(&shapes)?;
        tensors.iter().map(|t| self.broadcast_to(*t, &shape)).collect()
    }

    /// Leading dimensions are added, sizes 1 repeated. The shapes must fit. A constant is made anew with the shape.
    pub fn broadcast_to(&mut self, x: NodeId, shape: &[Sym]) -> OpResult<NodeId> {
        let own = self.shape(x);
        if own.as_slice() == shape {
            return Ok(x);
        }
        if let (Op::Full(value), true) = (&self.graph().node(x).op, own.is_empty()) {
            let value = *value;
            let ty = self.ty(x).with_shape(shape.iter().cloned().collect());
            return self.declare(Op::Full(value), &[], ty);
        }
        if own.len() > shape.len() {
            return Err(OpError::runtime(format!(
                "The expanded size of the tensor has {} dimensions, fewer than the {} of the tensor",
                shape.len(),
                own.len()
            )));
        }
        let mut aligned: Shape = smallvec::smallvec![Sym::ONE; shape.len() - own.len()];
        aligned.extend(own);
        let x = self.reshape(x, &aligned)?;
        self.expand(x, shape)
    }
}
