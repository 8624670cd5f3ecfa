//! `Obj`: a counted reference to a Python object.
//!
//! The virtual machine runs attached to the interpreter from end to end, so its references are cloned and dropped without a token.
//! Everything that owns an `Obj` lives inside a Python object or on the stack of a call from Python, and is dropped attached too.

use crate::interrupt::{Quiet, postponing};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ptr::NonNull;

#[repr(transparent)]
pub struct Obj(NonNull<ffi::PyObject>);

// SAFETY: see the module's text: an Obj is only touched by a thread that is attached.
unsafe impl Send for Obj {}
unsafe impl Sync for Obj {}

/// How deep objects that hold others are walked through by functions that call themselves: a thread's stack is no larger.
pub const DEEPEST: usize = 1000;

/// The token of the thread, which is attached while anything of this crate runs.
pub fn py() -> Python<'static> {
    // SAFETY: as above.
    unsafe { Python::assume_attached() }
}

impl Clone for Obj {
    fn clone(&self) -> Obj {
        // SAFETY: a live object.
        unsafe { ffi::Py_INCREF(self.ptr()) };
        Obj(self.0)
    }
}

impl Drop for Obj {
    fn drop(&mut self) {
        // SAFETY: we own one reference.
        unsafe { ffi::Py_DECREF(self.ptr()) };
    }
}

impl Obj {
    /// Takes over a new reference; null is the pending exception.
    ///
    /// # Safety
    /// `ptr` must be a new reference or null with an exception set.
    pub unsafe fn owned(ptr: *mut ffi::PyObject) -> PyResult<Obj> {
        NonNull::new(ptr).map(Obj).ok_or_else(|| PyErr::fetch(py()))
    }

    /// # Safety
    /// `ptr` must be a new reference or null without an exception.
    pub unsafe fn owned_opt(ptr: *mut ffi::PyObject) -> Option<Obj> {
        NonNull::new(ptr).map(Obj)
    }

    /// # Safety
    /// `ptr` must be a live object or null.
    pub unsafe fn borrowed_opt(ptr: *mut ffi::PyObject) -> Option<Obj> {
        let ptr = NonNull::new(ptr)?;
        // SAFETY: live by the caller's word.
        unsafe { ffi::Py_INCREF(ptr.as_ptr()) };
        Some(Obj(ptr))
    }

    /// # Safety
    /// `ptr` must be a live object.
    pub unsafe fn borrowed(ptr: *mut ffi::PyObject) -> Obj {
        // SAFETY: passed on.
        unsafe { Obj::borrowed_opt(ptr) }.expect("a live object is not null")
    }

    pub fn none() -> Obj {
        // SAFETY: None lives for ever.
        unsafe { Obj::borrowed(ffi::Py_None()) }
    }

    pub fn bool(value: bool) -> Obj {
        // SAFETY: the two bools live for ever.
        unsafe { Obj::borrowed(if value { ffi::Py_True() } else { ffi::Py_False() }) }
    }

    pub fn int(value: i64) -> Obj {
        value.into_pyobject(py()).expect("an int is made").into_any().into()
    }

    pub fn str(text: &str) -> Obj {
        pyo3::types::PyString::intern(py(), text).into_any().into()
    }

    pub fn ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// The address, which is the object's identity as long as somebody holds it.
    pub fn id(&self) -> usize {
        self.0.as_ptr() as usize
    }

    pub fn is(&self, other: &Obj) -> bool {
        self.0 == other.0
    }

    pub fn is_none(&self) -> bool {
        // SAFETY: reads a static address.
        self.ptr() == unsafe { ffi::Py_None() }
    }

    /// The exact type.
    pub(crate) fn class_ptr(&self) -> *mut ffi::PyTypeObject {
        // SAFETY: a live object.
        unsafe { ffi::Py_TYPE(self.ptr()) }
    }

    pub fn class(&self) -> Obj {
        // SAFETY: a live object has a live type.
        unsafe { Obj::borrowed(self.class_ptr().cast()) }
    }

    pub(crate) fn class_is(&self, class: *mut ffi::PyTypeObject) -> bool {
        self.class_ptr() == class
    }

