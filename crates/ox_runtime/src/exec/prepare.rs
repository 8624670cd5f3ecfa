//! A Plan with all of its size expressions turned into numbers: made once for each distinct list of sizes, so that a call
//! does no symbolic work.

use super::Kernels;
use super::batch::{Batch, together};
use super::frame::Idle;
use super::kept;
use super::late::{Late, late_arena};
use super::launch::Launch;
use super::layout::{Env, Layout};
use super::pack::pack;
use super::rows::Rows;
use crate::calls::library::HostCalls;
use crate::calls::{CallStep, InGraphs, fresh_result, prepare_call};
use crate::cuda::GpuLaunch;
use crate::error::RunError;
use crate::variants::Recurring;
use ox_ir::Device;
use ox_ir::plan::{BufId, Call, Place, Plan, PlanOutput, Step, View};
use rustc_hash::FxHashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a buffer's memory comes from, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    Input(usize),
    Arena(usize),
    /// A new tensor for every run: empty at first, or what a library call returned.
    Owned,
}

#[derive(Clone, Debug)]
pub struct Buffer {
    pub layout: Layout,
    pub home: Home,
    /// In the library's own format: a tensor without memory that we could look at.
    pub packed: bool,
    /// Whether anybody looks at it.
    pub read: bool,
    /// Whether a result lies in it.
    pub returned: bool,
}

/// A window on a buffer that a library call gets as a tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    pub buf: usize,
    /// In elements.
    pub offset: i64,
    pub layout: Layout,
}

/// Place of a `Window` in `Prepared::windows`, and of its tensor in every Frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand(pub u32);

pub enum Action {
    /// Makes the memory of an owned buffer.
    Allocate(usize),
    Launch(Launch),
    /// Launches that do not need one another.
    Batch(Batch),
    GpuLaunch(GpuLaunch),
    Call {
        call: Box<dyn CallStep>,
        location: u32,
        /// It may make large tensors: see `heap::keep_ends_together`.
        large: bool,
    },
    Copy {
        from: Operand,
        to: Operand,
    },
    Drop(usize),
    /// Makes the arena: before, the run holds most.
    Acquire,
    /// Gives the arena back to the system, not to the next run: something large comes.
    Release,
}

impl Action {
    /// What a profiler shows for it; library calls show themselves.
    pub fn range(&self) -> Option<&CStr> {
        match self {
            Action::Launch(launch) => Some(&launch.range),
            Action::GpuLaunch(launch) => Some(&launch.range),
            Action::Batch(batch) => batch.range(),
            _ => None,
        }
    }
}

pub enum Output {
    Buffer(usize),
    InputView {
        input: usize,
        layout: Layout,
        offset: i64,
    },
    /// A view of a buffer. If other results look at it too, they must know of each other.
    View {
        window: Window,
        shared: bool,
    },
}

impl Output {
    pub fn is_view(&self) -> bool {
        !matches!(self, Output::Buffer(_))
    }
}

pub struct WriteBack {
    pub input: usize,
    pub from: Operand,
    /// The source is read before any input is overwritten.
    pub early: bool,
    /// The source is the input itself: kernels have written it.
    pub done: bool,
}

pub struct Prepared {
    /// Goes before the kernels that it launches.
    pub rows: Rows,
    pub inputs: Vec<Option<Layout>>,
    pub buffers: Vec<Buffer>,
    pub windows: Vec<Window>,
    pub actions: Vec<Action>,
    pub outputs: Vec<Output>,
    pub write_backs: Vec<WriteBack>,
    pub arena_bytes: usize,
    /// Where the arena is not made before it is needed.
    pub late: Option<Late>,
    /// Whether a run makes large tensors: see `heap::keep_ends_together`.
    pub large: bool,
    /// Of the results whose memory may be kept: see `kept`.
    pub keepable_bytes: usize,
    /// How many there are, those in batches among them.
    pub launches: usize,
    pub graphable: Graphable,
    pub frames: Idle,
    pub recurring: Recurring,
    /// All kernels have been waited for.
    pub is_complete: AtomicBool,
}

