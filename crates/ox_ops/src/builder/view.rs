//! Views. A view that changes nothing adds no node.

use super::Builder;
use crate::decide::undecided;
use crate::error::{OpError, OpResult};
use crate::infer::{differ, same_shape, shape_text};
use ox_ir::Sym;
use ox_ir::graph::{Dims, NodeId, Op, Shape, SliceDim};

impl Builder {
    /// The same elements in row-major order under another shape.
    pub fn reshape(&mut self, x: NodeId, shape: &[Sym]) -> OpResult<NodeId> {
        let ty = self.ty(x).with_shape(shape.iter().cloned().collect());
        if ty.shape == self.ty(x).shape {
            return Ok(x);
        }
        if !same_shape(&[ty.numel()], &[self.ty(x).numel()])? {
            let text = shape_text(&ty.shape);
            return Err(OpError::runtime(format!("shape '{text}' is invalid for input of size {}", self.ty(x).numel())));
        }
        self.declare(Op::Reshape, &[x], ty)
    }

    /// Dimension k of the result is dimension `perm[k]` of `x`.
    pub fn permute(&mut self, x: NodeId, perm: &[usize]) -> OpResult<NodeId> {
        if perm.len() == self.rank(x) && perm.iter().enumerate().all(|(k, p)| k == *p) {
            return Ok(x);
        }
        self.add(Op::Permute(Dims::from_slice(perm)), &[x])
    }

    pub fn transpose(&mut self, x: NodeId, a: usize, b: usize) -> OpResult<NodeId> {
        let mut perm: Dims = (0..self.rank(x)).collect();
        perm.swap(a, b);
        self.permute(x, &perm)
    }

    /// Same rank; sizes 1 are repeated.
    pub fn expand(&mut self, x: NodeId, shape: &[Sym]) -> OpResult<NodeId> {
        let ty = self.ty(x).with_shape(shape.iter().cloned().collect());
        if ty.shape == self.ty(x).shape {
            return Ok(x);
        }
        for (d, (own, new)) in self.ty(x).shape.iter().zip(shape).enumerate() {
            if own != new && !own.is_one() {
                return Err(match differ(own, new) {
                    true => OpError::runtime(format!(
                        "The expanded size of the tensor ({new}) must match the existing size ({own}) at non-singleton dimension {d}."
                    )),
                    false => undecided(own, new, format!("expand of size {own} to {new}, which may or may not be equal")),
                });
            }
        }
        self.declare(Op::Expand, &[x], ty)
    }

    pub fn unsqueeze(&mut self, x: NodeId, dim: usize) -> OpResult<NodeId> {
        let mut shape = self.shape(x);
        shape.insert(dim, Sym::ONE);
        self.reshape(x, &shape)
    }

    /// Drops `dims`, which must have size 1.
    pub fn squeeze(&mut self, x: NodeId, dims: &[usize]) -> OpResult<NodeId> {
        let shape = self.shape(x);
        let kept: Shape = shape.iter().enumerate().filter(|(d, _)| !dims.contains(d)).map(|(_, s)| s.clone()).collect();
        self.reshape(x, &kept)
    }

    /// One slice per dimension, of the lengths in `shape`.
    pub fn slice(&mut self, x: NodeId, dims: Vec<SliceDim>, shape: &[Sym]) -> OpResult<NodeId> {
        let ty = self.ty(x).with_shape(shape.iter().cloned().collect());
        if ty.shape == self.ty(x).shape && dims.iter().all(|d| d.start.is_zero() && d.step == 1) {
            return Ok(x);
        }
        self.declare(Op::Slice(dims), &[x], ty)
    }

    /// `len` elements of dimension `dim`, from `start`, `step` apart.
    pub fn slice_dim(&mut self, x: NodeId, dim: usize, start: &Sym, len: &Sym, step: i64) -> OpResult<NodeId> {
        let mut shape = self.shape(x);
        let dims = slice_dims(shape.len(), dim, start, step);
        shape[dim] = len.clone();
        self.slice(x, dims, &shape)
    }

    /// One element of dimension `dim`, which goes.
    pub fn select(&mut self, x: NodeId, dim: usize, at: &Sym) -> OpResult<NodeId> {
        let row = self.slice_dim(x, dim, at, &Sym::ONE, 1)?;
        self.squeeze(row, &[dim])
    }

    /// `count` windows of `size` elements over `dim`; the window becomes the last dimension.
    pub fn unfold(&mut self, x: NodeId, dim: usize, count: &Sym, size: &Sym, step: i64, dilation: i64) -> OpResult<NodeId> {
        let mut shape = self.shape(x);
        shape[dim] = count.clone();
        shape.push(size.clone());
        let ty = self.ty(x).with_shape(shape);
        self.declare(Op::Unfold { dim, step, dilation }, &[x], ty)
    }

    /// `x` without its gradient.
    pub fn detach(&mut self, x: NodeId) -> OpResult<NodeId> {
        if self.graph().node(x).op == Op::Detach { Ok(x) } else { self.add(Op::Detach, &[x]) }
    }

    /// `value`, with the derivative of `path`.
    pub fn graft(&mut self, value: NodeId, path: NodeId) -> OpResult<NodeId> {
        self.add(Op::Graft, &[value, path])
    }

    pub fn diagonal(&mut self, x: NodeId, offset: i64, dim1: usize, dim2: usize) -> OpResult<NodeId> {
        self.add(Op::Diagonal { offset, dim1, dim2 }, &[x])
    }
}

/// A slice of `dim` alone; all other dimensions whole.
pub(super) fn slice_dims(rank: usize, dim: usize, start: &Sym, step: i64) -> Vec<SliceDim> {
    let whole = SliceDim { start: Sym::ZERO, step: 1 };
    let mut dims = vec![whole; rank];
    dims[dim] = SliceDim { start: start.clone(), step };
    dims
}
