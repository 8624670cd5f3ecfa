//! One element picked of each row (the loss of a class, a selected logit): its gradient needs no scatter, since each element can ask
//! whether it is the one. So it fuses with what follows.

use super::Site;
use crate::builder::Builder;
use crate::error::OpResult;
use ox_ir::graph::{Bounds, NodeId, Op, Shape};
use ox_ir::{DType, PointOp, Sym};

pub struct Pick {
    /// The dimension that is picked from, and the index.
    dim: usize,
    index: NodeId,
    /// For each dimension of `x`, the dimension of the indices that runs along it.
    along: Vec<Option<usize>>,
}

impl Pick {
    /// All dimensions are indexed, all but one by their own positions.
    pub fn of(b: &Builder, site: &Site<'_>, dims: &[usize]) -> Option<Pick> {
        let x = b.ty(site.arg(0));
        let indices = &site.node.args[1..];
        let common = &b.ty(*indices.first()?).shape;
        if dims.len() != x.rank() {
            return None;
        }
        let mut found = Pick { dim: usize::MAX, index: indices[0], along: vec![None; x.rank()] };
        for (dim, index) in dims.iter().zip(indices) {
            match position(b, *index) {
                Some(along) if common[along] == x.shape[*dim] => found.along[*dim] = Some(along),
                Some(_) => return None,
                None if found.dim == usize::MAX => (found.dim, found.index) = (*dim, *index),
                None => return None,
            }
        }
        let used = |d: usize| found.along.iter().filter(|along| **along == Some(d)).count();
        let whole = (0..common.len()).all(|d| used(d) == usize::from(!common[d].is_one()) || (used(d) == 1));
        (found.dim != usize::MAX && whole).then_some(found)
    }

    /// `grad` where the position is the picked one, zero elsewhere.
    pub fn spread(&self, b: &mut Builder, grad: NodeId, x: NodeId, bounds: Bounds) -> OpResult<NodeId> {
        let shape = b.shape(x);
        let mut index = b.cast(self.index, DType::I64);
        if bounds == Bounds::Wrap {
            let size = b.sym_value(shape[self.dim].clone(), DType::I64);
            let wrapped = b.binary(PointOp::Add, index, size)?;
            let negative = b.binary(PointOp::Lt, index, 0i64)?;
            index = b.choose(negative, wrapped, index)?;
        }
        let (index, grad) = (self.laid_along(b, index, &shape)?, self.laid_along(b, grad, &shape)?);
        let place = b.iota(&shape, self.dim)?;
        let chosen = b.point(PointOp::Eq, &[place, index])?;
        b.choose(chosen, grad, 0.0)
    }

    /// A tensor of the indices' shape under the dimensions of `x`.
    fn laid_along(&self, b: &mut Builder, y: NodeId, shape: &[Sym]) -> OpResult<NodeId> {
        let own = b.shape(y);
        let kept: Vec<usize> = self.along.iter().flatten().copied().collect();
        let dropped: Vec<usize> = (0..own.len()).filter(|d| !kept.contains(d)).collect();
        let order: Vec<usize> = kept.into_iter().chain(dropped).collect();
        let y = b.permute(y, &order)?;
        let rows: Shape = (0..shape.len()).map(|d| if self.along[d].is_some() { shape[d].clone() } else { Sym::ONE }).collect();
        let y = b.reshape(y, &rows)?;
        b.expand(y, shape)
    }
}

/// The dimension along which an index just counts from 0.
fn position(b: &Builder, index: NodeId) -> Option<usize> {
    let node = b.graph().node(index);
    match &node.op {
        Op::Iota { dim } => Some(*dim),
        Op::Expand => position(b, node.args[0]).filter(|d| !b.ty(node.args[0]).shape[*d].is_one()),
        Op::Reshape => {
            let (from, to) = (b.ty(node.args[0]), &node.ty);
            let proper = |shape: &[Sym]| (0..shape.len()).filter(|d| !shape[*d].is_one()).collect::<Vec<_>>();
            let (own, new) = (proper(&from.shape), proper(&to.shape));
            let only = own.len() == 1 && new.len() == 1 && position(b, node.args[0]) == Some(own[0]);
            only.then(|| new[0])
        }
        _ => None,
    }
}