impl Prepared {
    /// Waits for the kernels that are still being compiled; an error if one of them cannot be had.
    pub fn await_kernels(&self) -> Result<(), RunError> {
        if self.is_complete.load(Ordering::Acquire) {
            return Ok(());
        }
        self.actions.iter().try_for_each(|action| match action {
            Action::GpuLaunch(launch) => launch.await_kernel(),
            _ => Ok(()),
        })?;
        self.is_complete.store(true, Ordering::Release);
        Ok(())
    }

    /// What each kernel of the Plan does in one run, in units of work.
    pub fn work(&self, kernels: usize) -> Vec<i64> {
        let mut work = vec![0i64; kernels];
        let launches = self.actions.iter().flat_map(|action| match action {
            Action::Launch(launch) => std::slice::from_ref(launch),
            Action::Batch(batch) => batch.launches(),
            _ => &[],
        });
        for launch in launches {
            let of_kernel = &mut work[launch.kernel];
            *of_kernel = of_kernel.saturating_add(launch.points.saturating_mul(launch.cost));
        }
        work
    }
}

/// Whether the actions can be recorded as a graph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graphable {
    /// Why not.
    pub never: Option<String>,
    /// torch's generator is drawn from.
    pub draws: bool,
}

/// What the preparation of one step may ask for.
pub struct Preparing<'a> {
    pub plan: &'a Plan,
    pub env: Env<'a>,
    /// Where all buffers lie.
    pub device: Device,
    pub host: &'a dyn HostCalls,
    pub buffers: Vec<Buffer>,
    windows: Vec<Window>,
    known: FxHashMap<Window, Operand>,
    launches: usize,
    recurring: Recurring,
}

impl Preparing<'_> {
    /// Where a launch finds a kernel for these sizes, if there are any.
    pub fn place(&self, kernel: usize) -> Option<crate::variants::Place> {
        self.recurring.place(kernel)
    }

    pub fn next_launch(&mut self) -> usize {
        self.launches += 1;
        self.launches - 1
    }

    pub fn window(&self, view: &View) -> Result<Window, RunError> {
        let buf = view.buf.index();
        let buffer = self.buffers.get(buf).ok_or_else(|| RunError::bug(format!("buffer {buf} does not exist")))?;
        let layout = self.env.layout(buffer.layout.dtype, &view.shape, &view.strides)?;
        let offset = self.env.eval(&view.offset)?;
        if layout.numel() > 0 && (offset < 0 || offset + layout.span() > buffer.layout.span()) {
            return Err(RunError::bug(format!(
                "a view reaches outside of buffer {buf}: {layout:?} at {offset} in {:?}",
                buffer.layout
            )));
        }
        Ok(Window { buf, offset, layout })
    }

    /// The buffer of a view, if it holds a packed weight.
    pub fn packed(&self, view: &View) -> Option<usize> {
        let buf = view.buf.index();
        self.buffers.get(buf).is_some_and(|b| b.packed).then_some(buf)
    }

    pub fn whole(&self, buf: usize) -> Window {
        Window { buf, offset: 0, layout: self.buffers[buf].layout.clone() }
    }

    pub fn operand(&mut self, window: Window) -> Operand {
        let windows = &mut self.windows;
        *self.known.entry(window).or_insert_with_key(|window| {
            windows.push(window.clone());
            Operand(windows.len() as u32 - 1)
        })
    }

    pub fn operand_of(&mut self, view: &View) -> Result<Operand, RunError> {
        let window = self.window(view)?;
        Ok(self.operand(window))
    }
}

