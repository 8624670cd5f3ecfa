//! How tensors cross between Python and the runtime.
//!
//! A Python tensor object holds an `at::Tensor` (one pointer, to the TensorImpl) in its body. The address of that slot is a
//! valid AtenTensorHandle that borrows from the object. Where in the object the slot lies is torch's own business, so it is found
//! once per process by looking for the value of `_cdata`.

use crate::torch::Torch;
use ox_capture::Found;
use ox_runtime::{Tensor, TensorRef};
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use std::ffi::c_void;

/// `PyObject* THPVariable_Wrap(const at::TensorBase&)`: a new reference; the tensor's own Python object if it has one.
type WrapFn = unsafe extern "C" fn(*const c_void) -> *mut ffi::PyObject;

pub struct Crossing {
    tensor_type: *mut ffi::PyTypeObject,
    parameter_type: *mut ffi::PyTypeObject,
    /// Place of the `at::Tensor` in the Python object, in words.
    slot: usize,
    wrap: WrapFn,
    /// Keeps `wrap` loaded.
    _library: libloading::os::unix::Library,
}

// SAFETY: the two type objects are immortal (torch is never unloaded) and only compared by address; the rest is plain data.
unsafe impl Send for Crossing {}
// SAFETY: as above; nothing is mutated after construction.
unsafe impl Sync for Crossing {}

static CROSSING: Found<Crossing> = Found::new();

impl Crossing {
    pub fn get(py: Python<'_>) -> PyResult<&Crossing> {
        CROSSING.or_try_find(|| Crossing::load(py))
    }

    fn load(py: Python<'_>) -> PyResult<Crossing> {
        let torch = Torch::get(py)?;
        let folder: String = py.import("torch")?.getattr("__file__")?.extract()?;
        let path = std::path::Path::new(&folder).with_file_name("lib").join("libtorch_python.so");
        // SAFETY: the library is loaded already (`import torch` did it), so no initialiser runs.
        let library = unsafe { libloading::os::unix::Library::new(&path) }
            .map_err(|e| PyImportError::new_err(format!("cannot open {}: {e}", path.display())))?;
        // SAFETY: the mangled name fixes the C++ signature; references are passed as pointers in the Itanium ABI.
        let wrap = unsafe { library.get::<WrapFn>(b"_Z16THPVariable_WrapRKN2at10TensorBaseE\0") }
            .map_err(|e| PyImportError::new_err(format!("this torch has no THPVariable_Wrap: {e}")))?;
        Ok(Crossing {
            tensor_type: torch.tensor.bind(py).as_type_ptr(),
            parameter_type: torch.parameter.bind(py).as_type_ptr(),
            slot: find_slot(py)?,
            wrap: *wrap,
            _library: library,
        })
    }

    /// A handle that borrows the tensor of `object`. Subclasses that change what torch does with them are refused: they may mean
    /// something else than their memory.
    ///
    /// # Safety
    /// `object` must stay alive for 'a.
    pub unsafe fn unwrap<'a>(&self, object: &Bound<'_, PyAny>) -> PyResult<TensorRef<'a>> {
        let ptr = object.as_ptr();
        // SAFETY: `object` is a live Python object.
        let class = unsafe { ffi::Py_TYPE(ptr) };
        if class != self.tensor_type && class != self.parameter_type && !is_plain_subclass(object)? {
            let name = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a compiled graph takes plain tensors, not {name}")));
        }
        // SAFETY: tensors (and subclasses, which only append to the layout) hold their `at::Tensor` at this word, and the caller
        // keeps the object alive.
        Ok(unsafe { TensorRef::from_handle(ptr.cast::<*mut c_void>().add(self.slot).cast()) })
    }

    /// A tensor of ours for a Python tensor.
    pub fn own(&self, object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        // SAFETY: `object` outlives the borrowed handle, which ends here.
        let borrowed = unsafe { self.unwrap(object)? };
        borrowed.to_owned().map_err(|error| PyTypeError::new_err(error.to_string()))
    }

    /// A Python tensor for a tensor of ours.
    pub fn wrap<'py>(&self, py: Python<'py>, tensor: TensorRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the handle points to a live `at::Tensor`; the result is a new reference or null with an error set.
        unsafe { Bound::from_owned_ptr_or_err(py, (self.wrap)(tensor.handle())) }
    }
}

/// A subclass that leaves torch's treatment of the tensor as it is (Parameter-like classes).
fn is_plain_subclass(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let tensor = Torch::get(py)?.tensor.bind(py);
    if !object.is_instance(tensor)? {
        return Ok(false);
    }
    let class = object.get_type();
    let (dispatch, function) = (intern!(py, "__torch_dispatch__"), intern!(py, "__torch_function__"));
    let same_dispatch = class.getattr(dispatch)?.is(&tensor.getattr(dispatch)?);
    let inherited = class
        .getattr(function)?
        .getattr("__func__")
        .is_ok_and(|f| tensor.getattr(function).and_then(|t| t.getattr("__func__")).is_ok_and(|t| t.is(&f)));
    Ok(same_dispatch && (inherited || gives_plain_tensors(object)?))
}

/// Whether operations on it give plain tensors, as on a Parameter. On other subclasses they give the subclass, unless it says otherwise.
pub fn gives_plain_tensors(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, class) = (object.py(), object.get_type());
    let torch = Torch::get(py)?;
    let function = intern!(py, "__torch_function__");
    Ok(class.is(torch.tensor.bind(py)) || class.getattr(function)?.is(&torch.parameter.bind(py).getattr(function)?))
}

fn find_slot(py: Python<'_>) -> PyResult<usize> {
    let kwargs = [("device", "cpu")].into_py_dict(py)?;
    let probe = py.import("torch")?.call_method("empty", (0,), Some(&kwargs))?;
    let cdata: usize = probe.getattr("_cdata")?.extract()?;
    let size: usize = probe.get_type().getattr("__basicsize__")?.extract()?;
    let words = size / size_of::<usize>();
    // SAFETY: `probe` is live and `words` long; the first two words are the reference count and the type.
    let found = (2..words).find(|k| unsafe { *probe.as_ptr().cast::<usize>().add(*k) } == cdata);
    found.ok_or_else(|| PyImportError::new_err("this torch keeps tensors where oxytorch does not find them"))
}
