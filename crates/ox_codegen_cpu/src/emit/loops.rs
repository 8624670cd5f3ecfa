//! The passes of one outer point and their inner loops.

use super::index::At;
use super::reduce::Slots;
use super::{Emitter, Lane, width};
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::kernel::{Axis, Inst, Lanes, Pass, Val};

/// Float sums start a new partial sum after so many steps of the innermost loop, so that rounding errors do not grow with the length.
const SUM_BLOCK: i64 = 256;

/// How the innermost loop of a pass runs.
struct Steps<'a> {
    axis: &'a Axis,
    /// Elements per step: the width if the lanes run along this axis.
    step: i64,
    unroll: i64,
    extent: V<'a>,
    /// The extent, if it is known.
    count: Option<i64>,
    /// Nothing is left behind the whole strides, as far as that is known.
    exact: bool,
}

impl<'a> Emitter<'a> {
    pub fn passes(&mut self) -> Result<(), CodegenError> {
        let kernel = self.kernel;
        kernel.passes.iter().try_for_each(|pass| self.pass(pass))
    }

    fn pass(&mut self, pass: &'a Pass) -> Result<(), CodegenError> {
        let slots = Slots::of(self.kernel, pass);
        let vector = self.runs_along_inner(pass);
        let lanes = if vector { self.width } else { self.lanes() };
        self.start(&slots.reduces, lanes);
        if self.is_flat(pass) {
            self.start(&slots.scans, lanes);
            self.body(&pass.body)?;
        } else {
            self.nest(pass, &slots, 0, vector)?;
        }
        self.finish_reductions(&slots.reduces, vector);
        Ok(())
    }

    /// Whether the lanes run along the last axis of this pass. Some scans go one by one.
    fn runs_along_inner(&self, pass: &Pass) -> bool {
        let is_one_by_one = |inst: &Inst| matches!(inst, Inst::Scan { .. }) && !self.kernel.scans_in_any_order(inst);
        self.kernel.lanes == Lanes::Inner
            && !pass.axes.is_empty()
            && !pass.body.iter().any(|v| is_one_by_one(&self.kernel.inst(*v).inst))
    }

    fn nest(&mut self, pass: &'a Pass, slots: &Slots, level: usize, vector: bool) -> Result<(), CodegenError> {
        let axis = &pass.axes[level];
        if level + 1 == pass.axes.len() {
            return self.innermost(pass, slots, axis, vector);
        }
        let ir = self.ir;
        let extent = self.sym(&axis.extent, At::Base, Elem::I64)?;
        let start = self.take(&slots.reduces);
        let sums = self.sums(&slots.reduces);
        let after = ir.for_loop(ir.index(0), extent, 1, start, |i, so_far| {
            self.bind(&axis.var, i);
            self.put(&slots.reduces, so_far);
            let outer = self.fresh(&sums);
            self.nest(pass, slots, level + 1, vector)?;
            self.merge(&sums, outer);
            Ok::<_, CodegenError>(self.take(&slots.reduces))
        })?;
        self.put(&slots.reduces, after);
        Ok(())
    }

    fn innermost(&mut self, pass: &'a Pass, slots: &Slots, axis: &'a Axis, vector: bool) -> Result<(), CodegenError> {
        let step = if vector { self.width as i64 } else { 1 };
        let count = axis.extent.as_const();
        let unroll = width::unroll(self.kernel, pass, count.map(|n| n / step), self.order);
        let extent = self.sym(&axis.extent, At::Base, Elem::I64)?;
        let exact = axis.extent.is_multiple_of(step * unroll);
        let steps = Steps { axis, step, unroll, extent, count, exact };
        let lanes = if vector { self.width } else { self.lanes() };
        self.start(&slots.scans, lanes);
        if vector {
            self.lane = Some(Lane { var: axis.var.clone(), mask: None });
        }
        let before = self.hoist(pass.body.iter(), &axis.var)?;
        let done = self.whole_steps(pass, slots, &steps)?;
        self.rest(pass, slots, &steps, done)?;
        self.hoisted = before;
        if vector {
            self.lane = None;
        }
        Ok(())
    }

