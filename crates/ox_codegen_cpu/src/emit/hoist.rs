//! Addresses that a loop does not change, computed in front of it once: a loop exists several times over (unrolled, masked, streaming), and
//! LLVM's time goes by how much there is to read.

use super::index::At;
use super::{Buffer, Emitter};
use crate::CodegenError;
use crate::ir::V;
use ox_ir::Sym;
use ox_ir::kernel::{BufRole, Inst, Val};
use ox_ir::sym::{Monomial, Var, VarKind};
use rustc_hash::{FxHashMap, FxHashSet};

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
        let body: Vec<&Inst> = body.filter(|val| !self.settled.contains(val)).map(|val| &self.kernel.inst(*val).inst).collect();
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

    /// Finds the places that all points of a row share (a gather's row), in front of its loop: since what is out of range is reported, LLVM leaves
    /// them in it. To be put back behind the loop: what was found before.
    pub fn settle(&mut self, axis: &Var) -> Result<Vec<Val>, CodegenError> {
        let mut shared = self.shared_along(axis);
        let mut needed: FxHashSet<Val> = FxHashSet::default();
        for val in shared.iter().rev() {
            match &self.kernel.inst(*val).inst {
                Inst::CheckIndex { value, .. } => needed.extend([val, value]),
                Inst::Point(_, args) if needed.contains(val) => needed.extend(args),
                Inst::Cast(arg) if needed.contains(val) => needed.extend([arg]),
                _ => {}
            }
        }
        shared.retain(|val| needed.contains(val));
        shared.iter().try_for_each(|val| self.inst(*val))?;
        Ok(std::mem::replace(&mut self.settled, shared))
    }

    /// What is the same for all points of a row along `axis`, and was not written by the kernel.
    fn shared_along(&self, axis: &Var) -> Vec<Val> {
        let (mut shared, mut places): (Vec<Val>, Vec<&Var>) = (Vec::new(), Vec::new());
        for val in self.kernel.passes.iter().filter(|pass| self.is_flat(pass)).flat_map(|pass| &pass.body) {
            let is_outside = |var: &Var| var != axis && (var.kind() != VarKind::Loaded || places.contains(&var));
            let is_shared = match &self.kernel.inst(*val).inst {
                Inst::Const(_) => true,
                Inst::Index(index) => index.vars().iter().all(is_outside),
                Inst::Load { buf, index, mask: None } => {
                    self.kernel.bufs[*buf as usize].role == BufRole::In && index.vars().iter().all(is_outside)
                }
                Inst::Point(_, args) => args.iter().all(|arg| shared.contains(arg)),
                Inst::Cast(arg) | Inst::CheckIndex { value: arg, .. } => shared.contains(arg),
                _ => false,
            };
            if is_shared {
                shared.push(*val);
                if let Inst::CheckIndex { var, .. } = &self.kernel.inst(*val).inst {
                    places.push(var);
                }
            }
        }
        shared
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
