//! Results written over operands: where a kernel is the last to read a buffer, and writes each element of a result only after it
//! has read the same element of that buffer, the two become one. So do an input and its new value, also where the old one is not read any more when
//! the new one is made, if nothing that could fail comes behind: whoever runs the graph in another way instead must find the inputs as they were.

use crate::arena::{Life, lives};
use ox_ir::graph::Combine;
use ox_ir::kernel::{BufParam, BufRole, Inst, Kernel, TypedInst};
use ox_ir::plan::{BufId, Call, Place, Plan, PlanOutput, Step, View, WriteBack};
use ox_ir::sym::VarKind;
use rustc_hash::FxHashSet;

/// Joins buffers of the plan where that is possible. Each launch still has a kernel of its own here.
pub fn reuse(plan: &mut Plan, overwrite_inputs: bool) {
    let joined = (0..plan.buffers.len() as u32).map(BufId).collect();
    let safe_from = if overwrite_inputs { safe_from(plan) } else { usize::MAX };
    let mut joiner = Joiner { lives: lives(plan), foreign: foreign(plan), safe_from, joined };
    for at in 0..plan.steps.len() {
        joiner.launch(plan, at);
    }
    joiner.finish(plan);
}

struct Joiner {
    lives: Vec<Option<Life>>,
    foreign: FxHashSet<BufId>,
    /// From this step on nothing can fail.
    safe_from: usize,
    /// The buffer that a buffer has become a part of; itself if none.
    joined: Vec<BufId>,
}

impl Joiner {
    fn find(&self, mut buf: BufId) -> BufId {
        while self.joined[buf.index()] != buf {
            buf = self.joined[buf.index()];
        }
        buf
    }

    fn launch(&mut self, plan: &mut Plan, at: usize) {
        let Step::Launch { kernel, bufs, checks } = &plan.steps[at] else { return };
        let (number, checks) = (*kernel as usize, *checks);
        let mut bufs: Vec<BufId> = bufs.iter().map(|b| self.find(*b)).collect();
        while let Some((from, out)) = self.candidate(plan, at, &plan.kernels[number], &bufs) {
            let (operand, result) = (bufs[from], bufs[out]);
            self.join(plan, operand, result);
            merge_params(&mut plan.kernels[number], from, out);
            bufs[from] = self.find(operand);
            bufs.remove(out);
        }
        for (out, _) in passed(&plan.kernels[number]).enumerate().filter(|(_, (_, param))| param.role == BufRole::Out) {
            if let Some(input) = self.target(plan, at, bufs[out]) {
                self.join(plan, input, bufs[out]);
                bufs[out] = input;
            }
        }
        plan.steps[at] = Step::Launch { kernel: number as u32, bufs, checks };
    }

    /// An operand and a result, as places in `bufs`, that can be one buffer.
    fn candidate(&self, plan: &Plan, at: usize, kernel: &Kernel, bufs: &[BufId]) -> Option<(usize, usize)> {
        let with_role =
            |role: BufRole| passed(kernel).enumerate().filter(move |(_, (_, param))| param.role == role).map(|(place, _)| place);
        with_role(BufRole::Out).find_map(|out| {
            let fits = |from: &usize| {
                self.may_join(plan, at, bufs[*from], bufs[out]) && may_overwrite(kernel, param(kernel, *from), param(kernel, out))
            };
            with_role(BufRole::In).find(fits).map(|from| (from, out))
        })
    }

    /// Whether the operand dies in this step and its memory is as large as the result's, and ours to give away.
    fn may_join(&self, plan: &Plan, at: usize, operand: BufId, result: BufId) -> bool {
        let (from, to) = (&plan.buffers[operand.index()], &plan.buffers[result.index()]);
        let dies = self.lives[operand.index()].is_some_and(|life| life.last == at);
        let begins = self.lives[result.index()].is_some_and(|life| life.first == at);
        let same_size = from.dtype == to.dtype && from.shape.iter().product::<ox_ir::Sym>() == to.shape.iter().product();
        if !(dies && begins && same_size) || self.foreign.contains(&operand) {
            return false;
        }
        match (&from.place, &to.place) {
            (Place::Arena(_) | Place::Library, Place::Arena(_)) => true,
            // A call that makes the operand lays it out as the result's buffer says.
            (Place::Arena(_), Place::Output(_)) => from.shape == to.shape && from.strides == to.strides,
            (Place::Input(n), Place::Arena(_)) => at >= self.safe_from && self.is_new_value(plan, *n, operand, result),
            _ => false,
        }
    }