    pub(crate) fn is_instance_of(&self, class: *mut ffi::PyTypeObject) -> bool {
        // SAFETY: live objects.
        unsafe { ffi::PyType_IsSubtype(self.class_ptr(), class) != 0 }
    }

    /// Of an object that is a class.
    pub(crate) fn is_subclass_of(&self, class: *mut ffi::PyTypeObject) -> bool {
        // SAFETY: live objects, both of them classes.
        unsafe { ffi::PyType_IsSubtype(self.ptr().cast(), class) != 0 }
    }

    pub fn bind(&self) -> &Bound<'static, PyAny> {
        // SAFETY: Obj and Bound<'static, PyAny> are both one non-null owned pointer.
        unsafe { &*(self as *const Obj).cast::<Bound<'static, PyAny>>() }
    }

    pub fn attr(&self, name: &str) -> PyResult<Obj> {
        Ok(self.bind().getattr(name)?.into())
    }

    pub fn get_attr(&self, name: &Obj) -> PyResult<Obj> {
        // SAFETY: live objects; a new reference or null.
        unsafe { Obj::owned(ffi::PyObject_GetAttr(self.ptr(), name.ptr())) }
    }

    pub fn call(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Obj> {
        let tuple = tuple_of(args)?;
        let kwargs = kwargs.map_or(std::ptr::null_mut(), |k| k.ptr());
        // SAFETY: a tuple, and a dict or null.
        unsafe { Obj::owned(ffi::PyObject_Call(self.ptr(), tuple.ptr(), kwargs)) }
    }

    /// `repr`, or the type where that fails.
    pub fn text(&self) -> String {
        // CPython lets signal handlers run first: what they raise is not about the object.
        let text = postponing(|| Ok(self.bind().repr()?.to_string_lossy().into_owned()));
        text.quiet().unwrap_or_else(|| self.class_name())
    }

    pub fn class_name(&self) -> String {
        self.bind().get_type().name().map(|name| name.to_string_lossy().into_owned()).quiet().unwrap_or_default()
    }

    /// What CPython calls its class in complaints: that of C names its module.
    pub fn type_name(&self) -> String {
        // SAFETY: a live type's name.
        unsafe { std::ffi::CStr::from_ptr((*self.class_ptr()).tp_name) }.to_string_lossy().into_owned()
    }

    pub fn to_str(&self) -> Option<String> {
        self.bind().extract::<String>().quiet()
    }

    pub fn truth(&self) -> PyResult<bool> {
        self.bind().is_truthy()
    }
}

pub fn tuple_of(items: &[Obj]) -> PyResult<Obj> {
    // SAFETY: a new tuple whose places are filled with new references.
    unsafe {
        let tuple = Obj::owned(ffi::PyTuple_New(items.len() as isize))?;
        for (n, item) in items.iter().enumerate() {
            ffi::PyTuple_SetItem(tuple.ptr(), n as isize, item.clone().into_ptr());
        }
        Ok(tuple)
    }
}

pub fn list_of(items: &[Obj]) -> PyResult<Obj> {
    // SAFETY: as for tuples.
    unsafe {
        let list = Obj::owned(ffi::PyList_New(items.len() as isize))?;
        for (n, item) in items.iter().enumerate() {
            ffi::PyList_SetItem(list.ptr(), n as isize, item.clone().into_ptr());
        }
        Ok(list)
    }
}

/// The items of a tuple, list or deque.
pub fn items_of(sequence: &Obj) -> Vec<Obj> {
    let ptr = sequence.ptr();
    // SAFETY: the kind is checked before its own functions are used; indices are in range.
    unsafe {
        if ffi::PyTuple_Check(ptr) != 0 {
            (0..ffi::PyTuple_Size(ptr)).map(|n| Obj::borrowed(ffi::PyTuple_GetItem(ptr, n))).collect()
        } else if ffi::PyList_Check(ptr) != 0 {
            (0..ffi::PyList_Size(ptr)).map(|n| Obj::borrowed(ffi::PyList_GetItem(ptr, n))).collect()
        } else if sequence.is_instance_of(crate::types::types().deque) {
            sequence.bind().try_iter().map(|items| items.flatten().map(Obj::from).collect()).quiet().unwrap_or_default()
        } else {
            Vec::new()
        }
    }
}

/// The entries of a dict (or of a subclass's own table), in order.
pub fn entries_of(dict: &Obj) -> Vec<(Obj, Obj)> {
    if dict.is_instance_of(crate::types::types().ordered_dict)
        && let Ok(entries) = ordered_entries(dict)
    {
        return entries;
    }
    let mut out = Vec::new();
    let (mut at, mut key, mut value) = (0isize, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: a dict that is not changed meanwhile; key and value are borrowed.
    unsafe {
        while ffi::PyDict_Next(dict.ptr(), &mut at, &mut key, &mut value) != 0 {
            out.push((Obj::borrowed(key), Obj::borrowed(value)));
        }
    }
    out
}

/// The keys of a dict that are no texts, in no order.
pub fn keys_but_texts(dict: &Obj) -> Vec<Obj> {
    let mut out = Vec::new();
    let (mut at, mut key) = (0isize, std::ptr::null_mut());
    // SAFETY: a dict that is not changed meanwhile; keys are borrowed.
    unsafe {
        while ffi::PyDict_Next(dict.ptr(), &mut at, &mut key, std::ptr::null_mut()) != 0 {
            if ffi::PyUnicode_CheckExact(key) == 0 {
                out.push(Obj::borrowed(key));
            }
        }
    }
    out
}

/// An OrderedDict keeps an order of its own beside the table's.
fn ordered_entries(dict: &Obj) -> PyResult<Vec<(Obj, Obj)>> {
    // SAFETY: the type lives for ever.
    let class = unsafe { Obj::borrowed(crate::types::types().ordered_dict.cast()) };
    let keys = class.attr("__iter__")?.call(std::slice::from_ref(dict), None)?;
    let keys = keys.bind().try_iter()?.map(|key| key.map(Obj::from)).collect::<PyResult<Vec<Obj>>>()?;
    Ok(keys.into_iter().filter_map(|key| dict_get(dict, &key).map(|value| (key, value))).collect())
}

/// The value at a key whose hash and comparison run no Python code of the user's.
pub fn dict_get(dict: &Obj, key: &Obj) -> Option<Obj> {
    // SAFETY: a dict; a borrowed reference or null. An error (an unhashable key) is dropped: the key is not there.
    unsafe {
        let found = ffi::PyDict_GetItemWithError(dict.ptr(), key.ptr());
        if found.is_null() {
            ffi::PyErr_Clear();
        }
        Obj::borrowed_opt(found)
    }
}

impl Obj {
    pub fn into_ptr(self) -> *mut ffi::PyObject {
        let ptr = self.ptr();
        std::mem::forget(self);
        ptr
    }
}

impl<T> From<Bound<'_, T>> for Obj {
    fn from(bound: Bound<'_, T>) -> Obj {
        // SAFETY: a Bound is a live reference, which is taken over.
        unsafe { Obj(NonNull::new_unchecked(bound.into_ptr())) }
    }
}

impl<T> From<&Bound<'_, T>> for Obj {
    fn from(bound: &Bound<'_, T>) -> Obj {
        // SAFETY: a Bound is a live reference.
        unsafe { Obj::borrowed(bound.as_ptr()) }
    }
}

impl<T> From<Py<T>> for Obj {
    fn from(object: Py<T>) -> Obj {
        // SAFETY: a Py is a live reference, which is taken over.
        unsafe { Obj(NonNull::new_unchecked(object.into_ptr())) }
    }
}

/// What an exception says.
pub fn message(error: &PyErr) -> String {
    Obj::from(error.value(py()).as_any()).to_string()
}

/// `str`, or the type where that fails.
impl std::fmt::Display for Obj {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = postponing(|| Ok(self.bind().str()?.to_string_lossy().into_owned()));
        f.write_str(&text.quiet().unwrap_or_else(|| self.class_name()))
    }
}

impl std::fmt::Debug for Obj {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} at {:x}>", self.class_name(), self.id())
    }
}
