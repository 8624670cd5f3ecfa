//! Sizes that recur: a Plan with variables keeps its steps and its memory, and gets kernels that were compiled for the sizes of such
//! calls, one by one, while it runs on.
//!
//! - here: what is counted and asked for in a run, and what of it is swapped in.
//! - `promise`: for which kernels numbers in the place of variables are worth a compile.
//! - `worker`: the one thread that compiles.
//!
//! A kernel at some of its sizes is called like the general one and gives the same bits: so it does not matter which of both a launch
//! finds, and neither saved tensors, recordings nor known inputs need to be told.

mod promise;
mod worker;

use crate::exec::LoadedFn;
use ox_ir::{Kernel, Plan, Var};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
pub use worker::{Foreground, VariantCounts, counts, on_variant, wait};

/// Calls with the same sizes before they count as sizes that recur.
const RECURS: u32 = 32;

/// Lists of sizes with kernels of their own, for one Plan.
const MOST_VARIANTS: usize = 4;

/// Who compiles a kernel for sizes. None if that fails: the general one goes on.
pub trait Specialise: Send + Sync {
    fn compile(&self, kernel: &Kernel) -> Option<LoadedFn>;
    /// All kernels of a variant are compiled.
    fn finish(&self);
}

/// What an Executable needs to ask for variants.
pub struct Variants {
    compiler: Arc<dyn Specialise>,
    /// One reference for itself and one for each variant that there is.
    places: Arc<()>,
}

/// The place of a kernel at the sizes of a Prepared.
pub type Place = Arc<OnceLock<LoadedFn>>;

/// What is known of a list of sizes.
#[derive(Default)]
pub struct Recurring {
    calls: AtomicU32,
    /// By number of the kernel in the Plan; empty for a Plan without variables.
    places: Vec<Place>,
    taken: OnceLock<Arc<()>>,
}

impl Recurring {
    pub fn new(plan: &Plan) -> Recurring {
        let kernels = if plan.sizes.is_empty() { 0 } else { plan.kernels.len() };
        Recurring { places: (0..kernels).map(|_| Place::default()).collect(), ..Recurring::default() }
    }

    pub fn place(&self, kernel: usize) -> Option<Place> {
        self.places.get(kernel).cloned()
    }

    /// Whether this call is the one that makes them sizes that recur.
    pub fn count(&self) -> bool {
        self.calls.load(Ordering::Relaxed) < RECURS && self.calls.fetch_add(1, Ordering::Relaxed) == RECURS - 1
    }

    /// There was no place for them: they may ask once more when they have come as often again.
    fn refused(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }
}

impl Variants {
    pub fn new(compiler: Arc<dyn Specialise>) -> Variants {
        Variants { compiler, places: Arc::default() }
    }

    /// Asks for kernels at these sizes. `work` says how much each kernel does in one run.
    pub fn ask(&self, plan: &Arc<Plan>, sizes: &[i64], recurring: &Recurring, work: &[i64]) {
        if Arc::strong_count(&self.places) > MOST_VARIANTS {
            recurring.refused();
            return;
        }
        let value = |var: &Var| plan.sizes.iter().position(|known| known == var).map(|n| sizes[n]);
        let is_wanted = |n: usize| promise::is_worth_it(&plan.kernels[n], work[n], &value);
        let wanted: Vec<usize> = (0..plan.kernels.len()).filter(|n| is_wanted(*n)).collect();
        if wanted.is_empty() || recurring.taken.set(self.places.clone()).is_err() {
            return;
        }
        let places = wanted.iter().map(|n| (*n, Arc::downgrade(&recurring.places[*n]))).collect();
        worker::push(worker::Job { plan: plan.clone(), sizes: sizes.into(), places, compiler: self.compiler.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_makes_sizes_recur() {
        let recurring = Recurring::default();
        let asked: Vec<u32> = (0..100).filter(|_| recurring.count()).collect();
        assert_eq!(asked, [RECURS - 1]);
    }

    struct Nobody;

    impl Specialise for Nobody {
        fn compile(&self, _: &Kernel) -> Option<LoadedFn> {
            None
        }

        fn finish(&self) {}
    }

    #[test]
    fn sizes_that_found_no_place_ask_again() {
        let variants = Variants::new(Arc::new(Nobody));
        let recurring = Recurring::default();
        let calls = || (0..RECURS).filter(|_| recurring.count()).count();
        let others: Vec<Arc<()>> = (0..MOST_VARIANTS).map(|_| variants.places.clone()).collect();
        let ask = || variants.ask(&Arc::default(), &[], &recurring, &[]);
        for asked in [1, 1, 1] {
            assert_eq!(calls(), asked);
            ask();
        }
        drop(others);
        assert_eq!(calls(), 1);
        ask();
        assert_eq!(calls(), 0);
    }

    #[test]
    fn a_plan_without_variables_has_no_places() {
        assert!(Recurring::new(&Plan::default()).place(0).is_none());
    }
}
