//! Stores that go past the caches.
//!
//! A large result will not be in the cache when it is read next, and an ordinary store first reads the line that it overwrites: a third of
//! all traffic. Streaming stores need aligned addresses, so the loop exists twice, and which one runs is decided where it starts.

use super::index::Place;
use super::{Emitter, convert};
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::Sym;
use ox_ir::abi::STREAMED_FROM;
use ox_ir::graph::Combine;
use ox_ir::kernel::{Axis, BufRole, Inst, Val};

/// The distance at which memory is asked for, in bytes: a page. Measured for a chain with a sigmoid over 64 MB: 77 % of the speed of a
/// copy without, 93 % with 1024, 106 % with 4096.
const AHEAD: i64 = 4096;
/// The loop exists twice only if that is cheap to compile.
const MOST_INSTS: usize = 64;

impl<'a> Emitter<'a> {
    /// The stores of a loop body that may stream: of whole, neighbouring vectors into a large result.
    pub fn streamable<'k>(&self, body: impl Iterator<Item = &'k Val> + Clone, inner: &[Axis]) -> Vec<Val> {
        if self.host.vector_bits < 256 || body.clone().count() > MOST_INSTS {
            return Vec::new();
        }
        body.copied().filter(|val| self.is_streamable(*val, inner)).collect()
    }

    fn is_streamable(&self, val: Val, inner: &[Axis]) -> bool {
        let Inst::Store { buf, index, combine: Combine::Set, mask: None, .. } = &self.kernel.inst(val).inst else { return false };
        let Some(param) = self.kernel.bufs.get(*buf as usize) else { return false };
        let points: Sym = self.kernel.axes.iter().chain(inner).map(|a| &a.extent).product();
        let bytes = points.as_const().map_or(0, |n| n.saturating_mul(param.dtype.size() as i64));
        let contiguous = self.lane.as_ref().is_some_and(|lane| index.coeff(&lane.var).is_some_and(|c| c.is_one()));
        self.is_only_written(*buf, &param.role) && bytes >= STREAMED_FROM && contiguous && self.validity(index).is_none()
    }

    /// What others have written to the buffer may have to stay, as in a share of a concatenation.
    fn is_only_written(&self, buf: u32, role: &BufRole) -> bool {
        let reads = |inst: &Inst| match inst {
            Inst::Load { buf: read, .. } => *read == buf,
            Inst::Store { buf: written, combine, .. } => *written == buf && *combine != Combine::Set,
            _ => false,
        };
        *role == BufRole::Out || *role == BufRole::InOut && !self.kernel.insts.iter().any(|typed| reads(&typed.inst))
    }

    /// Whether these stores are aligned at the lane axis' current value (and so at every whole vector from there).
    pub fn are_aligned(&self, stores: &[Val]) -> Result<V<'a>, CodegenError> {
        let mut all = self.ir.bool(true);
        for val in stores {
            let Inst::Store { buf, index, .. } = &self.kernel.inst(*val).inst else { continue };
            let buffer = self.buffer(*buf)?;
            let Place::Contiguous(pointer) = self.place(&buffer, index)? else { return Ok(self.ir.bool(false)) };
            let low = pointer.address() & (self.stream_align(*val) as i64 - 1);
            all = all & low.eq(low.int(0));
        }
        Ok(all)
    }

    /// Where results stream, what is read is as large: it is asked for early, since the processor itself stops at every page.
    pub fn prefetch_behind(&self, pointer: V<'a>) {
        if !self.streaming.is_empty() {
            pointer.offset(Elem::I8, self.ir.index(AHEAD)).prefetch();
        }
    }

    /// The bytes of one vector of a store.
    pub fn stream_align(&self, store: Val) -> u32 {
        let Inst::Store { buf, .. } = &self.kernel.inst(store).inst else { return 1 };
        self.width * convert::memory_elem(self.kernel.bufs[*buf as usize].dtype).bytes()
    }
}
