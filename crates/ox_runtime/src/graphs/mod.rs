//! `mode="reduce-overhead"`: the work of a call is recorded as a CUDA graph, which later calls launch at once.
//!
//! - `book`: which calls are recorded and which are replayed; knows nothing of GPUs.
//! - `capture`: a recording from its beginning to its end, whatever happens in between.
//! - `recording`: what is recorded, and its replay.
//! - `lease`, `loan`: results that the caller holds are not overwritten.
//! - `group`: a forward and a backward pass in the same memory.
//! - `device`: what the recordings of one GPU share.
//! - `order`: a replay on another stream than the last.
//!
//! Inputs that stay where they are (weights above all) are part of a recording; others are copied to a place of its own. A replay calls no
//! Python and waits for nothing, but where torch's generator or autograd must be told of it.

mod book;
mod capture;
mod device;
mod group;
mod lease;
mod loan;
mod order;
mod recording;

pub use capture::{Capture, Captured, PoolId};

use crate::error::RunError;
use crate::exec::job::Job;
use crate::tensor::{Tensor, TensorRef};
use book::{Book, Call, Turn};
use group::Claim;
use ox_ir::failure::{Panic, guarded};
use recording::{Asked, Recording};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

/// What is known of a Plan's calls before the first.
#[derive(Clone, Debug, Default)]
pub struct GraphSettings {
    /// By input: it is a parameter or a buffer of a module, which is never copied. Those behind the last are, too.
    pub weights: Vec<bool>,
    /// So many of the results are the user's; the others only go on to a backward pass.
    pub visible: usize,
    /// On the CPU, where replays are the steps themselves: for tests.
    pub emulated: bool,
}

use GraphSettings as Settings;

impl GraphSettings {
    /// What counts as small in tests is smaller.
    fn small(&self, bytes: usize) -> usize {
        if self.emulated { 64 } else { bytes }
    }

    fn is_weight(&self, input: usize) -> bool {
        self.weights.get(input).copied().unwrap_or(!self.weights.is_empty())
    }
}

/// What became of the recordings of a Plan, in words.
#[derive(Clone, Debug, Default)]
pub struct GraphStatus(Arc<Mutex<String>>);

impl GraphStatus {
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// The recordings of a Plan, for all calls or for those that are bound to the same inputs.
pub struct Graphs {
    settings: Settings,
    status: GraphStatus,
    /// The inputs that may lie elsewhere in another call; None for all.
    watched: Option<Vec<usize>>,
    book: Mutex<Book<Recording>>,
    /// Why a call could not be recorded, whatever it was bound to. Those that are bound later do not try again.
    failed: Arc<OnceLock<String>>,
}

impl Graphs {
    /// `never` is why nothing can be recorded, where that is known.
    pub fn new(settings: Settings, never: Option<&str>) -> Graphs {
        let status = GraphStatus::default();
        status.set(never.map_or("not called often enough yet".into(), |why| format!("refused: {why}")));
        Graphs { settings, status, watched: None, book: Mutex::default(), failed: Arc::default() }
    }

    /// For calls in which all other inputs stay where they are. They take the place of those that were recorded before that was known.
    pub fn bound(&self, watched: Vec<usize>) -> Graphs {
        if let Ok(mut book) = self.book.try_lock() {
            book.forget();
        }
        let mut book = Book::default();
        if let Some(why) = self.failed.get() {
            book.refuse(why.clone());
        }
        let (settings, status, failed) = (self.settings.clone(), self.status.clone(), self.failed.clone());
        Graphs { settings, status, watched: Some(watched), book: Mutex::new(book), failed }
    }

    pub fn status(&self) -> &GraphStatus {
        &self.status
    }

