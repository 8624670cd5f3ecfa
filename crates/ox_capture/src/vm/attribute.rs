//! Reading attributes of instances: by their class, their dict, and hooks written in Python.

use super::attribute_of::alias_field;
use super::seen::seen_class;
use super::{Args, Called, Flow, R, Vm};
use crate::attr::{has_get, is_c_descriptor, is_data_descriptor, is_generic, type_lookup};
use crate::callable::inner_function;
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, dict_get};
use crate::record::{Origin, Val, is_machine};
use crate::source::{Key, Source, generic_attr, instance_dict};
use crate::types::types;
use ox_bytecode::Name;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

/// What a lookup found.
pub(super) enum Found {
    /// Its value, or a frame that computes it.
    Called(Called),
    /// A function to be called with the object.
    Method(Val),
}

impl Vm {
    // Attributes.

    pub fn op_load_attr(&mut self, n: Name) -> R<Flow> {
        let name = self.frame().code.names[n.index()].clone();
        let object = self.pop();
        let called = self.load_attr(&object, &name)?;
        self.take(called)
    }

    pub fn op_load_method(&mut self, n: Name) -> R<Flow> {
        let name = self.frame().code.names[n.index()].clone();
        let object = self.pop();
        // Whatever computes the attribute, now or later, its value lands above this.
        self.push_slot(None);
        match self.find_attr(&object, &name)? {
            Found::Method(function) => {
                // A method that `super()` finds is the object's, not the super's.
                let is_super = object.obj.class_is(types().super_);
                let object = if is_super { object.obj.attr("__self__")?.into() } else { object };
                self.pop_slot();
                self.push(function);
                self.push(object);
            }
            Found::Called(Called::Value(value)) => self.push(value),
            Found::Called(Called::Pushed) => {}
        }
        Ok(Flow::Next)
    }

    pub fn load_attr(&mut self, object: &Val, name: &Obj) -> R<Called> {
        match self.find_attr(object, name)? {
            Found::Called(called) => Ok(called),
            Found::Method(function) if object.obj.class_is(types().super_) => {
                let this: Val = object.obj.attr("__self__")?.into();
                Ok(Called::Value(self.bound(&function, &this)?))
            }
            Found::Method(function) => Ok(Called::Value(self.bound(&function, object)?)),
        }
    }

    /// A bound method. Of C functions it is CPython's own kind.
    pub fn bound(&mut self, function: &Val, object: &Val) -> R<Val> {
        let this = self.settled_number(object);
        if function.obj.class_is(types().function) {
            // SAFETY: the type lives for ever.
            let class = unsafe { Obj::borrowed(types().method.cast()) };
            let method = class.call(&[function.obj.clone(), this], None)?;
            if let Some(rec) = &mut self.rec {
                rec.register(&method, Origin::Made);
            }
            return Ok(method.into());
        }
        let get = function.obj.attr("__get__")?;
        let method = get.call(&[this.clone(), this.class()], None)?;
        if let Some(rec) = &mut self.rec {
            rec.register(&method, Origin::Made);
        }
        Ok(method.into())
    }

