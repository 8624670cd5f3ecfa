//! `Slot`: what is known to hold for calls with the same objects.

use super::Warm;
use super::signal::{Attached, Signal};
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::types::types;
use pyo3::ffi;
use pyo3::types::PyCFunction;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// An argument that was this object. It is not kept alive: when it goes, so does what is known.
pub struct Anchor {
    argument: usize,
    address: usize,
    is_module: bool,
    /// Calls back when the object goes.
    _reference: Obj,
}

impl Anchor {
    /// None for what no call is likely to bring again, and for what cannot be referred to weakly.
    pub fn new(argument: usize, object: &Obj, signal: &Rc<Signal>) -> Option<Anchor> {
        if !is_lasting(object) {
            return None;
        }
        let signal = Attached(signal.clone());
        let gone = PyCFunction::new_closure(py(), None, None, move |_, _| {
            let signal = &signal;
            signal.0.raise();
        });
        // SAFETY: live objects; a new reference, or null with an exception.
        let reference = unsafe { Obj::owned(ffi::PyWeakref_NewRef(object.ptr(), gone.quiet()?.as_ptr())) };
        let is_module = object.is_instance_of(types().nn_module);
        Some(Anchor { argument, address: object.id(), is_module, _reference: reference.quiet()? })
    }

    pub fn is(&self, object: &Obj) -> bool {
        self.address == object.id()
    }
}

/// A module, or the object that a method was called on: an instance of a class of the program's that is no container.
fn is_lasting(object: &Obj) -> bool {
    let t = types();
    let is_container = [t.dict, t.list, t.tuple, t.set, t.tensor, t.type_].iter().any(|class| object.is_instance_of(*class));
    object.is_instance_of(t.nn_module) || (!is_container && crate::record::is_plain_instance(object))
}

pub struct Slot {
    anchors: SmallVec<[Anchor; 1]>,
    warm: RefCell<Option<Rc<Warm>>>,
    /// Calls that were served by it.
    pub served: Cell<u32>,
}

impl Slot {
    pub fn new(anchors: SmallVec<[Anchor; 1]>, warm: Warm) -> Rc<Slot> {
        let signal = warm.signal.clone();
        let slot = Rc::new(Slot { anchors, warm: RefCell::new(Some(Rc::new(warm))), served: Cell::new(0) });
        signal.concerns(&slot);
        slot
    }

    /// Whether it is for calls with these arguments.
    pub fn is_for(&self, args: &[Obj]) -> bool {
        self.anchors.iter().all(|anchor| args.get(anchor.argument).is_some_and(|arg| arg.id() == anchor.address))
    }

    pub fn is_for_an_object(&self) -> bool {
        self.anchors.iter().any(|anchor| !anchor.is_module)
    }

    pub fn is_empty(&self) -> bool {
        self.warm.borrow().is_none()
    }

    pub fn warm(&self) -> Option<Rc<Warm>> {
        self.warm.borrow().clone()
    }

    /// What it held.
    pub fn empty(&self) -> Option<Rc<Warm>> {
        self.warm.borrow_mut().take()
    }
}
