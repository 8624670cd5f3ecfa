//! `Executable`: a Plan with its compiled kernels, ready to run.

mod arena;
mod batch;
pub(crate) mod frame;
mod given;
mod guards;
mod heap;
pub(crate) mod job;
mod kept;
pub mod known;
mod late;
mod launch;
pub(crate) mod layout;
mod outputs;
mod pack;
mod pages;
pub(crate) mod prepare;
mod profile;
mod range;
pub(crate) mod rows;

use crate::abi::{Abi, abi};
use crate::calls::library::HostCalls;
use crate::cuda::{CudaGuard, GpuFunction, cuda, driver};
use crate::error::{Exception, RunError};
use crate::graphs::{GraphSettings, GraphStatus, Graphs};
use crate::tensor::{Tensor, TensorRef};
use crate::variants::{Specialise, Variants};
pub(crate) use arena::Arena;
use arena::Pool;
pub use arena::{free_idle_arenas, idle_arena_bytes};
use frame::{Inputs, Run};
pub use given::Input;
pub(crate) use guards::Guards;
pub use heap::give_back_if_grown;
use job::Job;
use kept::Keeper;
pub use kept::{StoragePlaces, kept_bytes, learn_storages};
use known::Known;
use layout::{Env, Layout};
use ox_ir::abi::KernelFn;
use ox_ir::failure::fault;
use ox_ir::plan::{CheckKind, Plan, Step};
use ox_ir::{Device, Sym};
use prepare::{Action, Output, Prepared, makes_large, prepare};
use profile::Profile;
pub(crate) use range::{Range, range_name};
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A compiled kernel and whatever keeps its code in memory.
#[derive(Clone)]
pub struct LoadedFn {
    pub function: KernelFn,
    /// What it is given for its sizes, of those of the Plan; None for the sizes that the kernel in the Plan has.
    pub sizes: Option<Arc<[Sym]>>,
    pub keep: Arc<dyn Any + Send + Sync>,
}

/// The kernels of a Plan, in its order, for the device that it runs on.
pub enum Kernels {
    Cpu(Vec<LoadedFn>),
    Gpu(Vec<Arc<GpuFunction>>),
}

impl From<Vec<LoadedFn>> for Kernels {
    fn from(kernels: Vec<LoadedFn>) -> Kernels {
        Kernels::Cpu(kernels)
    }
}

/// Distinct lists of sizes for which the prepared form is kept.
const KEEP_PREPARED: usize = 16;

/// A list of sizes and what was prepared for it; the most recently used stands first.
type ForSizes = (Box<[i64]>, Arc<Prepared>);

pub struct Executable {
    pub(crate) abi: &'static Abi,
    plan: Arc<Plan>,
    kernels: Kernels,
    device: Device,
    pub(crate) host: Arc<dyn HostCalls>,
    prepared: Mutex<Vec<ForSizes>>,
    pool: Arc<Pool>,
    /// If large results are kept for the next ones.
    keeper: Option<Keeper>,
    /// How many have begun, on a CPU.
    runs: AtomicU32,
    profile: Option<Profile>,
    /// If calls are recorded: those that are not bound.
    graphs: Option<Graphs>,
    /// If sizes that recur get kernels of their own.
    variants: Option<Variants>,
}

const fn is_shared_by_threads<T: Send + Sync>() {}
const _: () = is_shared_by_threads::<Executable>();

impl Executable {
    /// A Plan without sizes is checked and prepared here; one with sizes in its first run.
    pub fn new(plan: Plan, kernels: impl Into<Kernels>, host: Arc<dyn HostCalls>) -> Result<Executable, RunError> {
        let device = plan.buffers.first().map_or(Device::Cpu, |buffer| buffer.device);
        let executable = Executable {
            abi: abi()?,
            plan: Arc::new(plan),
            kernels: kernels.into(),
            device,
            host,
            prepared: Mutex::new(Vec::new()),
            pool: Pool::shared(),
            keeper: None,
            runs: AtomicU32::new(0),
            profile: Profile::wanted(),
            graphs: None,
            variants: None,
        };
        if executable.plan.sizes.is_empty() {
            executable.prepared(&[])?;
        }
        Ok(executable)
    }

