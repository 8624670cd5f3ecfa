//! How CPython finds attributes, without running any.

use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::types::types;
use pyo3::ffi;
use pyo3::prelude::*;

unsafe extern "C" {
    /// Borrowed; null without an exception. Exported by all versions that we know, if not documented.
    fn _PyType_Lookup(class: *mut ffi::PyTypeObject, name: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// The attribute of the class or of one of its bases, as it stands in the dict.
pub fn type_lookup(class: &Obj, name: &Obj) -> Option<Obj> {
    // SAFETY: a type and a string.
    unsafe { Obj::borrowed_opt(_PyType_Lookup(class.ptr().cast(), name.ptr())) }
}

/// The attribute in the bases that follow `after` in the order of `class`.
pub fn super_lookup(class: &Obj, after: &Obj, name: &Obj) -> Option<Obj> {
    let mro = crate::obj::items_of(&class.attr("__mro__").quiet()?);
    let start = mro.iter().position(|base| base.is(after))? + 1;
    mro[start..].iter().find_map(|base| {
        let dict = base.attr("__dict__").quiet()?;
        dict.bind().get_item(name.bind()).quiet().map(Obj::from)
    })
}

/// Whether instances' attributes are found by the generic rules, `__getattr__` aside.
pub fn is_generic(class: &Obj) -> bool {
    let is_slot = |class: &Obj| {
        // SAFETY: a type.
        let slot = unsafe { (*class.ptr().cast::<ffi::PyTypeObject>()).tp_getattro };
        slot.is_some_and(|slot| slot as usize == ffi::PyObject_GenericGetAttr as *const () as usize)
    };
    is_slot(class) || is_by_slot(class, "__getattribute__", is_slot)
}

/// Whether stores go by the generic rules.
pub fn is_generic_store(class: &Obj) -> bool {
    let is_slot = |class: &Obj| {
        // SAFETY: a type.
        let slot = unsafe { (*class.ptr().cast::<ffi::PyTypeObject>()).tp_setattro };
        slot.is_some_and(|slot| slot as usize == ffi::PyObject_GenericSetAttr as *const () as usize)
    };
    is_slot(class) || is_by_slot(class, "__setattr__", is_slot)
}

/// Whether the method of this name is that of a class in C which has such a slot: `object`, or another that shows `object`'s as its own.
/// It may be another of its methods: `__setattr__ = dict.__setitem__`.
fn is_by_slot(class: &Obj, name: &str, is_slot: impl Fn(&Obj) -> bool) -> bool {
    let Some(found) = type_lookup(class, &Obj::str(name)) else { return true };
    found.class_is(types().wrapper_descriptor)
        && found.attr("__name__").quiet().is_some_and(|own| own.to_str().as_deref() == Some(name))
        && found.attr("__objclass__").quiet().is_some_and(|owner| is_slot(&owner))
}

/// Whether a class has `object`'s own method of this name, or none.
pub fn is_as_of_object(class: &Obj, name: &str) -> bool {
    is_as_of(class, name, types().object)
}

/// Whether a class has its base's own method of this name, or none.
pub fn is_as_of(class: &Obj, name: &str, base: crate::types::Type) -> bool {
    let name = Obj::str(name);
    let Some(found) = type_lookup(class, &name) else { return true };
    // SAFETY: a type.
    let base = unsafe { Obj::borrowed(base.cast()) };
    type_lookup(&base, &name).is_some_and(|plain| plain.is(&found))
}

/// It has `__set__` or `__delete__`, so that it comes before the instance's dict.
pub fn is_data_descriptor(object: &Obj) -> bool {
    // SAFETY: a live type.
    unsafe { (*object.class_ptr()).tp_descr_set.is_some() }
}

pub fn has_get(object: &Obj) -> bool {
    // SAFETY: a live type.
    unsafe { (*object.class_ptr()).tp_descr_get.is_some() }
}

/// A class whose `__get__` is C code of CPython's.
pub fn is_c_descriptor(object: &Obj) -> bool {
    let t = types();
    let known = [
        t.getset,
        t.member,
        t.method_descriptor,
        t.wrapper_descriptor,
        t.classmethod_descriptor,
        t.property,
        t.function,
        t.classmethod,
        t.staticmethod,
        t.builtin,
    ];
    known.iter().any(|class| object.class_is(*class))
}
