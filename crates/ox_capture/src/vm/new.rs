//! `__new__` written in Python, and what comes behind it.

use super::{After, Args, Called, R, Vm};
use crate::obj::Obj;
use crate::record::Val;
use crate::types::types;

impl Vm {
    /// `__new__` of the program's, in a frame of its own: a break may stand inside, and `After` says what comes next.
    pub fn call_own_new(&mut self, class: &Val, new: &Obj, args: &Args) -> R<Called> {
        let function = self.pinned(new.attr("__func__")?);
        if !function.obj.class_is(types().function) {
            return self.call_now(&function, args.clone().with_self(class.clone())).map(Called::Value);
        }
        self.waiting += 1;
        let called = self.call(&function, args.clone().with_self(class.clone()));
        self.waiting -= 1;
        if let Called::Value(object) = called? {
            return Ok(Called::Value(object));
        }
        if !matches!(self.frame().after, After::Push) {
            return self.finish_pushed().map(Called::Value);
        }
        self.frame().after = After::New(class.clone(), args.clone());
        Ok(Called::Pushed)
    }

    /// `__init__` of what `__new__` has made, if it is of the class.
    pub fn initialise_made(&mut self, class: &Val, args: &Args, object: Val) -> R<Called> {
        match object.obj.is_instance_of(class.obj.ptr().cast()) {
            true => self.initialise(&object, args.clone()),
            false => Ok(Called::Value(object)),
        }
    }

    /// The same when the frame of `__new__` has been left, where no instruction is under way that a break could follow.
    pub fn now_initialised(&mut self, class: &Val, args: &Args, object: Val) -> R<Called> {
        self.waiting += 1;
        let called = self.initialise_made(class, args, object);
        self.waiting -= 1;
        called
    }
}
