//! Iteration. While recording, the built-in iterators are the machine's own, so that what they give out keeps its source.

use super::entries::{Entries, Gives};
use super::escape::Escape;
use super::seen::seen_class;
use super::{After, Args, Called, Flow, R, Vm, VmGenerator};
use crate::attr::type_lookup;
use crate::obj::{Obj, items_of, py};
use crate::record::{Origin, Val};
use crate::source::{Source, item_of};
use crate::types::types;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};

#[derive(Clone, Debug)]
pub enum Kind {
    /// A list, tuple, range or array, read as it is when its turn comes.
    Sequence {
        of: Obj,
        at: usize,
    },
    /// What a set or deque held at the beginning; its size must stay.
    Items {
        items: Vec<Val>,
        at: usize,
        of: Option<(Obj, usize)>,
    },
    /// A dict or a view of one.
    Entries(Entries),
    /// A list or tuple from its end; `left` items are still to come.
    Backwards {
        of: Obj,
        left: usize,
    },
    Zip {
        iterators: Vec<Val>,
        strict: bool,
    },
    Enumerate {
        iterator: Val,
        count: i64,
    },
}

/// An iterator of the machine's.
#[pyclass(module = "oxytorch")]
pub struct VmIterator {
    pub kind: RefCell<Kind>,
    /// By somebody who does not record (`moving`).
    pub moved: Cell<bool>,
}

// SAFETY: only attached threads get here, one at a time, and no borrow is held while Python code runs.
unsafe impl Send for VmIterator {}
unsafe impl Sync for VmIterator {}

/// The kinds by name, for recipes.
impl Kind {
    pub fn parts(&self) -> (&'static str, Vec<Val>, i64) {
        match self {
            Kind::Sequence { of, at } => ("sequence", vec![of.clone().into()], *at as i64),
            Kind::Backwards { of, left } => ("backwards", vec![of.clone().into()], *left as i64),
            Kind::Items { items, at, of } => {
                let mut parts: Vec<Val> = of.iter().map(|(container, _)| container.clone().into()).collect();
                parts.extend(items.iter().skip(*at).cloned());
                match of {
                    Some((_, len)) => ("items of", parts, *len as i64),
                    None => ("items", parts, 0),
                }
            }
            Kind::Entries(entries) => {
                let mut parts = vec![entries.dict.clone().into()];
                parts.extend(entries.to_come().iter().map(|key| Val::from(key.clone())));
                (entries.gives.name(), parts, entries.len as i64)
            }
            Kind::Zip { iterators, strict } => ("zip", iterators.clone(), i64::from(*strict)),
            Kind::Enumerate { iterator, count } => ("enumerate", vec![iterator.clone()], *count),
        }
    }

    pub fn from_parts(name: &str, mut parts: Vec<Val>, at: i64) -> R<Kind> {
        if let Some(gives) = Gives::called(name) {
            let dict = parts.remove(0).obj;
            let keys = parts.into_iter().map(|key| key.obj).collect();
            return Ok(Kind::Entries(Entries::left(dict, gives, keys, at as usize)));
        }
        Ok(match name {
            "sequence" => Kind::Sequence { of: parts.remove(0).obj, at: at as usize },
            "backwards" => Kind::Backwards { of: parts.remove(0).obj, left: at as usize },
            "items of" => {
                let container = parts.remove(0).obj;
                Kind::Items { items: parts, at: 0, of: Some((container, at as usize)) }
            }
            "items" => Kind::Items { items: parts, at: 0, of: None },
            "zip" => Kind::Zip { iterators: parts, strict: at != 0 },
            "enumerate" => Kind::Enumerate { iterator: parts.remove(0), count: at },
            other => return Err(PyValueError::new_err(format!("no iterator is called {other}"))),
        })
    }
}

