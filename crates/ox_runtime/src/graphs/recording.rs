//! One recording: how it is made, and how it is replayed.

use super::capture::{Captured, record};
use super::group::{Claim, Group};
use super::lease::Leases;
use super::loan::{Known, Loan};
use super::{Settings, device};
use crate::abi::abi;
use crate::cuda::{Stream, driver};
use crate::error::RunError;
use crate::exec::frame::{Frame, Inputs, Run};
use crate::exec::job::Job;
use crate::exec::layout::Layout;
use crate::exec::prepare::{Action, Home, Output, Prepared};
use crate::exec::{Arena, Guards, Range, perform};
use crate::tensor::{Tensor, TensorRef};
use ox_ir::Device;
use std::sync::Arc;

/// Results of at most so many bytes are copied for the caller: that costs less than a second recording if he still holds the last ones. So are
/// inputs that lie elsewhere now and then.
pub const SMALL: usize = 8 << 20;

/// How a recording is to be made.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its results may be handed out as they are.
    pub lends: bool,
    /// Another one may share its memory.
    pub shares: bool,
    /// What the call was given of another's results.
    pub claim: Option<&'a Claim>,
}

/// An input that moves: where the recording reads it.
struct Moving {
    input: usize,
    tensor: Tensor,
    bytes: usize,
}

/// A buffer that the caller gets.
struct Kept {
    buf: usize,
    layout: Layout,
    /// He gets a copy of it.
    copied: bool,
}

/// What does the work.
enum Engine {
    Graph {
        captured: Arc<dyn Captured>,
        /// It draws random numbers.
        draws: bool,
    },
    /// On the CPU, for tests: the steps once more, on the same memory.
    Steps,
}

pub struct Recording {
    engine: Engine,
    /// What was recorded: its kernels report failed checks there, while calls may come with what was prepared later for the same sizes.
    prepared: Arc<Prepared>,
    /// The stream of the last replay: whoever had its results used them there.
    last: Option<Stream>,
    moving: Vec<Moving>,
    kept: Vec<Kept>,
    /// Where everything lies; the results above all.
    frame: Frame,
    arena: Option<Arc<Arena>>,
    leases: Leases,
    /// What it lends, in the order of `kept` without those that are copied.
    lent: Vec<Known>,
    group: Arc<Group>,
    /// It shares the memory of another recording, which has been replayed by then.
    follows: bool,
    /// What it was recorded to let go, for tests on the CPU.
    spoils: Vec<Arc<Loan>>,
    device: Device,
}

impl super::book::Recorded for Recording {
    fn is_held(&self) -> bool {
        if self.follows { self.leases.any() } else { self.group.leases.any() }
    }

    fn is_outlived(&self) -> bool {
        !self.follows && !self.leases.any() && self.group.leases.any()
    }

    fn is_over(&self) -> bool {
        self.group.is_over(self.follows)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.group.leave(self.follows);
        if let Device::Cuda(device) = self.device {
            device::wait(device);
        }
    }
}

impl Recording {
    /// Nothing of the call is done: that is what the first replay is for. `moving` are the inputs that are copied.
    pub fn make(job: &Job<'_>, settings: &Settings, moving: &[usize], asked: Asked<'_>) -> Result<Recording, RunError> {
        let prepared = job.prepared;
        let joined = asked.claim.filter(|claim| claim.is_of_one(moving)).and_then(|claim| Some((claim, claim.group()?)));
        let joined = joined.filter(|(_, group)| group.join());
        // What the calls before were done in would be held besides the recording's memory, and of no use to it.
        if matches!(job.device, Device::Cuda(_)) {
            job.executable.host.empty_cache();
        }
        let moving = moving.iter().map(|n| Moving::new(job, *n)).collect::<Result<Vec<_>, _>>()?;
        let mut inputs: Vec<TensorRef<'_>> = (0..prepared.inputs.len()).map(|n| job.inputs.get(n)).collect();
        moving.iter().for_each(|moving| inputs[moving.input] = moving.tensor.as_ref());
        let arena = match prepared.arena_bytes {
            0 => None,
            bytes => Some(device::arena(bytes, job.device, &*job.executable.host)?),
        };
        let (engine, frame) = match job.device {
            Device::Cuda(device) => record_graph(job, device, &inputs, arena.as_deref(), joined)?,
            _ => (Engine::Steps, lay_out(job, &inputs, arena.as_deref())?),
        };
        let spoils = joined.filter(|_| settings.emulated).map_or(Vec::new(), |(claim, _)| claim.loans().cloned().collect());
        Ok(Recording {
            engine,
            prepared: prepared.clone(),
            last: None,
            moving,
            kept: kept(prepared, settings, asked.lends),
            frame,
            arena,
            leases: Leases::default(),
            lent: Vec::new(),
            group: joined.map_or_else(|| Arc::new(Group::new(asked.shares)), |(_, group)| group.clone()),
            follows: joined.is_some(),
            spoils,
            device: job.device,
        })
    }

