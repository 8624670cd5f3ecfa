//! Writes to a part of what the same call reads (`y[1:].add_(y[:-1])`). torch refuses most of them, and shadows, which have no memory, accept them. So
//! torch does what it may refuse, on the tensors themselves: an exception comes where the program writes.

use super::graph::{NotRecorded, Recorded, tensors_in};
use super::memory::memory_of;
use super::order::dims_of;
use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

const PARTIAL: &str = "which writes a part of what it reads";

/// The bytes of a tensor that fills a part of its storage without gaps.
struct Extent {
    begin: i64,
    end: i64,
    strides: Vec<i64>,
}

impl Extent {
    /// As torch judges it; of tensors with gaps it says nothing.
    fn is_partly(&self, other: &Extent) -> bool {
        let is_same = (self.begin, self.end, &self.strides) == (other.begin, other.end, &other.strides);
        self.begin < other.end && other.begin < self.end && !is_same
    }
}

pub(super) fn refuse_partial_overlaps(name: &str, written: &[Obj], args: &[Obj], kwargs: &Bound<'_, PyDict>) -> Recorded<()> {
    let mut read: Vec<Obj> =
        args.iter().flat_map(tensors_in).chain(kwargs.values().iter().flat_map(|arg| tensors_in(&arg.into()))).collect();
    read.retain(|tensor| types().is_tensor(tensor) && !written.iter().any(|other| other.is(tensor)));
    if written.is_empty() || read.is_empty() {
        return Ok(());
    }
    let mut extents: FxHashMap<usize, Vec<Extent>> = FxHashMap::default();
    for tensor in target(name, written, args).iter().filter(|tensor| types().is_tensor(tensor)) {
        if let Some(extent) = extent(tensor)? {
            extents.entry(memory_of(tensor)?).or_default().push(extent);
        }
    }
    for tensor in &read {
        let Some(written) = extents.get(&memory_of(tensor)?) else { continue };
        if extent(tensor)?.is_some_and(|extent| written.iter().any(|written| written.is_partly(&extent))) {
            return Err(NotRecorded::ByTorch(PARTIAL));
        }
    }
    Ok(())
}

/// What is written to: a part of it where an index without tensors says which.
fn target(name: &str, written: &[Obj], args: &[Obj]) -> Vec<Obj> {
    match (name, args) {
        ("__setitem__" | "setitem", [of, index, _]) if tensors_in(index).is_empty() => {
            of.bind().get_item(index.bind()).map(|part| vec![part.into()]).quiet().unwrap_or_default()
        }
        ("__setitem__" | "setitem", _) => Vec::new(),
        _ => written.to_vec(),
    }
}

/// None of what is empty or has gaps.
fn extent(tensor: &Obj) -> PyResult<Option<Extent>> {
    let (sizes, strides) = dims_of(tensor)?;
    let mut dims: Vec<(i64, i64)> = strides.iter().copied().zip(sizes.iter().copied()).filter(|(_, size)| *size != 1).collect();
    dims.sort_unstable();
    let mut count = 1;
    let is_dense = dims.iter().all(|(stride, size)| {
        let fits = *stride == count;
        count *= size;
        fits
    });
    if !is_dense || count == 0 {
        return Ok(None);
    }
    let number = |name: &str| tensor.bind().call_method0(name)?.extract::<i64>();
    let (offset, bytes) = (number("storage_offset")?, number("element_size")?);
    Ok(Some(Extent { begin: offset * bytes, end: (offset + count) * bytes, strides }))
}
