//! Writes that compiled graphs make by way of `.data`. Autograd does not count them; whoever computes a call again of its inputs, or copies back what was
//! written to a copy, has to know.

use pyo3::intern;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, PoisonError};

/// By where the memory begins. It goes on counting if other tensors come to lie there: asked is how much was added while one of them did.
static COUNTS: LazyLock<Mutex<FxHashMap<usize, i64>>> = LazyLock::new(Mutex::default);
static ANY: AtomicBool = AtomicBool::new(false);

/// The tensor is about to be written.
pub fn note(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let memory = memory_of(tensor)?;
    ANY.store(true, Relaxed);
    *COUNTS.lock().unwrap_or_else(PoisonError::into_inner).entry(memory).or_default() += 1;
    Ok(())
}

/// How often what lies in its memory was written so.
pub fn count(tensor: &Bound<'_, PyAny>) -> PyResult<i64> {
    if !ANY.load(Relaxed) {
        return Ok(0);
    }
    let memory = memory_of(tensor)?;
    Ok(COUNTS.lock().unwrap_or_else(PoisonError::into_inner).get(&memory).copied().unwrap_or_default())
}

fn memory_of(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = tensor.py();
    tensor.call_method0(intern!(py, "untyped_storage"))?.call_method0(intern!(py, "data_ptr"))?.extract()
}
