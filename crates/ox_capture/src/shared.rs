//! `Shared`: what is read while Python code runs, and may be changed meanwhile.

use std::cell::RefCell;
use std::rc::Rc;

/// Who reads keeps what was there. A check may run Python code, and then another thread, or the very function that is being checked, may
/// add to what is read: the reader's copy stays as it was.
#[derive(Default)]
pub struct Shared<T>(RefCell<Rc<T>>);

impl<T: Clone> Shared<T> {
    pub fn read(&self) -> Rc<T> {
        self.0.borrow().clone()
    }

    /// Copies first when somebody reads; `change` must not run Python code.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(Rc::make_mut(&mut self.0.borrow_mut()))
    }
}
