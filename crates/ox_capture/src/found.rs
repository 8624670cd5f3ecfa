//! What is found out once in a process, by asking Python.

use std::sync::OnceLock;

/// Whoever looks for it may run the program's code on the way (a hook of imports, a finaliser), let other threads run, and wait for locks of Python's. So no lock
/// is held meanwhile: several threads may look for it at once, and the same one again inside of its own search. The first one that has found something is right, and
/// what the others have found goes.
pub struct Found<T>(OnceLock<T>);

impl<T> Default for Found<T> {
    fn default() -> Found<T> {
        Found::new()
    }
}

impl<T> Found<T> {
    pub const fn new() -> Found<T> {
        Found(OnceLock::new())
    }

    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    pub fn or_find(&self, find: impl FnOnce() -> T) -> &T {
        match self.0.get() {
            Some(known) => known,
            None => self.keep(find()),
        }
    }

    /// What fails is tried again by the next one.
    pub fn or_try_find<E>(&self, find: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.0.get() {
            Some(known) => Ok(known),
            None => find().map(|found| self.keep(found)),
        }
    }

    /// What comes too late goes behind the lock: that may run code.
    fn keep(&self, found: T) -> &T {
        let _late = self.0.set(found);
        self.0.get().expect("it is there now, by whomever")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn the_first_that_is_found_stays() {
        let found = Found::new();
        assert_eq!(found.or_try_find(|| Err("not yet")), Err("not yet"));
        assert_eq!((found.or_find(|| 1), found.or_find(|| 2)), (&1, &1));
    }

    #[test]
    fn it_may_be_looked_for_while_it_is_looked_for() {
        let found = Found::new();
        assert_eq!(found.or_find(|| found.or_find(|| 1) + 1), &1);
    }

    #[test]
    fn nobody_waits_for_somebody_who_looks_for_it() {
        let (found, both) = (Found::new(), Barrier::new(2));
        let look = |n: i32| {
            *found.or_find(|| {
                both.wait();
                n
            })
        };
        std::thread::scope(|threads| {
            let other = threads.spawn(|| look(1));
            assert_eq!(look(2), other.join().unwrap());
        });
    }
}
