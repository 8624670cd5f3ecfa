//! What must hold for a Plan: everything that is named exists and fits, nothing is read before it is written.

use super::{Check, VerifyError, at, ensure, less};
use crate::graph::Combine;
use crate::kernel::{BufRole, Inst, Kernel};
use crate::plan::{BufId, Buffer, Place, Plan, PlanOutput, Step, View};
use crate::sym::Sym;

impl Plan {
    pub fn verify(&self) -> Result<(), VerifyError> {
        for kernel in &self.kernels {
            kernel.verify()?;
        }
        let holds_input = |b: &Buffer| matches!(b.place, Place::Input(_)) || b.shape.iter().any(|n| n.is_zero());
        let mut state = State { plan: self, written: self.buffers.iter().map(holds_input).collect() };
        for (n, step) in self.steps.iter().enumerate() {
            at(format!("step {n}"), state.step(step))?;
        }
        for (n, output) in self.outputs.iter().enumerate() {
            at(format!("output {n}"), state.output(output))?;
        }
        for write in &self.write_backs {
            at(format!("write back to input {}", write.input), state.reads_view(&write.from))?;
        }
        self.verify_memory()
    }

    /// The number of elements from the first to the last of a window with these sizes; None if there are none for certain.
    pub(super) fn room(shape: &[Sym], strides: &[Sym]) -> Option<Sym> {
        if shape.iter().any(|n| n.is_zero()) {
            return None;
        }
        let steps: Vec<Sym> = shape.iter().zip(strides).map(|(n, s)| &(n - 1) * s).collect();
        Some(&steps.iter().sum::<Sym>() + 1)
    }
}

struct State<'a> {
    plan: &'a Plan,
    /// Buffers with something in them, at least in part.
    written: Vec<bool>,
}

impl State<'_> {
    fn step(&mut self, step: &Step) -> Check {
        match step {
            Step::Launch { kernel, bufs, checks } => {
                let Some(kernel) = self.plan.kernels.get(*kernel as usize) else {
                    return Err(format!("there is no kernel {kernel}"));
                };
                self.launch(kernel, bufs, *checks)
            }
            Step::Call { ins, outs, .. } => {
                ins.iter().try_for_each(|view| self.reads_view(view))?;
                outs.iter().try_for_each(|buf| self.writes(*buf))
            }
            Step::Copy { from, to } => {
                self.reads_view(from)?;
                self.fits(to)?;
                self.writes(to.buf)
            }
            Step::Drop(buf) => {
                let may_go = matches!(self.buffer(*buf)?.place, Place::Library | Place::Input(_));
                ensure(may_go, || format!("{buf} is neither a library's nor an input"))?;
                self.reads(*buf)?;
                self.written[buf.index()] = false;
                Ok(())
            }
            Step::Release => Ok(()),
        }
    }

    fn launch(&mut self, kernel: &Kernel, bufs: &[BufId], checks: u32) -> Check {
        let passed = kernel.bufs.iter().enumerate().filter(|(_, b)| !matches!(b.role, BufRole::Scratch(_)));
        let params: Vec<_> = passed.collect();
        ensure(params.len() == bufs.len(), || {
            format!("{} buffers for {} parameters of {}", bufs.len(), params.len(), kernel.name)
        })?;
        for ((n, param), buf) in params.iter().zip(bufs) {
            let dtype = self.buffer(*buf)?.dtype;
            ensure(dtype == param.dtype, || format!("{buf} is {dtype}, {} wants {}", kernel.name, param.dtype))?;
            if starts_reading(kernel, *n as u32) {
                self.reads(*buf)?;
            }
        }
        for ((_, param), buf) in params.iter().zip(bufs) {
            if param.role != BufRole::In {
                self.writes(*buf)?;
            }
        }
        for var in &kernel.sizes {
            ensure(self.plan.sizes.contains(var), || format!("{} needs the size {var}", kernel.name))?;
        }
        let numbers = kernel.insts.iter().filter_map(|i| match i.inst {
            Inst::CheckIndex { check, .. } | Inst::CheckNonZero { check, .. } => Some(check),
            _ => None,
        });
        let last = numbers.max().map(|n| (n + checks) as usize);
        ensure(last.is_none_or(|n| n < self.plan.checks.len()), || "its last check does not exist".into())
    }

    fn output(&self, output: &PlanOutput) -> Check {
        match output {
            PlanOutput::Buffer(buf) => self.reads(*buf),
            PlanOutput::View(view) => self.reads_view(view),
            PlanOutput::InputView { shape, strides, .. } => {
                ensure(shape.len() == strides.len(), || "strides of another rank".into())
            }
        }
    }

    fn buffer(&self, buf: BufId) -> Result<&Buffer, String> {
        self.plan.buffers.get(buf.index()).ok_or_else(|| format!("there is no {buf}"))
    }

    fn reads(&self, buf: BufId) -> Check {
        self.buffer(buf)?;
        ensure(self.written[buf.index()], || format!("{buf} is read before it is written"))
    }

    fn writes(&mut self, buf: BufId) -> Check {
        self.buffer(buf)?;
        self.written[buf.index()] = true;
        Ok(())
    }

    fn reads_view(&self, view: &View) -> Check {
        self.fits(view)?;
        self.reads(view.buf)
    }

    /// The view lies inside of its buffer, as far as can be told.
    fn fits(&self, view: &View) -> Check {
        let buffer = self.buffer(view.buf)?;
        ensure(view.shape.len() == view.strides.len(), || "strides of another rank".into())?;
        let Some(len) = Plan::room(&view.shape, &view.strides) else { return Ok(()) };
        let room = Plan::room(&buffer.shape, &buffer.strides).unwrap_or(Sym::ZERO);
        let outside = less(&view.offset, &Sym::ZERO) || less(&room, &(&view.offset + &len));
        let may_be_empty = !view.shape.iter().all(|n| n.is_positive());
        ensure(!outside || may_be_empty, || format!("a view of {} to element {} + {len} of {room}", view.buf, view.offset))
    }
}

/// Whether a kernel reads what a buffer held before: one that it writes first, it may read again later.
fn starts_reading(kernel: &Kernel, param: u32) -> bool {
    let touches = kernel.passes.iter().flat_map(|pass| &pass.body).find_map(|val| match &kernel.inst(*val).inst {
        Inst::Load { buf, .. } if *buf == param => Some(true),
        Inst::Store { buf, combine, .. } if *buf == param => Some(*combine != Combine::Set),
        _ => None,
    });
    touches.unwrap_or(false)
}
