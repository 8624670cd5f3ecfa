//! Printing a Kernel.
//!
//! ```text
//! sizes s0 in 2..
//! kernel softmax(b0: f32 in, b1: f32 out, i0 < s0) lanes=inner parallel {
//!   pass i1 < 128 {
//!     v0 = load b0[128*i0 + i1]
//!     v1 = reduce max v0
//!   }
//!   ...
//! }
//! ```
//!
//! A value's type is shown where it cannot be told from its operands.

use super::attr::Attr;
use super::cursor::quote;
use super::{list, print_sizes};
use crate::dtype::DType;
use crate::graph::Combine;
use crate::kernel::{Axis, BufParam, BufRole, Inst, Kernel, Lanes, Pass, TypedInst, Val};
use std::fmt;

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for BufParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.dtype)?;
        match self.role {
            BufRole::In => f.write_str("in"),
            BufRole::Out => f.write_str("out"),
            BufRole::InOut => f.write_str("inout"),
            BufRole::Scratch(len) => write!(f, "scratch {len}"),
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {}", self.var, self.extent)
    }
}

impl Lanes {
    pub(super) const NAMES: [(Lanes, &'static str); 3] =
        [(Lanes::Outer, "outer"), (Lanes::Inner, "inner"), (Lanes::None, "none")];

    pub fn name(self) -> &'static str {
        Lanes::NAMES.into_iter().find(|(lanes, _)| *lanes == self).map_or("none", |(_, name)| name)
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_sizes(f, &self.sizes)?;
        write!(f, "kernel {}(", printed_name(&self.name))?;
        list(f, self.bufs.iter().enumerate(), |f, (n, buf)| write!(f, "b{n}: {buf}"))?;
        if !self.bufs.is_empty() && !self.axes.is_empty() {
            f.write_str(", ")?;
        }
        list(f, &self.axes, |f, axis| write!(f, "{axis}"))?;
        write!(f, ") lanes={}{}", self.lanes.name(), if self.parallel { " parallel" } else { "" })?;
        for (word, number) in [("length", self.usual.length), ("points", self.usual.points)] {
            number.map_or(Ok(()), |number| write!(f, " {word}={number}"))?;
        }
        f.write_str(" {\n")?;
        for pass in &self.passes {
            self.print_pass(f, pass)?;
        }
        f.write_str("}\n")
    }
}

fn printed_name(name: &str) -> String {
    let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if word { name.to_string() } else { quote(name) }
}

impl Kernel {
    fn print_pass(&self, f: &mut fmt::Formatter<'_>, pass: &Pass) -> fmt::Result {
        f.write_str("  pass ")?;
        list(f, &pass.axes, |f, axis| write!(f, "{axis}"))?;
        f.write_str(if pass.axes.is_empty() { "{\n" } else { " {\n" })?;
        for val in &pass.body {
            f.write_str("    ")?;
            self.print_inst(f, *val)?;
            f.write_str("\n")?;
        }
        f.write_str("  }\n")
    }

    fn print_inst(&self, f: &mut fmt::Formatter<'_>, val: Val) -> fmt::Result {
        let Some(TypedInst { inst, dtype }) = self.insts.get(val.index()) else {
            return write!(f, "{val} = (no such instruction)");
        };
        if !matches!(inst, Inst::Store { .. } | Inst::CheckNonZero { .. }) {
            write!(f, "{val} = ")?;
        }
        write!(f, "{inst}")?;
        if usual_dtype(&self.bufs, &self.insts, inst) == Some(*dtype) { Ok(()) } else { write!(f, " : {dtype}") }
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inst::Const(value) => write!(f, "const {value}"),
            Inst::Index(index) => write!(f, "index {index}"),
            Inst::Load { buf, index, mask: None } => write!(f, "load b{buf}[{index}]"),
            Inst::Load { buf, index, mask: Some((mask, other)) } => write!(f, "load b{buf}[{index}] if {mask} else {other}"),
            Inst::Point(op, args) => {
                f.write_str(op.name())?;
                args.iter().try_for_each(|arg| write!(f, " {arg}"))
            }
            Inst::Cast(value) => write!(f, "cast {value}"),
            Inst::Reduce { op, value } => write!(f, "reduce {} {value}", op.name()),
            Inst::ReduceArg { op, value, position } => write!(f, "reduce {} {value} at {position}", op.name()),
            Inst::Scan { op, value, decay } => {
                write!(f, "scan {} {value}", op.name())?;
                decay.iter().try_for_each(|decay| write!(f, " decay {decay}"))
            }
            Inst::CheckIndex { value, var, extent, wrap, check } => {
                let wrap = if *wrap { " wrap" } else { "" };
                write!(f, "check_index {value} {var} < {extent}{wrap} check {check}")
            }
            Inst::CheckNonZero { value, check } => write!(f, "check_nonzero {value} check {check}"),
            Inst::Store { buf, index, value, combine, mask } => {
                f.write_str("store ")?;
                if *combine != Combine::Set {
                    combine.print(f)?;
                    f.write_str(" ")?;
                }
                write!(f, "b{buf}[{index}] {value}")?;
                mask.iter().try_for_each(|mask| write!(f, " if {mask}"))
            }
        }
    }
}

/// The type that an instruction has unless the text says otherwise; None where it must be said.
pub(super) fn usual_dtype(bufs: &[BufParam], insts: &[TypedInst], inst: &Inst) -> Option<DType> {
    let of_value = |val: &Val| insts.get(val.index()).map(|i| i.dtype);
    match inst {
        Inst::Const(_) | Inst::Cast(_) => None,
        Inst::Index(_) | Inst::ReduceArg { .. } | Inst::CheckIndex { .. } => Some(DType::I64),
        Inst::Load { buf, .. } | Inst::Store { buf, .. } => bufs.get(*buf as usize).map(|b| b.dtype),
        Inst::Point(op, args) => args.last().and_then(of_value).map(|dtype| op.result(dtype)),
        Inst::Reduce { value, .. } | Inst::Scan { value, .. } | Inst::CheckNonZero { value, .. } => of_value(value),
    }
}