#[pymethods]
impl VmIterator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    /// Asked by CPython, not by the machine: nothing is recorded.
    fn __next__(this: Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let mut vm = Vm::plain();
        let value: Val = Obj::from(this).into();
        Ok(vm.next_of(&value)?.map(|v| v.obj.bind().clone().unbind()))
    }

    /// For C code that asks what it is.
    #[getter]
    fn __class__(this: Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        seen_class(&Obj::from(this)).map(|class| class.bind().clone().unbind())
    }

    fn __length_hint__(&self) -> PyResult<Py<PyAny>> {
        let native = self.native()?;
        match native.attr("__length_hint__") {
            Ok(method) => Ok(method.call(&[], None)?.bind().clone().unbind()),
            Err(_) => Ok(py().NotImplemented()),
        }
    }

    /// For copies.
    fn __reduce_ex__(&self, protocol: i64) -> PyResult<Py<PyAny>> {
        let reduced = self.native()?.attr("__reduce_ex__")?.call(&[Obj::int(protocol)], None)?;
        Ok(reduced.bind().clone().unbind())
    }
}

fn new_iterator(kind: Kind) -> R<Obj> {
    Ok(Bound::new(py(), VmIterator::of(kind))?.into())
}

impl VmIterator {
    /// CPython's iterator that stands where this one stands.
    fn native(&self) -> R<Obj> {
        let kind = self.kind.borrow().clone();
        Escape::new(&|_| false).iterator(kind)
    }

    /// Of kinds that have their items at hand: the next one, and the container that they were read from.
    #[allow(clippy::type_complexity)]
    fn next_item(&self) -> Option<(Option<Val>, Option<(Obj, usize)>)> {
        match &*self.kind.borrow() {
            Kind::Items { items, at, of } => Some((items.get(*at).cloned(), of.clone())),
            _ => None,
        }
    }

    pub fn empty() -> VmIterator {
        VmIterator::of(Kind::Items { items: Vec::new(), at: 0, of: None })
    }

    /// Ends it for good, whatever becomes of what it went through.
    pub(super) fn end(&self) {
        self.kind.replace(VmIterator::empty().kind.into_inner());
    }

    fn of(kind: Kind) -> VmIterator {
        VmIterator { kind: RefCell::new(kind), moved: Cell::new(false) }
    }

    /// `zip(...)` and its like.
    pub fn construct(vm: &mut Vm, callable: &Val, args: &Args) -> R<Called> {
        let t = types();
        let ptr = callable.obj.ptr().cast::<ffi::PyTypeObject>();
        let option = |name: &str| args.keywords.iter().find(|(k, _)| k.to_str().as_deref() == Some(name)).map(|(_, v)| v.clone());
        let positional = &args.positional;
        let only = |names: &[&str]| args.keywords.iter().all(|(k, _)| k.to_str().is_some_and(|k| names.contains(&k.as_str())));
        let kind = if ptr == t.zip && only(&["strict"]) {
            let strict = match option("strict") {
                Some(strict) => vm.truth(&strict)?,
                None => false,
            };
            let iterators = positional.iter().map(|v| vm.iter_now(v)).collect::<R<Vec<Val>>>()?;
            if !strict && vm.waits_for_code(&iterators) {
                return vm.call_library("zipped", iterators);
            }
            Kind::Zip { iterators, strict }
        } else if ptr == t.enumerate
            && positional.len() <= 2
            && only(if positional.is_empty() { &["iterable", "start"] } else { &["start"] })
            && let Some(iterable) = positional.first().cloned().or_else(|| option("iterable"))
        {
            let start = option("start").or_else(|| positional.get(1).cloned());
            let count = start.map_or(Ok(0), |s| vm.settled(&s).bind().extract())?;
            let iterator = vm.iter_now(&iterable)?;
            if vm.waits_for_code(std::slice::from_ref(&iterator)) {
                return vm.call_library("counted", vec![iterator, Obj::int(count).into()]);
            }
            Kind::Enumerate { iterator, count }
        } else if ptr == t.map && positional.len() >= 2 && only(&[]) {
            let mut parts = vec![positional[0].clone()];
            for iterable in &positional[1..] {
                parts.push(vm.iter_now(iterable)?);
            }
            return vm.call_library(if parts.len() == 2 { "mapped" } else { "mapped_many" }, parts);
        } else if ptr == t.filter && positional.len() == 2 && only(&[]) {
            let iterator = vm.iter_now(&positional[1])?;
            return match positional[0].obj.is_none() {
                true => vm.call_library("kept", vec![iterator]),
                false => vm.call_library("filtered", vec![positional[0].clone(), iterator]),
            };
        } else if ptr == t.reversed && positional.len() == 1 && only(&[]) {
            return vm.reversed(callable, &positional[0]).map(Called::Value);
        } else {
            return vm.refused_by_c(callable, args);
        };
        vm.own_iterator(kind).map(Called::Value)
    }
}

