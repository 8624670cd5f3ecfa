//! Memory that a recording shares with the one that follows it: what a forward pass has saved is of no use behind the point at which the
//! backward pass has read it last, and what that pass allocates from then on lies there. So the two need as much as they do without
//! recordings, and no more. For that
//!
//! - the backward pass is recorded in the memory pool of the forward pass, and lets go of what was saved where its Plan says so;
//! - it is replayed only if nobody else holds what was saved (`Claim`): otherwise there is another recording, apart;
//! - the forward pass is replayed only if nobody holds results of either.

use super::capture::PoolId;
use super::lease::{Lease, Leases};
use super::loan::{Loan, out_at};
use crate::cuda::Stream;
use crate::error::RunError;
use crate::exec::job::Job;
use crate::exec::prepare::{Home, Output};
use crate::tensor::{Tensor, TensorRef};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub struct Group {
    /// Results of all its recordings that are out.
    pub leases: Leases,
    /// Whether one may follow. It is only one: behind it, nothing keeps the places of what was saved any more.
    is_open: AtomicBool,
    /// The first recording is gone: the one that follows it will never be replayed again.
    is_over: AtomicBool,
    /// The one that followed is gone: for another, the first must be made anew.
    is_spent: AtomicBool,
    /// The stream of the last replay of the one that follows: its results were used there.
    followed_on: Mutex<Option<Stream>>,
    /// The results of the one that follows, for tests on the CPU.
    following: Mutex<Vec<Weak<Loan>>>,
}

impl Group {
    pub fn new(shares: bool) -> Group {
        let (is_open, is_over, is_spent) = (AtomicBool::new(shares), AtomicBool::new(false), AtomicBool::new(false));
        Group {
            leases: Leases::default(),
            is_open,
            is_over,
            is_spent,
            followed_on: Mutex::default(),
            following: Mutex::default(),
        }
    }

    /// Whether the caller is the one that follows.
    pub fn join(&self) -> bool {
        self.is_open.swap(false, Ordering::AcqRel)
    }

    /// A recording is gone.
    pub fn leave(&self, follows: bool) {
        let gone = if follows { &self.is_spent } else { &self.is_over };
        gone.store(true, Ordering::Release);
    }

    /// Whether the recording that is asked for is of no more use without the other.
    pub fn is_over(&self, follows: bool) -> bool {
        let other = if follows { &self.is_over } else { &self.is_spent };
        other.load(Ordering::Acquire)
    }

    pub fn follow_on(&self, stream: Option<Stream>) {
        *self.followed_on.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    pub fn followed_on(&self) -> Option<Stream> {
        *self.followed_on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add_following(&self, loan: &Arc<Loan>) {
        self.following.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(loan));
    }

    /// As a replay of the first recording does on a GPU, where they lie in the same memory.
    pub fn spoil_following(&self) {
        let following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        following.iter().filter_map(Weak::upgrade).for_each(|loan| loan.spoil());
    }
}

/// What a call was given of a recording's results. Nobody replays that recording meanwhile.
pub struct Claim {
    loans: Vec<(usize, Arc<Loan>)>,
    /// Nobody else holds any of them, and their memory can be shared.
    pub is_whole: bool,
    _guard: Lease<()>,
}

impl Claim {
    /// Lets go of what is held, if it is known where to find it. What comes out of the call again stays with the caller.
    pub fn take(job: &Job<'_>, held: &mut [Option<Tensor>]) -> Option<Claim> {
        if held.is_empty() {
            return None;
        }
        let stays = lasting(job, held.len());
        let address = |n: &usize| job.inputs.get(*n).data_ptr().map_or(0, |data| data as usize);
        let given: Vec<usize> = (0..held.len()).filter(|n| held[*n].is_some() && !stays[*n]).collect();
        let found = out_at(given.iter().map(address));
        let mut loans: Vec<(usize, Arc<Loan>)> = given.into_iter().zip(found).filter_map(|(n, loan)| Some((n, loan?))).collect();
        let group = loans.first()?.1.group.clone();
        loans.retain(|(n, loan)| Arc::ptr_eq(&loan.group, &group) && loan.is_like(job.inputs.get(*n)));
        let guard = group.leases.lease(());
        loans.iter().for_each(|(n, _)| held[*n] = None);
        let is_whole =
            !loans.is_empty() && are_different(&loans) && loans.iter().all(|(_, loan)| !loan.is_out() && loan.can_be_shared());
        Some(Claim { loans, is_whole, _guard: guard })
    }

    /// All inputs of the call, with tensors that own nothing in the place of those that were let go.
    pub fn inputs<'a>(&'a self, job: &Job<'a>) -> Vec<TensorRef<'a>> {
        let mut all: Vec<TensorRef<'a>> = (0..job.prepared.inputs.len()).map(|n| job.inputs.get(n)).collect();
        self.loans.iter().for_each(|(n, loan)| all[*n] = loan.bare());
        all
    }

    pub fn group(&self) -> Option<&Arc<Group>> {
        self.loans.first().map(|(_, loan)| &loan.group)
    }

    pub fn pool(&self) -> Option<PoolId> {
        self.loans.first().and_then(|(_, loan)| loan.pool())
    }

    /// Whether one could be recorded in the same memory.
    pub fn can_be_followed(&self) -> bool {
        self.is_whole && self.group().is_some_and(|group| group.is_open.load(Ordering::Acquire))
    }

    /// Whether a recording with these inputs copied belongs to the one recording that the claim is on: what is copied may come from others.
    pub fn is_of_one(&self, moving: &[usize]) -> bool {
        self.is_whole && !self.loans.iter().any(|(n, _)| moving.contains(n))
    }

    /// For a recording that shares the memory: it lets go of these.
    pub fn memory(&self, inputs: usize) -> Vec<Option<Tensor>> {
        let mut memory: Vec<Option<Tensor>> = (0..inputs).map(|_| None).collect();
        self.loans.iter().for_each(|(n, loan)| memory[*n] = loan.take_memory());
        memory
    }

    pub fn loans(&self) -> impl Iterator<Item = &Arc<Loan>> {
        self.loans.iter().map(|(_, loan)| loan)
    }

    /// For a call that is done without recordings.
    pub fn give_back(&self, held: &mut [Option<Tensor>]) -> Result<(), RunError> {
        for (n, loan) in &self.loans {
            held[*n] = loan.lend()?;
        }
        Ok(())
    }
}

fn are_different(loans: &[(usize, Arc<Loan>)]) -> bool {
    let mut all: Vec<*const Loan> = loans.iter().map(|(_, loan)| Arc::as_ptr(loan)).collect();
    all.sort_unstable();
    all.windows(2).all(|two| two[0] != two[1])
}

/// By input: the call writes it, or it is a result, or a view of it is.
fn lasting(job: &Job<'_>, inputs: usize) -> Vec<bool> {
    let mut lasting = vec![false; inputs];
    let home = |buf: usize| match job.prepared.buffers[buf].home {
        Home::Input(n) => Some(n),
        _ => None,
    };
    let returned = job.prepared.outputs.iter().filter_map(|output| match output {
        Output::Buffer(buf) => home(*buf),
        Output::View { window, .. } => home(window.buf),
        Output::InputView { input, .. } => Some(*input),
    });
    let written = job.prepared.write_backs.iter().map(|write| write.input);
    returned.chain(written).filter(|n| *n < inputs).for_each(|n| lasting[n] = true);
    lasting
}
