//! Loops over parts of which the last are filled up with what changes no result: a reduction that was cut where sizes vary. They end where the filling begins, so
//! that nothing in them asks whether it is there: loads that wait for a question are not under way together.

use ox_ir::graph::ReduceOp;
use ox_ir::kernel::{Inst, Kernel, Pass, Val};
use ox_ir::{DType, PointOp, Sym};

/// What tells the rounds of the loop's first axis that count from the others, and how many count: below one, none does.
pub struct Filled {
    pub mask: Val,
    pub rounds: Sym,
}

/// None for a loop in which rounds behind the end do anything, or which has no such end.
pub fn filled(kernel: &Kernel, pass: &Pass) -> Option<Filled> {
    let axis = pass.axes.first()?;
    let rounds = |val: Val| {
        let Inst::Point(PointOp::Lt, args) = &kernel.inst(val).inst else { return None };
        let [Inst::Index(place), Inst::Index(end)] = [args[0], args[1]].map(|arg| &kernel.inst(arg).inst) else { return None };
        let rounds = &(end - place) + &Sym::var(&axis.var);
        (!pass.axes.iter().any(|axis| rounds.contains(&axis.var))).then_some(rounds)
    };
    let mask = pass.body.iter().copied().find(|val| rounds(*val).is_some())?;
    let is_idle = pass.body.iter().all(|val| is_idle(kernel, *val, mask));
    is_idle.then(|| rounds(mask).map(|rounds| Filled { mask, rounds })).flatten()
}

/// Whether an instruction changes nothing where the mask is false.
fn is_idle(kernel: &Kernel, val: Val, mask: Val) -> bool {
    let typed = kernel.inst(val);
    match &typed.inst {
        Inst::Reduce { op, value } => {
            matches!(&kernel.inst(*value).inst, Inst::Point(PointOp::Where, args) if args[0] == mask && is_neutral(kernel, args[2], *op, typed.dtype))
        }
        Inst::Store { mask: only, .. } => *only == Some(mask),
        Inst::ReduceArg { .. } | Inst::Scan { .. } | Inst::CheckIndex { .. } | Inst::CheckNonZero { .. } => false,
        _ => true,
    }
}

fn is_neutral(kernel: &Kernel, val: Val, op: ReduceOp, dtype: DType) -> bool {
    matches!(&kernel.inst(val).inst, Inst::Const(scalar) if scalar.as_f64() == op.neutral(dtype).as_f64())
}