impl Vm {
    /// Whether one of the iterators may run code of the program's when it is asked.
    fn waits_for_code(&self, iterators: &[Val]) -> bool {
        self.rec.is_some() && iterators.iter().any(|iterator| !self.is_own_iterator(&iterator.obj))
    }

    /// A call that CPython is expected to refuse, in its words.
    fn refused_by_c(&mut self, callable: &Val, args: &Args) -> R<Called> {
        let positional: Vec<Obj> = args.positional.iter().map(|arg| arg.obj.clone()).collect();
        let made = callable.obj.call(&positional, super::native::keywords(&args.keywords)?.as_ref())?;
        Ok(Called::Value(self.made(made)))
    }

    pub fn own_iterator(&mut self, kind: Kind) -> R<Val> {
        let iterator = new_iterator(kind)?;
        if let Some(rec) = &mut self.rec {
            rec.register(&iterator, Origin::Made);
        }
        Ok(iterator.into())
    }

    fn reversed(&mut self, callable: &Val, object: &Val) -> R<Val> {
        let t = types();
        let this = &object.obj;
        if let Some(method) = type_lookup(&this.class(), &Obj::str("__reversed__")).filter(|m| m.class_is(t.function)) {
            let method = self.pinned(method);
            return self.call_now(&method, Args::positional(vec![object.clone()]));
        }
        let known = [t.list, t.tuple, t.range, t.dict, t.str].iter().any(|c| this.is_instance_of(*c));
        if !known && self.rec.as_ref().and_then(|rec| rec.viewed(this)).is_none() {
            let has_items = type_lookup(&this.class(), &Obj::str("__getitem__")).is_some();
            if !has_items {
                return Ok(callable.obj.call(std::slice::from_ref(this), None)?.into());
            }
            if self.python_method(this, "__getitem__").is_some() {
                return self.now(|vm| vm.call_library("backwards", vec![object.clone()]));
            }
        }
        if this.class_is(t.list) || this.class_is(t.tuple) {
            self.know_len(this);
            let left = items_of(this).len();
            return self.own_iterator(Kind::Backwards { of: this.clone(), left });
        }
        let mut items = self.iterate_all(object)?;
        items.reverse();
        self.own_iterator(Kind::Items { items, at: 0, of: None })
    }

    pub fn iter_now(&mut self, value: &Val) -> R<Val> {
        self.now(|vm| vm.iter(value))
    }

