//! Reductions and scans: accumulators, how they combine, and how the lanes of one are folded.

use super::convert::{self, compute_elem};
use super::index::At;
use super::{Emitter, bits, point};
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::DType;
use ox_ir::graph::ReduceOp;
use ox_ir::kernel::{Inst, Kernel, Lanes, Pass, Val};
use smallvec::{SmallVec, smallvec};

/// The instructions of a pass that carry something from step to step.
pub struct Slots {
    pub reduces: Vec<Val>,
    /// A scan starts anew each time its loop is entered.
    pub scans: Vec<Val>,
    pub all: Vec<Val>,
}

impl Slots {
    pub fn of(kernel: &Kernel, pass: &Pass) -> Slots {
        let is_scan = |v: &Val| matches!(kernel.inst(*v).inst, Inst::Scan { .. });
        let is_reduce = |v: &Val| matches!(kernel.inst(*v).inst, Inst::Reduce { .. } | Inst::ReduceArg { .. });
        let pick = |f: &dyn Fn(&Val) -> bool| pass.body.iter().copied().filter(f).collect();
        Slots { reduces: pick(&is_reduce), scans: pick(&is_scan), all: pick(&|v| is_reduce(v) || is_scan(v)) }
    }
}

type Running<'a> = SmallVec<[V<'a>; 2]>;

/// No position yet: behind every other.
const NO_POSITION: i64 = i64::MAX;

impl<'a> Emitter<'a> {
    fn reduce_op(&self, val: Val) -> ReduceOp {
        match self.kernel.inst(val).inst {
            Inst::Reduce { op, .. } | Inst::ReduceArg { op, .. } | Inst::Scan { op, .. } => op,
            _ => unreachable!("only reductions and scans have slots"),
        }
    }

    /// The type that is accumulated: for argmax, that of the values compared.
    fn running_dtype(&self, val: Val) -> DType {
        match self.kernel.inst(val).inst {
            Inst::ReduceArg { value, .. } => self.dtype(value),
            _ => self.dtype(val),
        }
    }

    /// What a reduction of nothing has.
    fn identity(&self, val: Val, lanes: u32) -> Running<'a> {
        let (op, dtype) = (self.reduce_op(val), self.running_dtype(val));
        let value = identity(self.ir, op, dtype).splat(lanes);
        if op.is_arg() { smallvec![value, self.ir.index(NO_POSITION).splat(lanes)] } else { smallvec![value] }
    }

    pub fn start(&mut self, slots: &[Val], lanes: u32) {
        for val in slots {
            let identity = self.identity(*val, lanes);
            self.running.insert(*val, identity);
        }
    }

    /// All running values of these slots, one after the other: the form in which a loop carries them.
    pub fn take(&self, slots: &[Val]) -> Vec<V<'a>> {
        slots.iter().flat_map(|val| self.running[val].iter().copied()).collect()
    }

    pub fn put(&mut self, slots: &[Val], values: Vec<V<'a>>) {
        let mut values = values.into_iter();
        for val in slots {
            let count = if self.reduce_op(*val).is_arg() { 2 } else { 1 };
            self.running.insert(*val, values.by_ref().take(count).collect());
        }
    }

    pub fn identities(&self, slots: &[Val], like: &[V<'a>]) -> Vec<V<'a>> {
        let lanes = like.first().map_or(1, |v| v.lanes);
        slots.iter().flat_map(|val| self.identity(*val, lanes)).collect()
    }

    /// The slots that are sums of floats, whose error depends on the order.
    pub fn sums(&self, slots: &[Val]) -> Vec<Val> {
        let is_sum = |v: &Val| self.reduce_op(*v) == ReduceOp::Sum && self.running_dtype(*v).is_float();
        slots.iter().copied().filter(is_sum).collect()
    }

    /// Starts these slots anew; gives what they had.
    pub fn fresh(&mut self, slots: &[Val]) -> Vec<V<'a>> {
        let before = self.take(slots);
        let identities = self.identities(slots, &before);
        self.put(slots, identities);
        before
    }

    /// Combines `others` into what these slots have.
    pub fn merge(&mut self, slots: &[Val], others: Vec<V<'a>>) {
        let mut others = others.into_iter();
        for val in slots {
            let (op, dtype) = (self.reduce_op(*val), self.running_dtype(*val));
            let mine = self.running[val].clone();
            let other: Running<'a> = others.by_ref().take(mine.len()).collect();
            let merged = combine_running(op, dtype, &mine, &other);
            self.running.insert(*val, merged);
        }
    }

    /// One element into its accumulator.
    pub fn accumulate(&mut self, val: Val) -> Result<(), CodegenError> {
        let (op, dtype) = (self.reduce_op(val), self.running_dtype(val));
        let mut element: Running<'a> = match &self.kernel.inst(val).inst {
            Inst::ReduceArg { value, position, .. } => {
                smallvec![self.value(*value)?, self.sym(position, At::Lanes, Elem::I64)?]
            }
            Inst::Reduce { value, .. } => smallvec![convert::convert(self.value(*value)?, self.dtype(*value), dtype)],
            _ => unreachable!("only reductions accumulate"),
        };
        let so_far = self.running[&val].clone();
        for part in &mut element {
            *part = part.splat(so_far[0].lanes);
        }
        if let (Some(mask), Lanes::Inner) = (self.lane_mask(), self.kernel.lanes) {
            let nothing = self.identity(val, so_far[0].lanes);
            element = element.iter().zip(&nothing).map(|(e, n)| mask.select(*e, *n)).collect();
        }
        self.running.insert(val, combine_running(op, dtype, &so_far, &element));
        Ok(())
    }

    /// The running result including this element. Half types are rounded on the way out only, as eager does.
    pub fn scan(&mut self, val: Val) -> Result<V<'a>, CodegenError> {
        let Inst::Scan { op, value, decay } = self.kernel.inst(val).inst else { unreachable!("called for scans") };
        let dtype = self.dtype(val);
        let mut so_far = self.running[&val][0];
        if let Some(decay) = decay {
            so_far = convert::convert(self.value(decay)?, self.dtype(decay), dtype).splat(so_far.lanes) * so_far;
        }
        let element = convert::convert(self.value(value)?, self.dtype(value), dtype).splat(so_far.lanes);
        if self.kernel.lanes == Lanes::Inner && so_far.is_wide() {
            let next = combine(op, dtype, so_far, self.prefixes(val, element));
            self.running.insert(val, smallvec![next.lane(next.lanes - 1).splat(next.lanes)]);
            return Ok(rounded(op, next, dtype));
        }
        let next = combine(op, dtype, so_far, element);
        self.running.insert(val, smallvec![next]);
        Ok(rounded(op, next, dtype))
    }

    /// In each lane, all up to it: first of two neighbours, then of four, and so on. What is anything behind the last lane that exists stays there.
    fn prefixes(&self, val: Val, element: V<'a>) -> V<'a> {
        let (op, dtype, lanes) = (self.reduce_op(val), self.dtype(val), element.lanes);
        let by = std::iter::successors(Some(1), |by| Some(2 * by)).take_while(|by| *by < lanes);
        by.fold(element, |all, by| {
            let before = all.shuffle(all, &(0..lanes).map(|lane| (lane + lanes - by) % lanes).collect::<Vec<_>>());
            let has_before = self.ir.iota(Elem::I32, lanes).ge(self.ir.int(Elem::I32, by as i64));
            has_before.select(combine(op, dtype, before, all), all)
        })
    }

    /// Makes the results values; folds the lanes if they ran along the reduced axis.
    pub fn finish_reductions(&mut self, slots: &[Val], fold_lanes: bool) {
        for val in slots {
            let (op, dtype) = (self.reduce_op(*val), self.running_dtype(*val));
            let mut result = self.running[val].clone();
            while fold_lanes && result[0].is_wide() {
                let (low, high): (Running<'a>, Running<'a>) = result.iter().map(|v| v.halves()).unzip();
                result = combine_running(op, dtype, &low, &high);
            }
            let value = if op.is_arg() { result[1] } else { rounded(op, result[0], dtype) };
            self.values[val.index()] = Some(value);
        }
    }
}

