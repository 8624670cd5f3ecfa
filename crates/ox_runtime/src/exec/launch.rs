//! Runs one kernel, on torch's thread pool where that pays.

use super::LoadedFn;
use super::frame::Run;
use super::prepare::{Home, Preparing};
use super::range::range_name;
use crate::error::RunError;
use crate::variants::Place;
use ox_ir::abi::{KernelError, KernelFn};
use ox_ir::graph::Combine;
use ox_ir::kernel::{BufRole, Inst, Kernel, Lanes, TypedInst};
use ox_ir::plan::BufId;
use ox_ir::{PointOp, Sym};
use smallvec::SmallVec;
use std::ffi::{CString, c_void};
use std::sync::atomic::Ordering;

/// Waking the pool costs 5 to 10 us. A unit of work is about a tenth of a nanosecond (one vectorised operation on one element), so
/// that a thread's share is worth having from about here.
pub(super) const SHARE: i64 = 32 * 1024;

pub struct Launch {
    /// Among the launches of its Plan.
    pub(super) number: usize,
    /// What profilers show.
    pub(super) range: CString,
    function: KernelFn,
    /// The same for these sizes, from some run on.
    special: Option<Place>,
    /// Its number in the Plan.
    pub(super) kernel: usize,
    pub(super) bufs: SmallVec<[u32; 8]>,
    /// Which of them it writes.
    pub(super) written: SmallVec<[bool; 8]>,
    pub writes_input: bool,
    pub(super) sizes: SmallVec<[i64; 4]>,
    pub(super) points: i64,
    /// Work for one point.
    pub(super) cost: i64,
    /// The least number of points for one thread; None if the kernel must run on one.
    pub(super) grain: Option<i64>,
    /// Threads' ranges begin at multiples of this many points.
    pub(super) block: i64,
    pub(super) checked: bool,
    /// The place of the kernel's check 0 in the Plan.
    first_check: i64,
}

impl Launch {
    pub fn prepare(p: &mut Preparing<'_>, at: usize, loaded: &LoadedFn, bufs: &[BufId], checks: u32) -> Result<Launch, RunError> {
        let number = p.next_launch();
        let p = &*p;
        let kernel = &p.plan.kernels[at];
        let params = kernel.bufs.iter().filter(|b| !matches!(b.role, BufRole::Scratch(_)));
        let written: SmallVec<[bool; 8]> = params.clone().map(|b| b.role != BufRole::In).collect();
        let is_input = |b: &BufId| p.buffers.get(b.index()).is_some_and(|b| matches!(b.home, Home::Input(_)));
        let types = bufs.iter().map(|b| p.buffers.get(b.index()).map(|b| b.layout.dtype));
        if !params.map(|b| Some(b.dtype)).eq(types) {
            return Err(RunError::bug(format!("kernel {} is launched on the wrong buffers", kernel.name)));
        }
        let points = p.env.eval(&kernel.points())?;
        let last = kernel.axes.last().map_or(Ok(1), |axis| p.env.eval(&axis.extent))?;
        let cost = cost_per_point(p, kernel)?;
        check_extent(p, kernel, points)?;
        let block = block(kernel, points, last);
        Ok(Launch {
            number,
            range: range_name(kernel),
            function: loaded.function,
            special: p.place(at),
            kernel: at,
            bufs: bufs.iter().map(|b| b.0).collect(),
            writes_input: bufs.iter().zip(&written).any(|(buf, written)| *written && is_input(buf)),
            written,
            cost,
            sizes: sizes(p, kernel, loaded)?,
            points,
            grain: kernel.parallel.then(|| blocks(SHARE / cost, block).max(1) * block),
            block,
            first_check: checks as i64,
            checked: kernel.insts.iter().any(|i| matches!(i.inst, Inst::CheckIndex { .. } | Inst::CheckNonZero { .. })),
        })
    }

    /// What is called: both compute the same.
    #[inline]
    pub(super) fn function(&self) -> KernelFn {
        self.special.as_ref().and_then(|place| place.get()).map_or(self.function, |special| special.function)
    }

    pub fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        if self.points == 0 {
            return Ok(());
        }
        let arguments = run.arguments(self.number, &self.bufs, &[]);
        let outcome = self.call(run, &arguments);
        run.frame.arguments[self.number] = arguments;
        outcome
    }

    fn call(&self, run: &Run<'_>, arguments: &[*mut u8]) -> Result<(), RunError> {
        let mut error = KernelError::default();
        let task = Task { launch: self, buffers: arguments, error: &mut error };
        match (self.grain, run.abi.torch_parallel_for) {
            (Some(grain), Some(parallel_for)) if run.threads > 1 && self.points > grain => {
                let (blocks, grain) = (blocks(self.points, self.block), grain / self.block);
                let context = &task as *const Task as *mut c_void;
                // SAFETY: the pool calls `run_blocks` with this context until parallel_for returns, and not after.
                let code = unsafe { parallel_for(0, blocks, grain, run_blocks, context) };
                crate::tensor::check(code, "parallel_for")?;
            }
            // SAFETY: the buffers are those of the kernel, and the range is all of its points.
            _ => unsafe { task.call(0, self.points) },
        }
        if self.checked { self.report(run, &error) } else { Ok(()) }
    }

    fn report(&self, run: &Run<'_>, error: &KernelError) -> Result<(), RunError> {
        match error.check.load(Ordering::Acquire) {
            0 => Ok(()),
            check => Err(run.failed_check(
                self.first_check + check - 1,
                error.value.load(Ordering::Acquire),
                error.extent.load(Ordering::Acquire),
            )),
        }
    }
}