    /// Whether it shares the memory of another.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// Does the call. The inputs that do not move lie where they lay.
    pub fn replay(&mut self, job: &Job<'_>) -> Result<Vec<Tensor>, RunError> {
        let _guards = Guards::new(job.executable.abi, job.device);
        let mut results = job.run(job.inputs, job.idle_frame())?;
        self.report_failures(&results)?;
        let made = self.launch(job);
        let outcome = made.and_then(|made| {
            made.into_iter().for_each(|(buf, tensor)| results.frame.owned[buf] = Some(tensor));
            results.results()
        });
        let outcome = outcome.and_then(|tensors| self.report_failures(&results).map(|()| tensors));
        results.clear_frame();
        job.give_back(results.frame);
        let is_once = !job.prepared.write_backs.is_empty() || job.prepared.graphable.draws;
        outcome.map_err(|error| if is_once { RunError::Spent(Box::new(error)) } else { error })
    }

    /// Of the replays, and of plain runs before them.
    fn report_failures(&self, run: &Run<'_>) -> Result<(), RunError> {
        if !std::ptr::eq(run.prepared, &*self.prepared) {
            run.report_failures_of(&self.prepared)?;
        }
        run.report_failures()
    }

    /// Copies in, launches, and makes the tensors for the caller, by buffer.
    fn launch(&mut self, job: &Job<'_>) -> Result<Vec<(usize, Tensor)>, RunError> {
        let turn = match (job.device, job.stream) {
            (Device::Cuda(device), Some(stream)) => Some(device::Turn::begin(device, stream, self.used_on())?),
            _ => None,
        };
        self.last = job.stream;
        if self.follows {
            self.group.follow_on(job.stream);
        }
        for moving in &self.moving {
            let (to, from) = (moving.tensor.as_ref().data_ptr()?, job.inputs.get(moving.input).data_ptr()?);
            copy(to, from, moving.bytes, job.stream)?;
        }
        let abi = job.executable.abi;
        let _range = if abi.is_profiled() { Some(Range::begin(abi, c"oxytorch::recorded graph")) } else { None };
        match &self.engine {
            Engine::Graph { captured, draws: true } => captured.replay()?,
            Engine::Graph { captured, draws: false } => {
                let stream = job.stream.ok_or_else(|| RunError::bug("a graph is launched on no stream"))?;
                // SAFETY: the recording holds the graph and its memory.
                unsafe { driver()?.launch_graph(captured.handle(), stream, &job.describe())? }
            }
            Engine::Steps => {
                let _turn = device::emulated_turn();
                self.do_steps(job)?;
            }
        }
        self.register()?;
        let mut lent = self.lent.iter().map(Known::loan);
        let made = self.kept.iter().map(|kept| Ok((kept.buf, self.hand_out(job, kept, &mut lent)?))).collect();
        drop(turn);
        made
    }

    /// The streams on which results that a replay overwrites were used.
    fn used_on(&self) -> [Option<Stream>; 2] {
        [self.last, if self.follows { None } else { self.group.followed_on() }]
    }

    /// The tensor that the caller gets.
    fn hand_out<'a>(
        &self,
        job: &Job<'_>,
        kept: &Kept,
        lent: &mut impl Iterator<Item = &'a Arc<Loan>>,
    ) -> Result<Tensor, RunError> {
        if !kept.copied {
            let loan = lent.next().ok_or_else(|| RunError::bug("a recording does not know its result"))?;
            return loan.lend()?.ok_or_else(|| RunError::bug("this torch cannot lend"));
        }
        let own = self.frame.owned[kept.buf].as_ref().ok_or_else(|| RunError::bug("a recording has no result"))?;
        let Layout { dtype, sizes, strides } = &kept.layout;
        let fresh = Tensor::empty_strided(sizes, strides, *dtype, self.device)?;
        copy(fresh.as_ref().data_ptr()?, own.as_ref().data_ptr()?, bytes(&kept.layout), job.stream)?;
        Ok(fresh)
    }

    /// After the first launch it is known where all results lie. On a GPU their places are the loans' from then on.
    fn register(&mut self) -> Result<(), RunError> {
        if !self.lent.is_empty() {
            return Ok(());
        }
        let keeper = match &self.engine {
            Engine::Graph { captured, .. } => Some(captured.clone()),
            Engine::Steps => None,
        };
        for kept in self.kept.iter().filter(|kept| !kept.copied) {
            let own = match keeper {
                Some(_) => self.frame.owned[kept.buf].take(),
                None => self.frame.owned[kept.buf].as_ref().map(|own| own.as_ref().to_owned()).transpose()?,
            };
            let own = own.ok_or_else(|| RunError::bug("a recording has no result"))?;
            let loan = Loan::new(own, &kept.layout, self.device, keeper.clone(), &self.leases, &self.group, self.follows)?;
            let loan = Arc::new(loan);
            if self.follows {
                self.group.add_following(&loan);
            }
            self.lent.push(Known::new(loan));
        }
        Ok(())
    }

    fn do_steps(&mut self, job: &Job<'_>) -> Result<(), RunError> {
        if !self.follows {
            self.group.spoil_following();
        }
        let mut inputs: Vec<TensorRef<'_>> = (0..job.prepared.inputs.len()).map(|n| job.inputs.get(n)).collect();
        self.moving.iter().for_each(|moving| inputs[moving.input] = moving.tensor.as_ref());
        let frame = std::mem::take(&mut self.frame);
        let mut run = job.run(Inputs { all: &inputs, given: &[] }, frame)?;
        run.arena = self.arena.as_deref().map(Arena::share).transpose()?;
        let on_memory =
            |action: &&Action| matches!(action, Action::Allocate(_) | Action::Drop(_) | Action::Acquire | Action::Release);
        let steps = job.prepared.actions.iter().filter(|action| !on_memory(action));
        let done = steps.map(|action| perform(&mut run, action)).collect::<Result<Vec<()>, _>>().and_then(|_| run.write_back());
        self.frame = run.frame;
        self.spoils.iter().for_each(|loan| loan.spoil());
        done
    }
}

