//! Generators that nobody holds any more: CPython closes them at once, which runs their `finally` clauses and leaves their contexts.

use super::{Args, Frame, R, Vm, VmGenerator};
use crate::obj::Obj;
use ox_bytecode::Instruction;
use pyo3::ffi;
use rustc_hash::FxHashMap;

/// Generators that stand inside of a clause or a context.
#[derive(Default)]
pub struct Suspended {
    list: Vec<Obj>,
    /// By address: the references that belong to what earlier parts of the call have found, not to the program.
    elsewhere: FxHashMap<usize, usize>,
}

impl Suspended {
    /// The generator has given out a value, and its frame waits.
    pub fn note(&mut self, generator: &Obj, frame: &Frame) {
        if is_inside(frame) && !self.list.iter().any(|known| known.is(generator)) {
            self.list.push(generator.clone());
        }
    }

    /// It is done.
    pub fn forget(&mut self, generator: &Obj) {
        self.list.retain(|known| !known.is(generator));
    }

    /// Generators that an earlier part of the call left behind, one reference to each for the place where it was found.
    fn adopt(&mut self, found: &[Option<Obj>]) {
        for object in found.iter().flatten() {
            if let Ok(generator) = object.bind().cast::<VmGenerator>() {
                generator.borrow().with_frame(|frame| frame.into_iter().for_each(|frame| self.note(object, frame)));
                *self.elsewhere.entry(object.id()).or_default() += 1;
            }
        }
    }
}

/// Whether something is to be done when the frame is left where it stands. Every generator has a handler for a StopIteration that passes: that
/// one begins otherwise.
fn is_inside(frame: &Frame) -> bool {
    let code = &frame.code.code;
    let handler = code.handler(frame.pc.saturating_sub(1));
    handler.is_some_and(|handler| code.instructions.get(handler.target.index()) == Some(&Instruction::PushExcInfo))
}

impl Vm {
    /// This machine goes on where an earlier part of the call ended, which found these.
    pub fn adopt_suspended(&mut self, found: &[Option<Obj>]) {
        self.suspended.adopt(found);
    }

    /// The next instruction is the first of closing one, if there is one.
    pub fn close_abandoned(&mut self) -> R<()> {
        if self.suspended.list.is_empty() {
            return Ok(());
        }
        let Some(generator) = self.take_abandoned() else { return Ok(()) };
        if self.rec.is_some() && self.waiting == 0 {
            let called = self.call_library("abandon", vec![generator.into()])?;
            self.drop_result(called);
        } else {
            self.close_now(&generator);
        }
        Ok(())
    }

    /// The outermost frame is gone, with what its variables held.
    pub fn close_abandoned_at_the_end(&mut self) {
        while self.frames.is_empty()
            && let Some(generator) = self.take_abandoned()
        {
            self.close_now(&generator);
        }
    }

    /// What it raises then has nowhere to go.
    fn close_now(&mut self, generator: &Obj) {
        if let Ok(bound) = generator.bind().cast::<VmGenerator>() {
            let _ = self.generator_method(&bound.clone(), "close", Args::default());
        }
    }

    fn take_abandoned(&mut self) -> Option<Obj> {
        let at = self.suspended.list.iter().position(|generator| self.is_abandoned(generator))?;
        Some(self.suspended.list.swap_remove(at))
    }

    fn is_abandoned(&self, generator: &Obj) -> bool {
        let recorded = usize::from(self.rec.as_ref().is_some_and(|rec| rec.holds(generator)));
        let elsewhere = self.suspended.elsewhere.get(&generator.id()).copied().unwrap_or(0);
        // SAFETY: reads the count of a live object. One reference is the list's.
        let held = unsafe { ffi::Py_REFCNT(generator.ptr()) } as usize;
        held <= 1 + recorded + elsewhere
    }
}
