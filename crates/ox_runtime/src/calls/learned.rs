//! Calls of torch's on a GPU that give one new tensor, launched by ourselves from the second time on: torch and cuDNN work out the same launch in every call, which
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
use std::sync::{Mutex, PoisonError};

/// What is known of one call.
pub struct Learned(Mutex<State>);

/// Larger results take longer to compute than to ask for, and torch would keep as much memory again for the stream on which calls are watched.
const MOST_BYTES: usize = 16 << 20;

enum State {
    Unknown,
    /// It was made under these settings of the user's, and has loaded what it needs.
    Once(u64),
    Known(u64, Box<Known>),
    Never,
}

struct Known {
    repeat: Repeat,
    result: Layout,
}

/// Operands of a call, with all that is made for it.
struct Made {
    addresses: SmallVec<[u64; 6]>,
    result: Tensor,
}

impl Learned {
    /// Of a call with a result of so many bytes.
    pub fn new(result_bytes: usize) -> Learned {
        Learned(Mutex::new(if result_bytes > MOST_BYTES { State::Never } else { State::Unknown }))
    }

    /// Makes the call: `call` does it by torch, with tensors for the operands. `settings` are the user's that it depends on.
    pub fn run(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand],
        settings: u64,
        call: impl Fn(&[Handle]) -> Result<Tensor, RunError>,
    ) -> Result<Tensor, RunError> {
        let (Device::Cuda(device), Some(stream)) = (run.device, run.stream) else { return by_torch(run, operands, &call) };
        // What is recorded belongs to whoever records.
        if driver()?.is_capturing(stream) {
            return by_torch(run, operands, &call);
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Once(known) if *known == settings && !is_main_thread() => {}
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
                return Ok(made.result);
            }
            *state = State::Never;
        }
        drop(state);
        by_torch(run, operands, &call)
    }

    /// Whether `hears` has heard of all that computes the result, which is buffer `out` then.
    pub fn tell(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand],
        settings: u64,
        out: usize,
        hears: &mut Hears<'_>,
    ) -> Result<bool, RunError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Known(of, known) = &mut *state else { return Ok(false) };
        // A result that must be copied would be copied before it is there.
        if *of != settings || !run.adopts(out, &known.result) {
            return Ok(false);
        }
        let Some(made) = known.make(run, operands)? else { return Ok(false) };
        let told = known.repeat.at(&made.addresses).iter().all(|launched| hears(&launched.what, &launched.words));
        drop(state);
        if told { run.deliver(out, made.result).map(|()| true) } else { Ok(false) }
    }
}

/// torch keeps cuDNN's plans, whose kernels are learned, as long as the thread that has made them.
fn is_main_thread() -> bool {
    // SAFETY: both ask for numbers.
    unsafe { libc::gettid() == libc::getpid() }
}

fn by_torch(
    run: &mut Run<'_>,
    operands: &[Operand],
    call: &impl Fn(&[Handle]) -> Result<Tensor, RunError>,
) -> Result<Tensor, RunError> {
    let handles: SmallVec<[Handle; 4]> = operands.iter().map(|operand| run.operand(*operand)).collect::<Result<_, _>>()?;
    call(&handles)
}

/// Watches the call, with tensors that begin elsewhere: nothing reads them.
fn learn(
    run: &Run<'_>,
    operands: &[Operand],
    device: u8,
    settings: u64,
    call: &impl Fn(&[Handle]) -> Result<Tensor, RunError>,
) -> State {
    let layouts: SmallVec<[&Layout; 4]> =
        operands.iter().map(|operand| &run.prepared.windows[operand.0 as usize].layout).collect();
    let extent = |start: *mut u8, layout: &Layout| Extent { start: start as u64, bytes: layout.bytes() as u64 };
    let given: SmallVec<[Extent; 4]> =
        operands.iter().zip(&layouts).map(|(operand, layout)| extent(run.address_of(*operand), layout)).collect();
    let (mut result, mut held) = (None, Vec::new());
    let repeat = Repeat::of(device, &given, |moved: &[Extent], stream| {
        let _current = StreamGuard::new(stream, device).ok()?;
        // What it works in shall not lie where it lay before.
        held.push(Tensor::empty_strided(&[1], &[1], DType::U8, run.device).ok()?);
        let tensor = |(at, layout): (&Extent, &&Layout)| {
            // SAFETY: nobody reads it.
            unsafe { Tensor::from_memory(at.start as *mut u8, &layout.sizes, &layout.strides, layout.dtype, run.device) }.ok()
        };
        let tensors: SmallVec<[Tensor; 4]> = moved.iter().zip(&layouts).map(tensor).collect::<Option<_>>()?;
        let handles: SmallVec<[Handle; 4]> = tensors.iter().map(|tensor| tensor.as_ref().handle()).collect();
        let made = call(&handles).ok()?;
        let made = made.as_ref();
        let layout =
            Layout { dtype: made.dtype().ok()??, sizes: made.sizes().ok()?.into(), strides: made.strides().ok()?.into() };
        let start = made.data_ptr().ok()?;
        let extent = extent(start, result.insert(layout));
        Some(vec![extent])
    });
    match (repeat, result) {
        (Some(repeat), Some(result)) => State::Known(settings, Box::new(Known { repeat, result })),
        _ => State::Never,
    }
}

impl Known {
    /// None where the operands lie otherwise than those that were watched.
    fn make(&self, run: &mut Run<'_>, operands: &[Operand]) -> Result<Option<Made>, RunError> {
        let mut addresses: SmallVec<[u64; 6]> = operands.iter().map(|operand| run.address_of(*operand) as u64).collect();
        if !self.repeat.takes(&addresses) {
            return Ok(None);
        }
        let Layout { dtype, sizes, strides } = &self.result;
        let result = Tensor::empty_strided(sizes, strides, *dtype, run.device)?;
        addresses.push(result.as_ref().data_ptr()? as u64);
        if self.repeat.scratch > 0 {
            addresses.push(run.scratch(self.repeat.scratch)?);
        }
        Ok(Some(Made { addresses, result }))
    }
}
