//! Objects that are told when they go, by a `__del__` of the program's. The machine sees when nobody holds one that it has made (`abandoned`), and
//! calls the method itself, as a part of the trace. CPython calls it once in the life of an object: so it does not do it again.

use super::Vm;
use crate::attr::type_lookup;
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::record::Origin;
use crate::types::types;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyType};

/// The method of instances of this class, if it is a function and its call is the machine's to make.
pub fn finaliser(class: &Obj) -> Option<Obj> {
    let method = type_lookup(class, &Obj::str("__del__")).filter(|method| method.class_is(types().function))?;
    // SAFETY: a live class.
    let is_collected = unsafe { ffi::PyType_HasFeature(class.ptr().cast(), ffi::Py_TPFLAGS_HAVE_GC) != 0 };
    (is_collected && can_spend()).then_some(method)
}

/// CPython does not call its `__del__` any more.
///
/// # Safety
/// Its class must take part in collecting garbage.
unsafe fn spend(object: &Obj) {
    /// `_PyGC_PREV_MASK_FINALIZED`, in the second word of what stands in front of the object.
    const FINALIZED: usize = 1;
    // SAFETY: the caller's word; `can_spend` has seen that it is there.
    unsafe { *object.ptr().cast::<usize>().sub(1) |= FINALIZED };
}

pub fn is_spent(object: &Obj) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::PyObject_GC_IsFinalized(object.ptr()) != 0 }
}

/// Nothing is done when it goes; False for objects without such a method.
pub fn spend_object(object: &Obj) -> bool {
    let is_told = finaliser(&object.class()).is_some();
    if is_told {
        // SAFETY: `finaliser` has looked.
        unsafe { spend(object) };
    }
    is_told
}

/// Whether the flag is where it is expected.
fn can_spend() -> bool {
    static CAN: Found<bool> = Found::new();
    *CAN.or_find(|| {
        let probe = || -> PyResult<bool> {
            let class = py().get_type::<PyType>().call1(("Probe", PyTuple::empty(py()), PyDict::new(py())))?;
            let object = Obj::from(class.call0()?);
            let before = is_spent(&object);
            // SAFETY: instances of classes of Python's take part in collecting garbage, so that a head stands in front of them.
            unsafe { spend(&object) };
            Ok(!before && is_spent(&object))
        };
        probe().quiet().unwrap_or(false)
    })
}

/// The same, as an effect on what a call has built.
pub fn spender() -> PyResult<Obj> {
    static SPENDER: Found<Obj> = Found::new();
    let spender = SPENDER.or_try_find(|| -> PyResult<Obj> {
        let spender = PyCFunction::new_closure(py(), Some(c"finalised"), None, |args, _| -> PyResult<()> {
            spend_object(&args.get_item(0)?.into());
            Ok(())
        })?;
        Ok(spender.into())
    })?;
    Ok(spender.clone())
}

impl Vm {
    /// It is gone for the program: what is to be done then is done by the machine.
    pub(super) fn spend_gone(&mut self, object: &Obj) {
        if !spend_object(object) {
            return;
        }
        let Some(rec) = self.rec.as_mut() else { return };
        if let (Origin::Outside(_), Ok(spender)) = (rec.origin(object), spender()) {
            rec.note_change(spender, vec![object.clone().into()]);
        }
    }
}
