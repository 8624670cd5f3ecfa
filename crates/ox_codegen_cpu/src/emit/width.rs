//! How many lanes a kernel's vectors have, and how far its reductions are unrolled.

use crate::backend::Sums;
use crate::host::Host;
use ox_ir::kernel::{BufRole, Inst, Kernel, Lanes, Pass, TypedInst};
use ox_ir::{DType, PointOp, Sym};

/// As many lanes as fill a register with the kernel's most common kind of value: 32-bit where there is any, so that
/// an i64 index beside f32 data does not halve the width (LLVM splits the wider vectors).
pub fn pick(kernel: &Kernel, host: &Host) -> u32 {
    if kernel.lanes == Lanes::None {
        return 1;
    }
    let sizes = kernel.insts.iter().filter(|t| !matches!(t.inst, Inst::Index(_))).map(|t| t.dtype.compute().size() as u32);
    let sizes: Vec<u32> = sizes.chain(kernel.bufs.iter().map(|b| b.dtype.compute().size() as u32)).collect();
    let bytes = if sizes.contains(&4) { 4 } else { sizes.into_iter().max().unwrap_or(4).max(2) };
    let width = host.vector_bits / 8 / bytes;
    let gains = |columns: &u32| goes_down_columns(kernel, columns * width, width) && is_filled_by(kernel, *columns, width);
    [COLUMNS, COLUMNS_OF_FUNCTIONS].iter().find(|columns| gains(columns)).map_or(width, |columns| columns * width)
}

/// Whether the end of a row, which is a whole vector under a mask, costs no more than it does with the usual vectors.
fn is_filled_by(kernel: &Kernel, columns: u32, width: u32) -> bool {
    let extent = kernel.axes.last().and_then(|axis| axis.extent.as_const());
    let vectors = |lanes: u32| extent.map(|n| (n as u64).div_ceil(lanes as u64));
    columns >= COLUMNS || vectors(columns * width).map(|n| n * columns as u64) <= vectors(width)
}

/// So many vectors of a row side by side: whole lines of the cache one after the other, and sums that do not wait for one another. A sum of
/// 1024x1024 numbers over its rows took 1.7 times eager's time with one vector.
const COLUMNS: u32 = 4;
/// Where functions are computed, which need registers, or rows are short, but nothing is in f64: still a line of the cache if these are halves. `log_softmax` of
/// 1024x1024 of them over their rows took 1.2 times eager's time with one vector, and takes half to three quarters of it.
const COLUMNS_OF_FUNCTIONS: u32 = 2;
/// What a mask can be asked about as one number.
const MOST_LANES: u32 = 64;
/// More of them would not fit in the registers.
const MOST_SUMS: usize = 2;
const MOST_COLUMN_INSTS: usize = 24;

/// Whether inner loops step from row to row, where in each row so many elements lie side by side.
fn goes_down_columns(kernel: &Kernel, lanes: u32, width: u32) -> bool {
    let Some(axis) = kernel.axes.last() else { return false };
    let is_side_by_side =
        |index: &Sym| index.coeff(&axis.var).and_then(|step| step.as_const()).is_some_and(|step| (0..=1).contains(&step));
    let few = lanes < COLUMNS * width;
    let is_plain = |typed: &TypedInst| match &typed.inst {
        _ if few && typed.dtype == DType::F64 => false,
        Inst::Load { index, .. } | Inst::Store { index, .. } => is_side_by_side(index),
        Inst::Point(op, _) => few || !op.is_function(),
        Inst::ReduceArg { .. } | Inst::Scan { .. } => false,
        _ => true,
    };
    let sums = kernel.insts.iter().filter(|typed| matches!(typed.inst, Inst::Reduce { .. })).count();
    let has_scratch = kernel.bufs.iter().any(|buf| matches!(buf.role, BufRole::Scratch(_)));
    kernel.lanes == Lanes::Outer
        && lanes <= MOST_LANES
        && axis.extent.as_const().is_some_and(|n| n >= 2 * lanes as i64)
        && kernel.passes.iter().any(|pass| !pass.axes.is_empty())
        && kernel.insts.len() <= MOST_COLUMN_INSTS
        && sums <= MOST_SUMS
        && !has_scratch
        && kernel.insts.iter().all(is_plain)
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

/// How long an instruction takes, and how much of it there is to compile.
pub fn weight(inst: &Inst) -> u32 {
    use PointOp::*;
    match inst {
        Inst::Const(_) | Inst::Reduce { .. } => 0,
        Inst::ReduceArg { .. } | Inst::CheckIndex { .. } => 4,
        Inst::Point(Sqrt | Rsqrt | Div | Reciprocal, _) => 4,
        Inst::Point(op, _) if op.is_function() => 16,
        _ => 1,
    }
}
