//! Rows of the last outer axis: one after the other, or several at once where that is better.

use super::index::At;
use super::tiles::Tiles;
use super::{Emitter, width};
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::Sym;
use ox_ir::kernel::Axis;

/// How rows are done, where several are to be done from one end to the other.
enum Way<'a> {
    Tiled(Tiles<'a>),
    /// All of them, so many, at once.
    Woven(i64),
    /// So short that each is written without a loop.
    Short(i64),
    Plain,
}

/// What is still to be done when a row begins, or goes on.
#[derive(Clone, Copy)]
struct Part<'a> {
    from: V<'a>,
    /// In this row and in later ones.
    left: V<'a>,
    length: V<'a>,
}

impl<'a> Emitter<'a> {
    /// Row after row of the last axis; `begin` and `end` may lie in the middle of one.
    pub fn rows(&mut self, axes: &'a [Axis], last: &'a Axis, begin: V<'a>, end: V<'a>) -> Result<(), CodegenError> {
        let ir = self.ir;
        let way = self.way(last);
        ir.when(begin.lt(end), vec![], |_| {
            let length = self.divisor(last)?;
            let mut start = self.decode(axes, begin.udiv(length))?;
            start.extend([begin, begin.urem(length)]);
            ir.repeat(start, |carried| {
                let (positions, [point, from]) = carried.split_at(axes.len()) else {
                    unreachable!("two values follow the positions")
                };
                for (axis, position) in axes.iter().zip(positions) {
                    self.bind(&axis.var, *position);
                }
                let part = Part { from: *from, left: end - *point, length };
                let row = &axes[axes.len() - 1];
                let (rows, points) = match &way {
                    Way::Tiled(tiles) => self.tile_high(tiles, row, last, part)?,
                    Way::Woven(count) => self.all_rows(*count, row, last, part)?,
                    Way::Short(length) => self.whole_rows(row, last, *length, part)?,
                    Way::Plain => (ir.index(1), self.part_of_row(last, part)?),
                };
                let point = point.add_index(points);
                let mut next = self.advance(axes, positions, rows)?;
                next.extend([point, ir.index(0)]);
                Ok((next, point.lt(end)))
            })?;
            Ok(vec![])
        })?;
        Ok(())
    }

    fn way(&mut self, last: &Axis) -> Way<'a> {
        if let Some(tiles) = self.tiles() {
            return Way::Tiled(tiles);
        }
        if let Some(count) = self.woven() {
            return Way::Woven(count);
        }
        self.short_row(last).map_or(Way::Plain, Way::Short)
    }

    /// As much of a row as there is to do; gives how many points those are.
    fn part_of_row(&mut self, axis: &'a Axis, part: Part<'a>) -> Result<V<'a>, CodegenError> {
        let wanted = part.from.add_index(part.left);
        let to = wanted.lt(part.length).select(wanted, part.length);
        self.row(axis, part.from, to)?;
        Ok(to - part.from)
    }

    /// As many rows as tiles are high, if so many whole ones are left, or a part of one; gives how many rows and points those are.
    fn tile_high(
        &mut self,
        tiles: &Tiles<'a>,
        rows: &'a Axis,
        last: &'a Axis,
        part: Part<'a>,
    ) -> Result<(V<'a>, V<'a>), CodegenError> {
        let side = self.ir.index(tiles.side as i64);
        let (row, below) = self.row_and_those_below(rows)?;
        let area = part.length.mul_index(side);
        let is_tile = part.from.eq(self.ir.index(0)) & part.length.ge(side) & below.ge(side) & part.left.ge(area);
        self.several_or_one((rows, row), last, part, is_tile, |this| {
            this.tiled_rows(tiles, (rows, row), last, part.length)?;
            Ok(side)
        })
    }

    /// All of the rows, which are woven, if they are all to be done.
    fn all_rows(&mut self, count: i64, rows: &'a Axis, last: &'a Axis, part: Part<'a>) -> Result<(V<'a>, V<'a>), CodegenError> {
        let count_there = self.ir.index(count);
        let (row, _) = self.row_and_those_below(rows)?;
        let are_all = (part.from + row).eq(self.ir.index(0)) & part.left.ge(part.length.mul_index(count_there));
        self.several_or_one((rows, row), last, part, are_all, |this| {
            this.woven_rows(count, rows, last, part.length)?;
            Ok(count_there)
        })
    }

    /// Where `rows` stands, and how many it has from there on.
    fn row_and_those_below(&self, rows: &Axis) -> Result<(V<'a>, V<'a>), CodegenError> {
        let row = self.sym(&Sym::var(&rows.var), At::Base, Elem::I64)?;
        Ok((row, self.sym(&rows.extent, At::Base, Elem::I64)? - row))
    }

    /// Several whole rows where the condition holds, or what is to be done of one; gives how many rows and points those are.
    fn several_or_one(
        &mut self,
        (rows, row): (&'a Axis, V<'a>),
        last: &'a Axis,
        part: Part<'a>,
        condition: V<'a>,
        several: impl FnOnce(&mut Self) -> Result<V<'a>, CodegenError>,
    ) -> Result<(V<'a>, V<'a>), CodegenError> {
        let ir = self.ir;
        let done = ir.when(condition, vec![ir.index(0), ir.index(0)], |_| {
            let count = several(self)?;
            Ok::<_, CodegenError>(vec![count, count.mul_index(part.length)])
        })?;
        self.bind(&rows.var, row);
        let one = |_| Ok::<_, CodegenError>(vec![ir.index(1), self.part_of_row(last, part)?]);
        let done = ir.when(!condition, done, one)?;
        Ok((done[0], done[1]))
    }

    /// How long the rows are, if they are so short that a whole one is written without a loop: to begin a row and to find the next one
    /// would be much of the work (heads of 16 numbers side by side: 1.4 times eager's time).
    fn short_row(&mut self, last: &Axis) -> Option<i64> {
        const MOST_VECTORS: i64 = 8;
        const MOST_WORK: i64 = 64;
        self.kernel.rows_of_lanes()?;
        let length = last.extent.as_const()?;
        let vectors = (length as u64).div_ceil(self.width as u64) as i64;
        let work: u32 = self.kernel.insts.iter().map(|typed| width::weight(&typed.inst)).sum();
        let is_little = vectors <= MOST_VECTORS && vectors * work as i64 <= MOST_WORK;
        (is_little && self.streamable_along(last).is_empty()).then_some(length)
    }

    /// As many whole rows as there are, to the end of `rows`.
    fn whole_rows(
        &mut self,
        rows: &'a Axis,
        last: &'a Axis,
        length: i64,
        part: Part<'a>,
    ) -> Result<(V<'a>, V<'a>), CodegenError> {
        let ir = self.ir;
        let (row, below) = self.row_and_those_below(rows)?;
        let is_whole = part.from.eq(ir.index(0)) & part.left.ge(part.length);
        self.several_or_one((rows, row), last, part, is_whole, |this| {
            let left = part.left.udiv(part.length);
            let count = left.lt(below).select(left, below);
            ir.for_loop(row, row.add_index(count), 1, vec![], |row, none| {
                this.bind(&rows.var, row);
                for from in (0..length).step_by(this.width as usize) {
                    let rest = length - from;
                    let mask = (rest < this.width as i64).then(|| ir.lanes_below(ir.index(rest), this.width));
                    this.at_lanes(last, ir.index(from), mask)?;
                }
                Ok::<_, CodegenError>(none)
            })?;
            Ok(count)
        })
    }
}
