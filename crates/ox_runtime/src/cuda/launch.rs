//! One kernel on the GPU, with everything that does not change from run to run worked out.

use super::driver::{GpuFunction, driver};
use super::report::Slot;
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::prepare::Preparing;
use ox_ir::kernel::{BufRole, Inst, Kernel};
use ox_ir::plan::BufId;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most blocks in the first dimension of a grid.
const MOST_BLOCKS: i64 = i32::MAX as i64;

pub struct GpuLaunch {
    function: Arc<GpuFunction>,
    bufs: SmallVec<[u32; 8]>,
    sizes: SmallVec<[i64; 4]>,
    grid: u32,
    /// If the kernel checks anything: where it reports.
    report: Option<Slot>,
    /// The place of the kernel's check 0 in the Plan.
    first_check: i64,
}

impl GpuLaunch {
    pub fn prepare(
        p: &Preparing<'_>,
        kernel: &Kernel,
        function: &Arc<GpuFunction>,
        bufs: &[BufId],
        checks: u32,
    ) -> Result<GpuLaunch, RunError> {
        let params = kernel.bufs.iter().filter(|b| !matches!(b.role, BufRole::Scratch(_)));
        let types = bufs.iter().map(|b| p.buffers.get(b.index()).map(|b| b.layout.dtype));
        if !params.map(|b| Some(b.dtype)).eq(types) {
            return Err(RunError::bug(format!("kernel {} is launched on the wrong buffers", kernel.name)));
        }
        let points = p.env.eval(&function.kernel.points)?.max(0);
        let blocks = (points + function.kernel.points_per_block - 1) / function.kernel.points_per_block;
        if blocks > MOST_BLOCKS {
            return Err(RunError::bug(format!("kernel {} would need {blocks} blocks", kernel.name)));
        }
        let checked = kernel.insts.iter().any(|i| matches!(i.inst, Inst::CheckIndex { .. } | Inst::CheckNonZero { .. }));
        Ok(GpuLaunch {
            function: function.clone(),
            bufs: bufs.iter().map(|b| b.0).collect(),
            sizes: kernel.sizes.iter().map(|v| p.env.eval(&ox_ir::Sym::var(v))).collect::<Result<_, _>>()?,
            grid: blocks as u32,
            report: if checked { Some(Slot::new()?) } else { None },
            first_check: checks as i64,
        })
    }

    pub fn run(&self, run: &Run<'_>) -> Result<(), RunError> {
        if self.grid == 0 {
            return Ok(());
        }
        let stream = run.stream.ok_or_else(|| RunError::bug("a kernel for a GPU in a run without a stream"))?;
        let mut words: SmallVec<[u64; 24]> = self.bufs.iter().map(|&b| run.frame.data[b as usize] as u64).collect();
        words.extend(self.sizes.iter().map(|n| *n as u64));
        words.push(self.report.as_ref().map_or(0, Slot::address));
        let mut args: SmallVec<[*mut c_void; 24]> = words.iter_mut().map(|word| (&raw mut *word).cast()).collect();
        // SAFETY: each argument of the kernel is one word: pointers to its buffers, its sizes, the report.
        unsafe { self.function.launch(driver()?, self.grid, stream, &mut args) }
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
