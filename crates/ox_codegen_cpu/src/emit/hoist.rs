//! Addresses that a loop does not change, computed in front of it once: a loop exists several times over (unrolled, masked, streaming), and
//! LLVM's time goes by how much there is to read.

use super::index::At;
use super::{Buffer, Emitter};
use crate::CodegenError;
use crate::ir::V;
use ox_ir::Sym;
use ox_ir::kernel::{Inst, Val};
use ox_ir::sym::{Monomial, Var};
use rustc_hash::FxHashMap;

/// Pointers into buffers, by number of the buffer and by the part of an index that is known in front of the loop.
#[derive(Default)]
pub struct Hoisted<'a> {
    /// Variables from here on are bound inside of the loop.
    floor: u32,
    pointers: FxHashMap<(u32, Sym), V<'a>>,
}

impl<'a> Emitter<'a> {
    /// Computes what the accesses of a loop over `axis` share. To be put back when the loop is done: what was known before.
    pub fn hoist<'k>(&mut self, body: impl Iterator<Item = &'k Val>, axis: &Var) -> Result<Hoisted<'a>, CodegenError> {
        let body: Vec<&Inst> = body.map(|val| &self.kernel.inst(*val).inst).collect();
        let inside =
            |var: &Var| var == axis || body.iter().any(|inst| matches!(inst, Inst::CheckIndex { var: own, .. } if own == var));
        let mut pointers = FxHashMap::default();
        for inst in &body {
            let (Inst::Load { buf, index, .. } | Inst::Store { buf, index, .. }) = inst else { continue };
            let buffer = self.buffer(*buf)?;
            let known = |(mono, _): &&(Monomial, i64)| mono.iter().all(|atom| self.vars_of(atom).iter().all(|var| !inside(var)));
            let addressed = self.addressed(index);
            let outside = sum_of(addressed.terms().iter().filter(known), addressed.constant());
            if buffer.per_lane || outside.as_const().is_some() || outside.vars().iter().any(|var| !self.vars.contains_key(var)) {
                continue;
            }
            let pointer = self.pointer(&buffer, &outside, 1, At::Base)?;
            pointers.entry((*buf, outside)).or_insert(pointer);
        }
        Ok(std::mem::replace(&mut self.hoisted, Hoisted { floor: self.depth, pointers }))
    }

    /// A pointer that was computed in front of the loop, and what is still to be added to it.
    pub fn hoisted_pointer(&self, buffer: &Buffer<'a>, sym: &Sym) -> Option<(V<'a>, Sym)> {
        if self.hoisted.pointers.is_empty() {
            return None;
        }
        let is_outside = |(mono, _): &&(Monomial, i64)| self.depth_of(mono) <= self.hoisted.floor;
        let outside = sum_of(sym.terms().iter().filter(is_outside), sym.constant());
        let pointer = *self.hoisted.pointers.get(&(buffer.number, outside))?;
        Some((pointer, sum_of(sym.terms().iter().filter(|term| !is_outside(term)), 0)))
    }
}

fn sum_of<'t>(terms: impl Iterator<Item = &'t (Monomial, i64)>, constant: i64) -> Sym {
    terms.fold(Sym::from(constant), |sum, (mono, factor)| &sum + &super::index::monomial(mono, *factor))
}