fn identity(ir: &crate::ir::Ir, op: ReduceOp, dtype: DType) -> V<'_> {
    let (elem, value) = (compute_elem(dtype), op.neutral(dtype));
    if elem.is_float() { ir.float(elem, value.as_f64()) } else { ir.int(elem, value.as_i64()) }
}

/// A result as a value of its type: only sums and products make new numbers.
fn rounded<'a>(op: ReduceOp, v: V<'a>, dtype: DType) -> V<'a> {
    if matches!(op, ReduceOp::Sum | ReduceOp::Prod) { bits::round_to(v, dtype) } else { v }
}

/// Two values of which neither is an argmax.
pub fn combine<'a>(op: ReduceOp, dtype: DType, a: V<'a>, b: V<'a>) -> V<'a> {
    match op {
        ReduceOp::Sum if dtype == DType::Bool => a | b,
        ReduceOp::Prod if dtype == DType::Bool => a & b,
        ReduceOp::Sum => a + b,
        ReduceOp::Prod => a * b,
        ReduceOp::Max => point::maximum(a, b, dtype),
        ReduceOp::Min => point::minimum(a, b, dtype),
        ReduceOp::Any => a | b,
        ReduceOp::All => a & b,
        ReduceOp::ArgMax | ReduceOp::ArgMin => unreachable!("carries a position"),
    }
}

fn combine_running<'a>(op: ReduceOp, dtype: DType, a: &Running<'a>, b: &Running<'a>) -> Running<'a> {
    match op {
        ReduceOp::ArgMax | ReduceOp::ArgMin => {
            let b_wins = is_more_extreme(op, dtype, b, a);
            smallvec![b_wins.select(b[0], a[0]), b_wins.select(b[1], a[1])]
        }
        _ => smallvec![combine(op, dtype, a[0], b[0])],
    }
}

/// Beats the other by value (a NaN beats every number), or is equal and stands first.
fn is_more_extreme<'a>(op: ReduceOp, dtype: DType, a: &Running<'a>, b: &Running<'a>) -> V<'a> {
    let first = a[1].lt(b[1]);
    let beats = if op == ReduceOp::ArgMax { point::less(b[0], a[0], dtype) } else { point::less(a[0], b[0], dtype) };
    if !dtype.is_float() {
        return beats | (a[0].eq(b[0]) & first);
    }
    let (a_nan, b_nan) = (a[0].is_nan(), b[0].is_nan());
    let equal = a[0].eq(b[0]) | (a_nan & b_nan);
    beats | (a_nan & !b_nan) | (equal & first)
}
