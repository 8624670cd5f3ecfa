//! Lazy tensors: Python objects with the right size, strides, type and device, but without memory, that stand for a result of the graph
//! being recorded. When the graph has run, each that somebody still holds *becomes* its result: same object, same identity.
//!
//! A torch function that meets one without the machine's knowing (called from C code that was taken for pure) ends up in the class's
//! `__torch_function__` or `__torch_dispatch__`: there everything pending is computed and the function is called again, for real.

use crate::found::Found;
use crate::obj::{Obj, py};
use crate::record::Recording;
use crate::types::{Type, types};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

struct Classes {
    lazy: Obj,
    make: Obj,
    swap: Obj,
}

static CLASSES: Found<Classes> = Found::new();

thread_local! {
    /// The recordings of this thread that have lazy tensors out; the innermost is last.
    static PENDING: RefCell<Vec<NonNull<Recording>>> = const { RefCell::new(Vec::new()) };
}

/// Owns a recording by a plain pointer: while the machine calls C code, that code may get here by way of a lazy tensor and have everything
/// computed. So no reference to the recording may be taken for the only one across such a call.
pub struct Pending(NonNull<Recording>);

impl Pending {
    pub fn new(recording: Recording) -> Pending {
        let pointer = NonNull::from(Box::leak(Box::new(recording)));
        PENDING.with_borrow_mut(|list| list.push(pointer));
        Pending(pointer)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        PENDING.with_borrow_mut(|list| list.retain(|pointer| *pointer != self.0));
        // SAFETY: made from a box, and nobody finds it any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Deref for Pending {
    type Target = Recording;
    fn deref(&self) -> &Recording {
        // SAFETY: it lives as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Pending {
    fn deref_mut(&mut self) -> &mut Recording {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

fn classes() -> PyResult<&'static Classes> {
    let py = py();
    CLASSES.or_try_find(|| {
        let core: Obj = py.import("torch._C")?.into();
        // SAFETY: types live as long as torch.
        let tensor = unsafe { Obj::borrowed(types().tensor.cast()) };
        let body = PyDict::new(py);
        for name in ["__torch_function__", "__torch_dispatch__"] {
            let hook = PyCFunction::new_closure(py, None, None, unforeseen)?;
            body.set_item(name, py.import("builtins")?.getattr("classmethod")?.call1((hook,))?)?;
        }
        let builtin_type = py.import("builtins")?.getattr("type")?;
        let lazy = builtin_type.call1(("LazyTensor", (tensor.bind(),), body))?;
        Ok(Classes { lazy: lazy.into(), make: tensor.attr("_make_wrapper_subclass")?, swap: core.attr("_swap_tensor_impl")? })
    })
}

/// `(class, function, types, args, kwargs)`
fn unforeseen(args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
    let function = args.get_item(1)?;
    let pending = PENDING.with_borrow(|list| list.clone());
    for pending in pending.into_iter().rev() {
        // SAFETY: it is registered, so it lives; the machine uses no reference to it while C code runs.
        unsafe { (*pending.as_ptr()).settle_all(&format!("{function} met a lazy tensor"))? };
    }
    let positional = args.get_item(3)?.cast_into::<PyTuple>()?;
    let kwargs = args.get_item(4).ok().and_then(|k| k.cast_into::<PyDict>().ok());
    let mut given = positional.iter().chain(kwargs.iter().flat_map(|kwargs| kwargs.values()));
    if given.any(|object| is_lazy(&object.into())) {
        return Err(PyRuntimeError::new_err("oxytorch: a tensor was never computed: an exception came before it"));
    }
    Ok(function.call(positional, kwargs.as_ref())?.unbind())
}

pub fn lazy_class() -> PyResult<Type> {
    Ok(classes()?.lazy.ptr().cast())
}

pub fn is_lazy(object: &Obj) -> bool {
    CLASSES.get().is_some_and(|classes| object.class_is(classes.lazy.ptr().cast()))
}

/// A lazy tensor for the shadow's size, strides and type, on a device.
pub fn make_lazy(shadow: &Obj, device: &Obj) -> PyResult<Obj> {
    let classes = classes()?;
    let kwargs = PyDict::new(py());
    kwargs.set_item("strides", shadow.bind().call_method0("stride")?)?;
    kwargs.set_item("dtype", shadow.bind().getattr("dtype")?)?;
    kwargs.set_item("device", device.bind())?;
    let shape = shadow.attr("shape")?;
    classes.make.call(&[classes.lazy.clone(), shape], Some(&kwargs.into()))
}

/// The lazy tensor gets the sizes and strides that its shadow has now.
pub fn reshape_lazy(lazy: &Obj, shadow: &Obj, device: &Obj) -> PyResult<()> {
    classes()?.swap.call(&[lazy.clone(), make_lazy(shadow, device)?], None).map(drop)
}

/// The lazy tensor becomes `real`.
pub fn become_real(lazy: &Obj, real: &Obj) -> PyResult<()> {
    classes()?.swap.call(&[lazy.clone(), real.clone()], None)?;
    // SAFETY: types live as long as torch.
    let class = unsafe { Obj::borrowed(types().tensor.cast()) };
    lazy.bind().setattr("__class__", class.bind())
}

/// Whether the program keeps a tensor that came out of a call, of which `ours` references are the caller's: an operator has returned one of its
/// own. What torch holds, for views or for autograd, is one reference, and goes along when the tensor is swapped.
pub fn is_kept(tensor: &Bound<'_, PyAny>, ours: usize) -> PyResult<bool> {
    // SAFETY: reads the count of a live object.
    let held = unsafe { pyo3::ffi::Py_REFCNT(tensor.as_ptr()) } as usize;
    if held <= ours {
        return Ok(false);
    }
    let by_torch = tensor.call_method0("_use_count")?.extract::<usize>()? > 1;
    Ok(held > ours + usize::from(by_torch))
}
