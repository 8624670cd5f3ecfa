//! The machine's iterators and generators live on from segment to segment, and in the hands of others. A segment that moves one on says
//! so: it relies on finding it where the segments before have left it, and leaves it further on.

use super::{R, Vm, VmGenerator, VmIterator};
use crate::obj::{Obj, py};
use crate::record::Origin;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

/// Whether somebody who does not record has moved the iterator or generator on: its place is no longer what traces tell.
pub fn is_moved(object: &Obj) -> bool {
    with_mark(object, Cell::get)
}

/// Its place has just been noted.
pub fn stands(object: &Obj) {
    with_mark(object, |moved| moved.replace(false));
}

fn with_mark(object: &Obj, look: impl Fn(&Cell<bool>) -> bool) -> bool {
    match object.bind().cast::<VmIterator>() {
        Ok(iterator) => look(&iterator.borrow().moved),
        Err(_) => object.bind().cast::<VmGenerator>().is_ok_and(|generator| look(&generator.borrow().moved)),
    }
}

impl Vm {
    /// Whether this call made the iterator or generator. One that another call has given away is a stranger here, as those of CPython's are:
    /// where it stands is not known.
    pub fn made_here(&self, object: &Obj) -> bool {
        self.rec.is_none() || self.origin(object) == Origin::Made
    }

    pub fn is_own_iterator(&self, object: &Obj) -> bool {
        object.bind().is_instance_of::<VmIterator>() && self.made_here(object)
    }

    pub fn is_own_generator(&self, object: &Obj) -> bool {
        object.bind().is_instance_of::<VmGenerator>() && self.made_here(object)
    }

    /// Whether it is an iterator that this call did not make: C code that empties it does so in every call.
    pub fn is_strange_iterator(&self, object: &Obj) -> bool {
        // SAFETY: a live object.
        let is_iterator = unsafe { ffi::PyIter_Check(object.ptr()) != 0 };
        is_iterator && !self.made_here(object)
    }

    /// A generator that runs here, and that an earlier segment may have set going, stops or ends.
    pub fn runs(&mut self, generator: &Obj) {
        if let Some(rec) = &mut self.rec {
            rec.moves_on(generator);
        }
    }

    /// The iterator or generator is about to give its next value.
    pub fn moves_on(&mut self, object: &Obj) -> R<()> {
        let is_known = self.rec.as_mut().is_some_and(|rec| rec.moves_on(object));
        if is_known {
            return Ok(());
        }
        if self.rec.is_some() {
            self.give_up("an iterator that other code may have moved on");
        }
        with_mark(object, |moved| moved.replace(true));
        PyErr::take(py()).map_or(Ok(()), Err)
    }
}
