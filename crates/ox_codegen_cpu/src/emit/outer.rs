//! The loops over the outer points `begin..end`.

use super::index::At;
use super::{Emitter, Lane};
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::kernel::{Axis, Lanes, Val};

impl<'a> Emitter<'a> {
    pub fn kernel_body(&mut self) -> Result<(), CodegenError> {
        let params = self.ir.params();
        let (begin, end) = (params.begin, params.end);
        let axes = &self.kernel.axes;
        match (self.kernel.lanes, axes.as_slice()) {
            (Lanes::Outer, [axis]) => self.row(axis, begin, end),
            (Lanes::Outer, [rows @ .., last]) => self.rows(rows, last, begin, end),
            (_, [axis]) => self.points(begin, end, vec![], |this, p, _| this.bind(&axis.var, p)),
            _ => self.points_of_many(begin, end),
        }
    }

    /// The extent of an axis, for use as a divisor.
    pub fn divisor(&self, axis: &Axis) -> Result<V<'a>, CodegenError> {
        let extent = self.sym(&axis.extent, At::Base, Elem::I64)?;
        if axis.extent.is_positive() {
            return Ok(extent);
        }
        Ok(extent.lt(extent.int(1)).select(extent.int(1), extent))
    }

    /// The position along each axis of the point with number `point`.
    pub fn decode(&self, axes: &[Axis], point: V<'a>) -> Result<Vec<V<'a>>, CodegenError> {
        let mut rest = point;
        let mut positions = Vec::with_capacity(axes.len());
        for (n, axis) in axes.iter().enumerate().rev() {
            if n == 0 {
                positions.push(rest);
                break;
            }
            let extent = self.divisor(axis)?;
            positions.push(rest.urem(extent));
            rest = rest.udiv(extent);
        }
        positions.reverse();
        Ok(positions)
    }

    /// The positions some points further on, but none past the end of the last axis: an odometer, since dividing for every point would cost more than many bodies.
    pub fn advance(&self, axes: &[Axis], positions: &[V<'a>], by: V<'a>) -> Result<Vec<V<'a>>, CodegenError> {
        let mut next = positions.to_vec();
        let mut carry = by;
        for n in (0..axes.len()).rev() {
            let moved = positions[n].add_index(carry);
            if n == 0 {
                next[n] = moved;
                break;
            }
            let extent = self.sym(&axes[n].extent, At::Base, Elem::I64)?;
            let wraps = moved.ge(extent);
            next[n] = wraps.select(moved.int(0), moved);
            carry = wraps.zext(Elem::I64);
        }
        Ok(next)
    }

    /// One point after the other; lanes, if any, run inside the passes.
    fn points(
        &mut self,
        begin: V<'a>,
        end: V<'a>,
        start: Vec<V<'a>>,
        bind: impl FnOnce(&mut Self, V<'a>, &[V<'a>]),
    ) -> Result<(), CodegenError> {
        let ir = self.ir;
        let axes = &self.kernel.axes;
        ir.for_loop(begin, end, 1, start, |p, positions| {
            bind(self, p, &positions);
            self.passes()?;
            if positions.is_empty() { Ok(positions) } else { self.advance(axes, &positions, ir.index(1)) }
        })?;
        Ok(())
    }

    fn points_of_many(&mut self, begin: V<'a>, end: V<'a>) -> Result<(), CodegenError> {
        let axes = &self.kernel.axes;
        let start = self.decode(axes, begin)?;
        self.points(begin, end, start, |this, _, positions| {
            for (axis, position) in axes.iter().zip(positions) {
                this.bind(&axis.var, *position);
            }
        })
    }

    /// The points `from..to` of one row: full vectors, then what is left under a mask.
    pub fn row_of_points(&mut self, axis: &'a Axis, from: V<'a>, to: V<'a>) -> Result<(), CodegenError> {
        let (ir, kernel) = (self.ir, self.kernel);
        let settled = self.settle(&axis.var)?;
        self.lane = Some(Lane { var: axis.var.clone(), mask: None });
        let plain: Vec<Val> = kernel.passes.iter().filter(|pass| self.is_flat(pass)).flat_map(|pass| pass.body.clone()).collect();
        let before = self.hoist(plain.iter(), &axis.var)?;
        self.lane = None;
        let pieces = self.pieces(axis);
        if pieces.is_empty() {
            let full = from.add_index((to - from) & -(self.width as i64));
            self.full_vectors(axis, from, full)?;
            ir.when(full.lt(to), vec![], |none| {
                let mask = ir.lanes_below(to - full, self.width);
                self.at_lanes(axis, full, Some(mask))?;
                Ok::<_, CodegenError>(none)
            })?;
        } else {
            pieces.into_iter().try_for_each(|piece| self.piece(axis, piece, from, to))?;
        }
        self.hoisted = before;
        self.settled = settled;
        Ok(())
    }

    /// Whole vectors, past the caches where that is better.
    pub fn full_vectors(&mut self, axis: &'a Axis, from: V<'a>, to: V<'a>) -> Result<(), CodegenError> {
        let rest = self.stream_row(axis, from, to)?;
        self.ir.for_loop(rest, to, self.width as i64, vec![], |x, none| {
            self.at_lanes(axis, x, None)?;
            Ok::<_, CodegenError>(none)
        })?;
        Ok(())
    }

    pub fn streamable_along(&mut self, axis: &Axis) -> Vec<Val> {
        self.lane = Some(Lane { var: axis.var.clone(), mask: None });
        let stores = self.streamable(self.kernel.passes.iter().flat_map(|pass| &pass.body), &[]);
        self.lane = None;
        stores
    }

    /// The full vectors with streaming stores, if there are any and they are aligned; gives where that ended.
    fn stream_row(&mut self, axis: &'a Axis, from: V<'a>, full: V<'a>) -> Result<V<'a>, CodegenError> {
        let (ir, kernel) = (self.ir, self.kernel);
        if kernel.passes.iter().any(|pass| !pass.axes.is_empty()) {
            return Ok(from);
        }
        let stores = self.streamable_along(axis);
        self.bind(&axis.var, from);
        self.lane = Some(Lane { var: axis.var.clone(), mask: None });
        let aligned = self.are_aligned(&stores)?;
        self.lane = None;
        if stores.is_empty() {
            return Ok(from);
        }
        self.streamed = true;
        let ended = ir.when(aligned, vec![from], |_| {
            self.streaming = stores;
            ir.for_loop(from, full, self.width as i64, vec![], |x, none| {
                self.at_lanes(axis, x, None)?;
                Ok::<_, CodegenError>(none)
            })?;
            self.streaming.clear();
            Ok::<_, CodegenError>(vec![full])
        })?;
        Ok(ended[0])
    }

    pub fn at_lanes(&mut self, axis: &Axis, x: V<'a>, mask: Option<V<'a>>) -> Result<(), CodegenError> {
        self.bind(&axis.var, x);
        self.lane = Some(Lane { var: axis.var.clone(), mask });
        self.passes()?;
        self.lane = None;
        Ok(())
    }
}
