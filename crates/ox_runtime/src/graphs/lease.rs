//! Results that are handed out where a recording writes them. As long as anybody holds one (a view of it, a saved tensor, a capsule of another
//! library), its storage lives; when the storage goes, torch tells us.

use crate::error::RunError;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many storages are out.
#[derive(Clone, Default)]
pub struct Leases(Arc<AtomicUsize>);

/// What a storage holds on to.
pub struct Lease<T> {
    leases: Leases,
    /// The memory outlives its recording if need be.
    _memory: T,
}

impl Leases {
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    pub fn lease<T>(&self, memory: T) -> Lease<T> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Lease { leases: self.clone(), _memory: memory }
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.leases.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Lets `taker` have the owner, to be given back once. One that fails may have done so already, or never will.
pub fn hand_over<T, R>(owner: T, taker: impl FnOnce(*mut c_void) -> Result<R, RunError>) -> Result<R, RunError> {
    let own = Arc::new(owner);
    let theirs = Arc::into_raw(own.clone());
    let made = taker(theirs.cast_mut().cast());
    if made.is_err() && Arc::strong_count(&own) > 1 {
        // SAFETY: of `into_raw`, and not given back.
        drop(unsafe { Arc::from_raw(theirs) });
    }
    made
}

pub unsafe extern "C" fn give_back<T>(_: *mut c_void, owner: *mut c_void) {
    // SAFETY: of `hand_over`, given back once.
    drop(unsafe { Arc::from_raw(owner.cast_const().cast::<T>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Result<(), RunError> {
        Err(RunError::torch("no memory"))
    }

    #[test]
    fn a_lease_lasts_until_it_is_given_back() {
        let leases = Leases::default();
        let lease = hand_over(leases.lease(()), Ok).unwrap_or_else(|error| panic!("{error}"));
        assert!(leases.any());
        // SAFETY: given back once.
        unsafe { give_back::<Lease<()>>(std::ptr::null_mut(), lease) };
        assert!(!leases.any());
    }

    #[test]
    fn a_lease_that_nobody_took_is_over() {
        let leases = Leases::default();
        assert!(hand_over(leases.lease(()), |_| failed()).is_err());
        assert!(!leases.any());
    }

    #[test]
    fn a_lease_that_came_back_with_an_error_is_over_once() {
        let leases = Leases::default();
        let held = leases.lease(());
        let taker = |lease| {
            // SAFETY: given back once.
            unsafe { give_back::<Lease<()>>(std::ptr::null_mut(), lease) };
            failed()
        };
        assert!(hand_over(leases.lease(()), taker).is_err());
        assert!(leases.any());
        drop(held);
        assert!(!leases.any());
    }
}