    /// Calls are recorded and replayed, where that can be done.
    pub fn with_graphs(mut self, settings: GraphSettings) -> Executable {
        let is_possible = matches!(self.device, Device::Cuda(_)) || settings.emulated && self.device == Device::Cpu;
        let never = self.known(&[]).and_then(|prepared| prepared.graphable.never.clone());
        self.graphs = (is_possible && self.profile.is_none()).then(|| Graphs::new(settings, never.as_deref()));
        self
    }

    /// The memory of large results is kept for the next ones, on a CPU.
    pub fn keeping_results(mut self) -> Executable {
        self.keeper = (self.device == Device::Cpu).then(Keeper::new);
        self
    }

    /// Sizes that recur get kernels of their own, if there are sizes, on a CPU.
    pub fn with_variants(mut self, compiler: Arc<dyn Specialise>) -> Executable {
        let is_possible = self.device == Device::Cpu && !self.plan.sizes.is_empty();
        self.variants = is_possible.then(|| Variants::new(compiler));
        self
    }

    /// What became of recordings, if calls are recorded.
    pub fn graph_status(&self) -> Option<&GraphStatus> {
        self.graphs.as_ref().map(Graphs::status)
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether a kernel of it could not be compiled or loaded.
    pub fn lacks_kernels(&self) -> bool {
        matches!(&self.kernels, Kernels::Gpu(kernels) if kernels.iter().any(|kernel| kernel.has_failed()))
    }

    /// Runs the Plan. `sizes` are the values of `Plan::sizes`. Many threads may do so at once.
    pub fn run(&self, inputs: &[TensorRef<'_>], sizes: &[i64]) -> Result<Vec<Tensor>, RunError> {
        let prepared = self.prepared(sizes)?;
        check_inputs(self.abi, &prepared.inputs, self.device, inputs)?;
        self.run_prepared(&prepared, Inputs { all: inputs, given: &[] }, sizes, None, Vec::new())
    }

    fn run_prepared(
        &self,
        prepared: &Arc<Prepared>,
        inputs: Inputs<'_>,
        sizes: &[i64],
        known: Option<&Known>,
        held: Vec<Option<Tensor>>,
    ) -> Result<Vec<Tensor>, RunError> {
        if let Some(variants) = &self.variants
            && prepared.recurring.count()
        {
            variants.ask(&self.plan, sizes, &prepared.recurring, &prepared.work(self.plan.kernels.len()));
        }
        let inference = self.abi.in_inference_mode();
        let (_guard, stream) = self.enter_device()?;
        let job = Job { executable: self, prepared, inputs, sizes, known, device: self.device, stream, inference };
        match known.map_or(self.graphs.as_ref(), Known::graphs) {
            Some(graphs) => graphs.run(&job, held),
            None => job.run_plainly(held),
        }
    }

    /// The number of this run if it is one of the first on a CPU, in which things that stay are allocated between those that go.
    fn begins_first_run(&self) -> Option<u32> {
        const FIRST: u32 = 16;
        let counted = self.device == Device::Cpu && self.runs.load(Ordering::Relaxed) < FIRST;
        counted.then(|| self.runs.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < FIRST)
    }

    /// Makes a GPU current, and finds the stream that the run belongs to.
    fn enter_device(&self) -> Result<(Option<CudaGuard>, Option<crate::cuda::Stream>), RunError> {
        let Device::Cuda(device) = self.device else { return Ok((None, None)) };
        let cuda = cuda()?;
        Ok((CudaGuard::new(cuda, driver()?, device)?, Some(cuda.stream(device)?)))
    }

    /// Preparing asks the host, who may wait for another thread that is about to run: so no lock is held meanwhile. Two
    /// threads may prepare the same sizes at once; then both are right.
    fn prepared(&self, sizes: &[i64]) -> Result<Arc<Prepared>, RunError> {
        if let Some(known) = self.known(sizes) {
            return Ok(known);
        }
        if sizes.len() != self.plan.sizes.len() {
            return Err(RunError::Mismatch(format!("{} sizes for {}", sizes.len(), self.plan.sizes.len())));
        }
        let env = Env { vars: &self.plan.sizes, values: sizes };
        let fresh = Arc::new(prepare(&self.plan, &self.kernels, self.device, env, &*self.host)?);
        let mut known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(0, (sizes.into(), fresh.clone()));
        known.truncate(KEEP_PREPARED);
        Ok(fresh)
    }

    fn known(&self, sizes: &[i64]) -> Option<Arc<Prepared>> {
        let mut known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(key, _)| **key == *sizes)?;
        known[..=at].rotate_right(1);
        Some(known[0].1.clone())
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        if let Some(profile) = &self.profile {
            profile.print();
        }
        self.pool.trim();
    }
}

/// The inputs must be those that the Plan was made for: kernels trust shapes and strides.
fn check_inputs(abi: &Abi, expected: &[Option<Layout>], device: Device, inputs: &[TensorRef<'_>]) -> Result<(), RunError> {
    if inputs.len() < expected.len() {
        return Err(RunError::Mismatch(format!("{} inputs for {}", inputs.len(), expected.len())));
    }
    (0..expected.len()).try_for_each(|at| check_input(abi, expected, device, at, inputs[at]))
}

fn check_input(abi: &Abi, expected: &[Option<Layout>], device: Device, at: usize, input: TensorRef<'_>) -> Result<(), RunError> {
    let Some(Some(layout)) = expected.get(at) else { return Ok(()) };
    match input.has_layout(abi, layout, device)? {
        true => Ok(()),
        false => Err(RunError::Mismatch(describe(at, layout, device, input))),
    }
}

fn describe(at: usize, layout: &Layout, device: Device, input: TensorRef<'_>) -> String {
    let Layout { dtype, sizes, strides } = layout;
    format!(
        "input {at} should be {dtype} {sizes:?} strides {strides:?} on {device}, but is {:?} {:?} strides {:?} on {:?}",
        input.dtype().ok().flatten(),
        input.sizes().unwrap_or_default(),
        input.strides().unwrap_or_default(),
        input.device().ok(),
    )
}

/// Inputs are written last, when nothing else can fail: a caller that falls back to eager must find them as they were.
fn execute(run: &mut Run<'_>, profile: Option<&Profile>) -> Result<Vec<Tensor>, RunError> {
    fault("run");
    let guards = Guards::new(run.abi, run.device);
    run.report_failures()?;
    run.place_buffers()?;
    match profile {
        None => rows::perform_all(run)?,
        Some(profile) => perform_timed(run, profile)?,
    }
    let mut results = match run.prepared.outputs.iter().any(Output::is_view) {
        true => guards.as_caller(|| run.results())?,
        false => run.results()?,
    };
    run.write_back()?;
    if run.outdates_views() {
        guards.as_caller(|| run.renew_views(&mut results))?;
    }
    run.report_failures()?;
    Ok(results)
}

/// As the plain loop; every action but those on memory stands for one step of the Plan, in order.
fn perform_timed(run: &mut Run<'_>, profile: &Profile) -> Result<(), RunError> {
    let mut steps = run.plan.steps.iter().filter(|step| !matches!(step, Step::Drop(_)));
    for action in &run.prepared.actions {
        let begin = Instant::now();
        perform(run, action)?;
        if let Some(stream) = run.stream {
            driver()?.wait(stream)?;
        }
        let time = begin.elapsed();
        let label = match action {
            Action::Allocate(_) | Action::Acquire => "allocate".into(),
            Action::Drop(_) => "drop".into(),
            Action::Batch(batch) => {
                let first = steps.next().map_or(String::new(), |step| profile::label(run.plan, step));
                steps.by_ref().take(batch.len() - 1).for_each(drop);
                format!("{} kernels at once, the first {first}", batch.len())
            }
            _ => steps.next().map_or(String::new(), |step| profile::label(run.plan, step)),
        };
        profile.add(label, time);
    }
    Ok(())
}

pub(crate) fn perform(run: &mut Run<'_>, action: &Action) -> Result<(), RunError> {
    if run.large && makes_large(action, &run.prepared.buffers) {
        heap::keep_ends_together();
    }
    let abi = run.abi;
    let _range = if run.profiled { action.range().map(|name| Range::begin(abi, name)) } else { None };
    match action {
        Action::Launch(launch) => {
            run.spend(launch.writes_input)?;
            launch.run(run)
        }
        Action::Batch(batch) => {
            run.spend(batch.writes_input)?;
            batch.run(run)
        }
        Action::GpuLaunch(launch) => {
            run.spend(launch.writes_input)?;
            launch.run(run)
        }
        Action::Call { call, location, .. } => {
            // Before: a call that fails may have done something already.
            run.spend(call.is_once())?;
            call.run(run).map_err(|e| e.at(run.line(*location)))
        }
        Action::Allocate(buf) => run.allocate(*buf),
        Action::Copy { from, to } => {
            let (to, from) = (run.operand(*to)?, run.operand(*from)?);
            // SAFETY: both handles live in the frame.
            unsafe { TensorRef::from_handle(to).copy_from(TensorRef::from_handle(from)) }
        }
        Action::Drop(buf) => {
            run.let_go(*buf);
            Ok(())
        }
        Action::Acquire => run.make_arena(),
        Action::Release => {
            run.arena = None;
            Ok(())
        }
    }
}

impl Run<'_> {
    /// Before something that must not be done twice: a kernel that cannot be had is known by then, and eager can still do all of the call.
    fn spend(&mut self, once: bool) -> Result<(), RunError> {
        if once && !self.spent {
            self.prepared.await_kernels()?;
            self.spent = true;
        }
        Ok(())
    }

    fn line(&self, location: u32) -> &str {
        self.plan.locations.get(location as usize).map_or("", String::as_str)
    }

    /// A GPU runs behind: what its kernels found out of range is told when it is known, which may be in the next run.
    pub(crate) fn report_failures(&self) -> Result<(), RunError> {
        self.report_failures_of(self.prepared)
    }

    /// As above, for launches that were prepared by another run of the Plan.
    pub(crate) fn report_failures_of(&self, prepared: &Prepared) -> Result<(), RunError> {
        let failure = |action: &Action| match action {
            Action::GpuLaunch(launch) => launch.failure(),
            _ => None,
        };
        match self.stream.and_then(|_| prepared.actions.iter().find_map(failure)) {
            None => Ok(()),
            Some((check, value, extent)) => Err(self.failed_check(check, value, extent)),
        }
    }

    /// The error of check number `check`, with its text filled in.
    fn failed_check(&self, check: i64, value: i64, extent: i64) -> RunError {
        let Some(failed) = usize::try_from(check).ok().and_then(|at| self.plan.checks.get(at)) else {
            return RunError::bug(format!("a kernel reported check {check}, which does not exist"));
        };
        let (kind, text) = match &failed.kind {
            CheckKind::IndexError(text) => (Exception::IndexError, text),
            CheckKind::RuntimeError(text) => (Exception::RuntimeError, text),
            CheckKind::ZeroDivision(text) => (Exception::ZeroDivisionError, text),
        };
        let message = text.replace("{value}", &value.to_string()).replace("{extent}", &extent.to_string());
        RunError::User { kind, message, location: self.line(failed.location).to_string() }
    }
}
