//! Stores and scatters.

use super::convert::{self, memory_elem};
use super::index::Place;
use super::loads::both;
use super::{Buffer, Emitter, bits, reduce};
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::graph::{Combine, ReduceOp};
use ox_ir::kernel::{Lanes, Val};
use ox_ir::{DType, Sym};

impl<'a> Emitter<'a> {
    pub fn store(
        &self,
        buf: u32,
        index: &Sym,
        val: Val,
        combine: Combine,
        mask: Option<Val>,
        stream: Option<u32>,
    ) -> Result<(), CodegenError> {
        let buffer = self.buffer(buf)?;
        let wanted = mask.map(|val| self.value(val)).transpose()?;
        let condition = both(wanted, self.validity(index));
        let value = convert::convert(self.value(val)?, self.dtype(val), buffer.dtype);
        let place = self.place(&buffer, index)?;
        match (combine, stream, place) {
            (Combine::Set, Some(align), Place::Contiguous(pointer)) if condition.is_none() && self.lane_mask().is_none() => {
                pointer.store_streaming(convert::to_memory(value, buffer.dtype).splat(self.lanes()), align, buffer.access);
            }
            (Combine::Set, ..) => self.store_raw(&buffer, place, convert::to_memory(value, buffer.dtype), condition),
            (Combine::With(op), ..) if op.is_arg() => {
                return Err(self.malformed(format!("a store cannot combine by {}", op.name())));
            }
            (Combine::With(op), ..) => self.update(&buffer, place, value, condition, op),
        }
        Ok(())
    }

    fn store_raw(&self, buffer: &Buffer<'a>, place: Place<'a>, value: V<'a>, condition: Option<V<'a>>) {
        let elem = memory_elem(buffer.dtype);
        let lanes = self.lanes();
        // Of several lanes that write to one place the last one wins, as in a scatter.
        let place = match place {
            Place::Uniform(pointer) if value.is_wide() => Place::Scattered(pointer.splat(lanes)),
            other => other,
        };
        let (place, mask) = self.guard(place, condition, elem);
        match (place, mask) {
            (Place::Uniform(pointer), _) => pointer.store(value, 1, buffer.access),
            (Place::Contiguous(pointer), None) => pointer.store(value.splat(lanes), 1, buffer.access),
            (Place::Contiguous(pointer), Some(mask)) => pointer.store_masked(value.splat(lanes), mask, buffer.access),
            (Place::Reversed(pointer), None) => {
                self.lowest(pointer, elem).store(value.splat(lanes).reversed(), 1, buffer.access);
            }
            (Place::Reversed(pointer), Some(mask)) => {
                self.lowest(pointer, elem).store_masked(value.splat(lanes).reversed(), mask.reversed(), buffer.access);
            }
            (Place::Scattered(pointers), mask) => {
                let (pointers, mask) = self.scattered(pointers, mask, elem);
                pointers.scatter(value.splat(lanes), mask, buffer.access);
            }
        }
    }

    /// Reads, combines, writes. Whole vectors where the lanes are at different places, else lane by lane.
    fn update(&self, buffer: &Buffer<'a>, place: Place<'a>, value: V<'a>, condition: Option<V<'a>>, op: ReduceOp) {
        let neighbours = matches!(place, Place::Contiguous(_) | Place::Reversed(_));
        // Points that may run on several threads never write to the same element.
        let apart = self.kernel.parallel && self.kernel.lanes == Lanes::Outer && matches!(place, Place::Scattered(_));
        let distinct = neighbours || apart;
        if distinct || self.lane.is_none() {
            let old = convert::from_memory(self.load_raw(buffer, place, condition), buffer.dtype);
            let new = combined(op, buffer.dtype, old, value);
            self.store_raw(buffer, place, new, condition);
            return;
        }
        self.each_lane(buffer, place, value, condition, |pointer, value| {
            let old = pointer.load(memory_elem(buffer.dtype), 1, 1, buffer.access);
            let new = combined(op, buffer.dtype, convert::from_memory(old, buffer.dtype), value);
            pointer.store(new, 1, buffer.access);
        });
    }

    /// Calls `body` with pointer and value of every lane in which the condition holds, in lane order.
    fn each_lane(
        &self,
        buffer: &Buffer<'a>,
        place: Place<'a>,
        value: V<'a>,
        condition: Option<V<'a>>,
        body: impl FnOnce(V<'a>, V<'a>),
    ) {
        let lanes = self.lanes();
        let elem = memory_elem(buffer.dtype);
        let pointers = match place {
            Place::Uniform(pointer) | Place::Scattered(pointer) => pointer.splat(lanes),
            Place::Contiguous(pointer) => pointer.offset(elem, self.ir.iota(Elem::I32, lanes)),
            Place::Reversed(pointer) => pointer.offset(elem, -self.ir.iota(Elem::I32, lanes)),
        };
        let mask = self.full_mask(condition.unwrap_or(self.ir.bool(true)));
        self.ir.each_lane(mask, &[pointers, value.splat(lanes)], |parts| body(parts[0], parts[1]));
    }
}

/// The combined value as it is stored.
fn combined<'a>(op: ReduceOp, dtype: DType, old: V<'a>, value: V<'a>) -> V<'a> {
    convert::to_memory(bits::round_to(reduce::combine(op, dtype, old, value), dtype), dtype)
}
