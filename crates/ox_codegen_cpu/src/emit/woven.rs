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
use ox_ir::graph::Combine;
use ox_ir::kernel::{Axis, Inst, Lanes, Val};

const MOST_ROWS: i64 = 4;
/// The body exists once more for each row.
const MOST_INSTS: i64 = 64;

impl<'a> Emitter<'a> {
    /// How many rows are woven.
    pub fn woven(&self, rows: &Axis, lanes: &Axis) -> Option<i64> {
        let kernel = self.kernel;
        let count = rows.extent.as_const().filter(|n| (2..=MOST_ROWS).contains(n))?;
        let is_plain = kernel.parallel && kernel.lanes == Lanes::Outer && kernel.passes.iter().all(|pass| pass.axes.is_empty());
        let is_long = lanes.extent.bounds().1 >= 2 * self.width as i64;
        let is_woven = |inst: &Inst| match inst {
            Inst::Store { index, combine: Combine::Set, mask: None, .. } => {
                index.coeff(&lanes.var).is_some_and(|step| step.is_const(count))
                    && index.coeff(&rows.var).is_some_and(|step| step.is_one())
            }
            Inst::Store { .. } => false,
            _ => true,
        };
        let is_little = count * kernel.insts.len() as i64 <= MOST_INSTS;
        (is_plain && is_long && is_little && kernel.insts.iter().all(|typed| is_woven(&typed.inst))).then_some(count)
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
            let place = |lane: u32| ((vector * width + lane) % count, (vector * width + lane) / count);
            let woven = (1..count).fold(values[0], |so_far, n| {
                let kept = |lane: u32| if n == 1 { place(lane).1 } else { lane };
                let pick = |lane: u32| match place(lane) {
                    (row, at) if row == n => width + at,
                    (row, _) if row < n => kept(lane),
                    _ => 0,
                };
                so_far.shuffle(values[n as usize], &(0..width).map(pick).collect::<Vec<_>>())
            });
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
