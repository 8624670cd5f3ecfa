//! The largest number of a row and the sum of `exp(x - max)` in one pass: softmax and cross entropy read their row once less.

use ox_ir::graph::ReduceOp;
use ox_ir::kernel::{Inst, Kernel, Pass, Val};
use ox_ir::{DType, PointOp};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Online {
    pub max: Val,
    pub sum: Val,
    /// The pass that is done together with the one before it.
    pub second: usize,
    /// Whether the kernel has no other loops.
    pub is_all: bool,
}

pub fn find(kernel: &Kernel) -> Option<Online> {
    let loops: Vec<(usize, &Pass)> = kernel.passes.iter().enumerate().filter(|(_, pass)| !pass.axes.is_empty()).collect();
    let pair = |pair: &[(usize, &Pass)]| {
        let [(_, first), (second, pass)] = *pair else { return None };
        let (max, sum) = joined(kernel, first, pass)?;
        Some(Online { max, sum, second, is_all: loops.len() == 2 })
    };
    loops.windows(2).find_map(pair)
}

/// The reductions, if the first pass is `max(x)` and the second one `sum(exp(x - max))`, of the same `x`, and nothing else.
fn joined(kernel: &Kernel, first: &Pass, second: &Pass) -> Option<(Val, Val)> {
    let (max, sum) = (*first.body.last()?, *second.body.last()?);
    let (Inst::Reduce { op: ReduceOp::Max, value: x }, Inst::Reduce { op: ReduceOp::Sum, value: e }) =
        (&kernel.inst(max).inst, &kernel.inst(sum).inst)
    else {
        return None;
    };
    let Inst::Point(PointOp::Exp, args) = &kernel.inst(*e).inst else { return None };
    let Inst::Point(PointOp::Sub, args) = &kernel.inst(args[0]).inst else { return None };
    let is_f32 = [max, sum, *x, *e].iter().all(|val| kernel.inst(*val).dtype == DType::F32);
    let is_alone = |pass: &Pass| pass.body[..pass.body.len() - 1].iter().all(|val| is_plain(kernel, *val));
    let fits = is_f32 && first.axes == second.axes && args[1] == max && is_alone(first) && is_alone(second);
    // The second pass has two instructions more, and so no other result.
    let same_length = first.body.len() + 2 == second.body.len();
    (fits && same_length && is_same(kernel, *x, args[0])).then_some((max, sum))
}

/// Reads what the kernel does not write, or computes.
fn is_plain(kernel: &Kernel, val: Val) -> bool {
    let is_written = |buf: u32| kernel.insts.iter().any(|i| matches!(i.inst, Inst::Store { buf: stored, .. } if stored == buf));
    match &kernel.inst(val).inst {
        Inst::Load { buf, .. } => !is_written(*buf),
        Inst::Const(_) | Inst::Index(_) | Inst::Point(..) | Inst::Cast(_) => true,
        _ => false,
    }
}

fn is_same(kernel: &Kernel, a: Val, b: Val) -> bool {
    let all = |a: &[Val], b: &[Val]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(kernel, *a, *b));
    let (one, other) = (kernel.inst(a), kernel.inst(b));
    a == b
        || one.dtype == other.dtype
            && match (&one.inst, &other.inst) {
                (Inst::Point(op, a), Inst::Point(same, b)) => op == same && all(a, b),
                (Inst::Cast(a), Inst::Cast(b)) => is_same(kernel, *a, *b),
                (Inst::Load { mask: None, .. } | Inst::Const(_) | Inst::Index(_), other) => one.inst == *other,
                _ => false,
            }
}
