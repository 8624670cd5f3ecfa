//! Iteration over a dict: its keys as they were at the beginning, its values as they are when their turn comes.

use super::{R, Vm, VmIterator};
use crate::obj::{Obj, entries_of, items_of};
use crate::record::Val;
use crate::source::{Key, Source};
use crate::types::types;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::rc::Rc;

/// What is given of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    Keys,
    Values,
    Items,
}

impl Gives {
    const NAMES: [(&'static str, Gives); 3] = [("keys", Gives::Keys), ("values", Gives::Values), ("entries", Gives::Items)];

    /// The name of its iterators in recipes.
    pub fn name(self) -> &'static str {
        Gives::NAMES.iter().find(|(_, gives)| *gives == self).expect("all have one").0
    }

    pub fn called(name: &str) -> Option<Gives> {
        Gives::NAMES.iter().find(|(known, _)| *known == name).map(|(_, gives)| *gives)
    }

    /// What iteration over a dict or a view of one gives.
    pub fn of(object: &Obj) -> Gives {
        match object {
            view if view.is_instance_of(types().dict_values) => Gives::Values,
            view if view.is_instance_of(types().dict_items) => Gives::Items,
            _ => Gives::Keys,
        }
    }

    /// The method that gives a view of it.
    pub fn method(self) -> &'static str {
        match self {
            Gives::Keys => "keys",
            Gives::Values => "values",
            Gives::Items => "items",
        }
    }
}

/// An iterator over a dict.
#[derive(Clone, Debug)]
pub struct Entries {
    pub dict: Obj,
    pub gives: Gives,
    /// Those that are still to come stand from `at` on.
    keys: Rc<[Obj]>,
    at: usize,
    /// How many entries the dict had, and must have.
    pub len: usize,
    /// Where in its table the next entry is looked for first.
    place: isize,
}

impl Entries {
    pub fn new(dict: Obj, gives: Gives) -> Entries {
        let keys: Rc<[Obj]> = entries_of(&dict).into_iter().map(|(key, _)| key).collect();
        let len = keys.len();
        Entries { dict, gives, keys, at: 0, len, place: 0 }
    }

    pub fn left(dict: Obj, gives: Gives, keys: Vec<Obj>, len: usize) -> Entries {
        Entries { dict, gives, keys: keys.into(), at: 0, len, place: 0 }
    }

    pub fn to_come(&self) -> &[Obj] {
        &self.keys[self.at..]
    }

    /// How many entries stand in front of the next one. None if iteration from there on would not give what is to come.
    pub fn passed(&self) -> Option<usize> {
        let now = entries_of(&self.dict);
        let passed = now.len().checked_sub(self.to_come().len())?;
        let same = now[passed..].iter().zip(self.to_come()).all(|((key, _), expected)| is_key(key, expected));
        (same && now.len() == self.len).then_some(passed)
    }

    /// The value at a key, found without asking the key for its hash: no code of the program's runs.
    fn value_at(&mut self, key: &Obj) -> Option<Obj> {
        let from_start = [self.place, 0];
        from_start.into_iter().find_map(|mut place| {
            let (mut at, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: a dict that is not changed meanwhile; key and value are borrowed.
            while unsafe { ffi::PyDict_Next(self.dict.ptr(), &mut place, &mut at, &mut value) != 0 } {
                // SAFETY: as above.
                let (at, value) = unsafe { (Obj::borrowed(at), Obj::borrowed(value)) };
                if is_key(&at, key) {
                    self.place = place;
                    return Some(value);
                }
            }
            None
        })
    }

    /// Whether entries stand behind the last one that was given.
    fn goes_on(&self) -> bool {
        let last = entries_of(&self.dict).pop();
        last.zip(self.keys.last()).is_some_and(|((now, _), then)| !is_key(&now, then))
    }

    /// Raises if the dict is not as it was in a way that its iterators notice.
    fn check(&self) -> R<()> {
        let changed = |how: &str| Err(PyRuntimeError::new_err(format!("{how} during iteration")));
        if self.dict.is_instance_of(types().ordered_dict) {
            // It knows from each key which one comes next, and so where it ends.
            return if self.to_come().is_empty() || self.passed().is_some() { Ok(()) } else { changed("OrderedDict mutated") };
        }
        match self.dict.bind().len()? == self.len {
            false => changed("dictionary changed size"),
            true if self.to_come().is_empty() && self.goes_on() => changed("dictionary keys changed"),
            true => Ok(()),
        }
    }
}

/// Whether it is the same key, or one that was made again of the same values. No code of the program's runs.
fn is_key(now: &Obj, then: &Obj) -> bool {
    let tuple = types().tuple;
    let parts = || items_of(now).into_iter().zip(items_of(then));
    let are_tuples = || now.class_is(tuple) && then.class_is(tuple) && crate::guard::length(now) == crate::guard::length(then);
    Key(now.clone()) == Key(then.clone()) || are_tuples() && parts().all(|(now, then)| is_key(&now, &then))
}

impl Vm {
    pub(super) fn advance_entries(&mut self, iterator: &Bound<'static, VmIterator>, mut entries: Entries) -> R<Option<Val>> {
        entries.check()?;
        let Some(key) = entries.to_come().first().cloned() else {
            iterator.borrow().end();
            return Ok(None);
        };
        let Some(value) = entries.value_at(&key) else {
            return Err(PyRuntimeError::new_err("dictionary keys changed during iteration"));
        };
        entries.at += 1;
        let (dict, gives) = (entries.dict.clone(), entries.gives);
        iterator.borrow().kind.replace(super::Kind::Entries(entries));
        if gives == Gives::Keys {
            return Ok(Some(key.into()));
        }
        let value = self.found_at(&dict, &key, value, |of| Source::Value(of, Key(key.clone())));
        match gives {
            Gives::Values => Ok(Some(value)),
            _ => self.tuple(vec![key.into(), value]).map(Some),
        }
    }
}
