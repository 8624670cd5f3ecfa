//! Values put together from several sources: padding, concatenation, a slice overwritten.

use super::mask::Condition;
use super::{Emitter, Illegal, PassId};
use crate::cost::numel;
use ox_ir::graph::{Node, Shape, SliceDim};
use ox_ir::kernel::{Inst, Val};
use ox_ir::{PointOp, Scalar, Sym};

impl Emitter<'_> {
    pub(super) fn pad(
        &mut self,
        node: &Node,
        low: &[Sym],
        value: Scalar,
        coords: Shape,
        mask: Option<Val>,
        pass: PassId,
    ) -> Result<Val, Illegal> {
        let shape = &self.ctx.graph.ty(node.args[0]).shape;
        let inner: Shape = coords.iter().zip(low).map(|(c, l)| c - l).collect();
        let inside = inner.iter().zip(shape).map(|(c, n)| self.in_range(c, n)).collect();
        let dtype = node.ty.dtype;
        match self.all_of(inside) {
            Condition::Always => self.value(node.args[0], inner, mask),
            Condition::Never => Ok(self.push_pure(pass, Inst::Const(value), dtype)),
            Condition::Test(inside) => {
                let both = self.and(mask, inside);
                let kept = self.value(node.args[0], inner, Some(both))?;
                let pass = self.later(pass, inside);
                let outside = self.push_pure(pass, Inst::Const(value), dtype);
                Ok(self.apply(PointOp::Where, &[inside, kept, outside], pass))
            }
        }
    }

    pub(super) fn cat(
        &mut self,
        node: &Node,
        dim: usize,
        coords: Shape,
        mask: Option<Val>,
        pass: PassId,
    ) -> Result<Val, Illegal> {
        let mut begin = Sym::ZERO;
        let mut parts: Vec<(Condition, Val)> = Vec::new();
        for arg in &node.args {
            let n = self.ctx.graph.ty(*arg).shape[dim].clone();
            let mut inner = coords.clone();
            inner[dim] = &coords[dim] - &begin;
            begin = &begin + &n;
            let inside = self.in_range(&inner[dim].clone(), &n);
            let part_mask = match inside {
                Condition::Never => continue,
                Condition::Always => mask,
                Condition::Test(c) => Some(self.and(mask, c)),
            };
            parts.push((inside, self.value(*arg, inner, part_mask)?));
        }
        let (_, mut acc) = parts.pop().ok_or(Illegal("a concatenation of nothing"))?;
        while let Some((condition, val)) = parts.pop() {
            acc = match condition {
                Condition::Test(c) => {
                    let pass = self.later(pass, c);
                    self.apply(PointOp::Where, &[c, val, acc], pass)
                }
                _ => val,
            };
        }
        Ok(acc)
    }

    pub(super) fn slice_scatter(
        &mut self,
        node: &Node,
        dims: &[SliceDim],
        coords: Shape,
        mask: Option<Val>,
        pass: PassId,
    ) -> Result<Val, Illegal> {
        let (base, source) = (node.args[0], node.args[1]);
        let shape = &self.ctx.graph.ty(source).shape;
        let mut inner = Shape::new();
        let mut conditions = Vec::new();
        for ((c, d), n) in coords.iter().zip(dims).zip(shape) {
            let moved = c - &d.start;
            conditions.push(self.is_multiple(&moved, d.step));
            let at = moved.div(&Sym::from(d.step));
            conditions.push(self.in_range(&at, n));
            inner.push(at);
        }
        match self.all_of(conditions) {
            Condition::Always => self.value(source, inner, mask),
            Condition::Never => self.value(base, coords, mask),
            Condition::Test(inside) => {
                let both = self.and(mask, inside);
                let new = self.value(source, inner, Some(both))?;
                let pass = self.later(pass, inside);
                // What is written over exists, too: reading some of it for nothing costs less than asking everywhere.
                let seen = match 2 * numel(self.ctx.graph.ty(source)) > numel(&node.ty) {
                    true => {
                        let outside = self.apply(PointOp::Not, &[inside], pass);
                        Some(self.and(mask, outside))
                    }
                    false => mask,
                };
                let old = self.value(base, coords, seen)?;
                Ok(self.apply(PointOp::Where, &[inside, new, old], pass))
            }
        }
    }

    /// The later of a pass and the home of a value that is used in it.
    pub(super) fn later(&self, pass: PassId, val: Val) -> PassId {
        let home = self.home[val.index()];
        if (home.full, home.level) > (pass.full, pass.level) { home } else { pass }
    }
}
