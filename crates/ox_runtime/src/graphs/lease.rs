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
struct Lease {
    leases: Leases,
    /// The memory outlives its recording if need be.
    _memory: Tensor,
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
        let lease = Box::into_raw(Box::new(Lease { leases: self.clone(), _memory: tensor.to_owned()? }));
        self.0.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the memory lives as long as the lease, which torch gives back once; layout 0 is strided, no opaque metadata.
        let made = make("from_blob", |out| unsafe {
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
                Some(give_back),
                lease.cast(),
            )
        });
        made.map(Some)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.0.fetch_sub(1, Ordering::AcqRel);
    }
}

unsafe extern "C" fn give_back(_: *mut c_void, lease: *mut c_void) {
    // SAFETY: made by `lend`, given back once.
    drop(unsafe { Box::from_raw(lease.cast::<Lease>()) });
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
