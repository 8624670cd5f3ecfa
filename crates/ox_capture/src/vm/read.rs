//! Reading items, and relying on what containers hold.

use super::{Args, Called, R, Vm};
use crate::attr::type_lookup;
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, dict_get, entries_of, items_of, py};
use crate::record::{Origin, Val};
use crate::source::{Key, Source, SourceId, item_of};
use crate::types::types;
use ox_ops::surface::Place;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;

impl Vm {
    /// An object found at a place of another.
    pub fn found_at(&mut self, parent: &Obj, key: &Obj, object: Obj, source: impl FnOnce(SourceId) -> Source) -> Val {
        let kept = object.clone();
        self.recorded(|rec| rec.meet_at(parent, key, object, source)).unwrap_or_else(|| kept.into())
    }

    /// An attribute found in the dict of an object.
    pub fn attr_found(&mut self, object: &Obj, name: &Obj, found: Obj) -> Val {
        let kept = found.clone();
        self.recorded(|rec| rec.meet_attr(object, name, found)).unwrap_or_else(|| kept.into())
    }

    // Items.

    pub fn load_item(&mut self, object: &Val, key: &Val) -> R<Called> {
        let this = object.obj.clone();
        if self.rec.is_none() {
            return Ok(Called::Value(Obj::from(this.bind().get_item(key.obj.bind())?).into()));
        }
        let types = types();
        let has_tensor = |o: &Obj| is_lazy(o) || types.is_tensor(o);
        if has_tensor(&this) {
            return self.torch_operator("getitem", &[object.clone(), key.clone()]);
        }
        let index = self.as_key(key);
        let plain = self.settled_number(object);
        if plain.is_instance_of(types.dict) && self.uses_slot(&plain, "__getitem__", types.dict) {
            if self.is_fixed_key(&index) {
                return self.dict_item(&plain, &index);
            }
            if let Some(found) = self.find_key(&plain, &index) {
                let value = found.map(|value| Called::Value(value.into()));
                return value.ok_or_else(|| key_error(&index));
            }
        }
        let is_sequence = [types.list, types.tuple, types.size].iter().any(|class| plain.class_is(*class));
        if (is_sequence || plain.class_is(types.deque)) && index.class_is(types.int) {
            return self.sequence_item(&plain, &index);
        }
        // A whole number is an index as it is, whatever its class says.
        if (is_sequence || types.is_scalar(&plain) || plain.class_is(types.deque))
            && let getitem = self.operator("getitem")?
            && let args = Args::positional(vec![object.clone(), key.clone()])
            && let Some(called) = self.call_with_number(&getitem.into(), &args, &[Place::Position(1)])?
        {
            return Ok(called);
        }
        if let Some(value) = self.slice_of_sizes(&plain, &index)? {
            return Ok(Called::Value(value));
        }
        if let Some(value) = self.slice_from_outside(&plain, &index)? {
            return Ok(Called::Value(value));
        }
        if let Some(item) = self.array_item(&plain, key)? {
            return Ok(Called::Value(item));
        }
        if plain.class_is(types.mapping_proxy)
            && let Some(dict) = self.rec.as_ref().and_then(|rec| rec.viewed(&plain))
        {
            return self.load_item(&dict.into(), key);
        }
        let is_data = is_sequence || types.is_scalar(&plain) || plain.class_is(types.mapping_proxy);
        if is_data && (types.is_scalar(&index) || index.class_is(types.slice)) {
            return self.pure_call("getitem", &[object.clone(), key.clone()]).map(Called::Value);
        }
        let class = plain.class();
        if plain.is_instance_of(types.type_) {
            if let Some(called) = self.item_of_class(object, key)? {
                return Ok(called);
            }
            // `list[int]`
            let value = Obj::from(plain.bind().get_item(index.bind())?);
            return Ok(Called::Value(self.pinned(value)));
        }
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        match type_lookup(&class, &Obj::str("__getitem__")) {
            Some(function) if function.class_is(types.function) => {
                let function = self.pinned(function);
                self.call(&function, Args::positional(vec![object.clone(), key.clone()]))
            }
            Some(_) if (plain.is_instance_of(types.tuple) || plain.is_instance_of(types.list)) && index.class_is(types.int) => {
                self.sequence_item(&plain, &index)
            }
            Some(_) if plain.is_instance_of(types.tuple) && index.class_is(types.slice) => {
                self.pure_call("getitem", &[object.clone(), key.clone()]).map(Called::Value)
            }
            Some(_) if self.is_own_data(&plain) && (types.is_scalar(&index) || index.class_is(types.slice)) => {
                let value = Obj::from(plain.bind().get_item(index.bind())?);
                Ok(Called::Value(self.made_or_known(value)))
            }
            _ if types.is_scalar(&plain) => self.pure_call("getitem", &[object.clone(), key.clone()]).map(Called::Value),
            _ => {
                let getitem = self.operator("getitem")?;
                let args = Args::positional(vec![object.clone(), key.clone()]);
                self.opaque_call(&getitem.into(), args, &format!("an item of a {}", plain.class_name()))
            }
        }
    }