pub fn prepare(plan: &Plan, kernels: &Kernels, device: Device, env: Env<'_>, host: &dyn HostCalls) -> Result<Prepared, RunError> {
    let mut buffers = prepare_buffers(plan, device, env)?;
    let planned = arena_bytes(plan, env, &buffers)?;
    let arena_bytes = pack(plan, &mut buffers, planned);
    let late = if device == Device::Cpu { late_arena(plan, &mut buffers, arena_bytes) } else { None };
    let mut p = Preparing {
        plan,
        env,
        device,
        host,
        buffers,
        windows: Vec::new(),
        known: FxHashMap::default(),
        launches: 0,
        recurring: Recurring::new(plan),
    };
    let actions = prepare_actions(&mut p, kernels, late.as_ref())?;
    let outputs = plan.outputs.iter().map(|o| prepare_output(&p, o)).collect::<Result<_, _>>()?;
    let write_backs = prepare_write_backs(&mut p)?;
    let inputs = input_layouts(&p.buffers);
    let graphable = graphable(&actions);
    let large =
        device == Device::Cpu && actions.iter().any(|action| makes_large(action, &p.buffers)) && !is_short(&actions, &p.buffers);
    let keepable_bytes = keepable_bytes(&p.buffers);
    Ok(Prepared {
        inputs,
        buffers: p.buffers,
        windows: p.windows,
        actions,
        outputs,
        write_backs,
        arena_bytes,
        late,
        large,
        keepable_bytes,
        launches: p.launches,
        graphable,
        frames: Idle::default(),
        rows: Rows::default(),
        recurring: p.recurring,
        is_complete: AtomicBool::new(false),
    })
}

/// Bytes of a tensor for which a hole in the heap is not found easily.
const LARGE: i64 = 128 << 10;

/// A run that touches fewer bytes is over before a heap in order has paid.
const LEAST_TOUCHED: i64 = 8 << 20;

/// Whether all that is done are a few launches, of some ten microseconds together: what `heap::keep_ends_together` costs would be seen.
fn is_short(actions: &[Action], buffers: &[Buffer]) -> bool {
    let by_launch = |launch: &Launch| launch.bufs.iter().map(|buf| bytes_of(buffers, *buf as usize)).sum::<i64>();
    let touched = |action: &Action| match action {
        Action::Launch(launch) => by_launch(launch),
        Action::Batch(batch) => batch.launches().iter().map(by_launch).sum(),
        Action::Allocate(_) | Action::Drop(_) => 0,
        _ => LEAST_TOUCHED,
    };
    actions.iter().map(touched).sum::<i64>() < LEAST_TOUCHED
}

/// Whether the action allocates something for which a hole in the heap is not found easily.
pub fn makes_large(action: &Action, buffers: &[Buffer]) -> bool {
    match action {
        Action::Allocate(buf) => bytes_of(buffers, *buf) >= LARGE,
        Action::Call { large, .. } => *large,
        _ => false,
    }
}

/// A call that returns new tensors makes some for itself, too, in proportion to what it reads: packed weights, transposed operands.
fn call_makes_large(p: &Preparing<'_>, call: &Call, ins: &[View], outs: &[usize]) -> bool {
    let all = ins.iter().map(|view| view.buf.index()).chain(outs.iter().copied());
    fresh_result(p, call, ins) && all.map(|buf| bytes_of(&p.buffers, buf)).sum::<i64>() >= LARGE
}

/// Of the results whose memory may be kept.
fn keepable_bytes(buffers: &[Buffer]) -> usize {
    let made = buffers.iter().enumerate().filter(|(_, b)| b.returned && b.home == Home::Owned);
    made.map(|(n, _)| bytes_of(buffers, n) as usize).filter(|bytes| *bytes >= kept::LARGE).sum()
}

pub fn bytes_of(buffers: &[Buffer], buf: usize) -> i64 {
    let bytes = |b: &Buffer| b.layout.span().saturating_mul(b.layout.dtype.size() as i64);
    buffers.get(buf).map_or(0, bytes).min(1 << 40)
}

fn graphable(actions: &[Action]) -> Graphable {
    let mut found = Graphable::default();
    for action in actions {
        let Action::Call { call, .. } = action else { continue };
        match call.in_graphs() {
            InGraphs::Yes => {}
            InGraphs::Draws => found.draws = true,
            InGraphs::No(why) => found.never = Some(found.never.unwrap_or(why)),
        }
    }
    found
}

