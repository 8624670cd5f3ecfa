//! Classes that a trace writes to: CPython's count of changes says nothing of them, since every call changes them. So what they hold is
//! compared, but for what traces write; that is read like any place outside.

use crate::found::Found;
use crate::guard::version_of;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::source::Key;
use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use rustc_hash::FxHashSet;
use std::cell::Cell;

/// An attribute that is written: the address of its class, and its name.
pub type Place = (usize, Key);

/// Names and what they stand for.
type Entries = Vec<(Obj, Obj)>;

/// A class and its bases as they were, but for what traces write.
#[derive(Debug)]
pub struct ClassPortrait {
    pub class: Obj,
    /// At which it was found to be so last.
    version: Cell<u32>,
    bases: Vec<(Obj, Entries)>,
    but_for: FxHashSet<Place>,
}

impl ClassPortrait {
    pub fn of(class: &Obj, but_for: &FxHashSet<Place>) -> ClassPortrait {
        let but_for = but_for.clone();
        let bases = bases_of(class).into_iter().map(|base| (base.clone(), entries_but_for(&base, &but_for))).collect();
        ClassPortrait { class: class.clone(), version: Cell::new(0), bases, but_for }
    }

    pub fn fits(&self) -> bool {
        let version = version_of(&self.class);
        if version != 0 && version == self.version.get() {
            return true;
        }
        let fits = self.is_as_it_was();
        if fits {
            self.version.set(version);
        }
        fits
    }

    fn is_as_it_was(&self) -> bool {
        let now = bases_of(&self.class);
        let is_same = |(base, entries): (&Obj, &(Obj, Entries))| {
            base.is(&entries.0) && same_entries(&entries_but_for(base, &self.but_for), &entries.1)
        };
        now.len() == self.bases.len() && now.iter().zip(&self.bases).all(is_same)
    }
}

fn same_entries(now: &[(Obj, Obj)], before: &[(Obj, Obj)]) -> bool {
    now.len() == before.len() && now.iter().zip(before).all(|(a, b)| a.0.is(&b.0) && a.1.is(&b.1))
}

fn bases_of(class: &Obj) -> Vec<Obj> {
    class.attr("__mro__").map(|mro| items_of(&mro)).quiet().unwrap_or_default()
}

fn entries_but_for(class: &Obj, but_for: &FxHashSet<Place>) -> Entries {
    let items = class.attr("__dict__").and_then(|dict| Ok(dict.bind().call_method0("items")?.try_iter()?.collect::<Vec<_>>()));
    let pairs = items.quiet().unwrap_or_default().into_iter().flatten().map(|pair| items_of(&pair.into()));
    let pairs = pairs.map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.filter(|(name, _)| !but_for.contains(&(class.id(), Key(name.clone())))).collect()
}

/// The class among the bases in whose dict a name stands.
pub fn owner_of(class: &Obj, name: &Obj) -> Option<Obj> {
    bases_of(class).into_iter().find(|base| own_entry(base, name).is_some())
}

/// What the class's own dict holds.
pub fn own_entry(class: &Obj, name: &Obj) -> Option<Obj> {
    let dict = class.attr("__dict__").quiet()?;
    dict.bind().get_item(name.bind()).quiet().map(Obj::from)
}

/// `own_entry` as a function for sources; NotImplemented where there is none.
pub fn entry_reader() -> PyResult<Obj> {
    static READER: Found<Obj> = Found::new();
    let reader = READER.or_try_find(|| -> PyResult<Obj> {
        let reader = PyCFunction::new_closure(py(), Some(c"own_entry"), None, |args, _| -> PyResult<Py<PyAny>> {
            let found = own_entry(&args.get_item(0)?.into(), &args.get_item(1)?.into());
            Ok(found.map_or_else(|| py().NotImplemented(), |found| found.bind().clone().unbind()))
        })?;
        Ok(reader.into())
    })?;
    Ok(reader.clone())
}
