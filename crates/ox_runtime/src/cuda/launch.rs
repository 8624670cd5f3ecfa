//! One kernel on the GPU, with everything that does not change from run to run worked out.

use super::driver::driver;
use super::function::GpuFunction;
use super::launched::{Geometry, What};
use super::report::Slot;
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::prepare::{Home, Preparing};
use crate::exec::range_name;
use crate::exec::rows::Hears;
use ox_ir::abi::{GpuKernel, NARROW};
use ox_ir::kernel::{BufRole, Inst, Kernel};
use ox_ir::plan::BufId;
use smallvec::SmallVec;
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The most blocks in the first dimension of a grid.
const MOST_BLOCKS: i64 = i32::MAX as i64;

pub struct GpuLaunch {
    /// Among the launches of its Plan.
    pub(crate) number: usize,
    function: Arc<GpuFunction>,
    pub(crate) bufs: SmallVec<[u32; 8]>,
    pub(crate) writes_input: bool,
    /// The arguments behind the buffers: its sizes, and where it reports.
    rest: SmallVec<[*mut u8; 4]>,
    grid: u32,
    /// With sizes that the kernel does not compute with in 32 bits.
    wide: bool,
    /// What profilers show.
    pub(crate) range: CString,
    /// If the kernel checks anything: where it reports.
    report: Option<Slot>,
    /// The place of the kernel's check 0 in the Plan.
    first_check: i64,
    /// What is launched, when it is known.
    what: OnceLock<What>,
}

// SAFETY: the pointers are plain numbers, and the address of memory that is never freed.
unsafe impl Send for GpuLaunch {}
unsafe impl Sync for GpuLaunch {}

impl GpuLaunch {
    pub fn prepare(
        p: &mut Preparing<'_>,
        kernel: &Kernel,
        function: &Arc<GpuFunction>,
        bufs: &[BufId],
        checks: u32,
    ) -> Result<GpuLaunch, RunError> {
        let number = p.next_launch();
        let params = kernel.bufs.iter().filter(|b| !matches!(b.role, BufRole::Scratch(_)));
        let types = bufs.iter().map(|b| p.buffers.get(b.index()).map(|b| b.layout.dtype));
        if !params.clone().map(|b| Some(b.dtype)).eq(types) {
            return Err(RunError::bug(format!("kernel {} is launched on the wrong buffers", kernel.name)));
        }
        let is_input = |b: &BufId| matches!(p.buffers[b.index()].home, Home::Input(_));
        let writes_input = bufs.iter().zip(params).any(|(buf, param)| param.role != BufRole::In && is_input(buf));
        let points = p.env.eval(&function.kernel.points)?.max(0);
        let blocks = (points + function.kernel.points_per_block - 1) / function.kernel.points_per_block;
        if blocks > MOST_BLOCKS {
            return Err(RunError::bug(format!("kernel {} would need {blocks} blocks", kernel.name)));
        }
        let checked = kernel.insts.iter().any(|i| matches!(i.inst, Inst::CheckIndex { .. } | Inst::CheckNonZero { .. }));
        let report = if checked { Some(Slot::new()?) } else { None };
        let sizes: Vec<i64> = kernel.sizes.iter().map(|v| p.env.eval(&ox_ir::Sym::var(v))).collect::<Result<_, _>>()?;
        let words = sizes.into_iter().map(|n| n as u64).chain([report.as_ref().map_or(0, Slot::address)]);
        let fits = |limit: &ox_ir::Sym| p.env.eval(limit).is_ok_and(|most| most < NARROW);
        Ok(GpuLaunch {
            number,
            wide: !function.kernel.narrow.iter().all(fits),
            function: function.clone(),
            bufs: bufs.iter().map(|b| b.0).collect(),
            writes_input,
            rest: words.map(|word| word as *mut u8).collect(),
            grid: blocks as u32,
            range: range_name(kernel),
            report,
            first_check: checks as i64,
            what: OnceLock::new(),
        })
    }

    /// Waits for the kernel, unless there is nothing to do for it.
    pub fn await_kernel(&self) -> Result<(), RunError> {
        if self.grid == 0 { Ok(()) } else { self.function.function().map(drop) }
    }

    pub fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        if self.grid == 0 {
            return Ok(());
        }
        let stream = run.stream.ok_or_else(|| RunError::bug("a kernel for a GPU in a run without a stream"))?;
        let mut arguments = run.arguments(self.number, &self.bufs, &self.rest);
        let function = self.function.other_for(&arguments, self.wide)?.unwrap_or(&self.function);
        // SAFETY: each argument of the kernel is one word: pointers to its buffers, its sizes, the report.
        let launched = unsafe { function.launch(driver()?, self.grid, stream, &mut arguments) };
        run.frame.arguments[self.number] = arguments;
        launched
    }

    /// Whether `hears` has heard of the launch. Arguments for which there is another kernel are left to `run`.
    pub fn tell(&self, run: &mut Run<'_>, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        if self.grid == 0 {
            return Ok(true);
        }
        let arguments = run.arguments(self.number, &self.bufs, &self.rest);
        let told = match (self.function.other_for(&arguments, self.wide)?, self.what(arguments.len())?) {
            // SAFETY: addresses are words.
            (None, what) => hears(what, unsafe { std::slice::from_raw_parts(arguments.as_ptr().cast(), arguments.len()) }),
            (Some(_), _) => false,
        };
        run.frame.arguments[self.number] = arguments;
        Ok(told)
    }

    fn what(&self, words: usize) -> Result<&What, RunError> {
        if let Some(known) = self.what.get() {
            return Ok(known);
        }
        let GpuKernel { threads, shared_bytes, .. } = self.function.kernel;
        let geometry = Geometry { blocks: [self.grid, 1, 1], threads: [threads, 1, 1], shared_bytes };
        let function = self.function.function()?.as_word();
        Ok(self.what.get_or_init(|| What::Kernel { function, geometry, attributes: Vec::new(), bytes: 8 * words }))
    }

    /// A check that failed in this launch, now or in an earlier run: number, value, extent. It is told once.
    pub fn failure(&self) -> Option<(i64, i64, i64)> {
        let error = self.report.as_ref()?.error();
        let check = error.check.load(Ordering::Acquire);
        if check <= 0 {
            return None;
        }
        let found = (self.first_check + check - 1, error.value.load(Ordering::Acquire), error.extent.load(Ordering::Acquire));
        error.check.store(0, Ordering::Release);
        Some(found)
    }
}
