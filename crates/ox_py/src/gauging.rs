//! Where torch keeps the sizes, strides and type of a tensor in its body. As in `anatomy` each place is found once in a process, by tensors of
//! which torch tells what they are; where it does not come out, every tensor is asked through torch's functions.

use crate::anatomy::Anatomy;
use crate::tensor::Crossing;
use libloading::os::unix::Library;
use ox_capture::Found;
use ox_capture::{Body, ROOM};
use ox_runtime::TensorRef;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

static BODY: Found<Option<Body>> = Found::new();

/// None if this torch keeps things elsewhere.
pub fn body(py: Python<'_>) -> Option<Body> {
    *BODY.or_find(|| find(py).ok().flatten())
}

/// The type of a tensor as its body has it; 0 where no body is looked into.
pub fn number_of(handle: TensorRef<'_>) -> u16 {
    // SAFETY: a live tensor, and the place in its body.
    body(ox_capture::py()).map_or(0, |body| unsafe { number_at(handle.impl_ptr().cast(), body.number) })
}

/// # Safety
/// A live body that is longer than that.
unsafe fn number_at(body: *const usize, byte: usize) -> u16 {
    // SAFETY: the caller's word.
    unsafe { body.cast::<u8>().add(byte).cast::<u16>().read_unaligned() }
}

/// A tensor with its sizes, its type and that type's number.
struct Probe<'py> {
    tensor: Bound<'py, PyAny>,
    number: u16,
}

/// Types and the numbers that torch's serialised programs have for them.
const TYPES: [(&str, u16); 6] = [("uint8", 0), ("int64", 4), ("float16", 5), ("float32", 6), ("complex64", 9), ("bool", 11)];

fn probes(py: Python<'_>) -> PyResult<Vec<Probe<'_>>> {
    let torch = py.import("torch")?;
    let probe = |(rank, (name, number)): (usize, (&str, u16))| {
        let kwargs = PyDict::new(py);
        kwargs.set_item("dtype", torch.getattr(name)?)?;
        kwargs.set_item("device", "cpu")?;
        let sizes = PyTuple::new(py, (0..rank).map(|d| 2 + d))?;
        Ok(Probe { tensor: torch.call_method("empty", (sizes,), Some(&kwargs))?, number })
    };
    (1..=ROOM).cycle().zip(TYPES).map(probe).collect()
}

fn find(py: Python<'_>) -> PyResult<Option<Body>> {
    let (crossing, anatomy, probes) = (Crossing::get(py)?, Anatomy::get(py)?, probes(py)?);
    // SAFETY: the probes outlive this function.
    let handles: Vec<TensorRef<'_>> = probes.iter().map(|p| unsafe { crossing.unwrap(&p.tensor) }).collect::<PyResult<_>>()?;
    let Some(requires_grad) = requires_grad(py)? else { return Ok(None) };
    let keys = anatomy.keys;
    let places: Option<Vec<(usize, usize)>> = handles.iter().map(|handle| dims_of(*handle, keys)).collect();
    let Some((sizes, strides)) = places.filter(|places| places.windows(2).all(|pair| pair[0] == pair[1])).map(|p| p[0]) else {
        return Ok(None);
    };
    let bodies: Vec<*const usize> = handles.iter().map(|handle| handle.impl_ptr().cast()).collect();
    // SAFETY: in front of the keys, which are part of a body.
    let has_number = |byte: &usize| bodies.iter().zip(&probes).all(|(body, p)| unsafe { number_at(*body, *byte) } == p.number);
    let behind = 8 * (sizes.max(strides) + ROOM);
    let found: Vec<usize> = (behind..8 * keys - 1).filter(has_number).collect();
    // SAFETY: the slot is part of the object.
    let slot = unsafe { handles[0].handle().cast::<usize>().cast_const().offset_from(probes[0].tensor.as_ptr().cast()) } as usize;
    // Two places that both fit say that neither is known.
    let [number] = found[..] else { return Ok(None) };
    Ok(Some(Body { slot, keys, rank: sizes - 1, sizes, strides, number, requires_grad }))
}

/// Where the sizes and the strides lie, with the number of dimensions in front and room for as many as there may be.
fn dims_of(handle: TensorRef<'_>, keys: usize) -> Option<(usize, usize)> {
    let (sizes, strides) = (handle.sizes().ok()?, handle.strides().ok()?);
    let body = handle.impl_ptr() as usize;
    let place = |dims: &[i64]| (dims.as_ptr() as usize).checked_sub(body).map(|bytes| bytes / 8).filter(|at| at + ROOM <= keys);
    let (first, second) = (place(sizes)?, place(strides)?);
    // SAFETY: inside of the body.
    let rank = unsafe { *(body as *const usize).add(first.checked_sub(1)?) };
    (second == first + ROOM && rank == sizes.len()).then_some((first, second))
}

type Method = unsafe extern "C" fn(*const usize) -> bool;

fn requires_grad(py: Python<'_>) -> PyResult<Option<Method>> {
    let file: String = py.import("torch")?.getattr("__file__")?.extract()?;
    let path = std::path::Path::new(&file).with_file_name("lib").join("libc10.so");
    // SAFETY: the library is loaded already, so no initialiser runs.
    let Ok(library) = (unsafe { Library::new(&path) }) else { return Ok(None) };
    // SAFETY: the mangled name fixes the signature: a method without arguments that returns a bool.
    let found = unsafe { library.get::<Method>(b"_ZNK3c1010TensorImpl13requires_gradEv\0") }.ok().map(|method| *method);
    // torch is never unloaded.
    std::mem::forget(library);
    Ok(found)
}