    pub fn iter(&mut self, value: &Val) -> R<Called> {
        let this = &value.obj;
        if self.rec.is_none() {
            return Ok(Called::Value(Obj::from(this.bind().try_iter()?).into()));
        }
        let t = types();
        if this.bind().is_instance_of::<VmIterator>() || this.bind().is_instance_of::<VmGenerator>() {
            return Ok(Called::Value(value.clone()));
        }
        if super::operators::is_tensor(this) {
            return self.iterate_tensor(value);
        }
        let class = this.class();
        let own = type_lookup(&class, &Obj::str("__iter__"));
        if let Some(method) = own.as_ref().filter(|m| m.class_is(t.function)) {
            self.recorded(|rec| Ok(rec.rely_on_class(&class)));
            let method = self.pinned(method.clone());
            return self.call(&method, Args::positional(vec![value.clone()]));
        }
        if let Some(kind) = self.kind_of(this)? {
            return self.own_iterator(kind).map(Called::Value);
        }
        if own.is_none() && type_lookup(&class, &Obj::str("__getitem__")).is_some_and(|m| m.class_is(t.function)) {
            return self.call_library("by_items", vec![value.clone()]);
        }
        if this.class_is(t.mapping_proxy)
            && let [mapping] = &crate::record::referents(this)[..]
            && self.is_ours(mapping)
        {
            return self.iter(&mapping.clone().into());
        }
        if !is_iterable(this) {
            return Err(PyTypeError::new_err(format!("'{}' object is not iterable", this.type_name())));
        }
        // SAFETY: a live object.
        let is_iterator = unsafe { ffi::PyIter_Check(this.ptr()) != 0 };
        if is_iterator && self.origin(this) == Origin::Made {
            return Ok(Called::Value(value.clone()));
        }
        let iter = self.builtin("iter")?;
        self.opaque_call(&iter.into(), Args::positional(vec![value.clone()]), &format!("iteration over a {}", this.class_name()))
    }

    fn kind_of(&mut self, this: &Obj) -> R<Option<Kind>> {
        let t = types();
        if this.is_instance_of(t.list) || this.is_instance_of(t.tuple) {
            self.know_len(this);
            return Ok(Some(Kind::Sequence { of: this.clone(), at: 0 }));
        }
        if let Some((start, step, length)) = self.range_parts(this)? {
            return self.rounds(start, &step.obj, &length).map(Some);
        }
        if this.class_is(t.range) {
            return Ok(Some(Kind::Sequence { of: this.clone(), at: 0 }));
        }
        if this.is_instance_of(t.dict) {
            self.know_keys(this);
            return Ok(Some(Kind::Entries(Entries::new(this.clone(), Gives::Keys))));
        }
        if let Some(dict) = self.rec.as_ref().and_then(|rec| rec.viewed(this)) {
            self.know_keys(&dict);
            return Ok(Some(Kind::Entries(Entries::new(dict, Gives::of(this)))));
        }
        if this.class_is(t.str) || this.class_is(t.bytes) {
            let items: Vec<Val> = this.bind().try_iter()?.map(|i| i.map(|i| Obj::from(i).into())).collect::<R<_>>()?;
            let len = this.bind().len()?;
            return Ok(Some(Kind::Items { items, at: 0, of: Some((this.clone(), len)) }));
        }
        if this.is_instance_of(t.set) || this.is_instance_of(t.frozenset) || this.class_is(t.deque) {
            self.know_all(this);
            let items: Vec<Val> = this.bind().try_iter()?.map(|i| i.map(|i| Obj::from(i).into())).collect::<R<_>>()?;
            let len = items.len();
            return Ok(Some(Kind::Items { items, at: 0, of: Some((this.clone(), len)) }));
        }
        if self.is_own_array(this) {
            // A number in an array has no items, in NumPy's words.
            this.bind().try_iter()?;
            return Ok(Some(Kind::Sequence { of: this.clone(), at: 0 }));
        }
        // The names in a class, which its version covers.
        if this.class_is(t.mapping_proxy) && self.is_pinned(this) {
            let items: Vec<Val> = this.bind().try_iter()?.map(|i| i.map(|i| Obj::from(i).into())).collect::<R<_>>()?;
            return Ok(Some(Kind::Items { items, at: 0, of: None }));
        }
        Ok(None)
    }

