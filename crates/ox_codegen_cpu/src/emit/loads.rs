//! Loads.

use super::convert::{self, memory_elem};
use super::index::Place;
use super::{Buffer, Emitter};
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::kernel::Val;
use ox_ir::{DType, Scalar, Sym};

impl<'a> Emitter<'a> {
    pub fn buffer(&self, buf: u32) -> Result<Buffer<'a>, CodegenError> {
        self.buffers.get(buf as usize).copied().ok_or_else(|| self.malformed(format!("there is no buffer b{buf}")))
    }

    pub fn load(&self, buf: u32, index: &Sym, mask: Option<&(Val, Scalar)>, dtype: DType) -> Result<V<'a>, CodegenError> {
        let buffer = self.buffer(buf)?;
        let wanted = mask.map(|(val, _)| self.value(*val)).transpose()?;
        let condition = both(wanted, self.validity(index));
        let raw = self.load_raw(&buffer, self.place(&buffer, index)?, condition);
        let value = convert::convert(convert::from_memory(raw, buffer.dtype), buffer.dtype, dtype);
        Ok(match (wanted, mask) {
            (Some(wanted), Some((_, other))) => wanted.select(value, self.constant(*other, dtype)),
            _ => value,
        })
    }

    /// The elements as they lie in memory. Where `condition` is false nothing is read and the result is anything.
    pub fn load_raw(&self, buffer: &Buffer<'a>, place: Place<'a>, condition: Option<V<'a>>) -> V<'a> {
        let elem = memory_elem(buffer.dtype);
        let mask = self.full_mask(condition);
        match (place, mask) {
            (Place::Uniform(pointer), _) => self.guarded(pointer, condition).load(elem, 1, 1, buffer.access),
            (Place::Contiguous(pointer), None) => pointer.load(elem, self.width, 1, buffer.access),
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

    /// The lanes that exist and for which `condition` holds; None is all.
    pub fn full_mask(&self, condition: Option<V<'a>>) -> Option<V<'a>> {
        both(self.lane_mask(), condition).map(|mask| mask.splat(self.lanes()))
    }

    /// The pointer, or spare memory if the condition holds in no lane.
    pub fn guarded(&self, pointer: V<'a>, condition: Option<V<'a>>) -> V<'a> {
        match condition {
            None => pointer,
            Some(condition) if condition.is_wide() => {
                both(self.lane_mask(), Some(condition)).map_or(condition, |c| c).any().select(pointer, self.ir.spare())
            }
            Some(condition) => condition.select(pointer, self.ir.spare()),
        }
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
