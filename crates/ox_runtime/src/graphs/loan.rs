//! One result of a recording: where it lies, and whether anybody has it. All of them are known by their addresses: what comes as an input of
//! another recording lies there in every call.

use super::capture::{Captured, PoolId};
use super::group::Group;
use super::lease::{Lease, Leases, give_back, hand_over};
use crate::abi::abi;
use crate::error::RunError;
use crate::exec::layout::Layout;
use crate::tensor::{Tensor, TensorRef, make};
use ox_ir::Device;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub struct Loan {
    data: *mut u8,
    layout: Layout,
    device: Device,
    /// A tensor there that owns nothing.
    bare: Tensor,
    /// What keeps the place for torch's allocator: the backward recording that shares the memory lets go of it.
    memory: Mutex<Option<Tensor>>,
    /// Holds the memory, whoever has the place.
    keeper: Option<Arc<dyn Captured>>,
    /// Those of this result, of its recording, and of all recordings that share the memory.
    out: Leases,
    recording: Leases,
    pub group: Arc<Group>,
    follows: bool,
}

// SAFETY: plain memory; who reads and writes it when is what leases are for.
unsafe impl Send for Loan {}
unsafe impl Sync for Loan {}

impl Loan {
    /// `follows`: the recording shares the memory of another, whose results lie there, too, at other times.
    pub fn new(
        memory: Tensor,
        layout: &Layout,
        device: Device,
        keeper: Option<Arc<dyn Captured>>,
        recording: &Leases,
        group: &Arc<Group>,
        follows: bool,
    ) -> Result<Loan, RunError> {
        let (data, layout) = (memory.as_ref().data_ptr()?, layout.clone());
        // SAFETY: it is read only while the loan lives.
        let bare = unsafe { Tensor::from_memory(data, &layout.sizes, &layout.strides, layout.dtype, device)? };
        let (memory, out) = (Mutex::new(Some(memory)), Leases::default());
        let (recording, group) = (recording.clone(), group.clone());
        Ok(Loan { data, layout, device, bare, memory, keeper, out, recording, group, follows })
    }

    /// A new tensor, with a storage of its own, at the place. None where this torch cannot tell when a storage goes.
    pub fn lend(self: &Arc<Loan>) -> Result<Option<Tensor>, RunError> {
        let abi = abi()?;
        let Some(from_blob) = abi.torch_from_blob else { return Ok(None) };
        let (kind, index) = abi.device(self.device).ok_or_else(|| RunError::bug("a tensor on a device that we do not know"))?;
        let Layout { dtype, sizes, strides } = &self.layout;
        type Nested = Lease<Lease<Lease<Arc<Loan>>>>;
        // SAFETY: the memory lives as long as the lease, which torch gives back once; layout 0 is strided, no opaque metadata.
        let blob = |lease| {
            make("from_blob", |out| unsafe {
                from_blob(
                    self.data.cast(),
                    sizes.len() as i64,
                    sizes.as_ptr(),
                    strides.as_ptr(),
                    0,
                    abi.dtype(*dtype),
                    kind,
                    index,
                    out,
                    0,
                    std::ptr::null(),
                    0,
                    Some(give_back::<Nested>),
                    lease,
                )
            })
        };
        let nested: Nested = self.out.lease(self.recording.lease(self.group.leases.lease(self.clone())));
        hand_over(nested, blob).map(Some)
    }

    /// Whether anybody has it.
    pub fn is_out(&self) -> bool {
        self.out.any()
    }

    pub fn bare(&self) -> TensorRef<'_> {
        self.bare.as_ref()
    }

    /// Whether a tensor at the place is the result itself, and no view of it.
    pub fn is_like(&self, tensor: TensorRef<'_>) -> bool {
        let is_same = || {
            Ok::<_, RunError>(
                tensor.dtype()? == Some(self.layout.dtype) && self.layout.is_like(tensor.sizes()?, tensor.strides()?),
            )
        };
        is_same().unwrap_or(false)
    }

    pub fn pool(&self) -> Option<PoolId> {
        self.keeper.as_ref().and_then(|keeper| keeper.pool())
    }

    /// Whether another recording may lie in its memory.
    pub fn can_be_shared(&self) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| keeper.pool().is_some())
    }

    /// What keeps the place, for whoever shares the memory from now on.
    pub fn take_memory(&self) -> Option<Tensor> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// For tests, on the CPU: what must not be read any more is overwritten.
    pub fn spoil(&self) {
        // SAFETY: so many bytes of memory of ours, on the CPU.
        unsafe { std::ptr::write_bytes(self.data, 0xff, self.bytes()) };
    }

    fn bytes(&self) -> usize {
        self.layout.bytes()
    }
}