    /// `Class[key]` by code of the program's. What enum and typing have written is the same in every call.
    fn item_of_class(&mut self, class: &Val, key: &Val) -> R<Option<Called>> {
        let of_meta = self.python_method(&class.obj, "__getitem__");
        let own = type_lookup(&class.obj, &Obj::str("__class_getitem__")).filter(|own| own.class_is(types().classmethod));
        let method = match (of_meta, own) {
            (None, Some(own)) => Some(self.pinned(own.attr("__func__")?)),
            (method, _) => method,
        };
        let is_known = |method: &Val| {
            let module = method.obj.attr("__module__").ok().and_then(|module| module.to_str()).unwrap_or_default();
            matches!(module.as_str(), "enum" | "typing") || crate::builtins::is_of_torch(&method.obj)
        };
        let Some(method) = method.filter(|method| method.obj.class_is(types().function) && !is_known(method)) else {
            return Ok(None);
        };
        self.recorded(|rec| Ok(rec.rely_on_class(&class.obj)));
        self.call(&method, Args::positional(vec![class.clone(), key.clone()])).map(Some)
    }

    /// Whether the class leaves a special method to its base.
    pub fn uses_slot(&self, object: &Obj, name: &str, base: crate::types::Type) -> bool {
        let name = Obj::str(name);
        // SAFETY: a type.
        let base = unsafe { Obj::borrowed(base.cast()) };
        match (type_lookup(&object.class(), &name), type_lookup(&base, &name)) {
            (Some(a), Some(b)) => a.is(&b) || a.class_is(types().wrapper_descriptor) || a.class_is(types().method_descriptor),
            _ => false,
        }
    }

    pub fn dict_item(&mut self, dict: &Obj, key: &Obj) -> R<Called> {
        match dict_get(dict, key) {
            Some(found) => Ok(Called::Value(self.found_at(dict, key, found, |of| Source::Value(of, Key(key.clone()))))),
            None => {
                self.recorded(|rec| rec.check_no_key(dict, key));
                let class = dict.class();
                match type_lookup(&class, &Obj::str("__missing__")) {
                    Some(hook) if hook.class_is(types().function) => {
                        let hook = self.pinned(hook);
                        self.call(&hook, Args::positional(vec![dict.clone().into(), key.clone().into()]))
                    }
                    Some(_) => {
                        let of: Val = dict.clone().into();
                        let factory = self.now(|vm| vm.load_attr(&of, &Obj::str("default_factory")))?;
                        if factory.obj.is_none() {
                            return Err(key_error(key));
                        }
                        self.call_library("missing", vec![of, key.clone().into(), factory])
                    }
                    None => Err(key_error(key)),
                }
            }
        }
    }

    fn sequence_item(&mut self, sequence: &Obj, index: &Obj) -> R<Called> {
        let len = crate::guard::length(sequence).unwrap_or(0) as i64;
        let at: i64 = index.bind().extract().quiet().unwrap_or(i64::MAX);
        let place = if at < 0 { at + len } else { at };
        if at < 0 || place >= len {
            self.know_len(sequence);
        }
        if place < 0 || place >= len {
            let kind = match sequence {
                s if s.is_instance_of(types().list) => "list",
                s if s.is_instance_of(types().deque) => "deque",
                _ => "tuple",
            };
            return Err(PyIndexError::new_err(format!("{kind} index out of range")));
        }
        Ok(Called::Value(self.item_at(sequence, place as usize)))
    }

    /// The item at a place that there is.
    pub(super) fn item_at(&mut self, sequence: &Obj, place: usize) -> Val {
        let is_deque = sequence.is_instance_of(types().deque);
        let found = if is_deque { items_of(sequence).get(place).cloned() } else { item_of(sequence, place) };
        let found = found.expect("the place was compared with the length");
        self.found_at(sequence, &Obj::int(place as i64), found, |of| Source::Item(of, place as u32))
    }

    /// The whole content is relied on.
    pub fn know_all(&mut self, object: &Obj) {
        let object = object.clone();
        self.recorded(|rec| rec.know_whole(&object, &mut 4096));
    }

    /// The same object in every call.
    pub fn is_pinned(&self, object: &Obj) -> bool {
        self.rec.as_ref().is_some_and(|rec| rec.is_pinned(object))
    }

    /// The length is relied on.
    pub fn know_len(&mut self, object: &Obj) {
        let Origin::Outside(id) = self.origin(object) else { return };
        let Some(len) = crate::guard::length(object) else { return };
        self.recorded(|rec| match rec.is_whole(object) || rec.relies_on_len(id) {
            true => Ok(()),
            false if rec.is_resized(object) => rec.recover(object),
            false => {
                rec.rely_on_len(id, len);
                Ok(())
            }
        });
    }

    /// The keys of a dict are relied on, and their order.
    pub fn know_keys(&mut self, dict: &Obj) {
        let Origin::Outside(id) = self.origin(dict) else { return };
        let keys = entries_of(dict).into_iter().map(|(key, _)| key).collect();
        self.recorded(|rec| {
            if rec.is_whole(dict) {
                return Ok(());
            }
            if rec.is_resized(dict) {
                return rec.recover(dict);
            }
            rec.check_keys(id, keys)
        });
    }

    pub fn builtin(&self, name: &str) -> R<Obj> {
        static MODULE: Found<Obj> = Found::new();
        MODULE.or_try_find(|| py().import("builtins").map(Obj::from))?.attr(name)
    }

    pub fn operator(&self, name: &str) -> R<Obj> {
        static MODULE: Found<Obj> = Found::new();
        MODULE.or_try_find(|| py().import("operator").map(Obj::from))?.attr(name)
    }
}

/// What a dict finds without code of the program's.
pub fn is_key(object: &Obj) -> bool {
    types().is_scalar(object) || types().is_pinnable(object)
}

/// The key stands in a tuple of its own: a tuple would be taken for the arguments.
fn key_error(key: &Obj) -> PyErr {
    PyKeyError::new_err((key.bind().clone().unbind(),))
}
