//! Results that are woven of a few rows: element k of each row lies beside element k of the next one, as in an image that is enlarged by repeating its
//! elements, in `stack(.., -1)`, in a pixel shuffle.
//!
//! The lanes run along a row, so each of its elements would be written by itself. All rows are computed for the same lanes, and what they give is woven
//! in registers and written side by side.

use super::Emitter;
use super::convert::{self, memory_elem};
use super::index::At;
use crate::CodegenError;
use crate::ir::V;
use ox_ir::kernel::{Axis, Inst, Val};

/// The body exists once more for each row.
const MOST_INSTS: i64 = 64;

impl<'a> Emitter<'a> {
    /// How many rows are woven.
    pub fn woven(&self) -> Option<i64> {
        let (_, lanes) = self.kernel.rows_of_lanes()?;
        let count = self.kernel.woven_rows()?;
        let is_valid = |inst: &Inst| !matches!(inst, Inst::Store { index, .. } if self.validity(index).is_some());
        let is_long = lanes.extent.bounds().1 >= 2 * self.width as i64;
        let is_little = count * self.kernel.insts.len() as i64 <= MOST_INSTS;
        (is_long && is_little && self.kernel.insts.iter().all(|typed| is_valid(&typed.inst))).then_some(count)
    }

    /// All rows, from one end to the other.
    pub fn woven_rows(&mut self, count: i64, rows: &'a Axis, lanes: &'a Axis, length: V<'a>) -> Result<(), CodegenError> {
        let (ir, width) = (self.ir, self.width as i64);
        let full = length & -width;
        ir.for_loop(ir.index(0), full, width, vec![], |x, none| {
            let mut stored: Vec<(Val, Vec<V<'a>>)> = Vec::new();
            for row in 0..count {
                self.bind(&rows.var, ir.index(row));
                self.held = Some(Vec::new());
                self.at_lanes(lanes, x, None)?;
                for (n, (store, value)) in self.held.take().into_iter().flatten().enumerate() {
                    match stored.get_mut(n) {
                        Some((_, values)) => values.push(value),
                        None => stored.push((store, vec![value])),
                    }
                }
            }
            self.bind(&rows.var, ir.index(0));
            self.bind(&lanes.var, x);
            stored.into_iter().try_for_each(|(store, values)| self.store_woven(store, &values))?;
            Ok::<_, CodegenError>(none)
        })?;
        ir.when(full.lt(length), vec![], |none| {
            let mask = ir.lanes_below(length - full, self.width);
            ir.for_loop(ir.index(0), ir.index(count), 1, none, |row, none| {
                self.bind(&rows.var, row);
                self.at_lanes(lanes, full, Some(mask))?;
                Ok::<_, CodegenError>(none)
            })
        })?;
        Ok(())
    }

    fn store_woven(&self, store: Val, values: &[V<'a>]) -> Result<(), CodegenError> {
        let Inst::Store { buf, index, .. } = &self.kernel.inst(store).inst else { unreachable!("only stores are held") };
        let buffer = self.buffer(*buf)?;
        let pointer = self.pointer(&buffer, index, 1, At::Base)?;
        let (count, width) = (values.len() as u32, self.width);
        for vector in 0..count {
            let woven = V::picked(values, |lane| ((vector * width + lane) % count, (vector * width + lane) / count));
            let at = pointer.offset(memory_elem(buffer.dtype), self.ir.index((vector * width) as i64));
            at.store(woven, 1, buffer.access);
        }
        Ok(())
    }

    /// Keeps what would be stored, if it is to be woven.
    pub fn hold(&mut self, store: Val) -> Result<bool, CodegenError> {
        let Inst::Store { buf, value, .. } = &self.kernel.inst(store).inst else { unreachable!("only stores are held") };
        if self.held.is_none() {
            return Ok(false);
        }
        let own = self.buffer(*buf)?.dtype;
        let value = convert::to_memory(convert::convert(self.value(*value)?, self.dtype(*value), own), own).splat(self.lanes());
        self.held.iter_mut().for_each(|held| held.push((store, value)));
        Ok(true)
    }
}
