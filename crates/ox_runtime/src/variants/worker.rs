//! The thread that compiles variants: one at most, of a low priority, that waits while somebody else compiles, and is gone when
//! there is nothing to do. It knows nothing of Python and holds nothing of a run but the places that it fills.

use super::Specialise;
use crate::background::{self, Gate};
use crate::exec::LoadedFn;
use ox_ir::failure::guarded;
use ox_ir::{Plan, Var};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

pub(super) struct Job {
    pub plan: Arc<Plan>,
    pub sizes: Box<[i64]>,
    /// Kernels by number, and where they go: nowhere, if nobody has these sizes any more.
    pub places: Vec<(usize, Weak<OnceLock<LoadedFn>>)>,
    pub compiler: Arc<dyn Specialise>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
    counts: VariantCounts,
}

/// What the process has made so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VariantCounts {
    /// Lists of sizes that got kernels of their own.
    pub variants: usize,
    pub kernels: usize,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { jobs: VecDeque::new(), running: false, counts: VariantCounts { variants: 0, kernels: 0 } });
static IDLE: Condvar = Condvar::new();
static FOREGROUND: AtomicUsize = AtomicUsize::new(0);
static LISTENER: OnceLock<fn(&str)> = OnceLock::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives somebody waits for a compile: the worker begins no other.
pub struct Foreground(());

impl Foreground {
    pub fn enter() -> Foreground {
        background::prepare();
        FOREGROUND.fetch_add(1, Ordering::AcqRel);
        Foreground(())
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        FOREGROUND.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Who is told of each variant, from the worker's thread.
pub fn on_variant(listener: fn(&str)) {
    // The first one stays.
    let _ = LISTENER.set(listener);
}

pub fn counts() -> VariantCounts {
    if background::is_child() { VariantCounts::default() } else { queue().counts }
}

/// Until all that was asked for is done.
pub fn wait() {
    if !background::is_child() {
        drop(IDLE.wait_while(queue(), |queue| queue.running).unwrap_or_else(PoisonError::into_inner));
    }
}

/// A child of `fork` has no worker, and the queue may be locked by a thread that it has not: it does without.
pub(super) fn push(job: Job) {
    if background::is_child() {
        return;
    }
    let mut queue = queue();
    queue.jobs.push_back(job);
    if !queue.running {
        let spawned = std::thread::Builder::new().name("oxytorch variants".into()).spawn(work);
        queue.running = spawned.is_ok();
        if spawned.is_err() {
            queue.jobs.clear();
        }
    }
}

fn work() {
    background::lower_priority();
    loop {
        let job = {
            let mut queue = queue();
            let job = queue.jobs.pop_front().filter(|_| !background::is_ending());
            if job.is_none() {
                queue.running = false;
                IDLE.notify_all();
            }
            job
        };
        let Some(job) = job else { return };
        // A bug costs this variant: the general kernels go on.
        let kernels = guarded(|| job.run()).unwrap_or(0);
        let mut queue = queue();
        queue.counts.variants += usize::from(kernels > 0);
        queue.counts.kernels += kernels;
    }
}

impl Job {
    /// How many kernels were swapped in.
    fn run(&self) -> usize {
        let made = self.places.iter().filter(|(kernel, place)| self.make(*kernel, place)).count();
        // It looks at what is loaded, under a lock of the loader's.
        let gate = Gate::enter();
        if gate.is_some() {
            self.compiler.finish();
        }
        if let Some(tell) = LISTENER.get().filter(|_| made > 0) {
            tell(&self.describe(made));
        }
        made
    }

    fn make(&self, kernel: usize, place: &Weak<OnceLock<LoadedFn>>) -> bool {
        while FOREGROUND.load(Ordering::Acquire) > 0 && !background::is_ending() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if place.strong_count() == 0 {
            return false;
        }
        let value = |var: &Var| self.plan.sizes.iter().position(|known| known == var).map(|n| self.sizes[n]);
        let Some(bound) = self.plan.kernels[kernel].at(&value) else { return false };
        let compiled = Gate::enter().and_then(|_gate| self.compiler.compile(&bound));
        compiled.zip(place.upgrade()).is_some_and(|(function, place)| place.set(function).is_ok())
    }

    fn describe(&self, made: usize) -> String {
        let place = self.plan.locations.iter().find(|line| !line.is_empty()).map_or("", String::as_str);
        let sizes: Vec<String> = self.plan.sizes.iter().zip(&self.sizes).map(|(var, size)| format!("{var} = {size}")).collect();
        format!("{place}: {made} kernels for {}", sizes.join(", "))
    }
}
