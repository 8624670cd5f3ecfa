//! Word of objects that get another class or another dict as a whole, and of tensors that get another body. Nobody tells of that, but a program can do it in one
//! way each: by the setter of `object.__class__`, by that of `__dict__` in the class that gave its instances one, and by torch's function that swaps the bodies of
//! two tensors. Ours stand in front of them.

use super::watch::tell_of;
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// CPython's own: of `object.__class__`, and of `__dict__` in all classes that are made by Python code.
struct Setters {
    class: ffi::setter,
    dict: ffi::setter,
}

static SETTERS: Found<Option<Setters>> = Found::new();

fn setters() -> Option<&'static Setters> {
    let find = || Some(Setters { class: setter_of(&class_descriptor()?)?, dict: setter_of(&some_dict()?)? });
    // Whoever changes a descriptor has found them before: what others find behind that comes too late.
    SETTERS.or_find(find).as_ref()
}

fn class_descriptor() -> Option<Obj> {
    own_attribute(&py().get_type::<PyAny>().into_any().into(), "__class__")
}

fn some_dict() -> Option<Obj> {
    let class = py().get_type::<PyType>().call1(("Probe", PyTuple::empty(py()), PyDict::new(py()))).quiet()?;
    own_attribute(&class.into(), "__dict__")
}

/// What the class itself has under this name.
fn own_attribute(class: &Obj, name: &str) -> Option<Obj> {
    class.attr("__dict__").quiet()?.bind().get_item(name).quiet().map(Obj::from)
}

fn setter_of(descriptor: &Obj) -> Option<ffi::setter> {
    // SAFETY: the form of such a descriptor is public.
    unsafe {
        let is_known = descriptor.class_is(&raw mut ffi::PyGetSetDescr_Type);
        if is_known { (*(*descriptor.ptr().cast::<ffi::PyGetSetDescrObject>()).d_getset).set } else { None }
    }
}

/// Told before, so that no code that runs meanwhile relies on what was, and behind it, so that none relies on what it saw meanwhile.
///
/// # Safety
/// The arguments must be those that CPython gives a setter.
unsafe fn set(setter: Option<ffi::setter>, object: *mut ffi::PyObject, value: *mut ffi::PyObject, closure: *mut c_void) -> c_int {
    tell_of(object);
    // SAFETY: passed on. Ours stand only where there was one.
    let done = setter.map_or(-1, |setter| unsafe { setter(object, value, closure) });
    tell_of(object);
    done
}

unsafe extern "C" fn set_class(object: *mut ffi::PyObject, value: *mut ffi::PyObject, closure: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { set(setters().map(|setters| setters.class), object, value, closure) }
}

unsafe extern "C" fn set_dict(object: *mut ffi::PyObject, value: *mut ffi::PyObject, closure: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { set(setters().map(|setters| setters.dict), object, value, closure) }
}

/// Whether we hear of it when an object gets another class.
pub fn class_is_told() -> bool {
    static IS_TOLD: Found<bool> = Found::new();
    *IS_TOLD.or_find(|| {
        setters().is_some_and(|known| class_descriptor().is_some_and(|at| stand_in_front(&at, set_class, known.class)))
    })
}

/// The same of another dict. All of its bases that give their instances one must be made by Python code.
pub fn dict_is_told(object: &Obj) -> bool {
    let (Some(known), Ok(mro)) = (setters(), object.class().attr("__mro__")) else { return false };
    let found: Vec<Obj> = items_of(&mro).iter().filter_map(|base| own_attribute(base, "__dict__")).collect();
    !found.is_empty() && found.iter().all(|descriptor| stand_in_front(descriptor, set_dict, known.dict))
}

/// Gives a descriptor our setter, unless it has it. False where it is not the one that ours would call.
fn stand_in_front(descriptor: &Obj, ours: ffi::setter, theirs: ffi::setter) -> bool {
    let Some(setter) = setter_of(descriptor) else { return false };
    if setter as usize == theirs as usize {
        // SAFETY: a descriptor of the form that `setter_of` has seen; the copy of what it points to lives for ever.
        unsafe {
            let descriptor = descriptor.ptr().cast::<ffi::PyGetSetDescrObject>();
            let table = ffi::PyGetSetDef { set: Some(ours), ..*(*descriptor).d_getset };
            (*descriptor).d_getset = Box::leak(Box::new(table));
        }
    }
    setter as usize == theirs as usize || setter as usize == ours as usize
}

static SWAP: OnceLock<Option<ffi::PyCFunction>> = OnceLock::new();

/// Whether we hear of it when a tensor gets another body.
pub fn body_is_told() -> bool {
    static FUNCTION: Found<Option<Obj>> = Found::new();
    let find = || Some(py().import("torch._C").quiet()?.getattr("_swap_tensor_impl").quiet()?.into());
    let function = FUNCTION.or_find(find).as_ref();
    // Nothing of Python's runs in there.
    SWAP.get_or_init(|| hear_of_swaps(function?)).is_some()
}

/// The function of C's that a Python function stands for is ours from now on. None if it is called otherwise.
fn hear_of_swaps(function: &Obj) -> Option<ffi::PyCFunction> {
    // SAFETY: the form of such a function is public; the copy of what it points to lives for ever.
    unsafe {
        let object = function.ptr().cast::<ffi::PyCFunctionObject>();
        if !function.class_is(&raw mut ffi::PyCFunction_Type) || (*object).vectorcall.is_some() {
            return None;
        }
        let theirs = *(*object).m_ml;
        if theirs.ml_flags != ffi::METH_VARARGS {
            return None;
        }
        let ours = ffi::PyMethodDef { ml_meth: ffi::PyMethodDefPointer { PyCFunction: swap }, ..theirs };
        (*object).m_ml = Box::leak(Box::new(ours));
        Some(theirs.ml_meth.PyCFunction)
    }
}

unsafe extern "C" fn swap(this: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: CPython gives a tuple, which lives as long as this.
    let tensors = || unsafe { (0..ffi::PyTuple_GET_SIZE(args)).for_each(|n| tell_of(ffi::PyTuple_GET_ITEM(args, n))) };
    tensors();
    // SAFETY: passed on. Ours stands only where there was one.
    let done = SWAP.get().copied().flatten().map_or(std::ptr::null_mut(), |swap| unsafe { swap(this, args) });
    tensors();
    done
}
