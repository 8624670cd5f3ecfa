//! `Kernel`: the loop program that a backend turns into machine code.
//!
//! A kernel runs once for every point of its outer `axes`. At each point its `passes` run in order; a pass loops over its own inner
//! axes (or runs once, if it has none) and executes its instructions. A value lives inside its pass, with two
//! exceptions: what a `Reduce` made is a value of all later passes, and so are the values of a pass without inner axes.
//!
//! ```text
//! kernel softmax(b0: f32 in, b1: f32 out, i0 < s0) lanes=inner {
//!   pass i1 < 128 { v0 = load b0[128*i0 + i1] ; v1 = reduce max v0 }
//!   pass i1 < 128 { v2 = load b0[128*i0 + i1] ; v3 = sub v2 v1 ; v4 = exp v3 ; v5 = reduce sum v4 }
//!   ...
//! ```

use crate::dtype::{DType, Scalar};
use crate::graph::{Combine, ReduceOp};
use crate::point::PointOp;
use crate::sym::{Sym, Var};
use smallvec::SmallVec;

/// A value: its place in `Kernel::insts`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Val(pub u32);

impl Val {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum BufRole {
    In,
    Out,
    /// Read and written.
    InOut,
    /// Private to one outer point (one thread), with room for so many elements; never passed in.
    Scratch(i64),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BufParam {
    pub dtype: DType,
    pub role: BufRole,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    pub var: Var,
    pub extent: Sym,
}

/// Which axis the vector lanes run along.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lanes {
    /// The last outer axis: every value is a vector over neighbouring outer points.
    Outer,
    /// The last inner axis of each pass; reductions end with a sum over lanes.
    Inner,
    /// None: one element at a time.
    None,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Inst {
    Const(Scalar),
    /// The value of an index expression, as i64.
    Index(Sym),
    /// Element `index` of a buffer. Where `mask` is false nothing is read and the value is `other`.
    Load {
        buf: u32,
        index: Sym,
        mask: Option<(Val, Scalar)>,
    },
    Point(PointOp, SmallVec<[Val; 3]>),
    /// As `Tensor.to(dtype)`.
    Cast(Val),
    /// Reduces `value` over the inner axes of the pass; usable after the pass. The accumulator has this instruction's dtype.
    Reduce {
        op: ReduceOp,
        value: Val,
    },
    /// ArgMax/ArgMin: the `position` (i64) of the extremal value.
    ReduceArg {
        op: ReduceOp,
        value: Val,
        position: Sym,
    },
    /// The running result over the last inner axis, inclusive; the value itself in a pass without inner axes. What a sum has so far is
    /// multiplied by `decay` before the value is added.
    Scan {
        op: ReduceOp,
        value: Val,
        decay: Option<Val>,
    },
    /// An i64 value from memory used as an index below `extent`: wraps negatives if `wrap`, and where it is
    /// still out of range reports check number `check` and continues with 0. Defines `var` for index expressions, wherever this
    /// value can be seen; the value itself is the index that was found good.
    CheckIndex {
        value: Val,
        var: Var,
        extent: Sym,
        wrap: bool,
        check: u32,
    },
    /// Reports check number `check` if the integer value is zero.
    CheckNonZero {
        value: Val,
        check: u32,
    },
    /// Nothing is written where `mask` is false.
    Store {
        buf: u32,
        index: Sym,
        value: Val,
        combine: Combine,
        mask: Option<Val>,
    },
}

/// What an expression is to an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Index,
    /// Of what an index is checked against.
    Extent,
}

impl Inst {
    /// Puts other expressions in the place of all that it has.
    pub fn map_syms(&mut self, mut map: impl FnMut(&Sym, Role) -> Sym) {
        match self {
            Inst::Load { index, .. } | Inst::Store { index, .. } | Inst::Index(index) => *index = map(index, Role::Index),
            Inst::ReduceArg { position, .. } => *position = map(position, Role::Index),
            Inst::CheckIndex { var, extent, .. } => {
                *extent = map(extent, Role::Extent);
                *var = Var::loaded(var.id(), extent.clone());
            }
            Inst::Const(_)
            | Inst::Point(..)
            | Inst::Cast(_)
            | Inst::Reduce { .. }
            | Inst::Scan { .. }
            | Inst::CheckNonZero { .. } => {}
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TypedInst {
    pub inst: Inst,
    /// The type of the value; for a store, of what is stored. bf16 and f16 values are held as f32 that have been rounded.
    pub dtype: DType,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pass {
    pub axes: Vec<Axis>,
    /// The instructions in order, places in `Kernel::insts`.
    pub body: Vec<Val>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// For people: made of the ops inside. Not part of the kernel's identity.
    pub name: String,
    /// Passed as i64, in this order.
    pub sizes: Vec<Var>,
    pub bufs: Vec<BufParam>,
    pub axes: Vec<Axis>,
    pub insts: Vec<TypedInst>,
    pub passes: Vec<Pass>,
    pub lanes: Lanes,
    /// Outer points may run on several threads: no two of them write to the same element, combining or not.
    pub parallel: bool,
    pub usual: Usual,
}

/// About how large is what varies of a kernel with inner loops: a GPU spreads it over as many threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Usual {
    /// Of the inner loops.
    pub length: Option<i64>,
    /// Outer points.
    pub points: Option<i64>,
}

impl Kernel {
    pub fn inst(&self, val: Val) -> &TypedInst {
        &self.insts[val.index()]
    }

    /// Whether a scan may combine neighbours first and what came before them afterwards. Floats may not, unless they are summed up in a type with room for more:
    /// what leaves the range of the type on the way would do so elsewhere, and sums of what is not below zero might fall.
    pub fn scans_in_any_order(&self, scan: &Inst) -> bool {
        let Inst::Scan { op, value, decay: None } = scan else { return false };
        match op {
            ReduceOp::Max | ReduceOp::Min => true,
            ReduceOp::Sum => !self.inst(*value).dtype.is_float() || self.is_widened(*value),
            ReduceOp::Prod => !self.inst(*value).dtype.is_float(),
            _ => false,
        }
    }

    fn is_widened(&self, value: Val) -> bool {
        matches!(self.inst(value).inst, Inst::Cast(narrow) if self.inst(value).dtype.is_roomier_than(self.inst(narrow).dtype))
    }

    /// The number of outer points.
    pub fn points(&self) -> Sym {
        length(&self.axes)
    }
}

/// The number of points that a loop over these axes has.
pub fn length(axes: &[Axis]) -> Sym {
    axes.iter().map(|axis| &axis.extent).product()
}