impl Moving {
    fn new(job: &Job<'_>, input: usize) -> Result<Moving, RunError> {
        let layout = job.prepared.inputs.get(input).and_then(Option::as_ref);
        let layout = layout.ok_or_else(|| RunError::bug("an input without a layout moves"))?;
        let tensor = Tensor::empty_strided(&layout.sizes, &layout.strides, layout.dtype, job.device)?;
        Ok(Moving { input, tensor, bytes: bytes(layout) })
    }
}

/// From the first element to behind the last, with what lies between them.
pub fn bytes(layout: &Layout) -> usize {
    layout.span() as usize * layout.dtype.size()
}

fn copy(to: *mut u8, from: *const u8, bytes: usize, stream: Option<Stream>) -> Result<(), RunError> {
    match stream {
        _ if bytes == 0 || to.cast_const() == from => Ok(()),
        // SAFETY: both are tensors of so many bytes, alive until the stream has passed this point.
        Some(stream) => unsafe { driver()?.copy(to, from, bytes, stream) },
        // SAFETY: as above; they are different tensors.
        None => {
            unsafe { std::ptr::copy(from, to, bytes) };
            Ok(())
        }
    }
}

/// In the memory of the recordings that it joins, letting go of what it was given.
fn record_graph(
    job: &Job<'_>,
    device: u8,
    inputs: &[TensorRef<'_>],
    arena: Option<&Arena>,
    joined: Option<(&Claim, &Arc<Group>)>,
) -> Result<(Engine, Frame), RunError> {
    let pool = joined.and_then(|(claim, _)| claim.pool());
    let capture = job.executable.host.begin_capture(device, pool)?;
    let (captured, frame) = record(capture, |stream| {
        let _guards = Guards::new(job.executable.abi, job.device);
        let mut run = job.run(Inputs { all: inputs, given: &[] }, Frame::new(job.prepared))?;
        (run.stream, run.arena) = (Some(Stream(stream)), arena.map(Arena::share).transpose()?);
        run.held = joined.map_or(Vec::new(), |(claim, _)| claim.memory(inputs.len()));
        run.place_buffers()?;
        job.prepared.actions.iter().try_for_each(|action| perform(&mut run, action))?;
        run.write_back()?;
        Ok(run.frame)
    })?;
    Ok((Engine::Graph { captured: captured.into(), draws: job.prepared.graphable.draws }, frame))
}

/// Everything at its place, and nothing computed.
fn lay_out(job: &Job<'_>, inputs: &[TensorRef<'_>], arena: Option<&Arena>) -> Result<Frame, RunError> {
    let mut run = job.run(Inputs { all: inputs, given: &[] }, Frame::new(job.prepared))?;
    run.arena = arena.map(Arena::share).transpose()?;
    run.place_buffers()?;
    for action in &job.prepared.actions {
        if let Action::Allocate(buf) = action {
            run.allocate(*buf)?;
        }
    }
    Ok(run.frame)
}

/// The buffers of results that a run makes, each once.
fn kept(prepared: &Prepared, settings: &Settings, lends: bool) -> Vec<Kept> {
    let mut all: Vec<Kept> = Vec::new();
    // Not where this torch cannot tell when a storage goes.
    let lends = lends && abi().is_ok_and(|abi| abi.torch_from_blob.is_some());
    for (n, output) in prepared.outputs.iter().enumerate() {
        let buf = match output {
            Output::Buffer(buf) => *buf,
            Output::View { window, .. } => window.buf,
            Output::InputView { .. } => continue,
        };
        if prepared.buffers[buf].home != Home::Owned || all.iter().any(|kept| kept.buf == buf) {
            continue;
        }
        let layout = prepared.buffers[buf].layout.clone();
        let bytes = bytes(&layout);
        let copied = !lends || bytes == 0 || n < settings.visible && bytes <= settings.small(SMALL);
        all.push(Kept { buf, layout, copied });
    }
    all
}
