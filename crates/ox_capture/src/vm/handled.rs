//! Which exception is being handled. A generator handles its own: what it handles when it yields is not handled by whoever gets the value,
//! and what handles the next value's asker is seen by the generator only while it handles nothing itself.

use super::exception::{exception_of, handled, set_handled};
use super::{Frame, Vm};
use crate::obj::Obj;
use pyo3::prelude::*;

/// Of a generator's frame.
#[derive(Clone, Default)]
pub struct Handled {
    /// What it handles itself.
    pub own: Option<Obj>,
    /// What is handled by whoever asked for its next value, while it runs. None stands for what the caller of all handles.
    pub around: Option<Obj>,
}

impl Vm {
    /// The generator's frame is about to run.
    pub(super) fn enter_handled(&mut self, frame: &mut Frame) {
        let around = handled();
        frame.handled.around = (!around.is_none() && !around.is(&self.entered)).then_some(around);
        if let Some(own) = &frame.handled.own {
            set_handled(own);
        }
    }

    /// The generator's frame has stopped, for now or for good.
    pub(super) fn leave_handled(&mut self, frame: &mut Frame) {
        let around = frame.handled.around.take();
        set_handled(around.as_ref().unwrap_or(&self.entered));
    }

    /// What is thrown into the running generator has for context what that handles itself.
    pub(super) fn chain_thrown(&mut self, error: &PyErr) -> PyResult<()> {
        match self.frame().handled.own {
            Some(_) => chain(&exception_of(error)),
            None => Ok(()),
        }
    }

    pub fn push_exc_info(&mut self) {
        let exception = self.pop();
        let frame = self.frame();
        let before = match frame.generator {
            Some(_) => frame.handled.own.replace(exception.obj.clone()).unwrap_or_else(Obj::none),
            None => handled(),
        };
        self.push(before);
        set_handled(&exception.obj);
        self.push(exception);
    }

    pub fn pop_except(&mut self) {
        let before = self.pop();
        self.handle(before.obj);
    }

    /// From now on the frame handles this exception, or none.
    pub(super) fn handle(&mut self, exception: Obj) {
        let entered = self.entered.clone();
        let frame = self.frame();
        if frame.generator.is_none() {
            return set_handled(&exception);
        }
        frame.handled.own = (!exception.is_none()).then_some(exception);
        let now = frame.handled.own.as_ref().or(frame.handled.around.as_ref());
        set_handled(now.unwrap_or(&entered));
    }
}

/// What is handled while an exception is raised becomes its context. A chain that would lead back to the exception is cut there.
pub fn chain(exception: &Obj) -> PyResult<()> {
    let context = handled();
    if context.is_none() || context.is(exception) {
        return Ok(());
    }
    let mut at = context.clone();
    let mut seen = vec![at.id()];
    loop {
        let next = at.attr("__context__")?;
        if next.is(exception) {
            at.bind().setattr("__context__", Obj::none().bind())?;
        }
        if next.is_none() || next.is(exception) || seen.contains(&next.id()) {
            break;
        }
        seen.push(next.id());
        at = next;
    }
    exception.bind().setattr("__context__", context.bind())
}
