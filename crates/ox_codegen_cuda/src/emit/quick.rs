//! Where shorter forms of functions will do: what is rounded to 16 bits in the end hides their error, unless something on the way there
//! jumps.

use ox_ir::kernel::{Inst, Kernel, Val};
use ox_ir::{DType, PointOp, Scalar};

/// Whether all floats that the kernel writes have 16 bits, and none of them comes from an operation that makes much of a small difference.
pub fn is_quick(kernel: &Kernel) -> bool {
    let is_memory = |buf: u32| !matches!(kernel.bufs[buf as usize].role, ox_ir::kernel::BufRole::Scratch(_));
    let mut written = kernel.insts.iter().filter_map(|i| match &i.inst {
        Inst::Store { buf, .. } if is_memory(*buf) => Some(kernel.bufs[*buf as usize].dtype),
        _ => None,
    });
    written.all(|dtype| dtype.is_float() && dtype.size() == 2) && kernel.insts.iter().all(|i| !jumps(kernel, &i.inst, i.dtype))
}

/// Whether a small difference in an f32 operand may make a large one in the result.
fn jumps(kernel: &Kernel, inst: &Inst, dtype: DType) -> bool {
    use PointOp::*;
    let is_f32 = |val: &Val| kernel.inst(*val).dtype == DType::F32;
    match inst {
        Inst::Point(op, args) if args.iter().any(is_f32) => {
            let steps =
                matches!(op, Floor | Ceil | Round | Trunc | Sign | DivFloor | DivTrunc | Remainder | Fmod | SignBit | Pow | Tan);
            steps || dtype == DType::Bool || leaves_domain(kernel, *op, args[0])
        }
        Inst::Cast(arg) => is_f32(arg) && !dtype.is_float(),
        Inst::ReduceArg { .. } => true,
        _ => false,
    }
}

/// Whether a result may be NaN where a quotient is a little above 1: `acos(x / max)`, `sqrt(1 - x / max)`.
fn leaves_domain(kernel: &Kernel, op: PointOp, arg: Val) -> bool {
    use PointOp::*;
    let is_difference = || matches!(kernel.inst(arg).inst, Inst::Point(Sub, _));
    matches!(op, Acos | Asin | Acosh | Atanh) || (matches!(op, Sqrt | Rsqrt | Log | Log2 | Log10 | Log1p) && is_difference())
}

/// The `x` of `erf(x) + 1`, in f32.
pub fn erf_and_one(kernel: &Kernel, op: PointOp, args: &[Val]) -> Option<Val> {
    let is_one = |val: Val| matches!(kernel.inst(val).inst, Inst::Const(Scalar::Float(one)) if one == 1.0);
    let erf_of = |val: Val| match &kernel.inst(val).inst {
        Inst::Point(PointOp::Erf, of) if kernel.inst(val).dtype == DType::F32 => Some(of[0]),
        _ => None,
    };
    match (op, args) {
        (PointOp::Add, [a, b]) if is_one(*b) => erf_of(*a),
        (PointOp::Add, [a, b]) if is_one(*a) => erf_of(*b),
        _ => None,
    }
}