    fn find_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        if self.rec.is_none() {
            return Ok(Found::Called(Called::Value(object.obj.get_attr(name)?.into())));
        }
        let types = types();
        let this = &object.obj;
        if is_lazy(this) || types.is_tensor(this) {
            return self.tensor_attr(object, name);
        }
        if this.is_instance_of(types.type_) {
            return self.class_attr(object, name);
        }
        if this.is_instance_of(types.module) {
            return self.module_attr(object, name);
        }
        if this.class_is(types.method) {
            return self.method_attr(object, name);
        }
        if this.class_is(types.super_) {
            return self.super_object_attr(object, name);
        }
        self.instance_attr(object, name)
    }

    /// Left to CPython: what it does is not seen.
    pub(super) fn opaque_attr(&mut self, object: &Val, name: &Obj, why: &str) -> R<Found> {
        let getattr = self.builtin("getattr")?;
        let args = Args::positional(vec![object.clone(), name.clone().into()]);
        Ok(Found::Called(self.opaque_call(&getattr.into(), args, why)?))
    }

    fn instance_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        // `n.bit_length()`: which method a number has does not depend on its value.
        if object.free.is_some()
            && let Some(method) = type_lookup(&object.obj.class(), name).filter(|found| found.class_is(types().method_descriptor))
        {
            return Ok(Found::Method(self.pinned(method)));
        }
        // Nor does its class, which `functools.singledispatch` asks for.
        if object.free.is_some() && name.to_str().as_deref() == Some("__class__") {
            let class = self.pinned(object.obj.class());
            return Ok(Found::Called(Called::Value(class)));
        }
        if is_machine(&object.obj) && name.to_str().as_deref() == Some("__class__") {
            let class = self.pinned(seen_class(&object.obj)?);
            return Ok(Found::Called(Called::Value(class)));
        }
        let this = self.settled_number(object);
        let class = this.class();
        if let Some(field) = alias_field(&this, name) {
            return Ok(Found::Called(Called::Value(self.member(&this, field)?)));
        }
        if !is_generic(&class) {
            return self.attr_by_hook(object, &class, name);
        }
        self.generic_instance_attr(object, name, true)
    }

    /// A class with its own `__getattribute__`.
    pub(super) fn attr_by_hook(&mut self, object: &Val, class: &Obj, name: &Obj) -> R<Found> {
        self.recorded(|rec| Ok(rec.rely_on_class(class)));
        let hook = type_lookup(class, &Obj::str("__getattribute__")).filter(|hook| hook.class_is(types().function));
        let Some(hook) = hook else {
            return self.opaque_attr(object, name, "a class with its own __getattribute__ in C");
        };
        let hook = self.pinned(hook);
        self.get_by(&hook, vec![object.clone(), name.clone().into()], object, class, Some(name))
    }

    /// What a getter of the program's gives. Where it says that there is no such attribute, `__getattr__` of the class is asked for it by the
    /// name, if one is given.
    fn get_by(&mut self, getter: &Val, args: Vec<Val>, object: &Val, class: &Obj, name: Option<&Obj>) -> R<Found> {
        let asked = name.and_then(|name| Some((name, type_lookup(class, &Obj::str("__getattr__"))?)));
        let Some((name, hook)) = asked else {
            return Ok(Found::Called(self.call(getter, Args::positional(args))?));
        };
        let (args, hook) = (self.tuple(args)?, self.pinned(hook));
        let args = vec![getter.clone(), args, object.clone(), name.clone().into(), hook];
        Ok(Found::Called(self.call_library("attribute_or", args)?))
    }

    /// `object.__getattribute__(object, name)`
    pub fn plain_attr(&mut self, object: &Val, name: &Obj) -> R<Called> {
        match self.generic_instance_attr(object, name, false)? {
            Found::Called(called) => Ok(called),
            Found::Method(function) => Ok(Called::Value(self.bound(&function, object)?)),
        }
    }

    pub(super) fn generic_instance_attr(&mut self, object: &Val, name: &Obj, fall_back: bool) -> R<Found> {
        let this = self.settled_number(object);
        let class = this.class();
        let relied = self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        if relied == Some(false) {
            self.give_up("a class whose changes are not counted");
        }
        if self.rec.is_none() {
            return Ok(Found::Called(Called::Value(this.get_attr(name)?.into())));
        }
        let on_class = type_lookup(&class, name);
        // One that is only asked for writing leaves reading to the instance.
        if let Some(descriptor) = on_class.as_ref().filter(|d| is_data_descriptor(d) && has_get(d)) {
            return self.data_descriptor(object, &this, name, descriptor, fall_back);
        }
        if let Some(found) = instance_dict(&this).and_then(|dict| dict_get(&dict, name)) {
            let value = self.attr_found(&this, name, found);
            return Ok(Found::Called(Called::Value(value)));
        }
        if instance_dict(&this).is_some() {
            self.recorded(|rec| rec.check_no_attr(&this, name));
        }
        if on_class.is_some()
            && let Some(value) = self.written_on_class(&class, name)?
        {
            return Ok(Found::Called(Called::Value(value)));
        }
        match on_class {
            Some(found) => self.bind_found(object, &class, found, fall_back.then_some(name)),
            None if fall_back => self.missing_attr(object, &this, &class, name),
            None => {
                let text = format!("'{}' object has no attribute '{}'", this.class_name(), name);
                Err(PyAttributeError::new_err(text))
            }
        }
    }

    /// What a class holds, seen through an instance. `name`: as of `get_by`.
    pub(super) fn bind_found(&mut self, object: &Val, class: &Obj, found: Obj, name: Option<&Obj>) -> R<Found> {
        let types = types();
        let found = self.pinned(found);
        let this = &found.obj;
        let methods = [types.function, types.method_descriptor, types.wrapper_descriptor, types.lru_cache];
        if methods.into_iter().any(|class| this.class_is(class)) || inner_function(this).is_some() {
            return Ok(Found::Method(found));
        }
        if this.class_is(types.classmethod) {
            let function = self.pinned(this.attr("__func__")?);
            let class = self.pinned(class.clone());
            return Ok(Found::Called(Called::Value(self.bound(&function, &class)?)));
        }
        if this.class_is(types.staticmethod) {
            let function = self.pinned(this.attr("__func__")?);
            return Ok(Found::Called(Called::Value(function)));
        }
        if !has_get(this) || this.class_is(types.builtin) {
            return Ok(Found::Called(Called::Value(found)));
        }
        if is_c_descriptor(this) {
            let value = this.attr("__get__")?.call(&[object.obj.clone(), class.clone()], None)?;
            return Ok(Found::Called(Called::Value(self.made(value))));
        }
        self.call_get(&found, object, class, name)
    }

    /// `__get__` of a descriptor that is written in Python. `name`: as of `get_by`.
    pub(super) fn call_get(&mut self, descriptor: &Val, object: &Val, class: &Obj, name: Option<&Obj>) -> R<Found> {
        let own = descriptor.obj.class();
        match type_lookup(&own, &Obj::str("__get__")) {
            Some(get) if get.class_is(types().function) => {
                let (get, owner) = (self.pinned(get), self.pinned(class.clone()));
                self.get_by(&get, vec![descriptor.clone(), object.clone(), owner], object, class, name)
            }
            _ => {
                let get = descriptor.obj.attr("__get__")?;
                if let Some(rec) = &mut self.rec {
                    rec.register(&get, Origin::Made);
                }
                let args = Args::positional(vec![object.clone(), class.clone().into()]);
                Ok(Found::Called(self.opaque_call(&get.into(), args, "a descriptor written in C")?))
            }
        }
    }

    pub(super) fn data_descriptor(
        &mut self,
        object: &Val,
        this: &Obj,
        name: &Obj,
        descriptor: &Obj,
        fall_back: bool,
    ) -> R<Found> {
        let (types, asked) = (types(), fall_back.then_some(name));
        if descriptor.class_is(types.property) {
            let getter = descriptor.attr("fget")?;
            if getter.is_none() {
                return Ok(Found::Called(Called::Value(this.get_attr(name)?.into())));
            }
            let getter = self.pinned(getter);
            return self.get_by(&getter, vec![object.clone()], object, &this.class(), asked);
        }
        if descriptor.class_is(types.tuple_getter) && self.holds_sizes(this) {
            // `(index, doc)`, which is all that there is in it.
            let (_, (index, _)): (Py<PyAny>, (usize, Py<PyAny>)) = descriptor.bind().call_method0("__reduce__")?.extract()?;
            if let Some(field) = self.items_made_here(this).into_iter().nth(index) {
                return Ok(Found::Called(Called::Value(field)));
            }
        }
        if [types.member, types.getset, types.tuple_getter].iter().any(|class| descriptor.class_is(*class)) {
            return self.c_member(object, this, name);
        }
        let (descriptor, class) = (self.pinned(descriptor.clone()), this.class());
        self.call_get(&descriptor, object, &class, asked)
    }

    /// A field that the type keeps in C: `__slots__`, `__dict__`, `__class__`, `__func__`.
    fn c_member(&mut self, _object: &Val, this: &Obj, name: &Obj) -> R<Found> {
        let text = name.to_str().unwrap_or_default();
        let found = match generic_attr(this, name) {
            Some(found) => found,
            // An empty slot: CPython has the right words, which are others in each version.
            None => {
                self.know_unset(this, name)?;
                this.get_attr(name)?
            }
        };
        let value = match text.as_str() {
            "__class__" => self.pinned(found),
            "__traceback__" if this.is_instance_of(types().base_exception) && self.has_traceback_of_ours(this) => {
                self.traceback_of(this)?
            }
            "__dict__" if instance_dict(this).is_some_and(|d| d.is(&found)) => {
                if self.is_ours(this) {
                    self.settled(&this.clone().into());
                }
                if let Some(rec) = &mut self.rec {
                    rec.note_dict(this, &found);
                }
                self.found_at(this, name, found, Source::Dict)
            }
            _ if types().is_pinnable(this) => self.member_of_pinned(this, name, found),
            _ if self.is_own_array(this) => self.array_field(found),
            _ => self.found_at(this, name, found, |of| Source::Attr(of, Key(name.clone()))),
        };
        Ok(Found::Called(Called::Value(value)))
    }

    /// That nothing is in a slot is relied on, unless it was this call that emptied it.
    fn know_unset(&mut self, object: &Obj, name: &Obj) -> R<()> {
        let member = type_lookup(&object.class(), name).filter(|member| member.class_is(types().member));
        let (Some(member), Origin::Outside(of)) = (member, self.origin(object)) else { return Ok(()) };
        self.recorded(|rec| {
            if !rec.is_written(object, name) {
                rec.rely_on_unset(of, &member);
            }
            Ok(())
        });
        Ok(())
    }

    /// `f.__name__`, `f.__code__` and their like.
    fn member_of_pinned(&mut self, this: &Obj, name: &Obj, found: Obj) -> Val {
        if let Origin::Const = self.origin(this) {
            self.pinned(this.clone());
        }
        self.found_at(this, name, found, |of| Source::Attr(of, Key(name.clone())))
    }

    fn missing_attr(&mut self, object: &Val, this: &Obj, class: &Obj, name: &Obj) -> R<Found> {
        let Some(hook) = type_lookup(class, &Obj::str("__getattr__")) else {
            // CPython has the right words.
            return match this.get_attr(name) {
                Ok(value) => Ok(Found::Called(Called::Value(self.made(value)))),
                Err(error) => Err(error),
            };
        };
        // A hook of the program's may do anything before it asks torch's.
        if this.is_instance_of(types().nn_module)
            && is_of_modules(&hook, "__getattr__")
            && let Some(found) = self.module_part(this, name)?
        {
            return Ok(Found::Called(Called::Value(found)));
        }
        if self.is_item_method(&hook, this, "__getitem__") {
            return self.load_item(object, &name.clone().into()).map(Found::Called);
        }
        if !hook.class_is(types().function) && !is_of_dict(&hook, this) {
            return self.opaque_attr(object, name, "a __getattr__ written in C");
        }
        self.call_hook(hook, vec![object.clone(), name.clone().into()])
    }

    /// Whether a hook for attributes does what an index does: `__setattr__ = dict.__setitem__`, where the class has no such method of its own.
    pub(super) fn is_item_method(&self, hook: &Obj, object: &Obj, name: &str) -> bool {
        let is_named = || hook.attr("__name__").quiet().is_some_and(|own| own.to_str().as_deref() == Some(name));
        is_of_dict(hook, object) && is_named() && self.uses_slot(object, name, types().dict)
    }
}

/// Whether a hook is `nn.Module`'s own.
pub(super) fn is_of_modules(hook: &Obj, name: &str) -> bool {
    // SAFETY: a type.
    let base = unsafe { Obj::borrowed(types().nn_module.cast()) };
    type_lookup(&base, &Obj::str(name)).is_some_and(|own| own.is(hook))
}

/// Whether a hook for attributes is a method of dicts, and the object is one: `__getattr__ = dict.__getitem__`. The machine knows these.
pub(super) fn is_of_dict(hook: &Obj, object: &Obj) -> bool {
    let t = types();
    let is_method = hook.class_is(t.method_descriptor) || hook.class_is(t.wrapper_descriptor);
    let is_of_dict = || hook.attr("__objclass__").quiet().is_some_and(|class| class.ptr() == t.dict.cast());
    object.is_instance_of(t.dict) && is_method && is_of_dict()
}
