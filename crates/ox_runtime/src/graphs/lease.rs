//! Results that are handed out where a recording writes them. As long as anybody holds one (a view of it, a saved tensor, a capsule of another
//! library), its storage lives; when the storage goes, torch tells us.

use crate::abi::abi;
use crate::error::RunError;
use crate::tensor::{Tensor, make};
use ox_ir::Device;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many storages are out.
#[derive(Clone, Default)]
pub struct Leases(Arc<AtomicUsize>);

/// What a storage holds on to.
struct Lease<T> {
    leases: Leases,
    /// The memory outlives its recording if need be.
    _memory: T,
}

impl Leases {
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// A new tensor, with a storage of its own, on the memory of `owner`. None where this torch cannot tell when a storage goes.
    pub fn lend(&self, owner: &Tensor, device: Device) -> Result<Option<Tensor>, RunError> {
        let abi = abi()?;
        let Some(from_blob) = abi.torch_from_blob else { return Ok(None) };
        let tensor = owner.as_ref();
        let (sizes, strides, data) = (tensor.sizes()?, tensor.strides()?, tensor.data_ptr()?);
        let dtype = tensor.dtype()?.ok_or_else(|| RunError::bug("a result of a type that we have no name for"))?;
        let (kind, index) = abi.device(device).ok_or_else(|| RunError::bug("a tensor on a device that we do not know"))?;
        // SAFETY: the memory lives as long as the lease, which torch gives back once; layout 0 is strided, no opaque metadata.
        let blob = |lease| {
            make("from_blob", |out| unsafe {
                from_blob(
                    data.cast(),
                    sizes.len() as i64,
                    sizes.as_ptr(),
                    strides.as_ptr(),
                    0,
                    abi.dtype(dtype),
                    kind,
                    index,
                    out,
                    0,
                    std::ptr::null(),
                    0,
                    Some(give_back::<Lease<Tensor>>),
                    lease,
                )
            })
        };
        hand_over(self.lease(tensor.to_owned()?), blob).map(Some)
    }

    fn lease<T>(&self, memory: T) -> Lease<T> {
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
fn hand_over<T, R>(owner: T, taker: impl FnOnce(*mut c_void) -> Result<R, RunError>) -> Result<R, RunError> {
    let own = Arc::new(owner);
    let theirs = Arc::into_raw(own.clone());
    let made = taker(theirs.cast_mut().cast());
    if made.is_err() && Arc::strong_count(&own) > 1 {
        // SAFETY: of `into_raw`, and not given back.
        drop(unsafe { Arc::from_raw(theirs) });
    }
    made
}

unsafe extern "C" fn give_back<T>(_: *mut c_void, owner: *mut c_void) {
    // SAFETY: of `hand_over`, given back once.
    drop(unsafe { Arc::from_raw(owner.cast_const().cast::<T>()) });
}

/// Memory that recordings lend out: from where to where, and by how many.
static LENT: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// An entry of it.
pub struct Known(usize);

impl Known {
    pub fn new(start: usize, bytes: usize) -> Known {
        let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
        let (end, users) = lent.entry(start).or_insert((start + bytes, 0));
        (*end, *users) = ((*end).max(start + bytes), *users + 1);
        Known(start)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, users)) = lent.get_mut(&self.0) {
            *users -= 1;
            if *users == 0 {
                lent.remove(&self.0);
            }
        }
    }
}

/// Whether a recording writes its results there, in every replay at the same place.
pub fn is_lent(address: usize) -> bool {
    let lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    lent.range(..=address).next_back().is_some_and(|(_, (end, _))| address < *end)
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

    #[test]
    fn memory_is_known_as_long_as_somebody_lends_it() {
        let start = usize::MAX / 2;
        let (one, two) = (Known::new(start, 16), Known::new(start, 8));
        assert!(is_lent(start) && is_lent(start + 15) && !is_lent(start + 16) && !is_lent(start - 1));
        drop(one);
        assert!(is_lent(start));
        drop(two);
        assert!(!is_lent(start));
    }
}
