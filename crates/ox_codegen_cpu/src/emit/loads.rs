//! Loads.

use super::convert::{self, memory_elem};
use super::index::Place;
use super::{Buffer, Emitter};
use crate::CodegenError;
use crate::ir::{Access, Elem, V};
use ox_ir::kernel::Val;
use ox_ir::{DType, Scalar, Sym};

impl<'a> Emitter<'a> {
    pub fn buffer(&self, buf: u32) -> Result<Buffer<'a>, CodegenError> {
        let buffer = self.buffers.get(buf as usize).copied();
        let buffer = buffer.ok_or_else(|| self.malformed(format!("there is no buffer b{buf}")))?;
        // Not invariant, or LLVM would load it in front of the loop.
        let address = || buffer.pointer.load(Elem::Ptr, 1, 8, Access::UNKNOWN);
        Ok(if buffer.is_elsewhere { Buffer { pointer: address(), is_elsewhere: false, ..buffer } } else { buffer })
    }

    pub fn load(&self, buf: u32, index: &Sym, mask: Option<&(Val, Scalar)>, dtype: DType) -> Result<V<'a>, CodegenError> {
        let buffer = self.buffer(buf)?;
        let wanted = mask.map(|(val, _)| self.value(*val)).transpose()?;
        let condition = both(wanted, self.validity(index));
        let place = self.place(&buffer, index)?;
        let whole = condition.filter(|c| !c.is_wide() && !matches!(place, Place::Scattered(_)));
        let other = mask.map_or(Scalar::Int(0), |(_, other)| *other);
        if let (Some(condition), true) = (whole, buffer.dtype == dtype) {
            return Ok(self.load_or(&buffer, place, condition, other));
        }
        let raw = match (place, condition) {
            (Place::Scattered(_), None) => self.load_near(&buffer, index, || self.load_raw(&buffer, place, None))?,
            _ => self.load_raw(&buffer, place, condition),
        };
        let value = convert::convert(convert::from_memory(raw, buffer.dtype), buffer.dtype, dtype);
        Ok(wanted.map_or(value, |wanted| wanted.select(value, self.constant(other, dtype))))
    }

    /// A load that is off for all lanes or for none reads constant memory instead: no mask, no choice afterwards.
    fn load_or(&self, buffer: &Buffer<'a>, place: Place<'a>, condition: V<'a>, other: Scalar) -> V<'a> {
        let constant = convert::to_memory(self.constant(other, buffer.dtype), buffer.dtype);
        let fallback = self.ir.filled(constant, self.width);
        let place = match place {
            Place::Uniform(pointer) => Place::Uniform(condition.select(pointer, fallback)),
            Place::Contiguous(pointer) => Place::Contiguous(condition.select(pointer, fallback)),
            Place::Reversed(pointer) => Place::Reversed(condition.select(pointer, self.last_of(fallback, constant.elem))),
            Place::Scattered(_) => unreachable!("each lane has an address of its own"),
        };
        convert::from_memory(self.load_raw(buffer, place, None), buffer.dtype)
    }

    /// The elements as they lie in memory. Where `condition` is false nothing is read and the result is anything.
    pub fn load_raw(&self, buffer: &Buffer<'a>, place: Place<'a>, condition: Option<V<'a>>) -> V<'a> {
        let elem = memory_elem(buffer.dtype);
        let (place, mask) = self.guard(place, condition, elem);
        match (place, mask) {
            (Place::Uniform(pointer), _) => pointer.load(elem, 1, 1, buffer.access),
            (Place::Contiguous(pointer), None) => {
                self.prefetch_behind(pointer);
                pointer.load(elem, self.width, 1, buffer.access)
            }
            (Place::Contiguous(pointer), Some(mask)) => pointer.load_masked(elem, mask, buffer.access),
            (Place::Reversed(pointer), None) => self.lowest(pointer, elem).load(elem, self.width, 1, buffer.access).reversed(),
            (Place::Reversed(pointer), Some(mask)) => {
                self.lowest(pointer, elem).load_masked(elem, mask.reversed(), buffer.access).reversed()
            }
            (Place::Scattered(pointers), mask) => {
                let (pointers, mask) = self.scattered(pointers, mask, elem);
                pointers.gather(elem, mask, buffer.access)
            }
        }
    }

    /// The place, moved to spare memory if the condition holds in no lane, and the mask of the lanes that count (None is all).
    pub fn guard(&self, place: Place<'a>, condition: Option<V<'a>>, elem: Elem) -> (Place<'a>, Option<V<'a>>) {
        let Some(condition) = condition else { return (place, self.lane_mask()) };
        let spare = self.ir.spare();
        match place {
            Place::Uniform(pointer) => {
                let any = if condition.is_wide() { self.full_mask(condition).any() } else { condition };
                (Place::Uniform(any.select(pointer, spare)), None)
            }
            Place::Contiguous(pointer) if !condition.is_wide() => {
                (Place::Contiguous(condition.select(pointer, spare)), self.lane_mask())
            }
            Place::Reversed(pointer) if !condition.is_wide() => {
                (Place::Reversed(condition.select(pointer, self.last_of(spare, elem))), self.lane_mask())
            }
            // A vector that is masked off as a whole reads nothing, but takes a processor many times as long where no memory is.
            Place::Contiguous(pointer) => {
                let mask = self.full_mask(condition);
                (Place::Contiguous(mask.any().select(pointer, spare)), Some(mask))
            }
            Place::Reversed(pointer) => {
                let mask = self.full_mask(condition);
                (Place::Reversed(mask.any().select(pointer, self.last_of(spare, elem))), Some(mask))
            }
            Place::Scattered(_) => (place, Some(self.full_mask(condition))),
        }
    }

    /// The lanes that exist and for which `condition` holds.
    pub fn full_mask(&self, condition: V<'a>) -> V<'a> {
        let condition = condition.splat(self.lanes());
        self.lane_mask().map_or(condition, |mask| mask & condition)
    }

    /// Where the first lane of a reversed access to this memory lies.
    fn last_of(&self, memory: V<'a>, elem: Elem) -> V<'a> {
        memory.offset(elem, self.ir.index(self.width as i64 - 1))
    }

    /// Where the last lane of a reversed access lies: its lowest address.
    pub fn lowest(&self, pointer: V<'a>, elem: Elem) -> V<'a> {
        pointer.offset(elem, self.ir.index(1 - self.width as i64))
    }

    /// Pointers and mask for a gather or scatter. Without an instruction for it LLVM would make a branch for every masked lane;
    /// there the lanes that are off point to spare memory instead.
    pub fn scattered(&self, pointers: V<'a>, mask: Option<V<'a>>, elem: Elem) -> (V<'a>, V<'a>) {
        let all = self.ir.bool(true).splat(pointers.lanes);
        match mask {
            None => (pointers, all),
            Some(mask) if self.host.has_avx512 && elem.bits() >= 32 => (pointers, mask),
            Some(mask) => (mask.select(pointers, self.ir.spare()), all),
        }
    }
}

pub fn both<'a>(a: Option<V<'a>>, b: Option<V<'a>>) -> Option<V<'a>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a & b),
        (a, b) => a.or(b),
    }
}