fn prepare_buffers(plan: &Plan, device: Device, env: Env<'_>) -> Result<Vec<Buffer>, RunError> {
    let returned = returned_buffers(plan);
    let read = read_buffers(plan, &returned);
    let prepare_one = |(n, b): (usize, &ox_ir::plan::Buffer)| {
        if b.device != device {
            return Err(RunError::bug(format!("a buffer on {} in a plan for {device}", b.device)));
        }
        let home = match &b.place {
            Place::Input(n) => Home::Input(*n as usize),
            Place::Arena(offset) => {
                Home::Arena(env.eval(offset)?.try_into().map_err(|_| RunError::bug("negative arena offset"))?)
            }
            Place::Output(_) | Place::Library => Home::Owned,
        };
        let layout = env.layout(b.dtype, &b.shape, &b.strides)?;
        Ok(Buffer { layout, home, packed: b.packed, read: read[n], returned: returned[n] })
    };
    plan.buffers.iter().enumerate().map(prepare_one).collect()
}

/// Which buffers are looked at after they were made.
fn read_buffers(plan: &Plan, returned: &[bool]) -> Vec<bool> {
    let mut read = returned.to_vec();
    let steps = plan.steps.iter().flat_map(|step| match step {
        Step::Launch { bufs, .. } => bufs.clone(),
        step => mentions(step).0.collect(),
    });
    steps.chain(plan.write_backs.iter().map(|write| write.from.buf)).for_each(|buf| read[buf.index()] = true);
    read
}

/// Which buffers results lie in.
fn returned_buffers(plan: &Plan) -> Vec<bool> {
    let mut returned = vec![false; plan.buffers.len()];
    for output in &plan.outputs {
        match output {
            PlanOutput::Buffer(buf) | PlanOutput::View(View { buf, .. }) => returned[buf.index()] = true,
            PlanOutput::InputView { .. } => {}
        }
    }
    returned
}

fn arena_bytes(plan: &Plan, env: Env<'_>, buffers: &[Buffer]) -> Result<usize, RunError> {
    let bytes = plan.arena_bytes.as_ref().map_or(Ok(0), |sym| env.eval(sym))?.max(0) as usize;
    for (at, buffer) in buffers.iter().enumerate() {
        if let Home::Arena(offset) = buffer.home {
            let end = offset.saturating_add(buffer.layout.bytes());
            if end > bytes {
                return Err(RunError::bug(format!("buffer {at} ends at byte {end} of an arena of {bytes}")));
            }
        }
    }
    Ok(bytes)
}

fn input_layouts(buffers: &[Buffer]) -> Vec<Option<Layout>> {
    let mut inputs = Vec::new();
    for buffer in buffers {
        if let Home::Input(n) = buffer.home {
            inputs.resize(inputs.len().max(n + 1), None);
            inputs[n] = (!buffer.packed).then(|| buffer.layout.clone());
        }
    }
    inputs
}

/// An owned buffer is allocated right before the first step that mentions it, unless that step is a call that returns a new
/// tensor. (One that is read before it is written has no elements.)
fn prepare_actions(p: &mut Preparing<'_>, kernels: &Kernels, late: Option<&Late>) -> Result<Vec<Action>, RunError> {
    let plan = p.plan;
    let mut made: Vec<bool> = p.buffers.iter().map(|b| b.home != Home::Owned).collect();
    let mut actions = Vec::with_capacity(plan.steps.len() + plan.outputs.len());
    for (at, step) in plan.steps.iter().enumerate() {
        if late.is_some_and(|late| late.step == at) {
            actions.push(Action::Acquire);
        }
        let adopts = match step {
            Step::Call { call, ins, .. } => fresh_result(p, call, ins),
            _ => false,
        };
        let (reads, writes) = mentions(step);
        for (buf, adopted) in reads.map(|b| (b, false)).chain(writes.map(|b| (b, adopts))) {
            if !std::mem::replace(&mut made[buf.index()], true) && !adopted {
                actions.push(Action::Allocate(buf.index()));
            }
        }
        actions.push(prepare_step(p, step, kernels)?);
        let over = late.iter().flat_map(|late| &late.outside).filter(|(_, last)| *last == at);
        actions.extend(over.map(|(buf, _)| Action::Drop(*buf)));
    }
    for output in &plan.outputs {
        if let PlanOutput::Buffer(buf) | PlanOutput::View(View { buf, .. }) = output
            && !std::mem::replace(&mut made[buf.index()], true)
        {
            actions.push(Action::Allocate(buf.index()));
        }
    }
    let mut actions = together(actions, &p.buffers);
    actions.shrink_to_fit();
    Ok(actions)
}