    /// Of a range of sizes. How many there are is relied on, not where they end.
    fn rounds(&mut self, start: Val, step: &Obj, length: &Val) -> R<Kind> {
        let count: i64 = self.settled(length).bind().extract()?;
        let way = |n: i64| Ok::<_, PyErr>(Obj::from(step.bind().mul(n)?));
        if !self.is_size(&start) {
            let end = start.obj.bind().add(way(count)?.bind())?;
            // SAFETY: the type lives for ever.
            let range = unsafe { Obj::borrowed(types().range.cast()) };
            return Ok(Kind::Sequence { of: range.call(&[start.obj, end.into(), step.clone()], None)?, at: 0 });
        }
        let items = (0..count).map(|n| self.pure_call("add", &[start.clone(), way(n)?.into()])).collect::<R<_>>()?;
        Ok(Kind::Items { items, at: 0, of: None })
    }

    fn iterate_tensor(&mut self, value: &Val) -> R<Called> {
        let shape = self.now(|vm| vm.tensor_field(value, &Obj::str("shape")))?;
        if self.rec.is_some() && self.items_made_here(&shape.obj).is_empty() {
            return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
        }
        // SAFETY: types live as long as torch.
        let tensor = unsafe { Obj::borrowed(types().tensor.cast()) };
        let unbind: Val = tensor.attr("unbind")?.into();
        let shadow = crate::record::Shadow::Method(Obj::str("unbind"));
        let parts = self.now(|vm| vm.torch_call(shadow, &unbind, Args::positional(vec![value.clone(), Obj::int(0).into()])))?;
        let of = parts.obj;
        self.own_iterator(Kind::Sequence { of, at: 0 }).map(Called::Value)
    }

    /// Everything that the iterable gives.
    pub fn iterate_all(&mut self, value: &Val) -> R<Vec<Val>> {
        if self.rec.is_none() {
            return value.obj.bind().try_iter()?.map(|item| item.map(|i| Obj::from(i).into())).collect();
        }
        let t = types();
        if (value.obj.class_is(t.list) || value.obj.class_is(t.tuple)) && !matches!(self.origin(&value.obj), Origin::Outside(_)) {
            return Ok(self.items_made_here(&value.obj));
        }
        // The letters of a text are relied on.
        let value = &if self.is_free_text(value) { self.settled(value).into() } else { value.clone() };
        let iterator = self.iter_now(value)?;
        let mut items = Vec::new();
        while let Some(item) = self.next_of(&iterator)? {
            items.push(item);
        }
        Ok(items)
    }

    /// The items of a list or tuple that did not come from outside.
    pub fn items_made_here(&self, sequence: &Obj) -> Vec<Val> {
        let item = |(n, obj): (usize, Obj)| {
            let free = self.rec.as_ref().and_then(|rec| rec.stowed_at(sequence, &Obj::int(n as i64), &obj));
            Val { obj, free }
        };
        items_of(sequence).into_iter().enumerate().map(item).collect()
    }

    /// The next value; None at the end.
    pub fn next_of(&mut self, iterator: &Val) -> R<Option<Val>> {
        let this = iterator.obj.clone();
        if let Ok(own) = this.bind().cast::<VmIterator>() {
            return self.advance(&own.clone());
        }
        if let Ok(generator) = this.bind().cast::<VmGenerator>() {
            return self.resume_now(&generator.clone(), Obj::none().into());
        }
        if self.rec.is_some() {
            let class = this.class();
            if let Some(method) = type_lookup(&class, &Obj::str("__next__")).filter(|m| m.class_is(types().function)) {
                self.recorded(|rec| Ok(rec.rely_on_class(&class)));
                let method = self.pinned(method);
                return match self.call_now(&method, Args::positional(vec![iterator.clone()])) {
                    Ok(value) => Ok(Some(value)),
                    Err(error) if error.is_instance_of::<PyStopIteration>(py()) && !self.fatal => Ok(None),
                    Err(error) => Err(error),
                };
            }
            if self.origin(&this) != Origin::Made {
                self.give_up(&format!("an iterator from outside: {}", this.class_name()));
            }
        }
        // SAFETY: an iterator; a new reference, or null with or without an exception.
        let next = unsafe {
            if ffi::PyIter_Check(this.ptr()) == 0 {
                return Err(PyTypeError::new_err(format!("'{}' object is not an iterator", this.class_name())));
            }
            ffi::PyIter_Next(this.ptr())
        };
        if let Some(error) = PyErr::take(py()) {
            return Err(error);
        }
        // SAFETY: as above.
        let next = unsafe { Obj::owned_opt(next) };
        Ok(next.map(|object| match self.origin(&object) {
            Origin::Unknown => self.made(object),
            _ => object.into(),
        }))
    }

