//! For which kernels numbers in the place of size variables are worth a compile.
//!
//! Loops of unknown length cost nothing by themselves: vectors and tails are the same. What costs is a division by a size for every
//! element, lanes that lie a size apart, rows that are summed up or compared with positions and are so short that each of them is
//! mostly its beginning and its end, and results so large that they should go past the caches. Measured on one core, code with variables
//! beside code for one size, before and after: a sum over rows of 48 1.46 and 1.01 times the time, a layer norm of 64 1.13 and 1.00,
//! zeros around planes of 64 x 64 1.31 and 1.00, a transposition of 512 x 500 1.03 and 0.99. Rows of sums and products alone
//! are as fast either way.

use ox_ir::abi::STREAMED_FROM;
use ox_ir::kernel::{Axis, Inst, Kernel, Lanes, Pass};
use ox_ir::sym::{Atom, Sym, Var};

/// Work of one run (a tenth of a nanosecond each) below which a kernel is not looked at: 10 us.
const LEAST_WORK: i64 = 100_000;

/// Rows of so many elements are short.
const SHORT: i64 = 128;

pub fn is_worth_it(kernel: &Kernel, work: i64, value: &dyn Fn(&Var) -> Option<i64>) -> bool {
    !kernel.sizes.is_empty()
        && work >= LEAST_WORK
        && (divides_by_size(kernel) || has_lanes_apart(kernel) || has_short_rows(kernel, value) || is_streamed(kernel, value))
}

fn indices(kernel: &Kernel) -> impl Iterator<Item = &Sym> {
    kernel.insts.iter().filter_map(|inst| match &inst.inst {
        Inst::Load { index, .. } | Inst::Store { index, .. } | Inst::Index(index) => Some(index),
        Inst::ReduceArg { position, .. } => Some(position),
        _ => None,
    })
}

fn divides_by_size(kernel: &Kernel) -> bool {
    indices(kernel).any(mentions_quotient)
}

fn mentions_quotient(sym: &Sym) -> bool {
    sym.terms().iter().flat_map(|(mono, _)| mono).any(|atom| match atom {
        Atom::Var(_) => false,
        Atom::Div(pair) | Atom::Mod(pair) => pair.1.as_const().is_none() || mentions_quotient(&pair.0),
        Atom::Min(pair) | Atom::Max(pair) => mentions_quotient(&pair.0) || mentions_quotient(&pair.1),
    })
}

/// The axes along which lanes run.
fn lane_axes(kernel: &Kernel) -> impl Iterator<Item = &Axis> {
    let outer = (kernel.lanes == Lanes::Outer).then(|| kernel.axes.last()).flatten();
    let inner = kernel.passes.iter().filter(|_| kernel.lanes == Lanes::Inner).filter_map(|pass| pass.axes.last());
    outer.into_iter().chain(inner)
}

/// Whether neighbouring lanes lie apart by a size.
fn has_lanes_apart(kernel: &Kernel) -> bool {
    let is_apart = |axis: &Axis, index: &Sym| index.coeff(&axis.var).is_some_and(|step| step.as_const().is_none());
    lane_axes(kernel).any(|axis| indices(kernel).any(|index| is_apart(axis, index)))
}

/// Whether a loop of unknown length is short. One loop over all points is not a row.
fn has_short_rows(kernel: &Kernel, value: &dyn Fn(&Var) -> Option<i64>) -> bool {
    let is_short = |axis: &Axis| axis.extent.as_const().is_none() && axis.extent.eval(value).is_some_and(|n| n < SHORT);
    let looks_at = |axis: &Axis| {
        let is_position = |inst: &Inst| matches!(inst, Inst::Index(index) if index.contains(&axis.var));
        kernel.insts.iter().any(|inst| is_position(&inst.inst))
    };
    let summed = kernel.passes.iter().filter(|pass| sums(kernel, pass)).filter_map(|pass| pass.axes.last());
    let rows = lane_axes(kernel).filter(|axis| (kernel.lanes != Lanes::Outer || kernel.axes.len() > 1) && looks_at(axis));
    summed.chain(rows).any(is_short)
}

fn sums(kernel: &Kernel, pass: &Pass) -> bool {
    pass.body.iter().any(|val| matches!(kernel.inst(*val).inst, Inst::Reduce { .. } | Inst::ReduceArg { .. }))
}

fn is_streamed(kernel: &Kernel, value: &dyn Fn(&Var) -> Option<i64>) -> bool {
    let points = |inner: &[Axis]| -> Option<i64> {
        let all: Sym = kernel.axes.iter().chain(inner).map(|axis| &axis.extent).product();
        if all.as_const().is_some() { None } else { all.eval(value) }
    };
    let most = kernel.passes.iter().filter_map(|pass| points(&pass.axes)).max().unwrap_or(0);
    let stores = kernel.insts.iter().filter(|inst| matches!(inst.inst, Inst::Store { .. }));
    stores.map(|store| most.saturating_mul(store.dtype.size() as i64)).any(|bytes| bytes >= STREAMED_FROM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wanted(text: &str, sizes: [i64; 2], work: i64) -> bool {
        let text = format!("sizes s0 in 1.., s1 in 1..\nkernel k{text}");
        is_worth_it(&Kernel::parse(&text).unwrap(), work, &|var| Some(sizes[var.id() as usize]))
    }

    const PLAIN: &str = "(b0: f32 in, b1: f32 out, i0 < s0*s1) lanes=outer { pass { v0 = load b0[i0] store b1[i0] v0 } }";
    const DIVIDED: &str = "(b0: f32 in, b1: f32 out, i0 < s0*s1) lanes=outer { pass { v0 = load b0[i0 // s1] store b1[i0] v0 } }";
    const ACROSS: &str =
        "(b0: f32 in, b1: f32 out, i0 < s0, i1 < s1) lanes=outer { pass { v0 = load b0[s0*i1 + i0] store b1[s1*i0 + i1] v0 } }";
    const ROWS: &str = "(b0: f32 in, b1: f32 out, i0 < s0) lanes=inner { pass i1 < s1 { v0 = load b0[s1*i0 + i1] v1 = reduce sum v0 } pass { store b1[i0] v1 } }";

    #[test]
    fn long_loops_promise_nothing() {
        assert!(!is_wanted(PLAIN, [64, 64], 1 << 30));
        assert!(!is_wanted(ROWS, [64, 768], 1 << 30));
    }

    #[test]
    fn quotients_strides_and_short_rows_do() {
        for text in [DIVIDED, ACROSS] {
            assert!(is_wanted(text, [512, 512], 1 << 30), "{text}");
        }
        assert!(is_wanted(ROWS, [512, 24], 1 << 30));
        assert!(is_wanted(PLAIN, [4096, 4096], 1 << 30));
    }

    #[test]
    fn small_work_is_left_alone() {
        assert!(!is_wanted(DIVIDED, [512, 512], 1000));
    }
}