    /// The input whose new value this step begins to write, where nobody reads the old one from here on.
    fn target(&self, plan: &Plan, at: usize, result: BufId) -> Option<BufId> {
        let begins = self.lives[result.index()].is_some_and(|life| life.first == at);
        if at < self.safe_from || !begins || !matches!(plan.buffers[result.index()].place, Place::Arena(_)) {
            return None;
        }
        let is_free = |buf: &BufId| {
            let Place::Input(n) = plan.buffers[buf.index()].place else { return false };
            self.lives[buf.index()].is_none_or(|life| life.last < at)
                && plan.buffers[buf.index()].dtype == plan.buffers[result.index()].dtype
                && !self.foreign.contains(buf)
                && self.is_new_value(plan, n, *buf, result)
        };
        (0..plan.buffers.len() as u32).map(BufId).find(is_free)
    }

    /// Whether the result is what the input holds in the end, and nothing else wants the old value then.
    fn is_new_value(&self, plan: &Plan, input: u32, operand: BufId, result: BufId) -> bool {
        let (from, to) = (&plan.buffers[operand.index()], &plan.buffers[result.index()]);
        let is_whole = |view: &View| view.offset.is_zero() && view.shape == from.shape && view.strides == from.strides;
        let is_its_own = |w: &WriteBack| w.input == input && self.find(w.from.buf) == result && is_whole(&w.from);
        let reads_old = |w: &WriteBack| self.find(w.from.buf) == operand;
        let returned = |o: &PlanOutput| matches!(o, PlanOutput::Buffer(buf) | PlanOutput::View(View { buf, .. }) if [operand, result].contains(&self.find(*buf)));
        from.shape == to.shape
            && from.strides == to.strides
            && plan.write_backs.iter().any(is_its_own)
            && !plan.write_backs.iter().any(reads_old)
            && !plan.outputs.iter().any(returned)
    }

    /// The result's memory is the caller's in the end, so then the operand moves there; otherwise the result moves.
    fn join(&mut self, plan: &Plan, operand: BufId, result: BufId) {
        let (kept, gone) = match plan.buffers[result.index()].place {
            Place::Output(_) => (result, operand),
            _ => (operand, result),
        };
        if let Some(Life { first, last }) = self.lives[result.index()] {
            let first = self.lives[operand.index()].map_or(first, |life| life.first);
            self.lives[kept.index()] = Some(Life { first, last });
        }
        self.joined[gone.index()] = kept;
        if self.foreign.contains(&gone) {
            self.foreign.insert(kept);
        }
    }

    /// Drops the buffers that have become parts of others, and renames what is left.
    fn finish(&self, plan: &mut Plan) {
        let is_kept = |n: usize| self.joined[n].index() == n;
        let mut next = 0;
        let numbers: Vec<BufId> = (0..plan.buffers.len())
            .map(|n| {
                let number = BufId(next);
                next += is_kept(n) as u32;
                number
            })
            .collect();
        let mut n = 0;
        plan.buffers.retain(|_| {
            n += 1;
            is_kept(n - 1)
        });
        for_each_buffer(plan, &mut |buf| *buf = numbers[self.find(*buf).index()]);
    }
}

/// Behind the last step that is not a launch without checks.
fn safe_from(plan: &Plan) -> usize {
    let checks = |inst: &TypedInst| matches!(inst.inst, Inst::CheckIndex { .. } | Inst::CheckNonZero { .. });
    let may_fail = |step: &Step| match step {
        Step::Launch { kernel, .. } => plan.kernels[*kernel as usize].insts.iter().any(checks),
        _ => true,
    };
    plan.steps.iter().rposition(may_fail).map_or(0, |at| at + 1)
}

