//! Where shorter forms of functions will do: what is rounded to 16 bits in the end hides their error, unless something on the way there
//! jumps.

use super::carried::operands;
use ox_ir::kernel::{BufRole, Inst, Kernel, Val};
use ox_ir::{DType, PointOp, Scalar};

/// Which values of a kernel may be a little off in their last places.
pub struct Quick {
    /// The kernel writes nothing but floats, and nothing in it makes much of a small difference.
    is_possible: bool,
    /// By value: whether it comes to a wider float that is written without being rounded to 16 bits on the way.
    exposed: Vec<bool>,
}

impl Quick {
    pub fn of(kernel: &Kernel) -> Quick {
        let only_floats = stores(kernel).all(|(buf, _)| kernel.bufs[buf as usize].dtype.is_float());
        let is_possible = only_floats && kernel.insts.iter().all(|i| !jumps(kernel, &i.inst, i.dtype));
        Quick { is_possible, exposed: if is_possible { exposed(kernel) } else { Vec::new() } }
    }

    pub fn is(&self, val: Val) -> bool {
        self.is_possible && !self.exposed[val.index()]
    }
}

/// Into memory: the buffer, and the value.
fn stores(kernel: &Kernel) -> impl Iterator<Item = (u32, Val)> {
    kernel.insts.iter().filter_map(|i| match &i.inst {
        Inst::Store { buf, value, .. } if !is_scratch(kernel, *buf) => Some((*buf, *value)),
        _ => None,
    })
}

fn is_scratch(kernel: &Kernel, buf: u32) -> bool {
    matches!(kernel.bufs[buf as usize].role, BufRole::Scratch(_))
}

fn exposed(kernel: &Kernel) -> Vec<bool> {
    let mut exposed = vec![false; kernel.insts.len()];
    let is_wide = |val: &Val| kernel.inst(*val).dtype.size() > 2;
    let mut left: Vec<Val> = stores(kernel).map(|(_, value)| value).collect();
    while let Some(val) = left.pop() {
        if !is_wide(&val) || std::mem::replace(&mut exposed[val.index()], true) {
            continue;
        }
        match &kernel.inst(val).inst {
            // What was put there in another pass.
            Inst::Load { buf, .. } if is_scratch(kernel, *buf) => left.extend(stored_in(kernel, *buf)),
            inst => left.extend(operands(inst)),
        }
    }
    exposed
}

fn stored_in(kernel: &Kernel, scratch: u32) -> impl Iterator<Item = Val> {
    kernel.insts.iter().filter_map(move |i| match &i.inst {
        Inst::Store { buf, value, .. } if *buf == scratch => Some(*value),
        _ => None,
    })
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