fn sizes(p: &Preparing<'_>, kernel: &Kernel, loaded: &LoadedFn) -> Result<SmallVec<[i64; 4]>, RunError> {
    match &loaded.sizes {
        Some(sizes) => sizes.iter().map(|sym| p.env.eval(sym)).collect(),
        None => kernel.sizes.iter().map(|var| p.env.eval(&Sym::var(var))).collect(),
    }
}

struct Task<'a> {
    launch: &'a Launch,
    buffers: &'a [*mut u8],
    error: *mut KernelError,
}

impl Task<'_> {
    /// SAFETY: `begin..end` must lie in the kernel's points.
    unsafe fn call(&self, begin: i64, end: i64) {
        // SAFETY: the kernel was compiled for these parameters; `prepare` has checked their types.
        unsafe { (self.launch.function())(self.buffers.as_ptr(), self.launch.sizes.as_ptr(), begin, end, self.error) }
    }
}

unsafe extern "C" fn run_blocks(begin: i64, end: i64, context: *mut c_void) {
    // SAFETY: `Launch::run` passes a Task that outlives the loop.
    let task = unsafe { &*(context as *const Task) };
    let block = task.launch.block;
    // SAFETY: the blocks cover the points, the last one cut.
    unsafe { task.call(begin * block, (end * block).min(task.launch.points)) };
}

fn blocks(points: i64, block: i64) -> i64 {
    points / block + (points % block != 0) as i64
}

/// With lanes along the outer points a range should not cut a vector, and best not a row, or rows that are done together.
fn block(kernel: &Kernel, points: i64, last: i64) -> i64 {
    match kernel.lanes {
        Lanes::Outer if kernel.rows_together() > 1 => last.saturating_mul(kernel.rows_together()).clamp(1, points.max(1)),
        Lanes::Outer if last > 1 && points / last >= 64 => last,
        Lanes::Outer if points >= 64 * 64 => 64,
        Lanes::Outer => 16,
        Lanes::Inner | Lanes::None => 1,
    }
}

/// Elements of which eager would refuse to hold as many.
const TOO_MANY: i64 = 1 << 45;

/// Eager allocates whatever it computes, and refuses what no process can address. A fused kernel needs no memory for it, and would go on for
/// hours: such a call is eager's. What eager might be given memory for is computed.
fn check_extent(p: &Preparing<'_>, kernel: &Kernel, points: i64) -> Result<(), RunError> {
    for pass in &kernel.passes {
        let sizes = pass.axes.iter().map(|axis| p.env.eval(&axis.extent)).collect::<Result<Vec<i64>, _>>()?;
        let all = sizes.iter().fold(points, |n, size| n.saturating_mul(*size));
        if all >= TOO_MANY {
            return Err(RunError::torch(format!("{all} elements are more than eager can hold")));
        }
    }
    Ok(())
}

fn cost_per_point(p: &Preparing<'_>, kernel: &Kernel) -> Result<i64, RunError> {
    // Without lanes an element costs as much as a whole vector.
    let scale: i64 = if kernel.lanes == Lanes::None { 8 } else { 1 };
    let mut cost = 1i64;
    for pass in &kernel.passes {
        let mut points = scale;
        for axis in &pass.axes {
            points = points.saturating_mul(p.env.eval(&axis.extent)?.max(1));
        }
        let body: i64 = pass.body.iter().map(|&v| weight(kernel.inst(v))).sum();
        cost = cost.saturating_add(points.saturating_mul(body));
    }
    Ok(cost)
}

fn weight(inst: &TypedInst) -> i64 {
    let width = inst.dtype.size().div_ceil(4) as i64;
    match &inst.inst {
        Inst::Const(_) | Inst::Index(_) => 0,
        Inst::Load { .. } => 2 * width,
        Inst::Store { combine: Combine::Set, .. } => 2 * width,
        Inst::Store { .. } => 16,
        Inst::CheckIndex { .. } => 4,
        Inst::Point(op, _) => width * point_weight(*op),
        Inst::Scan { .. } => 8,
        Inst::Cast(_) | Inst::Reduce { .. } | Inst::ReduceArg { .. } | Inst::CheckNonZero { .. } => width,
    }
}

fn point_weight(op: PointOp) -> i64 {
    use PointOp::*;
    match op {
        Neg | Abs | Add | Sub | Mul | Maximum | Minimum | Fma | Eq | Ne | Lt | Le | Gt | Ge | And | Or | Xor | Not | Where => 1,
        Div | Sqrt | Rsqrt | Reciprocal | Floor | Ceil | Round | Trunc => 4,
        Pow | Lgamma | Atan2 | Fmod | Remainder | Random | RandomHigh => 40,
        _ => 12,
    }
}