/// What calls that we know nothing of have seen: they may keep their arguments, and their results may share memory with one another.
fn foreign(plan: &Plan) -> FxHashSet<BufId> {
    let seen = |step: &Step| match step {
        Step::Call { call: Call::Library(_), ins, outs, .. } => ins.iter().map(|v| v.buf).chain(outs.iter().copied()).collect(),
        _ => Vec::new(),
    };
    plan.steps.iter().flat_map(seen).collect()
}

fn for_each_buffer(plan: &mut Plan, f: &mut dyn FnMut(&mut BufId)) {
    let view = |v: &mut View, f: &mut dyn FnMut(&mut BufId)| f(&mut v.buf);
    for step in &mut plan.steps {
        match step {
            Step::Launch { bufs, .. } => bufs.iter_mut().for_each(&mut *f),
            Step::Call { ins, outs, .. } => {
                ins.iter_mut().for_each(|v| view(v, f));
                outs.iter_mut().for_each(&mut *f);
            }
            Step::Copy { from, to } => [from, to].into_iter().for_each(|v| view(v, f)),
            Step::Drop(buf) => f(buf),
            Step::Release => {}
        }
    }
    for output in &mut plan.outputs {
        match output {
            PlanOutput::Buffer(buf) => f(buf),
            PlanOutput::View(v) => view(v, f),
            PlanOutput::InputView { .. } => {}
        }
    }
    plan.write_backs.iter_mut().for_each(|w| view(&mut w.from, f));
}

/// The parameters that are passed, with their numbers among all.
fn passed(kernel: &Kernel) -> impl Iterator<Item = (u32, &BufParam)> {
    (0..).zip(&kernel.bufs).filter(|(_, param)| !matches!(param.role, BufRole::Scratch(_)))
}

/// The number of a parameter among all, given its place among those that are passed.
fn param(kernel: &Kernel, place: usize) -> u32 {
    passed(kernel).nth(place).map_or(u32::MAX, |(number, _)| number)
}

/// Every element of `from` is read before the same element of `out` is written: all accesses have one index, reads come first, and
/// the points of the loops (all of which the index tells apart) touch nothing of one another.
fn may_overwrite(kernel: &Kernel, from: u32, out: u32) -> bool {
    let (mut reads, mut written) = (Vec::new(), None);
    for (pass, val) in kernel.passes.iter().flat_map(|pass| pass.body.iter().map(move |val| (pass, *val))) {
        match &kernel.inst(val).inst {
            Inst::Load { buf, .. } if *buf == from && written.is_some() => return false,
            Inst::Load { buf, index, .. } if *buf == from => reads.push((pass, index)),
            Inst::Store { buf, .. } if *buf == out && written.is_some() => return false,
            Inst::Store { buf, index, combine: Combine::Set, mask: None, .. } if *buf == out => written = Some((pass, index)),
            Inst::Store { buf, .. } if *buf == out => return false,
            _ => {}
        }
    }
    let Some((last, target)) = written else { return false };
    let told_apart = kernel.axes.iter().chain(&last.axes).all(|axis| target.contains(&axis.var));
    let from_memory = target.any_var(&mut |v| v.kind() == VarKind::Loaded);
    told_apart && !from_memory && reads.iter().all(|(pass, index)| *index == target && pass.axes == last.axes)
}

/// One parameter, read and written, in the place of an operand's and a result's.
fn merge_params(kernel: &mut Kernel, from: usize, out: usize) {
    let (from, out) = (param(kernel, from), param(kernel, out));
    kernel.bufs[from as usize].role = BufRole::InOut;
    kernel.bufs.remove(out as usize);
    let renumber = |buf: &mut u32| {
        let kept = if *buf == out { from } else { *buf };
        *buf = kept - (kept > out) as u32;
    };
    for inst in &mut kernel.insts {
        if let Inst::Load { buf, .. } | Inst::Store { buf, .. } = &mut inst.inst {
            renumber(buf);
        }
    }
}
