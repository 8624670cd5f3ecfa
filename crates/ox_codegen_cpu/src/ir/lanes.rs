//! Splats, single lanes, shuffles and tests over all lanes.

use super::value::NO_NAME;
use super::{Access, Elem, Ir, V};
use llvm_sys::LLVMIntPredicate;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use std::convert::Infallible;

impl<'a> V<'a> {
    /// The scalar in every lane; a vector is left as it is.
    pub fn splat(self, lanes: u32) -> V<'a> {
        if self.lanes == lanes {
            return self;
        }
        assert_eq!(self.lanes, 1, "only a scalar can be splatted");
        if self.is_constant() {
            let mut items = vec![self.raw; lanes as usize];
            // SAFETY: constants of one type.
            return self.ir.wrap(unsafe { LLVMConstVector(items.as_mut_ptr(), lanes) }, self.elem, lanes);
        }
        let first = self.ir.undef(self.elem, lanes).insert(0, self);
        first.shuffle(first, &vec![0; lanes as usize])
    }

    pub fn is_constant(self) -> bool {
        // SAFETY: asks about a live value.
        unsafe { LLVMIsConstant(self.raw) != 0 }
    }

    pub fn insert(self, lane: u32, value: V<'a>) -> V<'a> {
        let at = self.ir.int(Elem::I32, lane as i64);
        // SAFETY: `lane` is below `lanes`.
        let raw = unsafe { LLVMBuildInsertElement(self.ir.builder, self.raw, value.raw, at.raw, NO_NAME) };
        self.ir.wrap(raw, self.elem, self.lanes)
    }

    /// One lane; a scalar gives itself.
    pub fn extract(self, lane: V<'a>) -> V<'a> {
        if self.lanes == 1 {
            return self;
        }
        // SAFETY: a vector and an integer.
        self.ir.wrap(unsafe { LLVMBuildExtractElement(self.ir.builder, self.raw, lane.raw, NO_NAME) }, self.elem, 1)
    }

    pub fn lane(self, lane: u32) -> V<'a> {
        self.extract(self.ir.int(Elem::I32, lane as i64))
    }

    /// Lanes `picks` of `self` followed by `other`.
    pub fn shuffle(self, other: V<'a>, picks: &[u32]) -> V<'a> {
        let mut items: Vec<LLVMValueRef> = picks.iter().map(|n| self.ir.int(Elem::I32, *n as i64).raw).collect();
        // SAFETY: two vectors of one type and a constant mask.
        let raw = unsafe {
            let mask = LLVMConstVector(items.as_mut_ptr(), picks.len() as u32);
            LLVMBuildShuffleVector(self.ir.builder, self.raw, other.raw, mask, NO_NAME)
        };
        self.ir.wrap(raw, self.elem, picks.len() as u32)
    }

    /// Lanes of several vectors: in which of them each one is, and where.
    pub fn picked(vectors: &[V<'a>], place: impl Fn(u32) -> (u32, u32)) -> V<'a> {
        let width = vectors[0].lanes;
        (1..vectors.len() as u32).fold(vectors[0], |so_far, n| {
            let pick = |lane: u32| match place(lane) {
                (own, at) if own == n => width + at,
                (0, at) if n == 1 => at,
                (own, _) if own < n => lane,
                _ => 0,
            };
            so_far.shuffle(vectors[n as usize], &(0..width).map(pick).collect::<Vec<_>>())
        })
    }

    pub fn reversed(self) -> V<'a> {
        if self.lanes == 1 {
            return self;
        }
        self.shuffle(self, &(0..self.lanes).rev().collect::<Vec<_>>())
    }

    /// The lower and the upper half of the lanes.
    pub fn halves(self) -> (V<'a>, V<'a>) {
        let half = self.lanes / 2;
        let part = |from: u32| {
            let picks: Vec<u32> = (from..from + half).collect();
            if half == 1 { self.lane(from) } else { self.shuffle(self, &picks) }
        };
        (part(0), part(half))
    }

    /// The lanes of `self` followed by those of `other`.
    pub fn concat(self, other: V<'a>) -> V<'a> {
        self.shuffle(other, &(0..self.lanes + other.lanes).collect::<Vec<_>>())
    }

    /// The bits of a mask as an integer of as many bits.
    fn mask_bits(self) -> (LLVMValueRef, LLVMTypeRef) {
        // SAFETY: a vector of n i1 has the size of one iN.
        unsafe {
            let ty = LLVMIntTypeInContext(self.ir.context, self.lanes);
            (LLVMBuildBitCast(self.ir.builder, self.raw, ty, NO_NAME), ty)
        }
    }

    /// Whether the condition holds in any lane.
    pub fn any(self) -> V<'a> {
        if self.lanes == 1 {
            return self;
        }
        let (bits, ty) = self.mask_bits();
        // SAFETY: two integers of one type.
        let raw = unsafe { LLVMBuildICmp(self.ir.builder, LLVMIntPredicate::LLVMIntNE, bits, LLVMConstNull(ty), NO_NAME) };
        self.ir.wrap(raw, Elem::I1, 1)
    }

    /// The first lane in which the condition holds; meaningless if there is none.
    pub fn first_true(self) -> V<'a> {
        if self.lanes == 1 {
            return self.ir.index(0);
        }
        let (bits, _) = self.mask_bits();
        // SAFETY: widening an integer of at most 64 bits; equal widths need no instruction.
        let raw = unsafe {
            let wide = self.ir.ty(Elem::I64, 1);
            if self.lanes == 64 { bits } else { LLVMBuildZExt(self.ir.builder, bits, wide, NO_NAME) }
        };
        self.ir.wrap(raw, Elem::I64, 1).trailing_zeros()
    }
}

impl Ir {
    /// A loop over the lanes in which `mask` holds, in order; `body` gets one lane of each value.
    pub fn each_lane<'a>(&'a self, mask: V<'a>, values: &[V<'a>], body: impl FnOnce(&[V<'a>])) {
        if mask.lanes == 1 {
            self.always_when(mask, || body(values));
            return;
        }
        let slots: Vec<(Elem, V<'a>)> = values.iter().map(|v| self.spill(*v)).collect();
        let (_, active) = self.spill(mask);
        self.lane_loop(mask.lanes, |lane| {
            let on = active.offset(Elem::I8, lane).load(Elem::I8, 1, 1, Access::UNKNOWN);
            self.always_when(on.ne(on.int(0)), || {
                let part = |((elem, slot), v): (&(Elem, V<'a>), &V<'a>)| {
                    let loaded = slot.offset(*elem, lane).load(*elem, 1, 1, Access::UNKNOWN);
                    if v.elem == Elem::I1 { loaded.ne(loaded.int(0)) } else { loaded }
                };
                body(&slots.iter().zip(values).map(part).collect::<Vec<_>>());
            });
        });
    }

    /// `f` applied lane by lane, in a loop: for what has no vector form.
    pub fn map_lanes<'a>(&'a self, values: &[V<'a>], f: impl FnOnce(&[V<'a>]) -> V<'a>) -> V<'a> {
        let (elem, lanes) = (values[0].elem, values.iter().map(|v| v.lanes).max().expect("at least one value"));
        if lanes == 1 {
            return f(values);
        }
        let slots: Vec<V<'a>> = values.iter().map(|v| self.spill(v.splat(lanes)).1).collect();
        let results = self.alloca(elem, lanes as i64, 64);
        self.lane_loop(lanes, |lane| {
            let parts: Vec<V<'a>> = slots.iter().map(|s| s.offset(elem, lane).load(elem, 1, 1, Access::UNKNOWN)).collect();
            results.offset(elem, lane).store(f(&parts), 1, Access::UNKNOWN);
        });
        results.load(elem, lanes, 64, Access::UNKNOWN)
    }

    fn lane_loop<'a>(&'a self, lanes: u32, body: impl FnOnce(V<'a>)) {
        let done = self.for_loop(self.index(0), self.index(lanes as i64), 1, vec![], |lane, none| {
            body(lane);
            Ok::<_, Infallible>(none)
        });
        let Ok(_) = done;
    }

    fn always_when<'a>(&'a self, condition: V<'a>, body: impl FnOnce()) {
        let done = self.when(condition, vec![], |none| {
            body();
            Ok::<_, Infallible>(none)
        });
        let Ok(_) = done;
    }

    /// The vector in memory, a mask as bytes.
    fn spill<'a>(&'a self, v: V<'a>) -> (Elem, V<'a>) {
        let v = if v.elem == Elem::I1 { v.zext(Elem::I8) } else { v };
        let slot = self.alloca(v.elem, v.lanes as i64, 64);
        slot.store(v, 64.min(v.lanes * v.elem.bytes()).next_power_of_two(), Access::UNKNOWN);
        (v.elem, slot)
    }

    /// Lanes below `count`.
    pub fn lanes_below(&self, count: V<'_>, lanes: u32) -> V<'_> {
        let count = self.wrap(count.raw, count.elem, 1).trunc_to(Elem::I32);
        self.iota(Elem::I32, lanes).below(count)
    }
}