/// The buffers that a step reads, and those that it writes; of a launch all count as written.
fn mentions(step: &Step) -> (impl Iterator<Item = BufId>, impl Iterator<Item = BufId>) {
    let (reads, writes): (&[View], &[BufId]) = match step {
        Step::Launch { bufs, .. } => (&[], bufs),
        Step::Call { ins, outs, .. } => (ins, outs),
        Step::Copy { from, to } => (std::slice::from_ref(from), std::slice::from_ref(&to.buf)),
        Step::Drop(_) | Step::Release => (&[], &[]),
    };
    (reads.iter().map(|v| v.buf), writes.iter().copied())
}

fn prepare_step(p: &mut Preparing<'_>, step: &Step, kernels: &Kernels) -> Result<Action, RunError> {
    Ok(match step {
        Step::Launch { kernel, bufs, checks } => {
            let at = *kernel as usize;
            match (p.plan.kernels.get(at), kernels) {
                (Some(_), Kernels::Cpu(loaded)) if at < loaded.len() => {
                    Action::Launch(Launch::prepare(p, at, &loaded[at], bufs, *checks)?)
                }
                (Some(kernel), Kernels::Gpu(loaded)) if at < loaded.len() => {
                    Action::GpuLaunch(GpuLaunch::prepare(p, kernel, &loaded[at], bufs, *checks)?)
                }
                _ => return Err(RunError::bug(format!("kernel {at} does not exist"))),
            }
        }
        Step::Call { call, ins, outs, location } => {
            let outs: Vec<usize> = outs.iter().map(|b| b.index()).collect();
            let large = call_makes_large(p, call, ins, &outs);
            Action::Call { call: prepare_call(p, call, ins, &outs)?, location: *location, large }
        }
        Step::Copy { from, to } => Action::Copy { from: p.operand_of(from)?, to: p.operand_of(to)? },
        Step::Drop(buf) => Action::Drop(buf.index()),
        Step::Release => Action::Release,
    })
}

fn prepare_output(p: &Preparing<'_>, output: &PlanOutput) -> Result<Output, RunError> {
    Ok(match output {
        PlanOutput::Buffer(buf) if matches!(p.buffers[buf.index()].home, Home::Arena(_)) => {
            return Err(RunError::bug("an output lies in the arena"));
        }
        PlanOutput::Buffer(buf) => Output::Buffer(buf.index()),
        PlanOutput::InputView { input, shape, strides, offset } => {
            let input = *input as usize;
            let dtype = p.buffers.iter().find(|b| b.home == Home::Input(input)).map(|b| b.layout.dtype);
            let dtype = dtype.ok_or_else(|| RunError::bug(format!("input {input} has no buffer")))?;
            Output::InputView { input, layout: p.env.layout(dtype, shape, strides)?, offset: p.env.eval(offset)? }
        }
        PlanOutput::View(view) => {
            let of_same =
                |o: &&PlanOutput| matches!(o, PlanOutput::Buffer(buf) | PlanOutput::View(View { buf, .. }) if *buf == view.buf);
            let shared = p.plan.outputs.iter().filter(of_same).count() > 1;
            Output::View { window: p.window(view)?, shared }
        }
    })
}

/// A source that is itself an input might be overwritten by another write-back (or overlap its target), so it is read first.
fn prepare_write_backs(p: &mut Preparing<'_>) -> Result<Vec<WriteBack>, RunError> {
    let plan = p.plan;
    let prepare_one = |w: &ox_ir::plan::WriteBack| {
        let window = p.window(&w.from)?;
        let (input, home) = (w.input as usize, &p.buffers[window.buf].home);
        let done = *home == Home::Input(input) && window == p.whole(window.buf);
        let early = matches!(home, Home::Input(_));
        Ok(WriteBack { input, from: p.operand(window), early, done })
    };
    plan.write_backs.iter().map(prepare_one).collect()
}
