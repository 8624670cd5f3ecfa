//! Runs of a Plan on a GPU that come again and again: launches that stand side by side are put on the stream in rows, which costs the processor little
//! more than one launch. Nothing else is different: memory is where torch puts it in this run, and what has moved is exchanged.

use super::frame::Run;
use super::perform;
use super::prepare::Action;
use crate::cuda::{Chain, Launched, Refused, Stream, What, driver, launch_each};
use crate::error::RunError;
use ox_ir::Device;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// What hears of launches: of what is launched, and of the words that it is called with. Whether that is as it expected.
pub type Hears<'a> = dyn FnMut(&What, &[u64]) -> bool + 'a;

/// Runs before the one in which it is seen what a run holds, behind which rows are made: what libraries launch is learned in the second.
const BEFORE: u32 = 2;
/// Launches that are worth a row.
const FEWEST: usize = 3;

/// Of one Prepared.
#[derive(Default)]
pub struct Rows(Mutex<State>);

enum State {
    /// So many runs have been done.
    New(u32),
    /// The last of them held so many bytes at its beginning and behind each of its actions.
    Measured(Vec<usize>),
    /// In order.
    Made(Vec<Row>),
}

impl Default for State {
    fn default() -> State {
        State::New(0)
    }
}

struct Row {
    told: Told,
    chain: Chain,
    /// A run did other things: it is not made any more.
    is_lost: bool,
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
            let mut held = vec![run.held_bytes()];
            prepared.actions.iter().try_for_each(|action| {
                let done = perform(run, action);
                held.push(run.held_bytes());
                done
            })?;
            *state = State::Measured(held);
            Ok(())
        }
        Some(state @ State::Measured(_)) => {
            let State::Measured(held) = std::mem::take(state) else { unreachable!("it was looked at") };
            let mut making = Making::new(device, stream, held);
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

/// Whether it is done behind the row that it stands in.
fn lets_go(action: &Action) -> bool {
    matches!(action, Action::Drop(_))
}

/// What stands in a row that has been launched, and was left until then.
fn let_go(run: &mut Run<'_>, actions: Range<usize>) -> Result<(), RunError> {
    let prepared = run.prepared;
    run.forget_scratch();
    prepared.actions[actions].iter().filter(|action| lets_go(action)).try_for_each(|action| perform(run, action))
}

/// Whether `hears` has heard of all that the action puts on the stream, which is left to it then.
fn tells(run: &mut Run<'_>, action: &Action, hears: &mut Hears<'_>) -> Result<bool, RunError> {
    match action {
        Action::GpuLaunch(launch) => {
            run.spend(launch.writes_input)?;
            launch.tell(run, hears)
        }
        Action::Call { call, location, .. } if !call.is_once() => call.tell(run, hears).map_err(|e| e.at(run.line(*location))),
        _ => Ok(false),
    }
}

/// Actions whose launches were told of.
struct Told {
    actions: Range<usize>,
    /// How many launches there are by the end of each action.
    launches: Vec<usize>,
}

impl Told {
    /// Behind the launches: what was left until then is let go.
    fn end(&self, run: &mut Run<'_>, launched: Result<(), Refused>) -> Result<bool, RunError> {
        let Err(refused) = launched else { return let_go(run, self.actions.clone()).map(|()| true) };
        self.redo(run, refused).map(|()| false)
    }

    /// What the driver did not take is asked of the libraries again, and so is all that comes behind it: nothing of that is on the stream. A call of which a part is
    /// cannot be begun again, since it may have written what it reads.
    fn redo(&self, run: &mut Run<'_>, refused: Refused) -> Result<(), RunError> {
        let actions = &run.prepared.actions;
        let Some(before) = begun_with(&self.launches, refused.done) else { return Err(refused.error) };
        let first = self.actions.start + before;
        let_go(run, self.actions.start..first)?;
        actions[first..self.actions.end].iter().filter(|action| !makes_memory(action)).try_for_each(|action| perform(run, action))
    }
}

/// The action that begins with launch number `launch`, by the launches that there are at the end of each.
fn begun_with(ends: &[usize], launch: usize) -> Option<usize> {
    let action = ends.partition_point(|end| *end <= launch);
    let begin = if action == 0 { 0 } else { ends[action - 1] };
    (action < ends.len() && begin == launch).then_some(action)
}

/// A run in which rows are made.
struct Making {
    device: u8,
    stream: Stream,
    /// What a run holds at its beginning and behind each action, and at most.
    held: Vec<usize>,
    most: usize,
    /// The first action behind the last row.
    begin: usize,
    /// What was told of since, how much of it by the end of each action, and the bytes that are let go when it is launched.
    pending: Vec<Launched>,
    told: Vec<usize>,
    late: usize,
    rows: Vec<Row>,
}

impl Making {
    fn new(device: u8, stream: Stream, held: Vec<usize>) -> Making {
        let most = held.iter().copied().max().unwrap_or(0);
        Making { device, stream, held, most, begin: 0, pending: Vec::new(), told: Vec::new(), late: 0, rows: Vec::new() }
    }

    fn perform_all(&mut self, run: &mut Run<'_>) -> Result<(), RunError> {
        let actions = &run.prepared.actions;
        for (n, action) in actions.iter().enumerate() {
            // With what is still there the run would hold more than it ever does.
            if self.held[n + 1] + self.late + run.scratch_bytes() > self.most && !lets_go(action) {
                self.launch(run, n)?;
            }
            if self.joins(run, n, action)? {
                self.told.push(self.pending.len());
            } else {
                self.launch(run, n)?;
                self.begin = n + 1;
                perform(run, action)?;
            }
        }
        self.launch(run, actions.len())
    }

    /// Whether the action is part of the row.
    fn joins(&mut self, run: &mut Run<'_>, n: usize, action: &Action) -> Result<bool, RunError> {
        if makes_memory(action) {
            return perform(run, action).map(|()| true);
        }
        if lets_go(action) {
            self.late += self.held[n].saturating_sub(self.held[n + 1]);
            return Ok(!self.pending.is_empty());
        }
        let mut hear = |what: &What, words: &[u64]| {
            self.pending.push(Launched { what: what.clone(), words: words.to_vec() });
            true
        };
        tells(run, action, &mut hear)
    }

    /// The row ends before action number `end`.
    fn launch(&mut self, run: &mut Run<'_>, end: usize) -> Result<(), RunError> {
        let mut launches = std::mem::take(&mut self.pending);
        let actions = std::mem::replace(&mut self.begin, end)..end;
        let told = Told { actions, launches: std::mem::take(&mut self.told) };
        self.late = 0;
        if launches.len() < FEWEST {
            // SAFETY: memory that this run holds, or gives to what comes later on the stream (likewise below).
            let launched = unsafe { launch_each(&mut launches, self.stream) };
            return told.end(run, launched).map(drop);
        }
        match Chain::of(self.device, launches) {
            Ok(mut chain) => {
                let launched = unsafe { chain.launch(self.stream) };
                if told.end(run, launched)? {
                    self.rows.push(Row { told, chain, is_lost: false });
                }
                Ok(())
            }
            Err(mut single) => {
                let launched = unsafe { launch_each(&mut single, self.stream) };
                told.end(run, launched).map(drop)
            }
        }
    }
}

fn go_through(run: &mut Run<'_>, rows: &mut Vec<Row>, stream: Stream) -> Result<(), RunError> {
    let mut at = 0;
    for row in rows.iter_mut() {
        one_by_one(run, at..row.told.actions.start)?;
        row.is_lost |= !row.perform(run, stream)?;
        at = row.told.actions.end;
    }
    rows.retain(|row| !row.is_lost);
    one_by_one(run, at..run.prepared.actions.len())
}

impl Row {
    /// False where the run does other things than those before it (arguments that lie at odd places, say).
    fn perform(&mut self, run: &mut Run<'_>, stream: Stream) -> Result<bool, RunError> {
        let (prepared, actions) = (run.prepared, self.told.actions.clone());
        self.chain.begin();
        for n in actions.clone() {
            let (action, told) = (&prepared.actions[n], self.chain.told());
            if makes_memory(action) {
                perform(run, action)?;
            } else if !lets_go(action) && !tells(run, action, &mut |what, words| self.chain.tell(what, words))? {
                self.chain.take_back(told);
                // SAFETY: memory that this run holds, or gives to what comes later on the stream (likewise below).
                let launched = unsafe { self.chain.launch(stream) };
                let launches = self.told.launches[..n - actions.start].to_vec();
                Told { actions: actions.start..n, launches }.end(run, launched)?;
                one_by_one(run, n..actions.end)?;
                return Ok(false);
            }
        }
        let launched = unsafe { self.chain.launch(stream) };
        self.told.end(run, launched)
    }
}

#[cfg(test)]
mod tests {
    use super::begun_with;

    #[test]
    fn an_action_is_found_by_its_first_launch() {
        // Memory is made, one launch, three, memory again, two.
        let ends = [0, 1, 4, 4, 6];
        let found: Vec<Option<usize>> = (0..7).map(|launch| begun_with(&ends, launch)).collect();
        assert_eq!(found, [Some(1), Some(2), None, None, Some(4), None, None]);
    }
}
