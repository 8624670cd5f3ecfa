//! Calls of torch's on a GPU that give new tensors, launched by ourselves from the second time on: torch and cuDNN work out the same launch in every call, which
//! takes the processor longer than many a kernel runs.

use crate::abi::Handle;
use crate::cuda::{Extent, Repeat, StreamGuard, driver};
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::layout::Layout;
use crate::exec::prepare::Operand;
use crate::exec::rows::Hears;
use crate::tensor::Tensor;
use ox_ir::{DType, Device};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of one call.
pub struct Learned(Mutex<State>);

/// Larger results take longer to compute than to ask for, and torch would keep as much memory again for the stream on which calls are watched.
const MOST_BYTES: usize = 16 << 20;

/// What torch takes for a large piece of memory, in bytes.
const LARGE_PIECE: i64 = 3 << 19;

enum State {
    Unknown,
    /// It was made under these settings of the user's, and has loaded what it needs.
    Once(u64),
    Known(u64, Box<Known>),
    Never,
}

struct Known {
    repeat: Repeat,
    /// Whether the thread that has learned it is there.
    is_there: Arc<AtomicBool>,
    results: SmallVec<[Option<Layout>; 3]>,
}

/// What a call gives, in order; None where torch gives no tensor, since it was told to leave it out.
pub type Results = SmallVec<[Option<Tensor>; 3]>;

/// Operands of a call, with all that is made for it.
struct Made {
    addresses: SmallVec<[u64; 8]>,
    results: Results,
}

impl Learned {
    /// Of a call with results of so many bytes.
    pub fn new(result_bytes: usize) -> Learned {
        Learned(Mutex::new(if result_bytes > MOST_BYTES { State::Never } else { State::Unknown }))
    }

    /// As `run`, of a call with one result.
    pub fn run_for_one(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand],
        settings: u64,
        call: impl Fn(&[Handle]) -> Result<Tensor, RunError>,
    ) -> Result<Tensor, RunError> {
        let results = self.run(run, operands, settings, |tensors| call(tensors).map(|result| vec![result]))?;
        results.into_iter().flatten().next().ok_or_else(|| RunError::bug("a call that gives one tensor gave none"))
    }

    /// Makes the call: `call` does it by torch, with tensors for the operands. `settings` are the user's that it depends on.
    pub fn run(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand],
        settings: u64,
        call: impl Fn(&[Handle]) -> Result<Vec<Tensor>, RunError>,
    ) -> Result<Results, RunError> {
        let (Device::Cuda(device), Some(stream)) = (run.device, run.stream) else { return by_torch(run, operands, &call) };
        // What is recorded belongs to whoever records.
        if driver()?.is_capturing(stream) {
            return by_torch(run, operands, &call);
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_the_gone();
        match &*state {
            State::Once(known) if *known == settings && !stays() => {}
            State::Once(known) if *known == settings => *state = learn(run, operands, device, settings, &call),
            State::Unknown | State::Once(_) => *state = State::Once(settings),
            State::Known(known, _) if *known != settings => *state = State::Once(settings),
            State::Known(..) | State::Never => {}
        }
        if let State::Known(_, known) = &mut *state
            && let Some(made) = known.make(run, operands)?
        {
            // SAFETY: the operands of this call, which the run holds; its result, and memory that goes to what comes later on the stream.
            let is_launched = unsafe { known.repeat.run(&made.addresses, stream) };
            run.forget_scratch();
            if is_launched {
                return Ok(made.results);
            }
            *state = State::Never;
        }
        drop(state);
        by_torch(run, operands, &call)
    }

    /// Whether `hears` has heard of all that computes the results, which are the buffers `outs` then.
    pub fn tell(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand],
        settings: u64,
        outs: &[usize],
        hears: &mut Hears<'_>,
    ) -> Result<bool, RunError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_the_gone();
        let State::Known(of, known) = &mut *state else { return Ok(false) };
        // A result that must be copied would be copied before it is there.
        let adopts = |(out, result): (&usize, &Option<Layout>)| result.as_ref().is_none_or(|result| run.adopts(*out, result));
        if *of != settings || !outs.iter().zip(&known.results).all(adopts) {
            return Ok(false);
        }
        let Some(made) = known.make(run, operands)? else { return Ok(false) };
        let told = known.repeat.at(&made.addresses).iter().all(|launched| hears(&launched.what, &launched.words));
        drop(state);
        if told { deliver(run, outs, made.results).map(|()| true) } else { Ok(false) }
    }
}

/// Results become the buffers `outs`.
pub fn deliver(run: &mut Run<'_>, outs: &[usize], results: Results) -> Result<(), RunError> {
    let pairs = outs.iter().zip(results);
    pairs.into_iter().try_for_each(|(out, result)| result.map_or(Ok(()), |result| run.deliver(*out, result)))
}

impl State {
    /// torch keeps cuDNN's plans, whose kernels are learned, as long as the thread that has made them.
    fn forget_the_gone(&mut self) {
        if let State::Known(settings, known) = self
            && !known.is_there.load(Ordering::Relaxed)
        {
            *self = State::Once(*settings);
        }
    }
}

