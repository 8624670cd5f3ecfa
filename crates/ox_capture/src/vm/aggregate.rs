//! Built-in functions that look at all of an iterable, or at how long it is.

use super::native::keywords;
use super::operators::is_tensor;
use super::{Args, Called, R, Vm};
use crate::attr::type_lookup;
use crate::builtins::Known;
use crate::interrupt::Quiet;
use crate::obj::{Obj, list_of};
use crate::record::Val;
use crate::types::types;
use ox_bytecode::{BinaryOp, CompareOp};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

impl Vm {
    pub(super) fn len(&mut self, callable: &Val, object: &Val) -> R<Called> {
        let t = types();
        let this = &object.obj;
        if is_tensor(this) {
            let shape = self.now(|vm| vm.tensor_field(object, &Obj::str("shape")))?;
            return match self.items_made_here(&shape.obj).first() {
                Some(first) => Ok(Called::Value(first.clone())),
                None => Err(PyTypeError::new_err("len() of a 0-d tensor")),
            };
        }
        if let Some(method) = type_lookup(&this.class(), &Obj::str("__len__")).filter(|m| m.class_is(t.function)) {
            let class = this.class();
            self.recorded(|rec| Ok(rec.rely_on_class(&class)));
            let method = self.pinned(method);
            return self.call_library("length", vec![method, object.clone()]);
        }
        if let Some(dict) = self.rec.as_ref().and_then(|rec| rec.viewed(this)) {
            return self.len(callable, &dict.into());
        }
        // What is in it is of no interest.
        if self.is_ours(this) && [t.list, t.tuple, t.dict, t.set].iter().any(|class| this.class_is(*class))
            || self.holds_sizes(this)
        {
            return Ok(Called::Value(Obj::int(this.bind().len()? as i64).into()));
        }
        if let Some(length) = self.length_of_range(this)? {
            return Ok(Called::Value(length));
        }
        let counted = [t.list, t.tuple, t.dict, t.set, t.frozenset, t.str, t.bytes, t.range, t.mapping_proxy];
        if counted.iter().any(|c| this.is_instance_of(*c)) {
            return self.pure(&callable.obj, std::slice::from_ref(object), &[]).map(Called::Value);
        }
        if this.class_is(t.deque) {
            self.know_len(this);
            return Ok(Called::Value(Obj::int(this.bind().len()? as i64).into()));
        }
        // CPython's words for what has no length.
        if self.is_own_data(this) || type_lookup(&this.class(), &Obj::str("__len__")).is_none() {
            return Ok(Called::Value(Obj::int(this.bind().len()? as i64).into()));
        }
        self.opaque_call(callable, Args::positional(vec![object.clone()]), &format!("len() of a {}", this.class_name()))
    }

    /// What `__len__` returned, if it may.
    pub fn as_length(&mut self, len: Val) -> R<Val> {
        if !len.obj.is_instance_of(types().int) {
            let text = format!("'{}' object cannot be interpreted as an integer", len.obj.class_name());
            return Err(PyTypeError::new_err(text));
        }
        let zero: Val = Obj::int(0).into();
        let negative = self.pure_call("lt", &[len.clone(), zero])?;
        match negative.obj.truth()? {
            true => Err(PyValueError::new_err("__len__() should return >= 0")),
            false => Ok(len),
        }
    }

    pub(super) fn sum(&mut self, iterable: &Val, start: Option<&Val>, args: &Args) -> R<Called> {
        let named = args.keywords.iter().find(|(k, _)| k.to_str().as_deref() == Some("start")).map(|(_, v)| v);
        let mut total = start.or(named).cloned().unwrap_or_else(|| Obj::int(0).into());
        let items = self.iterate_all(iterable)?;
        let is_number = |v: &Val| types().is_indivisible(&v.obj);
        let is_float = |v: &Val| v.obj.class_is(types().float) || v.obj.class_is(types().complex);
        if items.iter().chain([&total]).all(is_number) && items.iter().chain([&total]).any(is_float) {
            // CPython loses less on the way than one addition after the other.
            let sum = self.builtin("sum")?;
            return self.of_row(&sum, &items, Some(total)).map(Called::Value);
        }
        if !items.iter().chain([&total]).all(is_number) {
            let objects: Vec<Obj> = items.iter().map(|v| self.settled(v)).collect();
            let list = self.made(list_of(&objects)?);
            return self.call_library("add_all", vec![list, total]);
        }
        for item in items {
            total = self.now(|vm| vm.binary(BinaryOp::Add, false, &total, &item))?;
        }
        Ok(Called::Value(total))
    }

