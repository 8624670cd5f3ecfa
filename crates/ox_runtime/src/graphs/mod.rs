//! `mode="reduce-overhead"`: the work of a call is recorded as a CUDA graph, which later calls launch at once.
//!
//! - `book`: which calls are recorded and which are replayed; knows nothing of GPUs.
//! - `capture`: a recording from its beginning to its end, whatever happens in between.
//! - `recording`: what is recorded, and its replay.
//! - `lease`: results that the caller holds are not overwritten.
//! - `device`: what the recordings of one GPU share.
//! - `order`: a replay on another stream than the last.
//!
//! Inputs that stay where they are (weights above all) are part of a recording; others are copied to a place of its own. A replay calls no
//! Python and waits for nothing, but where torch's generator or autograd must be told of it.

mod book;
mod capture;
mod device;
mod lease;
mod order;
mod recording;

pub use capture::{Capture, Captured};

use crate::error::RunError;
use crate::exec::job::Job;
use crate::tensor::Tensor;
use book::{Book, Call, Turn};
use ox_ir::failure::{Panic, guarded};
use recording::Recording;
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
    pub fn run(&self, job: &Job<'_>, held: Vec<Option<Tensor>>) -> Result<Vec<Tensor>, RunError> {
        let mut book = match self.book.try_lock() {
            Ok(book) => book,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return job.run_plainly(held),
        };
        if book.refusal().is_some() || job.is_being_recorded() {
            drop(book);
            return job.run_plainly(held);
        }
        let outcome = match &job.prepared.graphable.never {
            Some(why) => Err(RunError::torch(why.clone())),
            None => self.turn(job, &mut book),
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
        job.run_plainly(held)
    }

    fn give_up(&self, book: &mut Book<Recording>, why: &str) {
        book.refuse(why.into());
        self.status.set(format!("refused: {why}"));
        // An earlier reason stays.
        let _ = self.failed.set(why.into());
    }

    /// None for a call that is done plainly; an error if it could not be recorded.
    fn turn(&self, job: &Job<'_>, book: &mut Book<Recording>) -> Result<Option<Result<Vec<Tensor>, RunError>>, RunError> {
        let addresses = self.addresses(job)?;
        let input = |n: usize| self.watched.as_ref().map_or(n, |watched| watched[n]);
        let is_pinned = |n: usize| self.settings.is_weight(input(n)) || job.writes(input(n)) || lease::is_lent(addresses[n]);
        let place = match book.turn(&Call { sizes: job.sizes, addresses: &addresses, is_pinned: &is_pinned }) {
            Turn::Plain => return Ok(None),
            Turn::Replay(place) => place,
            Turn::Record(wanted) => {
                let Some(_recorder) = device::recorder() else { return Ok(None) };
                let moving: Vec<usize> =
                    (0..addresses.len()).filter(|n| wanted.moving[*n] && addresses[*n] != 0).map(input).collect();
                let recording = Recording::make(job, &self.settings, &moving, wanted.lends)?;
                let place = book.add(wanted, recording);
                self.tell(job, book, moving.len());
                place
            }
        };
        let replay = || book.get_mut(place).replay(job);
        let results = guarded(replay).unwrap_or_else(|Panic(text)| Err(RunError::Spent(Box::new(RunError::Bug(text)))));
        Ok(Some(results.and_then(|tensors| job.tell_written().map(|()| tensors))))
    }

    fn tell(&self, job: &Job<'_>, book: &Book<Recording>, copied: usize) {
        self.status.set(match book.refusal() {
            Some(why) => format!("refused: {why}"),
            None => format!("recorded {} times; of the inputs {copied} are copied", book.len()),
        });
        job.note_graphs(&format!("recorded {}; {book}", job.describe()));
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
