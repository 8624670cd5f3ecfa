//! What leaves the machine: its own iterators and generators become CPython's.

use super::entries::{Entries, Gives};
use super::iterate::Kind;
use super::{R, VmGenerator, VmIterator, library};
use crate::interrupt::Quiet;
use crate::obj::{DEEPEST, Obj, entries_of, items_of, list_of, py, tuple_of};
use crate::record::{MadeBy, Val};
use crate::types::types;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

const BEGUN: &str = "an iterator comes out that the machine has begun";

/// A walk over what a call returns.
pub struct Escape<'a> {
    /// Whether the program made the object in this call: nothing else holds what is the machine's.
    is_made: &'a dyn Fn(&Obj) -> bool,
    /// By address: what stands for the object outside. The object is held, so that the address stays its own.
    done: FxHashMap<usize, (Obj, Obj)>,
    /// The calls that gave what stands for the machine's objects.
    pub calls: Vec<MadeBy>,
    /// Tuples that were made anew because of what they hold.
    pub tuples: Vec<Obj>,
    /// Why something of the machine's may come out as it is.
    pub stuck: Option<&'static str>,
    /// How deep the walk is in what holds other objects.
    depth: usize,
}

impl<'a> Escape<'a> {
    pub fn new(is_made: &'a dyn Fn(&Obj) -> bool) -> Escape<'a> {
        Escape { is_made, done: FxHashMap::default(), calls: Vec::new(), tuples: Vec::new(), stuck: None, depth: 0 }
    }

    /// The object as others may have it. Lists and dicts are changed in place.
    pub fn outside(&mut self, object: &Obj) -> R<Obj> {
        if let Some((_, known)) = self.done.get(&object.id()) {
            return Ok(known.clone());
        }
        self.done.insert(object.id(), (object.clone(), object.clone()));
        if self.depth > DEEPEST {
            self.stuck = Some("objects that lie very deep in others come out");
            return Ok(object.clone());
        }
        self.depth += 1;
        let new = self.replaced(object)?;
        self.depth -= 1;
        self.done.insert(object.id(), (object.clone(), new.clone()));
        Ok(new)
    }

    fn replaced(&mut self, object: &Obj) -> R<Obj> {
        if !(self.is_made)(object) {
            return Ok(object.clone());
        }
        if let Ok(iterator) = object.bind().cast::<VmIterator>() {
            let kind = iterator.borrow().kind.borrow().clone();
            return self.iterator(kind);
        }
        if let Ok(generator) = object.bind().cast::<VmGenerator>() {
            return self.generator(object, &generator.borrow());
        }
        let t = types();
        if object.class_is(t.tuple) {
            let old = items_of(object);
            let new = old.iter().map(|item| self.outside(item)).collect::<R<Vec<Obj>>>()?;
            let same = old.iter().zip(&new).all(|(a, b)| a.is(b));
            if same {
                return Ok(object.clone());
            }
            let tuple = tuple_of(&new)?;
            self.tuples.push(tuple.clone());
            return Ok(tuple);
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

    /// Makes an object by a call, and notes the call.
    fn given(&mut self, by: Obj, args: Vec<Obj>, names: Vec<Obj>, state: Option<i64>) -> R<Obj> {
        let (positional, named) = args.split_at(args.len() - names.len());
        let keywords = pyo3::types::PyDict::new(py());
        for (name, value) in names.iter().zip(named) {
            keywords.set_item(name.bind(), value.bind())?;
        }
        let object = by.call(positional, Some(&keywords.into()))?;
        if let Some(state) = state {
            object.bind().call_method1("__setstate__", (state,))?;
        }
        self.calls.push(MadeBy { object: object.clone(), by, args, names, state: state.map(Obj::int) });
        Ok(object)
    }

    pub fn iterator(&mut self, kind: Kind) -> R<Obj> {
        let builtin = |name: &str| -> R<Obj> { Ok(py().import("builtins")?.getattr(name)?.into()) };
        match kind {
            Kind::Sequence { of, at } => self.given(builtin("iter")?, vec![of], vec![], (at > 0).then_some(at as i64)),
            Kind::Backwards { of, left } => self.given(builtin("reversed")?, vec![of], vec![], Some(left as i64 - 1)),
            Kind::Items { items, at: 0, of: Some((container, _)) } if gives(&container, &items) => {
                self.given(builtin("iter")?, vec![container], vec![], None)
            }
            Kind::Items { items, at, .. } => {
                let rest = self.all(&items[at.min(items.len())..])?;
                let list = list_of(&rest)?;
                self.tuples.push(list.clone());
                self.given(builtin("iter")?, vec![list], vec![], None)
            }
            Kind::Entries(entries) => self.entries(&entries),
            Kind::Zip { iterators, strict } => {
                let mut args = self.all(&iterators)?;
                args.push(Obj::bool(strict));
                self.given(builtin("zip")?, args, vec![Obj::str("strict")], None)
            }
            Kind::Enumerate { iterator, count } => {
                let args = vec![self.outside(&iterator.obj)?, Obj::int(count)];
                self.given(builtin("enumerate")?, args, vec![], None)
            }
        }
    }

    fn entries(&mut self, entries: &Entries) -> R<Obj> {
        let builtin = |name: &str| -> R<Obj> { Ok(py().import("builtins")?.getattr(name)?.into()) };
        let Some(passed) = entries.passed() else {
            self.stuck = Some(BEGUN);
            return self.given(builtin("iter")?, vec![list_of(entries.to_come())?], vec![], None);
        };
        // SAFETY: the types live for ever.
        let class = unsafe {
            match entries.dict.is_instance_of(types().ordered_dict) {
                true => Obj::borrowed(types().ordered_dict.cast()),
                false => Obj::borrowed(types().dict.cast()),
            }
        };
        let view = match entries.gives {
            Gives::Keys => entries.dict.clone(),
            gives => self.given(class.attr(gives.method())?, vec![entries.dict.clone()], vec![], None)?,
        };
        match passed {
            0 => self.given(builtin("iter")?, vec![view], vec![], None),
            _ => self.given(library::function("iterator_behind")?, vec![view, Obj::int(passed as i64)], vec![], None),
        }
    }

    /// CPython makes one that has not begun, from its arguments. One that has begun gets a generator of CPython's around it.
    fn generator(&mut self, object: &Obj, generator: &VmGenerator) -> R<Obj> {
        if let Some((function, args, keywords)) = generator.call() {
            let mut args = args.iter().map(|arg| self.outside(arg)).collect::<R<Vec<Obj>>>()?;
            for (_, value) in &keywords {
                args.push(self.outside(value)?);
            }
            let names = keywords.into_iter().map(|(name, _)| name).collect();
            return self.given(library::native_of(&function).unwrap_or(function), args, names, None);
        }
        let function = generator.with_frame(|frame| frame.map(|frame| frame.function.clone()));
        let Some(function) = function.filter(|function| library::native_of(function).is_none()) else {
            self.stuck = Some(BEGUN);
            return Ok(object.clone());
        };
        let args = vec![object.clone(), function.attr("__name__")?, function.attr("__qualname__")?, function.attr("__code__")?];
        self.given(library::function("begun")?, args, vec![], None)
    }
}

/// Whether iteration over the container gives just these.
fn gives(container: &Obj, items: &[Val]) -> bool {
    let Some(iterator) = container.bind().try_iter().quiet() else { return false };
    let found: Vec<Obj> = iterator.flatten().map(Obj::from).collect();
    found.len() == items.len() && found.iter().zip(items).all(|(a, b)| a.is(&b.obj))
}
