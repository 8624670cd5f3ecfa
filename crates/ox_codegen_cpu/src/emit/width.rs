//! How many lanes a kernel's vectors have, and how far its reductions are unrolled.

use crate::backend::Sums;
use crate::host::Host;
use ox_ir::PointOp;
use ox_ir::kernel::{Inst, Kernel, Lanes, Pass};

/// As many lanes as fill a register with the kernel's most common kind of value: 32-bit where there is any, so that
/// an i64 index beside f32 data does not halve the width (LLVM splits the wider vectors).
pub fn pick(kernel: &Kernel, host: &Host) -> u32 {
    if kernel.lanes == Lanes::None {
        return 1;
    }
    let sizes = kernel.insts.iter().filter(|t| !matches!(t.inst, Inst::Index(_))).map(|t| t.dtype.compute().size() as u32);
    let sizes: Vec<u32> = sizes.chain(kernel.bufs.iter().map(|b| b.dtype.compute().size() as u32)).collect();
    let bytes = if sizes.contains(&4) { 4 } else { sizes.into_iter().max().unwrap_or(4).max(2) };
    host.vector_bits / 8 / bytes
}

/// How many copies of a reduction's body run with accumulators of their own. The more work a copy has, the fewer are needed
/// to hide the latency of the additions.
pub fn unroll(kernel: &Kernel, pass: &Pass, steps: Option<i64>, order: Sums) -> i64 {
    let inst = |val: &ox_ir::kernel::Val| &kernel.inst(*val).inst;
    let reduces = pass.body.iter().any(|v| matches!(inst(v), Inst::Reduce { .. } | Inst::ReduceArg { .. }));
    let ordered = pass.body.iter().any(|v| matches!(inst(v), Inst::Scan { .. }));
    if !reduces || ordered {
        return 1;
    }
    let work: u32 = pass.body.iter().map(|v| weight(inst(v))).sum();
    let most = match work {
        0..=16 => 4,
        17..=40 => 2,
        _ => 1,
    };
    match steps {
        // As many copies as steps: one behind the other, as the last steps of any length are.
        Some(n) if n <= most => n.max(1),
        Some(n) if order == Sums::Best && most == 4 && n % 4 != 0 && n % 2 == 0 && n < 16 => 2,
        _ => most,
    }
}

fn weight(inst: &Inst) -> u32 {
    use PointOp::*;
    match inst {
        Inst::Const(_) | Inst::Reduce { .. } => 0,
        Inst::ReduceArg { .. } | Inst::CheckIndex { .. } => 4,
        Inst::Point(Sqrt | Rsqrt | Div | Reciprocal, _) => 4,
        Inst::Point(op, _) if is_function(*op) => 16,
        _ => 1,
    }
}

fn is_function(op: PointOp) -> bool {
    op >= PointOp::Exp && op <= PointOp::Lgamma
        || matches!(op, PointOp::Pow | PointOp::Fmod | PointOp::Remainder | PointOp::Random | PointOp::RandomHigh)
}
