//! Printing a Plan: its buffers, its steps, what it returns, and each kernel once.

use super::attr::{Attr, print_strides};
use super::cursor::quote;
use super::ops::{AttrPrinter, op_name, op_of_call, print_attrs};
use super::{list, print_sizes};
use crate::graph::{TensorType, contiguous_strides};
use crate::kernel::{Inst, TypedInst};
use crate::plan::{BufId, Buffer, Call, CheckKind, Place, Plan, PlanOutput, Step, View};
use std::fmt;

impl fmt::Display for BufId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", TensorType { dtype: self.dtype, device: self.device, shape: self.shape.clone() })?;
        print_strides(f, &self.shape, &self.strides)?;
        match &self.place {
            Place::Input(n) => write!(f, " input {n}"),
            Place::Arena(offset) => write!(f, " arena at {offset}"),
            Place::Output(n) => write!(f, " output {n}"),
            Place::Library => f.write_str(" library"),
        }?;
        f.write_str(if self.packed { " packed" } else { "" })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_sizes(f, &self.sizes)?;
        f.write_str("plan {\n")?;
        if let Some(bytes) = &self.arena_bytes {
            writeln!(f, "  arena {bytes} bytes")?;
        }
        for (n, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "  b{n}: {buffer}")?;
        }
        for (n, check) in self.checks.iter().enumerate() {
            let (kind, text) = match &check.kind {
                CheckKind::IndexError(text) => ("IndexError", text),
                CheckKind::RuntimeError(text) => ("RuntimeError", text),
                CheckKind::ZeroDivision(text) => ("ZeroDivisionError", text),
            };
            writeln!(f, "  check {n}: {kind} {}{}", quote(text), self.location(check.location))?;
        }
        for step in &self.steps {
            f.write_str("  ")?;
            self.print_step(f, step)?;
        }
        for write in &self.write_backs {
            writeln!(f, "  write back input {} = {}", write.input, self.view(&write.from))?;
        }
        f.write_str("  return")?;
        f.write_str(if self.outputs.is_empty() { "" } else { " " })?;
        list(f, &self.outputs, |f, output| self.print_output(f, output))?;
        f.write_str("\n}\n")?;
        self.kernels.iter().enumerate().try_for_each(|(n, kernel)| write!(f, "\n# kernel {n}\n{kernel}"))
    }
}

impl Plan {
    fn print_step(&self, f: &mut fmt::Formatter<'_>, step: &Step) -> fmt::Result {
        match step {
            Step::Launch { kernel, bufs, checks } => {
                let kernel_data = self.kernels.get(*kernel as usize);
                let name = kernel_data.map_or("?", |k| &k.name);
                write!(f, "launch {kernel} {name}(")?;
                list(f, bufs, |f, buf| write!(f, "{buf}"))?;
                f.write_str(")")?;
                let is_check = |i: &TypedInst| matches!(i.inst, Inst::CheckIndex { .. } | Inst::CheckNonZero { .. });
                if kernel_data.is_some_and(|k| k.insts.iter().any(is_check)) {
                    write!(f, " checks from {checks}")?;
                }
                f.write_str("\n")
            }
            Step::Call { call, ins, outs, location } => {
                list(f, outs, |f, out| write!(f, "{out}"))?;
                f.write_str(if outs.is_empty() { "call " } else { " = call " })?;
                self.print_call(f, call, ins)?;
                writeln!(f, "{}", self.location(*location))
            }
            Step::Copy { from, to } => writeln!(f, "copy {} to {}", self.view(from), self.view(to)),
            Step::Drop(buf) => writeln!(f, "drop {buf}"),
            Step::Release => writeln!(f, "release arena"),
        }
    }

    fn print_call(&self, f: &mut fmt::Formatter<'_>, call: &Call, ins: &[View]) -> fmt::Result {
        let op = op_of_call(call);
        write!(f, "{}(", op_name(&op))?;
        let mut out = AttrPrinter { f, first: true };
        for view in ins {
            out.comma()?;
            write!(out.f, "{}", self.view(view))?;
        }
        print_attrs(&op, &mut out)?;
        f.write_str(")")
    }

    fn print_output(&self, f: &mut fmt::Formatter<'_>, output: &PlanOutput) -> fmt::Result {
        match output {
            PlanOutput::Buffer(buf) => write!(f, "{buf}"),
            PlanOutput::View(view) => write!(f, "{}", self.view(view)),
            PlanOutput::InputView { input, shape, strides, offset } => {
                write!(f, "input {input}")?;
                shape.print(f)?;
                print_strides(f, shape, strides)?;
                write!(f, " at {offset}")
            }
        }
    }

    fn location(&self, location: u32) -> String {
        match self.locations.get(location as usize) {
            Some(text) if !text.is_empty() => format!("  # {text}"),
            _ => String::new(),
        }
    }

    fn view<'a>(&'a self, view: &'a View) -> PrintedView<'a> {
        PrintedView { view, buffer: self.buffers.get(view.buf.index()) }
    }
}

/// A view; nothing but the buffer's name if it is all of it as it lies.
struct PrintedView<'a> {
    view: &'a View,
    buffer: Option<&'a Buffer>,
}

impl fmt::Display for PrintedView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let View { buf, shape, strides, offset } = self.view;
        write!(f, "{buf}")?;
        let same_shape = self.buffer.is_some_and(|b| b.shape == *shape);
        if same_shape && offset.is_zero() && self.buffer.is_some_and(|b| b.strides == *strides) {
            return Ok(());
        }
        shape.print(f)?;
        if *strides != contiguous_strides(shape) {
            f.write_str(" strides ")?;
            strides.print(f)?;
        }
        if offset.is_zero() { Ok(()) } else { write!(f, " at {offset}") }
    }
}
