//! Where CPython keeps what a function, or a class, may be given anew: nobody tells of it, so the words are compared.

use crate::obj::Obj;
use crate::types::types;
use ox_gauge::{Depth, Words};
use pyo3::ffi;
use std::mem::offset_of;

/// A field of a function by its name, in bytes from its beginning. None for those that it cannot be given, or that lie elsewhere.
fn field(name: &str) -> Option<usize> {
    match name {
        "__code__" => Some(offset_of!(ffi::PyFunctionObject, func_code)),
        "__defaults__" => Some(offset_of!(ffi::PyFunctionObject, func_defaults)),
        "__kwdefaults__" => Some(offset_of!(ffi::PyFunctionObject, func_kwdefaults)),
        "__name__" => Some(offset_of!(ffi::PyFunctionObject, func_name)),
        "__qualname__" => Some(offset_of!(ffi::PyFunctionObject, func_qualname)),
        "__annotations__" => Some(offset_of!(ffi::PyFunctionObject, func_annotations)),
        _ => None,
    }
}

/// Adds the word that tells whether a function has the same field. False where it shows something else than it keeps: only where it keeps nothing that may be None.
///
/// # Safety
/// The function must live as long as the words are compared.
pub unsafe fn hold_field(words: &mut Words, function: &Obj, name: &str, value: &Obj) -> bool {
    let Some(offset) = field(name).filter(|_| function.class_is(types().function)) else { return false };
    // SAFETY: a part of a live function.
    unsafe {
        let place = function.ptr().cast::<u8>().add(offset).cast::<usize>();
        let is_shown = *place == value.id() || (*place == 0 && value.is_none());
        if is_shown {
            words.add(Depth::Object, place, 1);
        }
        is_shown
    }
}

/// Adds the words that tell whether somebody has changed a class or one of its bases: its version, and whether that is valid.
///
/// # Safety
/// The class must live as long as the words are compared.
pub unsafe fn hold_version(words: &mut Words, class: &Obj) {
    const WORD: usize = size_of::<usize>();
    const { assert!(offset_of!(ffi::PyTypeObject, tp_version_tag) % WORD == 0 && offset_of!(ffi::PyTypeObject, tp_flags) % WORD == 0) };
    // SAFETY: parts of a live class; the version is half a word, and nothing but a gap lies behind it.
    unsafe {
        let class = class.ptr().cast::<u8>();
        words.add(Depth::Object, class.add(offset_of!(ffi::PyTypeObject, tp_version_tag)).cast(), 1);
        words.add(Depth::Object, class.add(offset_of!(ffi::PyTypeObject, tp_flags)).cast(), 1);
    }
}