    fn advance(&mut self, iterator: &Bound<'static, VmIterator>) -> R<Option<Val>> {
        self.moves_on(&Obj::from(iterator))?;
        if let Some((item, of)) = iterator.borrow().next_item() {
            return self.advance_items(iterator, item, of);
        }
        let kind = iterator.borrow().kind.borrow().clone();
        match kind {
            Kind::Items { .. } => unreachable!("done above"),
            Kind::Entries(entries) => self.advance_entries(iterator, entries),
            Kind::Sequence { of, at } => {
                let (is_range, is_array) = (of.class_is(types().range), crate::numpy::is_array(&of));
                let len = if is_range || is_array { of.bind().len()? } else { crate::guard::length(&of).unwrap_or(0) };
                if at >= len {
                    // A list may grow.
                    if of.is_instance_of(types().list) {
                        iterator.borrow().end();
                    }
                    return Ok(None);
                }
                let item = match is_range {
                    true => Obj::from(of.bind().get_item(at)?).into(),
                    false if is_array => self.next_row(&of, at)?,
                    false => {
                        let item = item_of(&of, at).expect("the length was just asked for");
                        self.found_at(&of, &Obj::int(at as i64), item, |id| Source::Item(id, at as u32))
                    }
                };
                iterator.borrow().kind.replace(Kind::Sequence { of, at: at + 1 });
                Ok(Some(item))
            }
            Kind::Backwards { of, left } => {
                let Some(at) = left.checked_sub(1) else { return Ok(None) };
                let item = item_of(&of, at);
                iterator.borrow().kind.replace(Kind::Backwards { of: of.clone(), left: if item.is_some() { at } else { 0 } });
                Ok(item.map(|item| self.found_at(&of, &Obj::int(at as i64), item, |id| Source::Item(id, at as u32))))
            }
            Kind::Zip { iterators, strict } => self.advance_zip(&iterators, strict),
            Kind::Enumerate { iterator: inner, count } => {
                let Some(item) = self.next_of(&inner)? else { return Ok(None) };
                iterator.borrow().kind.replace(Kind::Enumerate { iterator: inner, count: count + 1 });
                self.tuple(vec![Obj::int(count).into(), item]).map(Some)
            }
        }
    }

    /// What a set or its like held when the iteration began: it must not change its size meanwhile.
    fn advance_items(
        &mut self,
        iterator: &Bound<'static, VmIterator>,
        item: Option<Val>,
        of: Option<(Obj, usize)>,
    ) -> R<Option<Val>> {
        // It looks at the deque even when it has ended.
        let is_deques = of.as_ref().is_some_and(|(container, _)| container.is_instance_of(types().deque));
        if let Some((container, len)) = of
            && container.bind().len()? != len
        {
            return Err(PyRuntimeError::new_err(match container {
                c if c.is_instance_of(types().deque) => "deque mutated during iteration",
                _ => "Set changed size during iteration",
            }));
        }
        let own = iterator.borrow();
        if item.is_none() && !is_deques {
            own.end();
        } else if let (Some(_), Kind::Items { at, .. }) = (&item, &mut *own.kind.borrow_mut()) {
            *at += 1;
        }
        Ok(item)
    }