/// By address: the results of recordings that have their memory for themselves, and of those that follow others. The results of one of these
/// kinds do not overlap.
static KNOWN: Mutex<[BTreeMap<usize, Vec<Arc<Loan>>>; 2]> = Mutex::new([BTreeMap::new(), BTreeMap::new()]);

/// An entry of it.
pub struct Known(Arc<Loan>);

impl Known {
    pub fn new(loan: Arc<Loan>) -> Known {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known[usize::from(loan.follows)].entry(loan.data as usize).or_default().push(loan.clone());
        Known(loan)
    }

    pub fn loan(&self) -> &Arc<Loan> {
        &self.0
    }
}

impl Drop for Known {
    /// The last reference goes behind the lock: it may take others with it.
    fn drop(&mut self) {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = &mut known[usize::from(self.0.follows)];
        if let Some(there) = of_kind.get_mut(&(self.0.data as usize)) {
            there.retain(|loan| !Arc::ptr_eq(loan, &self.0));
            if there.is_empty() {
                of_kind.remove(&(self.0.data as usize));
            }
        }
    }
}

/// Whether a recording writes its results there, in every replay at the same place.
pub fn is_lent(address: usize) -> bool {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let reaches = |loan: &Arc<Loan>| address < loan.data as usize + loan.bytes();
    known.iter().any(|kind| kind.range(..=address).next_back().is_some_and(|(_, loans)| loans.iter().any(reaches)))
}

/// The results that begin at these addresses and that somebody has.
pub fn out_at(addresses: impl Iterator<Item = usize>) -> Vec<Option<Arc<Loan>>> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let at = |address: usize| known.iter().filter_map(move |kind| kind.get(&address)).flatten().find(|loan| loan.is_out());
    addresses.map(|address| at(address).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::DType;

    fn loan(start: usize, bytes: i64, follows: bool) -> Arc<Loan> {
        let layout = Layout { dtype: DType::U8, sizes: [bytes].into_iter().collect(), strides: [1].into_iter().collect() };
        // SAFETY: nobody reads it, and where torch is missing nobody deletes it.
        let tensor = || unsafe { Tensor::from_raw(std::ptr::null_mut()) };
        Arc::new(Loan {
            data: start as *mut u8,
            layout,
            device: Device::Cpu,
            bare: tensor(),
            memory: Mutex::new(None),
            keeper: None,
            out: Leases::default(),
            recording: Leases::default(),
            group: Arc::new(Group::new(true)),
            follows,
        })
    }

    #[test]
    fn memory_is_known_as_long_as_somebody_lends_it() {
        let start = usize::MAX / 2;
        let (one, two) = (Known::new(loan(start, 16, false)), Known::new(loan(start, 8, false)));
        assert!(is_lent(start) && is_lent(start + 15) && !is_lent(start + 16) && !is_lent(start - 1));
        drop(one);
        assert!(is_lent(start + 7) && !is_lent(start + 8));
        drop(two);
        assert!(!is_lent(start));
    }

    /// The gradients of a recording that shares the memory of another lie where that one's results do.
    #[test]
    fn what_follows_hides_nothing() {
        let start = usize::MAX / 4;
        let _all =
            [(start, 1000, false), (start, 100, true), (start + 512, 100, true)].map(|(at, n, f)| Known::new(loan(at, n, f)));
        assert!(is_lent(start + 700) && is_lent(start + 999) && !is_lent(start + 1000));
    }

    #[test]
    fn only_what_is_out_is_found() {
        let start = usize::MAX / 8;
        let (one, two) = (Known::new(loan(start, 16, false)), Known::new(loan(start, 8, true)));
        assert!(out_at([start].into_iter())[0].is_none());
        let _out = two.loan().out.lease(());
        assert!(out_at([start].into_iter())[0].as_ref().is_some_and(|loan| Arc::ptr_eq(loan, two.loan())));
        assert!(!one.loan().is_out() && out_at([start + 1].into_iter())[0].is_none());
    }
}