/// Whether this thread is one of those that stay: the main one, or one of torch's for backward passes. A thread that is begun by such a one has its name, too, and may end.
fn stays() -> bool {
    // SAFETY: both ask for numbers.
    let is_main = unsafe { libc::gettid() == libc::getpid() };
    let is_autograds = || {
        let mut name = [0u8; 16];
        // SAFETY: there is room for the longest name and its end.
        let code = unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len()) };
        code == 0 && name.starts_with(b"pt_autograd")
    };
    is_main || is_autograds()
}

/// As long as this thread is there.
fn presence() -> Arc<AtomicBool> {
    struct Presence(Arc<AtomicBool>);
    impl Drop for Presence {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    thread_local!(static PRESENCE: Presence = Presence(Arc::new(AtomicBool::new(true))));
    PRESENCE.try_with(|presence| presence.0.clone()).unwrap_or_default()
}

fn by_torch(
    run: &mut Run<'_>,
    operands: &[Operand],
    call: &impl Fn(&[Handle]) -> Result<Vec<Tensor>, RunError>,
) -> Result<Results, RunError> {
    let handles: SmallVec<[Handle; 4]> = operands.iter().map(|operand| run.operand(*operand)).collect::<Result<_, _>>()?;
    Ok(call(&handles)?.into_iter().map(Some).collect())
}

/// Watches the call, with tensors that begin elsewhere: nothing reads them.
fn learn(
    run: &Run<'_>,
    operands: &[Operand],
    device: u8,
    settings: u64,
    call: &impl Fn(&[Handle]) -> Result<Vec<Tensor>, RunError>,
) -> State {
    let layouts: SmallVec<[&Layout; 4]> =
        operands.iter().map(|operand| &run.prepared.windows[operand.0 as usize].layout).collect();
    let extent = |start: *mut u8, layout: &Layout| Extent { start: start as u64, bytes: layout.bytes() as u64 };
    let given: SmallVec<[Extent; 4]> =
        operands.iter().zip(&layouts).map(|(operand, layout)| extent(run.address_of(*operand), layout)).collect();
    let (mut results, mut held) = (None, Vec::new());
    let repeat = Repeat::of(device, &given, |moved: &[Extent], stream| {
        let _current = StreamGuard::new(stream, device).ok()?;
        // What it works in shall not lie where it lay before, be it small or large: torch has memory of its own for each.
        for bytes in [1, LARGE_PIECE] {
            held.push(Tensor::empty_strided(&[bytes], &[1], DType::U8, run.device).ok()?);
        }
        let tensor = |(at, layout): (&Extent, &&Layout)| {
            // SAFETY: nobody reads it.
            unsafe { Tensor::from_memory(at.start as *mut u8, &layout.sizes, &layout.strides, layout.dtype, run.device) }.ok()
        };
        let tensors: SmallVec<[Tensor; 4]> = moved.iter().zip(&layouts).map(tensor).collect::<Option<_>>()?;
        let handles: SmallVec<[Handle; 4]> = tensors.iter().map(|tensor| tensor.as_ref().handle()).collect();
        let made = call(&handles).ok()?;
        let layouts = results.insert(made.iter().map(layout_of).collect::<Result<SmallVec<[_; 3]>, _>>().ok()?);
        let extents = made.iter().zip(layouts.iter()).filter_map(|(made, layout)| Some((made, layout.as_ref()?)));
        extents.map(|(made, layout)| Some(extent(made.as_ref().data_ptr().ok()?, layout))).collect()
    });
    match (repeat, results) {
        (Some(repeat), Some(results)) => State::Known(settings, Box::new(Known { repeat, results, is_there: presence() })),
        _ => State::Never,
    }
}

/// None of what torch has left out.
fn layout_of(tensor: &Tensor) -> Result<Option<Layout>, RunError> {
    let tensor = tensor.as_ref();
    let Some(dtype) = tensor.dtype()? else { return Ok(None) };
    Ok(Some(Layout { dtype, sizes: tensor.sizes()?.into(), strides: tensor.strides()?.into() }))
}

impl Known {
    /// None where the operands lie otherwise than those that were watched.
    fn make(&self, run: &mut Run<'_>, operands: &[Operand]) -> Result<Option<Made>, RunError> {
        let mut addresses: SmallVec<[u64; 8]> = operands.iter().map(|operand| run.address_of(*operand) as u64).collect();
        if !self.repeat.takes(&addresses) {
            return Ok(None);
        }
        let make = |Layout { dtype, sizes, strides }: &Layout| Tensor::empty_strided(sizes, strides, *dtype, run.device);
        let results: Results =
            self.results.iter().map(|layout| layout.as_ref().map(make).transpose()).collect::<Result<_, _>>()?;
        for result in results.iter().flatten() {
            addresses.push(result.as_ref().data_ptr()? as u64);
        }
        if self.repeat.scratch > 0 {
            addresses.push(run.scratch(self.repeat.scratch)?);
        }
        Ok(Some(Made { addresses, results }))
    }
}