    fn advance_zip(&mut self, iterators: &[Val], strict: bool) -> R<Option<Val>> {
        let mut items = Vec::new();
        for (n, iterator) in iterators.iter().enumerate() {
            match self.next_of(iterator)? {
                Some(item) => items.push(item),
                None if strict && n > 0 => {
                    let others = if n == 1 { "argument 1".to_string() } else { format!("arguments 1-{n}") };
                    return Err(PyValueError::new_err(format!("zip() argument {} is shorter than {others}", n + 1)));
                }
                None if strict => {
                    for (n, other) in iterators.iter().enumerate().skip(1) {
                        if self.next_of(other)?.is_some() {
                            let others = if n == 1 { "argument 1".to_string() } else { format!("arguments 1-{n}") };
                            return Err(PyValueError::new_err(format!("zip() argument {} is longer than {others}", n + 1)));
                        }
                    }
                    return Ok(None);
                }
                None => return Ok(None),
            }
        }
        match items.is_empty() {
            true => Ok(None),
            false => self.tuple(items).map(Some),
        }
    }

    pub fn for_iter(&mut self, label: usize) -> R<Flow> {
        let iterator = self.frame().stack.last().cloned().flatten().expect("an iterator");
        if let Ok(generator) = iterator.obj.bind().cast::<VmGenerator>()
            && self.made_here(&iterator.obj)
        {
            let generator = generator.clone();
            return match self.resume(&generator, Obj::none().into(), After::ForIter(label))? {
                true => Ok(Flow::Next),
                false => {
                    self.pop_slot();
                    self.frame().pc = label;
                    Ok(Flow::Next)
                }
            };
        }
        if !self.is_own_iterator(&iterator.obj) && self.rec.is_some() {
            // Asked step by step in a frame of its own. Only this loop has the iterator, so that nobody sees the difference.
            let steps = self.now(|vm| vm.call_library("steps", vec![iterator]))?;
            *self.frame().stack.last_mut().expect("an iterator") = Some(steps);
            return self.for_iter(label);
        }
        match self.next_of(&iterator)? {
            Some(value) => self.push(value),
            None => {
                self.pop_slot();
                self.frame().pc = label;
            }
        }
        Ok(Flow::Next)
    }

    /// `next(iterator)`.
    pub fn next_call(&mut self, callable: &Val, iterator: &Val) -> R<Called> {
        if self.is_own_generator(&iterator.obj) {
            // Its StopIteration has what the generator returns.
            return self.call_generator(iterator, &Obj::str("__next__"), Args::default());
        }
        if !self.is_own_iterator(&iterator.obj) && self.rec.is_some() {
            let class = iterator.obj.class();
            if let Some(method) = type_lookup(&class, &Obj::str("__next__")).filter(|m| m.class_is(types().function)) {
                self.recorded(|rec| Ok(rec.rely_on_class(&class)));
                let method = self.pinned(method);
                return self.call(&method, Args::positional(vec![iterator.clone()]));
            }
            // SAFETY: a live object.
            let is_iterator = unsafe { ffi::PyIter_Check(iterator.obj.ptr()) != 0 };
            if is_iterator && self.origin(&iterator.obj) != Origin::Made {
                let why = format!("an iterator from outside: {}", iterator.obj.class_name());
                return self.opaque_call(callable, Args::positional(vec![iterator.clone()]), &why);
            }
        }
        match self.next_of(iterator)? {
            Some(value) => Ok(Called::Value(value)),
            None => Err(PyStopIteration::new_err(())),
        }
    }
}

/// Whether CPython would try to iterate over it.
pub(super) fn is_iterable(object: &Obj) -> bool {
    let has = |name: &str| type_lookup(&object.class(), &Obj::str(name)).is_some_and(|method| !method.is_none());
    super::operators::is_tensor(object) || has("__iter__") || has("__getitem__")
}