    /// The part of the loop that needs no mask; gives where it ends.
    fn whole_steps(&mut self, pass: &'a Pass, slots: &Slots, steps: &Steps<'a>) -> Result<V<'a>, CodegenError> {
        let ir = self.ir;
        let stride = steps.step * steps.unroll;
        let end = match steps.count {
            Some(n) => ir.index(n / stride * stride),
            None if steps.exact => steps.extent,
            None => steps.extent - steps.extent.srem(ir.index(stride)),
        };
        if steps.count.is_some_and(|n| n < stride) {
            return Ok(end);
        }
        let block = stride * SUM_BLOCK;
        let sums = self.sums(&slots.reduces);
        if sums.is_empty() || steps.count.is_some_and(|n| n <= block) {
            let from = self.stream_steps(pass, slots, steps, end)?;
            self.unrolled(pass, slots, steps, from, end)?;
            return Ok(end);
        }
        let start = self.take(&slots.all);
        let after = ir.for_loop(ir.index(0), end, block, start, |from, so_far| {
            self.put(&slots.all, so_far);
            let outer = self.fresh(&sums);
            let to = from.add_index(ir.index(block));
            let to = to.lt(end).select(to, end);
            self.unrolled(pass, slots, steps, from, to)?;
            self.merge(&sums, outer);
            Ok::<_, CodegenError>(self.take(&slots.all))
        })?;
        self.put(&slots.all, after);
        Ok(end)
    }

    /// The whole steps with streaming stores, if there are any and they are aligned; gives where that ended.
    fn stream_steps(&mut self, pass: &'a Pass, slots: &Slots, steps: &Steps<'a>, end: V<'a>) -> Result<V<'a>, CodegenError> {
        let (ir, start) = (self.ir, self.ir.index(0));
        self.bind(&steps.axis.var, start);
        let stores = if self.kernel.lanes == Lanes::Inner { self.streamable(pass.body.iter(), &pass.axes) } else { vec![] };
        if stores.is_empty() || !slots.all.is_empty() {
            return Ok(start);
        }
        self.streamed = true;
        let ended = ir.when(self.are_aligned(&stores)?, vec![start], |_| {
            self.streaming = stores;
            self.unrolled(pass, slots, steps, start, end)?;
            self.streaming.clear();
            Ok::<_, CodegenError>(vec![end])
        })?;
        Ok(ended[0])
    }

    /// `from..to` in strides of `unroll` copies of the body, each with accumulators of its own.
    fn unrolled(&mut self, pass: &'a Pass, slots: &Slots, steps: &Steps<'a>, from: V<'a>, to: V<'a>) -> Result<(), CodegenError> {
        let ir = self.ir;
        let copies = steps.unroll as usize;
        let mut start = self.take(&slots.all);
        let each = start.len();
        for _ in 1..copies {
            start.extend(self.identities(&slots.all, &start[..each]));
        }
        let after = ir.for_loop(from, to, steps.step * steps.unroll, start, |i, so_far| {
            let mut next = Vec::with_capacity(so_far.len());
            for copy in 0..copies {
                self.put(&slots.all, so_far[copy * each..][..each].to_vec());
                self.bind(&steps.axis.var, i.add_index(ir.index(copy as i64 * steps.step)));
                self.body(&pass.body)?;
                next.extend(self.take(&slots.all));
            }
            Ok::<_, CodegenError>(next)
        })?;
        let mut sets: Vec<Vec<V<'a>>> = (0..copies).map(|copy| after[copy * each..][..each].to_vec()).collect();
        while sets.len() > 1 {
            sets = sets.chunks(2).map(|pair| self.joined(&slots.all, pair)).collect();
        }
        self.put(&slots.all, sets.swap_remove(0));
        Ok(())
    }

    /// One set of accumulators made of one or two.
    fn joined(&mut self, slots: &[Val], sets: &[Vec<V<'a>>]) -> Vec<V<'a>> {
        self.put(slots, sets[0].clone());
        if let Some(other) = sets.get(1) {
            self.merge(slots, other.clone());
        }
        self.take(slots)
    }

    /// What `whole_steps` left, one step at a time, the last one masked.
    fn rest(&mut self, pass: &'a Pass, slots: &Slots, steps: &Steps<'a>, from: V<'a>) -> Result<(), CodegenError> {
        let ir = self.ir;
        let stride = steps.step * steps.unroll;
        if stride == 1 || steps.exact {
            return Ok(());
        }
        let start = self.take(&slots.all);
        let after = ir.for_loop(from, steps.extent, steps.step, start, |i, so_far| {
            self.put(&slots.all, so_far);
            if steps.step > 1 {
                let mask = ir.lanes_below(steps.extent - i, self.width);
                self.lane = Some(Lane { var: steps.axis.var.clone(), mask: Some(mask) });
            }
            self.bind(&steps.axis.var, i);
            self.body(&pass.body)?;
            Ok::<_, CodegenError>(self.take(&slots.all))
        })?;
        self.put(&slots.all, after);
        Ok(())
    }
}
