//! Where torch keeps things in a tensor's body, in words from the beginning of the TensorImpl or StorageImpl. That is torch's own
//! business, so each place is found once in a process, by looking for values that torch tells.

use crate::tensor::Crossing;
use ox_capture::Found;
use ox_capture::{Depth, Portrait, Words};
use ox_runtime::{StoragePlaces, TensorRef, learn_storages};
use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

pub struct Anatomy {
    /// The dispatch keys, which stand last in a TensorImpl.
    pub keys: usize,
    /// The pointer to the StorageImpl.
    storage: usize,
    /// The address of the memory, in a StorageImpl.
    data: usize,
    /// Whether the words behind sizes and strides tell how many elements there are, and whether they lie one behind the other in the
    /// order of their indices.
    tells_order: bool,
}

static ANATOMY: Found<Anatomy> = Found::new();

/// A TensorImpl is at least as long in every version with the C ABI that we use.
const TENSOR_WORDS: usize = 23;
/// A StorageImpl too.
const STORAGE_WORDS: usize = 8;
/// The table of virtual functions and the count of references stand first in both.
const FIRST: usize = 2;
/// The class stands second in a Python object.
const CLASS: usize = 1;

impl Anatomy {
    pub fn get(py: Python<'_>) -> PyResult<&Anatomy> {
        ANATOMY.or_try_find(|| Anatomy::find(py))
    }

    /// By two tensors with other keys and other memory.
    fn find(py: Python<'_>) -> PyResult<Anatomy> {
        let torch = py.import("torch")?;
        let kwargs = PyDict::new(py);
        kwargs.set_item("device", "cpu")?;
        let plain = torch.call_method("empty", (3,), Some(&kwargs))?;
        kwargs.set_item("dtype", torch.getattr("complex64")?)?;
        let lazy = torch.call_method("empty", (5,), Some(&kwargs))?.call_method0("conj")?;
        let probes = [&plain, &lazy];
        let storages = [plain.call_method0("untyped_storage")?, lazy.call_method0("untyped_storage")?];
        let word = |storage: &Bound<'_, PyAny>| storage.getattr("_cdata")?.extract::<usize>();
        let address = |storage: &Bound<'_, PyAny>| storage.call_method0("data_ptr")?.extract::<usize>();
        let bodies = [body(probes[0])?, body(probes[1])?];
        let boxes = [word(&storages[0])? as *const usize, word(&storages[1])? as *const usize];
        // SAFETY: live bodies, which are longer than that.
        unsafe {
            let keys = place(bodies, [raw_keys(probes[0])?, raw_keys(probes[1])?], 1..TENSOR_WORDS, "dispatch keys")?;
            let found = Anatomy {
                keys,
                tells_order: tells_order(&torch, keys).unwrap_or(false),
                storage: place(bodies, [boxes[0] as usize, boxes[1] as usize], FIRST..TENSOR_WORDS, "storages")?,
                data: place(boxes, [address(&storages[0])?, address(&storages[1])?], FIRST..STORAGE_WORDS, "memory")?,
            };
            learn_storages(StoragePlaces { storage: found.storage, memory: found.data });
            Ok(found)
        }
    }

    /// Adds the words that tell whether the tensor of a Python object is what it is now, in the same memory. False where they do not tell:
    /// the sizes of tensors with many dimensions lie elsewhere. `is_told`: the caller hears of it when the object gets another class or body.
    ///
    /// # Safety
    /// The object must live as long as the words are compared.
    pub unsafe fn portray(
        &self,
        crossing: &Crossing,
        object: &Bound<'_, PyAny>,
        is_told: bool,
        words: &mut Words,
    ) -> PyResult<bool> {
        // SAFETY: the object outlives this function.
        let handle: TensorRef<'_> = unsafe { crossing.unwrap(object)? };
        let body = handle.impl_ptr().cast::<usize>();
        let (Ok(sizes), Ok(strides)) = (handle.sizes(), handle.strides()) else { return Ok(false) };
        // SAFETY: the keys are part of the body.
        let inside = body..unsafe { body.add(self.keys) };
        if ![sizes, strides].iter().all(|dims| dims.is_empty() || inside.contains(&dims.as_ptr().cast())) {
            return Ok(false);
        }
        // SAFETY: the object holds its body, which holds its storage: as long as the words before them are the same, the next are there.
        unsafe {
            let storage = *body.add(self.storage) as *const usize;
            if storage.is_null() {
                return Ok(false);
            }
            if !is_told {
                words.add(Depth::Object, object.as_ptr().cast::<usize>().add(CLASS), 1);
                words.add(Depth::Object, handle.handle().cast(), 1);
            }
            match self.telling(body, sizes, strides) {
                Some(places) => {
                    let known = places.map(|place| (place, *body.add(place))).collect();
                    words.add_tensor(body, Portrait { storage: self.storage, data: self.data, words: known });
                }
                None => {
                    words.add(Depth::Body, body.add(FIRST), self.keys + 1 - FIRST);
                    words.add(Depth::Storage, storage.add(self.data), 1);
                }
            }
        }
        Ok(true)
    }
}

