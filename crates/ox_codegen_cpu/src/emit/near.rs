//! Loads of lanes that are near one another: some elements apart, or by indices that follow an axis, of an image that is enlarged, padded, or shifted by
//! what was computed.
//!
//! The lanes by such an index do not lie side by side, but mostly within one or two vectors, some of them more than once. These are read, and their
//! elements are put in their places, which takes a processor a fraction of what it takes to collect them one by one. What was computed decides,
//! each time.

use super::convert::memory_elem;
use super::index::At;
use super::{Buffer, Emitter};
use crate::CodegenError;
use crate::ir::{Access, Elem, V};
use ox_ir::Sym;
use ox_ir::kernel::{Inst, Kernel, Lanes};
use ox_ir::sym::{Var, VarKind};

/// Up to here it is better to read all that lies between the lanes.
const MOST_STEP: i64 = 4;

/// The lanes' elements, which lie at and behind a place.
struct Near<'a> {
    pointer: V<'a>,
    from_first: V<'a>,
    /// How far the last one is from the first.
    span: V<'a>,
    access: Access,
}

impl<'a> Emitter<'a> {
    /// As `far`, which collects lane by lane, or where they are near by reading what lies between them.
    pub fn load_near(&self, buffer: &Buffer<'a>, index: &Sym, far: impl FnOnce() -> V<'a>) -> Result<V<'a>, CodegenError> {
        let elem = memory_elem(buffer.dtype);
        if let Some(step) = self.small_step(index) {
            return Ok(self.every(step, self.pointer(buffer, index, 1, At::Base)?, elem, buffer.access));
        }
        let permutations = self.permutations(elem);
        let (moving, fixed) = (self.terms_of(index, true), self.addressed(index));
        if permutations.is_empty() || !self.follows_lanes(index) || !self.is_narrow(&moving) {
            return Ok(far());
        }
        let (ir, width) = (self.ir, self.width);
        let offsets = self.sym(&moving, At::Lanes, Elem::I32)?;
        let first = offsets.lane(0);
        let from_first = offsets - first.splat(width);
        let span = from_first.lane(width - 1);
        let pointer = self.pointer(buffer, &fixed, 1, At::Base)?.offset(elem, first);
        let near = Near { pointer, from_first, span, access: buffer.access };
        let outside = !from_first.below_or_equal(span.splat(width));
        let mut loaded = vec![ir.int(elem.int(), 0).splat(width).bits_as(elem)];
        let mut is_left = !outside.any();
        for (vectors, instruction) in (1..).zip(permutations) {
            let is_within = is_left & span.below(span.int((vectors * width) as i64));
            loaded = ir.when(is_within, loaded, |_| {
                Ok::<_, CodegenError>(vec![ir.call(instruction, &self.permuted(&near, vectors, elem), Some((elem, width)))])
            })?;
            is_left = is_left & !is_within;
        }
        let is_far = is_left | outside.any();
        Ok(ir.when(is_far, loaded, |_| Ok::<_, CodegenError>(vec![far()]))?[0])
    }

    /// How far apart neighbouring lanes are, if that is little and all lanes exist.
    fn small_step(&self, index: &Sym) -> Option<u32> {
        let step = self.lane_step(index)?.as_const()?;
        (self.lane_mask().is_none() && (2..=MOST_STEP).contains(&step)).then_some(step as u32)
    }

    /// Every so many elements from a place on: as many vectors, of which the last one ends with the last element.
    fn every(&self, step: u32, pointer: V<'a>, elem: Elem, access: Access) -> V<'a> {
        let width = self.width;
        let starts: Vec<u32> = (0..step).map(|n| (n * width).min((step - 1) * (width - 1))).collect();
        let read = |start: &u32| pointer.offset(elem, self.ir.index(*start as i64)).load(elem, width, 1, access);
        V::picked(&starts.iter().map(read).collect::<Vec<_>>(), |lane| {
            let vector = (step * lane / width).min(step - 1);
            (vector, step * lane - starts[vector as usize])
        })
    }

    /// What the instruction takes.
    fn permuted(&self, near: &Near<'a>, vectors: u32, elem: Elem) -> Vec<V<'a>> {
        let (ir, width, span) = (self.ir, self.width, near.span);
        if vectors == 1 {
            let there = ir.lanes_below(span.sext(Elem::I64) + 1, width);
            return vec![near.pointer.load_masked(elem, there, near.access), near.from_first];
        }
        // The second vector ends with the last element.
        let shift = span - (width as i64 - 1);
        let read = |pointer: V<'a>| pointer.load(elem, width, 1, near.access);
        let in_second = near.from_first - shift.splat(width) + width as i64;
        let places = near.from_first.below(near.from_first.int(width as i64)).select(near.from_first, in_second);
        vec![read(near.pointer), places, read(near.pointer.offset(elem, shift))]
    }

    /// The instructions that put the elements of one vector, and of two, in any order.
    fn permutations(&self, elem: Elem) -> &'static [&'static str] {
        match (self.host.vector_bits, elem) {
            _ if self.host.vector_bits != self.width * elem.bits() => &[],
            (512, Elem::F32) => &["llvm.x86.avx512.permvar.sf.512", "llvm.x86.avx512.vpermi2var.ps.512"],
            (512, Elem::I32) => &["llvm.x86.avx512.permvar.si.512", "llvm.x86.avx512.vpermi2var.d.512"],
            (256, Elem::F32) => &["llvm.x86.avx2.permps"],
            (256, Elem::I32) => &["llvm.x86.avx2.permd"],
            _ => &[],
        }
    }

    /// Whether what differs between the lanes is an index that was found for their axis alone, and all lanes exist.
    fn follows_lanes(&self, index: &Sym) -> bool {
        let found = |var: &Var| {
            let is_its = |inst: &Inst| matches!(inst, Inst::CheckIndex { var: own, .. } if own == var);
            let mut places = (0..self.kernel.insts.len()).filter(|n| is_its(&self.kernel.insts[*n].inst));
            var.kind() == VarKind::Loaded && places.all(|n| self.of_lane_axis[n])
        };
        let wide: Vec<Var> = index.vars().into_iter().filter(|var| self.is_wide_var(var)).collect();
        self.lane_mask().is_none() && !wide.is_empty() && wide.iter().all(found)
    }
}

/// For each instruction, whether it depends on the lanes' axis and on no other: a computed index, or one that is read from a table of the axis.
pub fn of_lane_axis(kernel: &Kernel) -> Vec<bool> {
    let lane = kernel.axes.last().filter(|_| kernel.lanes == Lanes::Outer).map(|axis| &axis.var);
    let is_of_it = |index: &Sym| index.vars().iter().all(|var| Some(var) == lane || var.kind() == VarKind::Size);
    let mut all: Vec<bool> = Vec::with_capacity(kernel.insts.len());
    for typed in &kernel.insts {
        let of_it = match &typed.inst {
            Inst::Const(_) => true,
            Inst::Index(index) | Inst::Load { index, mask: None, .. } => is_of_it(index),
            Inst::Point(_, args) => args.iter().all(|arg| all[arg.index()]),
            Inst::Cast(arg) | Inst::CheckIndex { value: arg, .. } => all[arg.index()],
            _ => false,
        };
        all.push(of_it && lane.is_some());
    }
    all
}
