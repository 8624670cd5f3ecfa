//! What is read across its rows is read in tiles.
//!
//! Lane after lane of a transposed operand lies a row further on: every vector touches as many lines of the cache as it has lanes, and where the rows are
//! a power of two long those lines drive each other out before the next vector needs them (1024x1024: seven times eager's time). So several rows of the result
//! are done side by side: a square of the operand is read along its own rows, turned in registers, and put on the stack, where the body finds it
//! in the order of its lanes.

use super::convert::{self, memory_elem};
use super::index::At;
use super::{Emitter, Lane};
use crate::CodegenError;
use crate::ir::{Access, Elem, V};
use ox_ir::graph::Combine;
use ox_ir::kernel::{Axis, BufRole, Inst, Val};
use ox_ir::{DType, Sym};

/// A line of the cache of 32-bit numbers.
const LEAST_SIDE: u32 = 16;
/// The body exists once more, and each tile takes part of the stack.
const MOST_INSTS: usize = 64;
const MOST_TILES: usize = 4;
/// Smaller results are not worth compiling it.
const LEAST_POINTS: i64 = 1 << 12;

/// The loads of a kernel that read tiles, which are as many elements wide as high.
pub struct Tiles<'a> {
    pub side: u32,
    loads: Vec<(Val, V<'a>)>,
}