    pub(super) fn extreme(&mut self, known: Known, callable: &Val, args: &Args) -> R<Called> {
        let option = |name: &str| args.keywords.iter().find(|(k, _)| k.to_str().as_deref() == Some(name)).map(|(_, v)| v.clone());
        let key = option("key").filter(|k| !k.obj.is_none());
        // Whether one is larger is a question for its value: the whole call is made for real.
        if key.is_none() && args.positional.len() > 1 && args.positional.iter().any(|item| is_tensor(&item.obj)) {
            return self.opaque_call(callable, args.clone(), "the truth of a tensor");
        }
        let is_number = |v: &Val| v.obj.class_is(types().int) || v.obj.class_is(types().float);
        let op = if known == Known::Max { CompareOp::Greater } else { CompareOp::Less };
        let compared = match &args.positional[..] {
            [sizes] if args.keywords.is_empty() && self.holds_sizes(&sizes.obj) => self.items_made_here(&sizes.obj),
            [_] => Vec::new(),
            many => many.to_vec(),
        };
        if let [first, rest @ ..] = &compared[..]
            && key.is_none()
            && compared.iter().all(is_number)
        {
            let mut best = first.clone();
            for item in rest {
                best = match self.rec.as_mut().and_then(|rec| rec.extreme_size(known == Known::Max, item, &best)) {
                    Some(extreme) => extreme,
                    None => self.better(op, item, best)?,
                };
            }
            return Ok(Called::Value(best));
        }
        let iterable = match &args.positional[..] {
            [iterable] => iterable.clone(),
            many => self.tuple(many.to_vec())?,
        };
        let name = callable.obj.attr("__name__")?;
        let default = self.tuple(option("default").into_iter().collect())?;
        let greater: Val = Obj::bool(known == Known::Max).into();
        let key = key.unwrap_or_else(|| Obj::none().into());
        self.call_library("extreme", vec![iterable, key, greater, name.into(), default])
    }

    fn better(&mut self, op: CompareOp, item: &Val, best: Val) -> R<Val> {
        let answer = self.now(|vm| vm.compare(op, item, &best))?;
        Ok(if self.truth(&answer)? { item.clone() } else { best })
    }

    pub(super) fn sorted(&mut self, callable: &Val, iterable: &Val, args: &Args) -> R<Called> {
        if let Some(called) = self.call_with_truth(callable, args, "reverse")? {
            return Ok(called);
        }
        let items: Vec<Val> = self.iterate_all(iterable)?;
        let list = self.list(&items)?;
        let key = args.keywords.iter().find(|(k, v)| k.to_str().as_deref() == Some("key") && !v.obj.is_none()).cloned();
        let rest: Vec<(Obj, Val)> = args.keywords.iter().filter(|(k, _)| k.to_str().as_deref() != Some("key")).cloned().collect();
        let reverse = rest.first().map_or_else(|| Obj::bool(false).into(), |(_, v)| v.clone());
        let Some((_, key)) = key else {
            if self.holds_sizes(&list.obj) || !self.is_plain_data(&Args::positional(vec![list.clone()])) {
                return self.sort_objects(callable, args, list.clone(), list, reverse);
            }
            return self.pure(&callable.obj, &[list], &rest).map(Called::Value);
        };
        let Some(ranks) = ranks_of(&key.obj) else {
            return self.call_library("sort_by", vec![callable.clone(), list, key, reverse]);
        };
        if self.holds_sizes(&ranks) {
            return self.sort_objects(callable, args, list, ranks.into(), reverse);
        }
        // Sorted by rank, then by place: CPython compares without meeting the items.
        self.known_data(&ranks.clone().into())?;
        if !self.is_plain_data(&Args::positional(vec![ranks.clone().into()])) {
            return self.sort_objects(callable, args, list, ranks.into(), reverse);
        }
        let sorted = callable.obj.call(&[list.obj], keywords(&args.keywords)?.as_ref())?;
        Ok(Called::Value(self.made(sorted)))
    }

    /// By the methods of the objects. Many are compared in an order that only CPython knows.
    fn sort_objects(&mut self, callable: &Val, args: &Args, items: Val, ranks: Val, reverse: Val) -> R<Called> {
        const FEW: usize = 64;
        if crate::obj::items_of(&items.obj).len() >= FEW {
            return self.opaque_call(callable, args.clone(), "sorted() of many objects");
        }
        let reverse = self.truth(&reverse)?;
        self.call_library("sort_objects", vec![items, ranks, Obj::bool(reverse).into()])
    }
}

/// The list behind `ranks.__getitem__`.
fn ranks_of(key: &Obj) -> Option<Obj> {
    let is_item = key.class_is(types().builtin) && key.attr("__name__").quiet()?.to_str()? == "__getitem__";
    is_item.then(|| key.attr("__self__").quiet()).flatten().filter(|ranks| ranks.class_is(types().list))
}
