//! Writes that compiled graphs make by way of `.data`. Autograd does not count them; whoever computes a call again of its inputs, or copies back what was
//! written to a copy, has to know.

use pyo3::intern;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, PoisonError};

/// All of them until now.
static WRITES: AtomicI64 = AtomicI64::new(0);
/// By where the memory begins, which of them was the last. Others may have lain there then: asked is for those since a moment when one was there already.
static LAST: LazyLock<Mutex<FxHashMap<usize, i64>>> = LazyLock::new(Mutex::default);

/// The tensor is about to be written.
pub fn note(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let memory = memory_of(tensor)?;
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    last.insert(memory, WRITES.fetch_add(1, Relaxed) + 1);
    Ok(())
}

/// This moment, for `is_written_since`.
pub fn now() -> i64 {
    WRITES.load(Relaxed)
}

/// Whether what lies in the tensor's memory was written so since then.
pub fn is_written_since(tensor: &Bound<'_, PyAny>, then: i64) -> PyResult<bool> {
    if now() == then {
        return Ok(false);
    }
    let memory = memory_of(tensor)?;
    Ok(LAST.lock().unwrap_or_else(PoisonError::into_inner).get(&memory).is_some_and(|last| *last > then))
}

fn memory_of(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = tensor.py();
    tensor.call_method0(intern!(py, "untyped_storage"))?.call_method0(intern!(py, "data_ptr"))?.extract()
}
