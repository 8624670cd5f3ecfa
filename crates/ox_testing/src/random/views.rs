//! Views with random attributes that stay inside of their argument.

use super::build::Gen;
use ox_ir::Sym;
use ox_ir::graph::{Dims, NodeId, Op, Shape, SliceDim};

impl Gen<'_> {
    pub fn view(&mut self) -> Option<NodeId> {
        let x = self.any();
        match self.rng.below(12) {
            0..3 => self.reshape(x),
            3..6 => self.permute(x),
            6..8 => self.expand(x),
            8..10 => self.slice(x),
            10 => self.unfold(x),
            _ => self.diagonal(x),
        }
    }

    fn shape_of(&self, x: NodeId) -> Shape {
        self.graph.ty(x).shape.clone()
    }

    /// Merges two dimensions, splits one, or adds or drops one of size 1.
    fn reshape(&mut self, x: NodeId) -> Option<NodeId> {
        let mut shape = self.shape_of(x);
        let rank = shape.len();
        match self.rng.below(4) {
            0 if rank >= 2 => {
                let d = self.rng.below(rank - 1);
                shape[d] = &shape[d] * &shape[d + 1];
                shape.remove(d + 1);
            }
            1 => {
                let d = shape.iter().position(|n| n.known_divisor() > 1)?;
                let by = smallest_factor(shape[d].known_divisor());
                let rest = shape[d].div(&Sym::from(by));
                shape[d] = rest;
                shape.insert(d + self.rng.below(2), Sym::from(by));
            }
            2 => shape.insert(self.rng.below(rank + 1), Sym::ONE),
            _ => {
                let d = shape.iter().position(|n| n.is_one())?;
                shape.remove(d);
            }
        }
        self.rearrange(Op::Reshape, &[x], shape)
    }

    fn permute(&mut self, x: NodeId) -> Option<NodeId> {
        let shape = self.shape_of(x);
        if shape.len() < 2 {
            return None;
        }
        let mut perm: Dims = (0..shape.len()).collect();
        self.rng.shuffle(&mut perm);
        let shape = perm.iter().map(|d| shape[*d].clone()).collect();
        self.rearrange(Op::Permute(perm), &[x], shape)
    }

    fn expand(&mut self, x: NodeId) -> Option<NodeId> {
        let mut shape = self.shape_of(x);
        let d = shape.iter().position(|n| n.is_one())?;
        shape[d] = self.size();
        self.rearrange(Op::Expand, &[x], shape)
    }

    pub fn slice(&mut self, x: NodeId) -> Option<NodeId> {
        let shape = self.shape_of(x);
        let parts: Vec<(SliceDim, Sym)> = shape.iter().map(|n| self.slice_dim(n)).collect();
        let (at, shape): (Vec<SliceDim>, Shape) = parts.into_iter().unzip();
        self.rearrange(Op::Slice(at), &[x], shape)
    }

    /// A part of a dimension with its length.
    pub fn slice_dim(&mut self, n: &Sym) -> (SliceDim, Sym) {
        match (n.as_const(), self.rng.below(4)) {
            (_, 0) if n.is_positive() => (SliceDim { start: n - 1, step: -1 }, n.clone()),
            (None, 2 | 3) if self.config.expressions => self.symbolic_slice(n),
            (None, 1) if (n - 1).is_positive() => (SliceDim { start: Sym::ONE, step: 1 }, n - 1),
            (Some(size), 1 | 2) if size > 0 => {
                let (start, step) = (self.rng.int(0, size - 1), self.rng.int(1, 3));
                let len = self.rng.int(0, (size - 1 - start) / step + 1);
                (SliceDim { start: Sym::from(start), step }, Sym::from(len))
            }
            _ => (SliceDim { start: Sym::ZERO, step: 1 }, n.clone()),
        }
    }

    /// The least that a dimension's size can be, where it may be read at places that are constants.
    fn least(&self, size: &Sym) -> Option<i64> {
        if self.config.expressions { Some(size.bounds().0) } else { size.as_const() }
    }

    fn unfold(&mut self, x: NodeId) -> Option<NodeId> {
        let mut shape = self.shape_of(x);
        let dim = (0..shape.len()).find(|d| self.least(&shape[*d]).is_some_and(|n| n >= 3))?;
        let size = self.least(&shape[dim])?;
        let (window, step) = (self.rng.int(1, 3), self.rng.int(1, 2));
        let dilation = if window > 1 { self.rng.int(1, (size - 1) / (window - 1)) } else { 1 };
        let windows = &(&shape[dim] - ((window - 1) * dilation + 1)).div(&Sym::from(step)) + 1;
        shape[dim] = windows;
        shape.push(Sym::from(window));
        self.rearrange(Op::Unfold { dim, step, dilation }, &[x], shape)
    }

    fn diagonal(&mut self, x: NodeId) -> Option<NodeId> {
        let mut shape = self.shape_of(x);
        let usable: Vec<usize> = (0..shape.len()).filter(|d| self.least(&shape[*d]).is_some_and(|n| n > 0)).collect();
        let [dim1, .., dim2] = usable[..] else { return None };
        let (dim1, dim2) = if self.rng.percent(50) { (dim1, dim2) } else { (dim2, dim1) };
        let (n1, n2) = (shape[dim1].clone(), shape[dim2].clone());
        let offset = self.rng.int(1 - self.least(&n1)?, self.least(&n2)? - 1);
        let len = (&n1 - (-offset).max(0)).lesser(&(&n2 - offset.max(0))).greater(&Sym::ZERO);
        shape.remove(dim1.max(dim2));
        shape.remove(dim1.min(dim2));
        shape.push(len);
        self.rearrange(Op::Diagonal { offset, dim1, dim2 }, &[x], shape)
    }
}

fn smallest_factor(n: i64) -> i64 {
    (2..).find(|f| n % f == 0).expect("n is at least 2")
}