impl Anatomy {
    /// The words of a body that say what the tensor is. torch keeps the number of dimensions, room for five sizes, room for five strides, and
    /// behind them offset, type and keys; of the room only what is in use counts. None where it looks otherwise.
    ///
    /// # Safety
    /// A live body with its own sizes and strides.
    unsafe fn telling(&self, body: *const usize, sizes: &[i64], strides: &[i64]) -> Option<impl Iterator<Item = usize>> {
        const ROOM: usize = 5;
        let rank = sizes.len();
        if !(1..=ROOM).contains(&rank) {
            return None;
        }
        // SAFETY: both lie in the body, as the caller has seen.
        let place = |dims: &[i64]| unsafe { dims.as_ptr().cast::<usize>().offset_from(body) as usize };
        let (first, behind) = (place(sizes), place(strides) + ROOM);
        // SAFETY: inside of the body, which begins with other things.
        let is_known = behind == first + 2 * ROOM && behind <= self.keys && unsafe { *body.add(first - 1) } == rank;
        let (sizes, strides) = match self.tells_order && is_in_order(sizes, strides) {
            // The last size follows from the number of elements, and all strides from the sizes.
            true => (rank - 1, 0),
            false => (rank, rank),
        };
        is_known.then(|| (first - 1..first + sizes).chain(first + ROOM..first + ROOM + strides).chain(behind..self.keys + 1))
    }
}

/// Whether the elements lie one behind the other, and no size leaves a stride open.
fn is_in_order(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    sizes.iter().zip(strides).rev().all(|(size, stride)| {
        let fits = *size > 1 && *stride == expected;
        expected *= size;
        fits
    })
}

/// See `Anatomy::tells_order`: what one tensor says there of itself when it is given other sizes and strides, in place.
fn tells_order(torch: &Bound<'_, PyAny>, keys: usize) -> PyResult<bool> {
    let kwargs = [("device", "cpu")].into_py_dict(torch.py())?;
    let tensor = torch.call_method("empty", (16,), Some(&kwargs))?;
    let told = |sizes: &[i64], strides: &[i64]| -> PyResult<[usize; 3]> {
        tensor.call_method1("as_strided_", (sizes.to_vec(), strides.to_vec()))?;
        let body = body(&tensor)?;
        // SAFETY: the last words of a live body, behind its strides: number of elements, type, keys.
        Ok([2, 1, 0].map(|n| unsafe { *body.add(keys - n) }))
    };
    let in_order = [told(&[2, 3], &[3, 1])?, told(&[6], &[1])?];
    let others = [told(&[2, 3], &[1, 2])?, told(&[2, 4], &[4, 1])?, told(&[6], &[2])?, told(&[5], &[1])?];
    let is_stable = in_order == [told(&[2, 3], &[3, 1])?, told(&[6], &[1])?];
    Ok(is_stable && in_order.iter().all(|told| !others.contains(told)))
}

/// The word that has both values.
///
/// # Safety
/// Both bodies must be live and longer than `words`.
unsafe fn place(bodies: [*const usize; 2], values: [usize; 2], words: std::ops::Range<usize>, what: &str) -> PyResult<usize> {
    let mut words = words;
    // SAFETY: the caller's word.
    let found = words.find(|word| bodies.iter().zip(values).all(|(body, value)| unsafe { *body.add(*word) } == value));
    found.ok_or_else(|| PyImportError::new_err(format!("this torch keeps {what} where oxytorch does not find them")))
}

fn raw_keys(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = tensor.py();
    let keys = py.import(intern!(py, "torch._C"))?.call_method1(intern!(py, "_dispatch_keys"), (tensor,))?;
    keys.call_method0(intern!(py, "raw_repr"))?.extract()
}

fn body(tensor: &Bound<'_, PyAny>) -> PyResult<*const usize> {
    let crossing = Crossing::get(tensor.py())?;
    // SAFETY: the tensor outlives the handle.
    Ok(unsafe { crossing.unwrap(tensor)? }.impl_ptr().cast())
}

pub fn keys_at(tensor: &Bound<'_, PyAny>, word: usize) -> PyResult<u64> {
    // SAFETY: a live TensorImpl, which is longer than that.
    Ok(unsafe { *body(tensor)?.add(word) } as u64)
}
