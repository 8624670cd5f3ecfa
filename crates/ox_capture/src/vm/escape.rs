//! What leaves the machine: its own iterators and generators become CPython's.

use super::iterate::Kind;
use super::{R, VmGenerator, VmIterator};
use crate::obj::{Obj, entries_of, items_of, py, tuple_of};
use crate::record::Val;
use crate::types::types;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// A walk over what a call returns.
pub struct Escape<'a> {
    /// Whether the program made the object in this call: nothing else holds what is the machine's.
    is_made: &'a dyn Fn(&Obj) -> bool,
    /// By address: what stands for the object outside. The object is held, so that the address stays its own.
    done: FxHashMap<usize, (Obj, Obj)>,
    /// Something of the machine's was met.
    pub met: bool,
}

impl<'a> Escape<'a> {
    pub fn new(is_made: &'a dyn Fn(&Obj) -> bool) -> Escape<'a> {
        Escape { is_made, done: FxHashMap::default(), met: false }
    }

    /// The object as others may have it. Lists and dicts are changed in place.
    pub fn outside(&mut self, object: &Obj) -> R<Obj> {
        if let Some((_, known)) = self.done.get(&object.id()) {
            return Ok(known.clone());
        }
        self.done.insert(object.id(), (object.clone(), object.clone()));
        let new = self.replaced(object)?;
        self.done.insert(object.id(), (object.clone(), new.clone()));
        Ok(new)
    }

    fn replaced(&mut self, object: &Obj) -> R<Obj> {
        if let Ok(iterator) = object.bind().cast::<VmIterator>() {
            self.met = true;
            let kind = iterator.borrow().kind.borrow().clone();
            return self.iterator(kind);
        }
        if let Ok(generator) = object.bind().cast::<VmGenerator>() {
            self.met = true;
            // One that has begun stays the machine's: its frame cannot be handed over.
            return Ok(self.generator(&generator.borrow())?.unwrap_or_else(|| object.clone()));
        }
        let t = types();
        if !(self.is_made)(object) {
            return Ok(object.clone());
        }
        if object.class_is(t.tuple) {
            let old = items_of(object);
            let new = old.iter().map(|item| self.outside(item)).collect::<R<Vec<Obj>>>()?;
            let same = old.iter().zip(&new).all(|(a, b)| a.is(b));
            return if same { Ok(object.clone()) } else { tuple_of(&new) };
        }
        let entries: Vec<(Obj, Obj)> = match object.class_is(t.list) {
            true => items_of(object).into_iter().enumerate().map(|(n, item)| (Obj::int(n as i64), item)).collect(),
            false if object.class_is(t.dict) => entries_of(object),
            false => Vec::new(),
        };
        for (key, item) in entries {
            let new = self.outside(&item)?;
            if !new.is(&item) {
                object.bind().set_item(key.bind(), new.bind())?;
            }
        }
        Ok(object.clone())
    }

    fn all(&mut self, values: &[Val]) -> R<Vec<Obj>> {
        values.iter().map(|value| self.outside(&value.obj)).collect()
    }

    fn iterator(&mut self, kind: Kind) -> R<Obj> {
        let class = |name: &str| -> R<Obj> { Ok(py().import("builtins")?.getattr(name)?.into()) };
        match kind {
            Kind::Sequence { of, at } => {
                let iterator: Obj = of.bind().try_iter()?.into();
                iterator.bind().call_method1("__setstate__", (at,))?;
                Ok(iterator)
            }
            Kind::Backwards { of, left } => {
                let iterator = class("reversed")?.call(&[of], None)?;
                iterator.bind().call_method1("__setstate__", (left as isize - 1,))?;
                Ok(iterator)
            }
            Kind::Items { items, at: 0, of: Some((container, _)) } if gives(&container, &items) => {
                Ok(container.bind().try_iter()?.into())
            }
            Kind::Items { items, at, .. } => {
                let rest = self.all(&items[at.min(items.len())..])?;
                Ok(crate::obj::list_of(&rest)?.bind().try_iter()?.into())
            }
            Kind::Zip { iterators, strict } => {
                let options = pyo3::types::PyDict::new(py());
                options.set_item("strict", strict)?;
                class("zip")?.call(&self.all(&iterators)?, Some(&options.into()))
            }
            Kind::Enumerate { iterator, count } => {
                class("enumerate")?.call(&[self.outside(&iterator.obj)?, Obj::int(count)], None)
            }
            Kind::Map { function, iterators } => {
                let iterators = self.all(&iterators)?;
                class("map")?.call(&[std::slice::from_ref(&function.obj), &iterators].concat(), None)
            }
            Kind::Filter { function, iterator } => {
                let iterator = self.outside(&iterator.obj)?;
                class("filter")?.call(&[function.obj, iterator], None)
            }
        }
    }

    /// None for a generator that has begun: CPython makes one that has not, from the arguments.
    fn generator(&mut self, generator: &VmGenerator) -> R<Option<Obj>> {
        let Some((function, args, keywords)) = generator.call() else { return Ok(None) };
        let args = args.iter().map(|arg| self.outside(arg)).collect::<R<Vec<Obj>>>()?;
        let named = pyo3::types::PyDict::new(py());
        for (name, value) in keywords {
            named.set_item(name.bind(), self.outside(&value)?.bind())?;
        }
        function.call(&args, Some(&named.into())).map(Some)
    }
}

/// Whether iteration over the container gives just these.
fn gives(container: &Obj, items: &[Val]) -> bool {
    let Ok(iterator) = container.bind().try_iter() else { return false };
    let found: Vec<Obj> = iterator.flatten().map(Obj::from).collect();
    found.len() == items.len() && found.iter().zip(items).all(|(a, b)| a.is(&b.obj))
}