impl<'a> Emitter<'a> {
    /// What can be read so.
    pub fn tiles(&self) -> Option<Tiles<'a>> {
        let (kernel, side) = (self.kernel, self.width.max(LEAST_SIDE));
        let (rows, lanes) = kernel.rows_of_lanes()?;
        let points: Sym = kernel.axes.iter().map(|axis| &axis.extent).product();
        let is_large =
            [rows, lanes].iter().all(|axis| axis.extent.bounds().1 >= side as i64) && points.bounds().1 >= LEAST_POINTS;
        if self.width == 1 || !is_large || kernel.insts.len() > MOST_INSTS || !self.may_be_tiled(lanes, side) {
            return None;
        }
        let all = (0..kernel.insts.len() as u32).map(Val);
        let loads: Vec<Val> = all.filter(|val| kernel.is_read_across(*val) && self.is_of_axes(*val)).collect();
        if loads.is_empty() || loads.len() > MOST_TILES {
            return None;
        }
        let tile = |val: Val| self.ir.alloca(memory_elem(self.loaded(val)), side as i64 * side as i64, 64);
        Some(Tiles { side, loads: loads.into_iter().map(|val| (val, tile(val))).collect() })
    }

    /// The last tile of a row covers what is left and part of the one before, which is done twice. What is written over its operand may not be, so
    /// there no tile may be left over.
    fn may_be_tiled(&self, lanes: &Axis, side: u32) -> bool {
        let sets = |inst: &Inst| !matches!(inst, Inst::Store { combine, .. } if *combine != Combine::Set);
        let may_be_done_twice = |role: &BufRole| matches!(role, BufRole::In | BufRole::Out);
        let is_exact = lanes.extent.is_multiple_of(side as i64);
        let mut roles = self.kernel.bufs.iter().map(|buf| &buf.role);
        self.kernel.insts.iter().all(|typed| sets(&typed.inst)) && (is_exact || roles.all(may_be_done_twice))
    }

    /// Whether the place of a load is known where a tile begins.
    fn is_of_axes(&self, load: Val) -> bool {
        let Inst::Load { index, .. } = &self.kernel.inst(load).inst else { return false };
        index.vars().iter().all(|var| self.kernel.axes.iter().any(|axis| axis.var == *var) || self.vars.contains_key(var))
    }

    fn loaded(&self, val: Val) -> DType {
        let Inst::Load { buf, .. } = &self.kernel.inst(val).inst else { unreachable!("only loads read tiles") };
        self.kernel.bufs[*buf as usize].dtype
    }

    /// As many rows as tiles are high, from `top` on and from one end to the other. A row is at least as long.
    pub fn tiled_rows(
        &mut self,
        tiles: &Tiles<'a>,
        (rows, top): (&'a Axis, V<'a>),
        lanes: &'a Axis,
        length: V<'a>,
    ) -> Result<(), CodegenError> {
        let (ir, side) = (self.ir, tiles.side as i64);
        ir.for_loop(ir.index(0), length, side, vec![], |column, none| {
            let last = length - ir.index(side);
            let left = column.lt(last).select(column, last);
            for (val, tile) in &tiles.loads {
                self.fill(*val, *tile, (rows, top), (lanes, left), tiles.side)?;
            }
            self.tile_bodies(tiles, (rows, top), (lanes, left))?;
            Ok::<_, CodegenError>(none)
        })?;
        Ok(())
    }

    /// The bodies of a tile.
    fn tile_bodies(
        &mut self,
        tiles: &Tiles<'a>,
        (rows, top): (&'a Axis, V<'a>),
        (lanes, left): (&'a Axis, V<'a>),
    ) -> Result<(), CodegenError> {
        let (ir, side) = (self.ir, tiles.side as i64);
        ir.for_loop(ir.index(0), ir.index(side), 1, vec![], |row, none| {
            self.bind(&rows.var, top.add_index(row));
            for column in (0..side).step_by(self.width as usize) {
                self.bind(&lanes.var, left.add_index(ir.index(column)));
                self.lane = Some(Lane { var: lanes.var.clone(), mask: None });
                let at = row.mul_index(ir.index(side)).add_index(ir.index(column));
                self.in_tile =
                    tiles.loads.iter().map(|(val, tile)| (*val, tile.offset(memory_elem(self.loaded(*val)), at))).collect();
                self.passes()?;
                self.in_tile.clear();
                self.lane = None;
            }
            Ok::<_, CodegenError>(none)
        })?;
        Ok(())
    }

    /// Reads a square of what `val` loads, in smaller ones of as many elements as a vector has, and turns it.
    fn fill(
        &mut self,
        val: Val,
        tile: V<'a>,
        (rows, top): (&'a Axis, V<'a>),
        (lanes, left): (&'a Axis, V<'a>),
        side: u32,
    ) -> Result<(), CodegenError> {
        let Inst::Load { buf, index, .. } = &self.kernel.inst(val).inst else { unreachable!("only loads read tiles") };
        let (ir, width) = (self.ir, self.width);
        let (buffer, elem) = (self.buffer(*buf)?, memory_elem(self.loaded(val)));
        let step = index.coeff(&lanes.var).expect("a tile's load goes by steps");
        let step = self.sym(&step, At::Base, Elem::I64)?;
        let (none, end) = (ir.index(0), ir.index(side as i64));
        ir.for_loop(none, end, width as i64, vec![], |across, _| {
            ir.for_loop(none, end, width as i64, vec![], |down, nothing| {
                self.bind(&rows.var, top.add_index(down));
                self.bind(&lanes.var, left.add_index(across));
                let first = self.pointer(&buffer, index, 1, At::Base)?;
                let read = |lane: u32| {
                    let pointer = first.offset(elem, step.mul_index(ir.index(lane as i64)));
                    pointer.load(elem, width, 1, buffer.access)
                };
                for (row, turned) in turned((0..width).map(read).collect()).into_iter().enumerate() {
                    let row = down.add_index(ir.index(row as i64));
                    let place = row.mul_index(ir.index(side as i64)).add_index(across);
                    tile.offset(elem, place).store(turned, 1, Access::UNKNOWN);
                }
                Ok::<_, CodegenError>(nothing)
            })
        })?;
        Ok(())
    }

    /// What a load gives inside of a tile.
    pub fn tiled_load(&self, val: Val, dtype: DType) -> Option<V<'a>> {
        let (_, place) = self.in_tile.iter().find(|(load, _)| *load == val)?;
        let own = self.loaded(val);
        let raw = place.load(memory_elem(own), self.width, 1, Access::UNKNOWN);
        Some(convert::convert(convert::from_memory(raw, own), own, dtype))
    }
}

/// Columns for rows: in squares of two, of four and so on, the two corners beside the diagonal change places.
fn turned(mut rows: Vec<V<'_>>) -> Vec<V<'_>> {
    let width = rows.len() as u32;
    let mut half = width / 2;
    while half > 0 {
        for upper in (0..width).filter(|row| row & half == 0) {
            let lower = upper + half;
            let (a, b) = (rows[upper as usize], rows[lower as usize]);
            let from = |from_a: &dyn Fn(u32) -> u32, from_b: &dyn Fn(u32) -> u32| -> Vec<u32> {
                (0..width).map(|lane| if lane & half == 0 { from_a(lane) } else { width + from_b(lane) }).collect()
            };
            rows[upper as usize] = a.shuffle(b, &from(&|lane| lane, &|lane| lane - half));
            rows[lower as usize] = a.shuffle(b, &from(&|lane| lane + half, &|lane| lane));
        }
        half /= 2;
    }
    rows
}
