//! Runs of a Plan on a GPU that come again and again: launches that stand side by side are put on the stream in rows, which costs the processor little
//! more than one launch. Nothing else is different: memory is where torch puts it in this run, and what has moved is exchanged.

use super::frame::Run;
use super::perform;
use super::prepare::Action;
use crate::cuda::{Chain, Launched, Stream, What, driver, launch_each};
use crate::error::RunError;
use ox_ir::Device;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// What hears of launches: of what is launched, and of the words that it is called with. Whether that is as it expected.
pub type Hears<'a> = dyn FnMut(&What, &[u64]) -> bool + 'a;

/// Runs before rows are made: what libraries launch is learned in the second.
const BEFORE: u32 = 3;
/// Launches that are worth a row.
const FEWEST: usize = 3;

/// Of one Prepared.
#[derive(Default)]
pub struct Rows(Mutex<State>);

enum State {
    /// So many runs have been done.
    New(u32),
    /// In order.
    Made(Vec<Row>),
}

impl Default for State {
    fn default() -> State {
        State::New(0)
    }
}

struct Row {
    actions: Range<usize>,
    chain: Chain,
}

impl Rows {
    /// None while another run has it: a row has the words of one run.
    fn take(&self) -> Option<MutexGuard<'_, State>> {
        match self.0.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// All actions of a run.
pub fn perform_all(run: &mut Run<'_>) -> Result<(), RunError> {
    let (prepared, all) = (run.prepared, 0..run.prepared.actions.len());
    let (Device::Cuda(device), Some(stream)) = (run.device, run.stream) else { return one_by_one(run, all) };
    // A profiler wants to see each launch, and who records knows nothing of rows.
    if run.profiled || driver()?.is_capturing(stream) {
        return one_by_one(run, all);
    }
    let mut taken = prepared.rows.take();
    match taken.as_deref_mut() {
        None => one_by_one(run, all),
        Some(State::New(runs)) if *runs < BEFORE => {
            *runs += 1;
            one_by_one(run, all)
        }
        Some(state @ State::New(_)) => {
            let mut making = Making { device, stream, begin: 0, pending: Vec::new(), rows: Vec::new() };
            let done = making.perform_all(run);
            *state = State::Made(making.rows);
            done
        }
        Some(State::Made(rows)) => go_through(run, rows, stream),
    }
}

fn one_by_one(run: &mut Run<'_>, actions: Range<usize>) -> Result<(), RunError> {
    let prepared = run.prepared;
    prepared.actions[actions].iter().try_for_each(|action| perform(run, action))
}

/// Whether it only makes memory: that may as well be done before launches that come before it. What lets go of memory may not: who gets it next on the stream
/// must find those launches there.
fn makes_memory(action: &Action) -> bool {
    matches!(action, Action::Allocate(_) | Action::Acquire)
}

/// Whether `hears` has heard of all that the action puts on the stream, which is left to it then.
fn tells(run: &mut Run<'_>, action: &Action, hears: &mut Hears<'_>) -> Result<bool, RunError> {
    match action {
        Action::GpuLaunch(launch) => {
            run.spend(launch.writes_input)?;
            launch.tell(run, hears)
        }
        Action::Call { call, .. } if !call.is_once() => call.tell(run, hears),
        _ => Ok(false),
    }
}

/// A run in which rows are made.
struct Making {
    device: u8,
    stream: Stream,
    /// The first action behind the last row.
    begin: usize,
    /// What was told of since.
    pending: Vec<Launched>,
    rows: Vec<Row>,
}

impl Making {
    fn perform_all(&mut self, run: &mut Run<'_>) -> Result<(), RunError> {
        let actions = &run.prepared.actions;
        for (n, action) in actions.iter().enumerate() {
            let mut hear = |what: &What, words: &[u64]| {
                self.pending.push(Launched { what: what.clone(), words: words.to_vec() });
                true
            };
            if makes_memory(action) {
                perform(run, action)?;
            } else if !tells(run, action, &mut hear)? {
                self.launch(n)?;
                self.begin = n + 1;
                perform(run, action)?;
            }
        }
        self.launch(actions.len())
    }

    /// What is pending ends before this action.
    fn launch(&mut self, end: usize) -> Result<(), RunError> {
        let mut launches = std::mem::take(&mut self.pending);
        if launches.len() >= FEWEST {
            match Chain::of(self.device, launches) {
                Ok(mut chain) => {
                    // SAFETY: memory that this run holds, or gives to what comes later on the stream.
                    unsafe { chain.launch(self.stream)? };
                    self.rows.push(Row { actions: self.begin..end, chain });
                    return Ok(());
                }
                Err(single) => launches = single,
            }
        }
        // SAFETY: as above.
        unsafe { launch_each(&mut launches, self.stream) }
    }
}

fn go_through(run: &mut Run<'_>, rows: &mut Vec<Row>, stream: Stream) -> Result<(), RunError> {
    let (mut at, mut lost) = (0, None);
    for (n, row) in rows.iter_mut().enumerate() {
        one_by_one(run, at..row.actions.start)?;
        if !row.perform(run, stream)? {
            lost = Some(n);
        }
        at = row.actions.end;
    }
    if let Some(lost) = lost {
        rows.remove(lost);
    }
    one_by_one(run, at..run.prepared.actions.len())
}

impl Row {
    /// False where the run does other things than those before it (arguments that lie at odd places, say).
    fn perform(&mut self, run: &mut Run<'_>, stream: Stream) -> Result<bool, RunError> {
        let prepared = run.prepared;
        self.chain.begin();
        for n in self.actions.clone() {
            let action = &prepared.actions[n];
            if makes_memory(action) {
                perform(run, action)?;
            } else if !tells(run, action, &mut |_, words| self.chain.tell(words))? {
                // SAFETY: memory that this run holds, or gives to what comes later on the stream (likewise below).
                unsafe { self.chain.launch(stream)? };
                one_by_one(run, n..self.actions.end)?;
                return Ok(false);
            }
        }
        unsafe { self.chain.launch(stream)? };
        Ok(true)
    }
}