    /// Does a call. Where another thread is in the book, or somebody records what we launch, it is done as without graphs.
    pub fn run(&self, job: &Job<'_>, mut held: Vec<Option<Tensor>>) -> Result<Vec<Tensor>, RunError> {
        let mut book = match self.book.try_lock() {
            Ok(book) => book,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return job.run_plainly(held),
        };
        if book.refusal().is_some() || job.is_being_recorded() {
            drop(book);
            return job.run_plainly(held);
        }
        let claim = Claim::take(job, &mut held);
        let outcome = match (&job.prepared.graphable.never, &claim) {
            (Some(why), _) => Err(RunError::torch(why.clone())),
            (None, None) => self.turn(job, &mut book, None),
            (None, Some(claim)) => self.turn(&job.with_inputs(&claim.inputs(job)), &mut book, Some(claim)),
        };
        let why = match outcome {
            Ok(Some(results)) => return results,
            Ok(None) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = &why {
            self.give_up(&mut book, why);
        }
        drop(book);
        if let Some(why) = why {
            job.note_graphs(&format!("{} is not recorded: {why}", job.describe()));
        }
        run_without(job, claim, held)
    }

    fn give_up(&self, book: &mut Book<Recording>, why: &str) {
        book.refuse(why.into());
        self.status.set(format!("refused: {why}"));
        // An earlier reason stays.
        let _ = self.failed.set(why.into());
    }

    /// None for a call that is done plainly; an error if it could not be recorded.
    fn turn(
        &self,
        job: &Job<'_>,
        book: &mut Book<Recording>,
        claim: Option<&Claim>,
    ) -> Result<Option<Result<Vec<Tensor>, RunError>>, RunError> {
        let mut addresses = self.addresses(job)?;
        let inputs = addresses.len();
        // Part of the key, as if they were addresses of inputs that stay where they are.
        addresses.push(usize::from(claim.is_some_and(|claim| claim.is_whole)));
        addresses.push(job.executable.abi.recording_settings() as usize);
        let input = |n: usize| self.watched.as_ref().map_or(n, |watched| watched[n]);
        let is_fixed = |n: usize| self.settings.is_weight(input(n)) || job.writes(input(n)) || loan::is_lent(addresses[n]);
        let is_pinned = |n: usize| n >= inputs || is_fixed(n);
        let layout = |n: usize| job.prepared.inputs.get(input(n)).and_then(Option::as_ref);
        let is_large = |n: usize| n < inputs && layout(n).is_some_and(|layout| recording::bytes(layout) > recording::SMALL);
        let follows = claim.is_some_and(Claim::can_be_followed);
        let call = Call { sizes: job.sizes, addresses: &addresses, is_pinned: &is_pinned, is_large: &is_large, follows };
        let place = match book.turn(&call) {
            Turn::Plain => {
                device::expect(job.prepared.arena_bytes, job.device);
                return Ok(None);
            }
            Turn::Replay(place) => place,
            Turn::Record(wanted) => {
                let Some(_recorder) = device::recorder() else { return Ok(None) };
                let moving: Vec<usize> = (0..inputs).filter(|n| wanted.moving[*n] && addresses[*n] != 0).map(input).collect();
                let asked = Asked { lends: wanted.lends, shares: wanted.shares, claim };
                let recording = Recording::make(job, &self.settings, &moving, asked)?;
                let follows = recording.follows();
                let place = book.add(wanted, recording);
                self.tell(job, book, moving.len(), follows);
                place
            }
        };
        let replay = || book.get_mut(place).replay(job);
        let results = guarded(replay).unwrap_or_else(|Panic(text)| Err(RunError::Spent(Box::new(RunError::Bug(text)))));
        Ok(Some(results.and_then(|tensors| job.tell_written().map(|()| tensors))))
    }

    fn tell(&self, job: &Job<'_>, book: &Book<Recording>, copied: usize, follows: bool) {
        self.status.set(match book.refusal() {
            Some(why) => format!("refused: {why}"),
            None => format!("recorded {} times; of the inputs {copied} are copied", book.len()),
        });
        let place = if follows { " in the memory of the recording that it follows" } else { "" };
        job.note_graphs(&format!("recorded {}{place}; {book}", job.describe()));
    }

    /// 0 for inputs that the Plan does not read.
    fn addresses(&self, job: &Job<'_>) -> Result<Vec<usize>, RunError> {
        let address = |n: usize| match job.prepared.inputs.get(n) {
            Some(Some(_)) => job.inputs.get(n).data_ptr().map(|data| data as usize),
            _ => Ok(0),
        };
        match &self.watched {
            Some(watched) => watched.iter().map(|n| address(*n)).collect(),
            None => (0..job.prepared.inputs.len()).map(address).collect(),
        }
    }
}

/// The call as without graphs, with all that it was given.
fn run_without(job: &Job<'_>, claim: Option<Claim>, mut held: Vec<Option<Tensor>>) -> Result<Vec<Tensor>, RunError> {
    let Some(claim) = claim else { return job.run_plainly(held) };
    claim.give_back(&mut held)?;
    drop(claim);
    let inputs: Vec<TensorRef<'_>> = (0..job.prepared.inputs.len())
        .map(|n| match held.get(n).and_then(Option::as_ref) {
            // SAFETY: the run holds the tensor until the Plan drops it, and nothing behind that names it.
            Some(tensor) => unsafe { TensorRef::from_handle(tensor.as_ref().handle()) },
            None => job.inputs.get(n),
        })
        .collect();
    job.with_inputs(&inputs).run_plainly(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(graphs: &Graphs) -> Option<String> {
        graphs.book.lock().unwrap_or_else(PoisonError::into_inner).refusal().map(str::to_string)
    }

    fn give_up(graphs: &Graphs) {
        graphs.give_up(&mut graphs.book.lock().unwrap_or_else(PoisonError::into_inner), "it waits");
    }

    #[test]
    fn what_could_not_be_recorded_is_not_tried_again_by_those_that_are_bound_later() {
        let all = Graphs::new(Settings::default(), None);
        let (one, two) = (all.bound(vec![0]), all.bound(vec![0]));
        give_up(&one);
        assert_eq!(refusal(&all.bound(vec![0])).as_deref(), Some("it waits"));
        assert_eq!(refusal(&one.bound(vec![0])).as_deref(), Some("it waits"));
        assert_eq!(refusal(&two), None);
    }

    /// Where addresses change too often, it helps to be bound.
    #[test]
    fn a_book_that_was_of_no_use_is_not_held_against_others() {
        let all = Graphs::new(Settings::default(), None);
        all.book.lock().unwrap_or_else(PoisonError::into_inner).refuse("too many".into());
        assert_eq!(refusal(&all.bound(vec![0])), None);
    }
}
