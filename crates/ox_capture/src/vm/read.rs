//! Reading: globals, cells, attributes, items.

use super::{Args, Called, Flow, R, Vm};
use crate::attr::{has_get, is_c_descriptor, is_data_descriptor, is_generic, super_lookup, type_lookup};
use crate::lazy::is_lazy;
use crate::obj::{Obj, dict_get, entries_of, items_of, py};
use crate::record::{Origin, Val};
use crate::source::{Key, Source, SourceId, cell_contents, generic_attr, instance_dict, item_of};
use crate::types::types;
use ox_bytecode::{Local, Name};
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyKeyError, PyNameError, PyUnboundLocalError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// What a lookup found.
enum Found {
    /// Its value, or a frame that computes it.
    Called(Called),
    /// A function to be called with the object.
    Method(Val),
}

impl Vm {
    /// An object found at a place of another.
    pub fn found_at(&mut self, parent: &Obj, key: &Obj, object: Obj, source: impl FnOnce(SourceId) -> Source) -> Val {
        let kept = object.clone();
        self.recorded(|rec| rec.meet_at(parent, key, object, source)).unwrap_or_else(|| kept.into())
    }

    pub fn load_global(&mut self, name: &Obj) -> R<Val> {
        let (globals, builtins) = (self.frame().globals.clone(), self.frame().builtins.clone());
        if self.frame().code.hidden
            && let Some(found) = dict_get(&globals, name).or_else(|| dict_get(&builtins, name))
        {
            return Ok(self.pinned(found));
        }
        self.pinned(globals.clone());
        if let Some(found) = dict_get(&globals, name) {
            return Ok(self.found_at(&globals, name, found, |of| Source::Value(of, Key(name.clone()))));
        }
        self.recorded(|rec| rec.check_no_key(&globals, name));
        self.pinned(builtins.clone());
        match dict_get(&builtins, name) {
            Some(found) => Ok(self.found_at(&builtins, name, found, |of| Source::Value(of, Key(name.clone())))),
            None => Err(self.name_error(name)),
        }
    }

    // Cells.

    pub fn copy_free_vars(&mut self, n: usize) -> R<()> {
        let function = self.frame().function.clone();
        let closure = function.attr("__closure__")?;
        let cells = items_of(&closure);
        let at = self.frame().locals.len() - n;
        for (k, cell) in cells.into_iter().enumerate() {
            let value = match self.origin(&function) {
                Origin::Outside(id) => {
                    let rec = self.rec.as_mut().expect("an origin is a recording's");
                    let tuple = rec.source(Source::Member(id, "__closure__"));
                    let source = rec.source(Source::Item(tuple, k as u32));
                    rec.meet(cell, source)
                }
                Origin::Const => self.pinned(cell),
                _ => cell.into(),
            };
            self.frame().locals[at + k] = Some(value);
        }
        Ok(())
    }

    pub fn load_cell(&mut self, n: Local) -> R<Val> {
        let Some(cell) = self.frame().locals[n.index()].clone() else { return Err(self.empty_cell(n)) };
        if !cell.obj.class_is(types().cell) {
            return Ok(cell);
        }
        match cell_contents(&cell.obj) {
            Some(content) => Ok(self.found_at(&cell.obj, &Obj::str("cell_contents"), content, Source::Cell)),
            None => Err(self.empty_cell(n)),
        }
    }

    fn empty_cell(&mut self, n: Local) -> PyErr {
        let variable = self.frame().code.code.variables[n.index()].clone();
        let name = variable.name;
        match variable.kind {
            ox_bytecode::VariableKind::Free => PyNameError::new_err(format!(
                "cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
            )),
            _ => PyUnboundLocalError::new_err(format!(
                "cannot access local variable '{name}' where it is not associated with a value"
            )),
        }
    }

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
            return self.module_attr(object, name).map(Found::Called);
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
    fn opaque_attr(&mut self, object: &Val, name: &Obj, why: &str) -> R<Found> {
        let getattr = self.builtin("getattr")?;
        let args = Args::positional(vec![object.clone(), name.clone().into()]);
        Ok(Found::Called(self.opaque_call(&getattr.into(), args, why)?))
    }

    fn instance_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
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
    fn attr_by_hook(&mut self, object: &Val, class: &Obj, name: &Obj) -> R<Found> {
        self.recorded(|rec| Ok(rec.rely_on_class(class)));
        let hook = type_lookup(class, &Obj::str("__getattribute__")).filter(|hook| hook.class_is(types().function));
        let Some(hook) = hook else {
            return self.opaque_attr(object, name, "a class with its own __getattribute__ in C");
        };
        let hook = self.pinned(hook);
        let args = Args::positional(vec![object.clone(), name.clone().into()]);
        let Some(fallback) = type_lookup(class, &Obj::str("__getattr__")) else {
            return Ok(Found::Called(self.call(&hook, args)?));
        };
        match self.call_now(&hook, args.clone()) {
            Err(error) if error.is_instance_of::<PyAttributeError>(py()) && !self.fatal => {
                let fallback = self.pinned(fallback);
                Ok(Found::Called(self.call(&fallback, args)?))
            }
            other => Ok(Found::Called(Called::Value(other?))),
        }
    }

    /// `object.__getattribute__(object, name)`
    pub fn plain_attr(&mut self, object: &Val, name: &Obj) -> R<Called> {
        match self.generic_instance_attr(object, name, false)? {
            Found::Called(called) => Ok(called),
            Found::Method(function) => Ok(Called::Value(self.bound(&function, object)?)),
        }
    }

    fn generic_instance_attr(&mut self, object: &Val, name: &Obj, fall_back: bool) -> R<Found> {
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
        if let Some(descriptor) = on_class.as_ref().filter(|d| is_data_descriptor(d)) {
            return self.data_descriptor(object, &this, name, descriptor);
        }
        if let Some(found) = instance_dict(&this).and_then(|dict| dict_get(&dict, name)) {
            let value = self.found_at(&this, name, found, |of| Source::Attr(of, Key(name.clone())));
            return Ok(Found::Called(Called::Value(value)));
        }
        if instance_dict(&this).is_some()
            && let Some(rec) = &mut self.rec
        {
            rec.check_no_attr(&this, name);
        }
        match on_class {
            Some(found) => self.bind_found(object, &class, found),
            None if fall_back => self.missing_attr(object, &this, &class, name),
            None => {
                let text = format!("'{}' object has no attribute '{}'", this.class_name(), name.bind());
                Err(PyAttributeError::new_err(text))
            }
        }
    }

    /// What a class holds, seen through an instance.
    fn bind_found(&mut self, object: &Val, class: &Obj, found: Obj) -> R<Found> {
        let types = types();
        let found = self.pinned(found);
        let this = &found.obj;
        if this.class_is(types.function) || this.class_is(types.method_descriptor) || this.class_is(types.wrapper_descriptor) {
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
        self.call_get(&found, object, class)
    }

    /// `__get__` of a descriptor that is written in Python.
    fn call_get(&mut self, descriptor: &Val, object: &Val, class: &Obj) -> R<Found> {
        let own = descriptor.obj.class();
        match type_lookup(&own, &Obj::str("__get__")) {
            Some(get) if get.class_is(types().function) => {
                let (get, class) = (self.pinned(get), self.pinned(class.clone()));
                let args = Args::positional(vec![descriptor.clone(), object.clone(), class]);
                Ok(Found::Called(self.call(&get, args)?))
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

    fn data_descriptor(&mut self, object: &Val, this: &Obj, name: &Obj, descriptor: &Obj) -> R<Found> {
        let types = types();
        if descriptor.class_is(types.property) {
            let getter = descriptor.attr("fget")?;
            if getter.is_none() {
                return Ok(Found::Called(Called::Value(this.get_attr(name)?.into())));
            }
            let getter = self.pinned(getter);
            return Ok(Found::Called(self.call(&getter, Args::positional(vec![object.clone()]))?));
        }
        if [types.member, types.getset, types.tuple_getter].iter().any(|class| descriptor.class_is(*class)) {
            return self.c_member(object, this, name);
        }
        let (descriptor, class) = (self.pinned(descriptor.clone()), this.class());
        self.call_get(&descriptor, object, &class)
    }

    /// A field that the type keeps in C: `__slots__`, `__dict__`, `__class__`, `__func__`.
    fn c_member(&mut self, _object: &Val, this: &Obj, name: &Obj) -> R<Found> {
        let text = name.to_str().unwrap_or_default();
        let found = match generic_attr(this, name) {
            Some(found) => found,
            // An empty slot: CPython has the right words, which are others in each version.
            None => this.get_attr(name)?,
        };
        let value = match text.as_str() {
            "__class__" => self.pinned(found),
            "__traceback__" if this.is_instance_of(types().base_exception) && self.is_ours(this) => self.traceback_of(this)?,
            "__dict__" if instance_dict(this).is_some_and(|d| d.is(&found)) => {
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
        if this.is_instance_of(types().nn_module)
            && let Some(found) = self.module_part(this, name)?
        {
            return Ok(Found::Called(Called::Value(found)));
        }
        if !hook.class_is(types().function) {
            return self.opaque_attr(object, name, "a __getattr__ written in C");
        }
        let hook = self.pinned(hook);
        let args = Args::positional(vec![object.clone(), name.clone().into()]);
        Ok(Found::Called(self.call(&hook, args)?))
    }

    /// `nn.Module.__getattr__`: parameters, buffers and submodules.
    fn module_part(&mut self, this: &Obj, name: &Obj) -> R<Option<Val>> {
        for table in ["_parameters", "_buffers", "_modules"] {
            let table = Obj::str(table);
            let Some(dict) = instance_dict(this).and_then(|d| dict_get(&d, &table)) else { continue };
            if !dict.class_is(types().dict) {
                return Ok(None);
            }
            let dict = self.found_at(this, &table, dict, |of| Source::Attr(of, Key(table.clone())));
            if let Some(found) = dict_get(&dict.obj, name) {
                return Ok(Some(self.found_at(&dict.obj, name, found, |of| Source::Value(of, Key(name.clone())))));
            }
            self.recorded(|rec| rec.check_no_key(&dict.obj, name));
        }
        Ok(None)
    }

    fn class_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        let this = &object.obj;
        let meta = this.class();
        let relied = self.recorded(|rec| Ok(rec.rely_on_class(this) && rec.rely_on_class(&meta)));
        if relied == Some(false) {
            self.give_up("a class whose changes are not counted");
            return Ok(Found::Called(Called::Value(this.get_attr(name)?.into())));
        }
        let on_meta = type_lookup(&meta, name);
        let found = match (&on_meta, type_lookup(this, name)) {
            (Some(descriptor), _) if is_data_descriptor(descriptor) && is_c_descriptor(descriptor) => {
                let value = this.get_attr(name)?;
                return Ok(Found::Called(Called::Value(self.pinned(value))));
            }
            (_, Some(found)) => found,
            (Some(found), None) => return self.bind_found(object, &meta, found.clone()),
            (None, None) => match this.get_attr(name) {
                Ok(value) => return Ok(Found::Called(Called::Value(self.pinned(value)))),
                Err(error) => return Err(error),
            },
        };
        let types = types();
        if found.class_is(types.classmethod) {
            let function = self.pinned(found.attr("__func__")?);
            if function.obj.class_is(types.function) {
                return Ok(Found::Method(function));
            }
        }
        if has_get(&found) && !is_c_descriptor(&found) {
            let found = self.pinned(found);
            let class = this.clone();
            return self.call_get(&found, &Obj::none().into(), &class);
        }
        let value = this.get_attr(name)?;
        Ok(Found::Called(Called::Value(self.pinned(value))))
    }

    fn module_attr(&mut self, object: &Val, name: &Obj) -> R<Called> {
        let this = &object.obj;
        self.pinned(this.clone());
        let dict = instance_dict(this).expect("modules have a dict");
        if dict_get(&dict, name).is_none() {
            // A lazy module fills its dict when it is first asked.
            let value = this.get_attr(name)?;
            if dict_get(&dict, name).is_none() {
                return Ok(Called::Value(self.pinned(value)));
            }
        }
        let found = dict_get(&dict, name).expect("it is there now");
        self.pinned(dict.clone());
        Ok(Called::Value(self.found_at(&dict, name, found, |of| Source::Value(of, Key(name.clone())))))
    }

    fn tensor_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        let this = &object.obj;
        // SAFETY: types live as long as torch.
        let class = unsafe { Obj::borrowed(types().tensor.cast()) };
        let text = name.to_str().unwrap_or_default();
        if text == "__class__" {
            let class = if is_lazy(this) { class } else { this.class() };
            return Ok(Found::Called(Called::Value(self.pinned(class))));
        }
        let Some(found) = type_lookup(&class, name) else {
            if !is_lazy(this) && !this.class_is(types().tensor) && !this.class_is(types().parameter) {
                return self.opaque_attr(object, name, "an attribute of a tensor subclass");
            }
            if let Some(found) = instance_dict(this).and_then(|dict| dict_get(&dict, name)) {
                let value = self.found_at(this, name, found, |of| Source::Attr(of, Key(name.clone())));
                return Ok(Found::Called(Called::Value(value)));
            }
            if let Some(rec) = &mut self.rec {
                rec.check_no_attr(this, name);
            }
            let message = format!("'Tensor' object has no attribute '{text}'");
            return Err(PyAttributeError::new_err(message));
        };
        if found.class_is(types().function)
            || found.class_is(types().method_descriptor)
            || found.class_is(types().wrapper_descriptor)
        {
            let found = self.pinned(found);
            return Ok(Found::Method(found));
        }
        if let Some(value) = self.stored_field(object, name)? {
            return Ok(Found::Called(Called::Value(value)));
        }
        self.tensor_field(object, name).map(Found::Called)
    }

    /// A bound method has its function's attributes.
    fn method_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        let value = match name.to_str().as_deref() {
            Some("__func__") => self.member(&object.obj, "__func__")?,
            Some("__self__") => self.member(&object.obj, "__self__")?,
            _ => {
                let function = self.member(&object.obj, "__func__")?;
                return Ok(Found::Called(self.load_attr(&function, name)?));
            }
        };
        Ok(Found::Called(Called::Value(value)))
    }

    fn super_object_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        let this = &object.obj;
        let (Ok(after), Ok(of), Ok(class)) = (this.attr("__thisclass__"), this.attr("__self__"), this.attr("__self_class__"))
        else {
            return self.opaque_attr(object, name, "an unbound super");
        };
        self.super_attr(&after, &of.into(), &class, name)
    }

    fn super_attr(&mut self, after: &Obj, of: &Val, class: &Obj, name: &Obj) -> R<Found> {
        let relied = self.recorded(|rec| Ok(rec.rely_on_class(class)));
        if relied == Some(false) {
            self.give_up("a class whose changes are not counted");
        }
        let Some(found) = super_lookup(class, after, name) else {
            let text = format!("'super' object has no attribute '{}'", name.bind());
            return Err(PyAttributeError::new_err(text));
        };
        if found.class_is(types().property) {
            let getter = self.pinned(found.attr("fget")?);
            return Ok(Found::Called(self.call(&getter, Args::positional(vec![of.clone()]))?));
        }
        let through_class = of.obj.is_instance_of(types().type_) && of.obj.is(class);
        if through_class && found.class_is(types().function) {
            let found = self.pinned(found);
            return Ok(Found::Called(Called::Value(found)));
        }
        self.bind_found(of, class, found)
    }

    pub fn op_load_super(&mut self, name: Name, method: bool, _arguments: bool) -> R<Flow> {
        let name = self.frame().code.names[name.index()].clone();
        let (this, class, function) = (self.pop(), self.pop(), self.pop());
        if function.obj.ptr() != types().super_.cast() {
            self.give_up("super is bound to something else");
            let made = function.obj.call(&[class.obj, this.obj], None)?;
            if method {
                self.push_slot(None);
            }
            self.push(made.get_attr(&name)?);
            return Ok(Flow::Next);
        }
        let of_class =
            match this.obj.is_instance_of(types().type_) && crate::recipe::is_subtype(&this.obj, class.obj.ptr().cast()) {
                true => this.obj.clone(),
                false => this.obj.class(),
            };
        if self.rec.is_none() {
            let made = function.obj.call(&[class.obj, this.obj], None)?;
            if method {
                self.push_slot(None);
            }
            self.push(made.get_attr(&name)?);
            return Ok(Flow::Next);
        }
        if method {
            self.push_slot(None);
        }
        match self.super_attr(&class.obj, &this, &of_class, &name)? {
            Found::Method(function) if method => {
                self.pop_slot();
                self.push(function);
                self.push(this);
            }
            Found::Method(function) => {
                let value = self.bound(&function, &this)?;
                self.push(value);
            }
            Found::Called(Called::Value(value)) => self.push(value),
            Found::Called(Called::Pushed) => {}
        }
        Ok(Flow::Next)
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
        let index = self.settled(key);
        let plain = self.settled_number(object);
        if plain.is_instance_of(types.dict) && self.uses_slot(&plain, "__getitem__", types.dict) {
            if self.is_fixed_key(&index) {
                return self.dict_item(&plain, &index);
            }
            if let Some(found) = self.find_key(&plain, &index) {
                let value = found.map(|value| Called::Value(value.into()));
                return value.ok_or_else(|| PyKeyError::new_err(index.bind().clone().unbind()));
            }
        }
        let is_sequence = [types.list, types.tuple, types.size].iter().any(|class| plain.class_is(*class));
        if (is_sequence || plain.class_is(types.deque)) && index.class_is(types.int) {
            return self.sequence_item(&plain, &index);
        }
        if (is_sequence || types.is_scalar(&plain))
            && let Some(method) = self.python_method(&index, "__index__")
        {
            return self.call_library("indexed", vec![method, object.clone(), key.clone()]);
        }
        if let Some(value) = self.slice_of_sizes(&plain, &index)? {
            return Ok(Called::Value(value));
        }
        if let Some(item) = self.array_item(&plain, key)? {
            return Ok(Called::Value(item));
        }
        let is_data = is_sequence || types.is_scalar(&plain) || plain.class_is(types.mapping_proxy);
        if is_data && (types.is_scalar(&index) || index.class_is(types.slice)) {
            return self.pure_call("getitem", &[object.clone(), key.clone()]).map(Called::Value);
        }
        let class = plain.class();
        if plain.is_instance_of(types.type_) {
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
                            return Err(PyKeyError::new_err(key.clone().bind().clone().unbind()));
                        }
                        self.call_library("missing", vec![of, key.clone().into(), factory])
                    }
                    None => Err(PyKeyError::new_err(key.clone().bind().clone().unbind())),
                }
            }
        }
    }

    fn sequence_item(&mut self, sequence: &Obj, index: &Obj) -> R<Called> {
        let len = crate::guard::length(sequence).unwrap_or(0) as i64;
        let at: i64 = index.bind().extract().unwrap_or(i64::MAX);
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
        let is_deque = sequence.is_instance_of(types().deque);
        let found = if is_deque { items_of(sequence).get(place as usize).cloned() } else { item_of(sequence, place as usize) };
        let found = found.expect("the place was compared with the length");
        Ok(Called::Value(self.found_at(sequence, &Obj::int(place), found, |of| Source::Item(of, place as u32))))
    }

    /// The whole content is relied on.
    pub fn know_all(&mut self, object: &Obj) {
        let object = object.clone();
        self.recorded(|rec| rec.know_whole(&object, &mut 4096));
    }

    /// The same object in every call.
    pub fn is_pinned(&self, object: &Obj) -> bool {
        match (self.origin(object), &self.rec) {
            (Origin::Const, _) => true,
            (Origin::Outside(id), Some(rec)) => matches!(rec.tree.sources.read().get(id), Source::Pinned(_)),
            _ => false,
        }
    }

    /// The length is relied on.
    pub fn know_len(&mut self, object: &Obj) {
        let Origin::Outside(id) = self.origin(object) else { return };
        let Some(len) = crate::guard::length(object) else { return };
        self.recorded(|rec| {
            if rec.is_whole(object) {
                return Ok(());
            }
            if rec.is_resized(object) {
                return rec.recover(object);
            }
            rec.checks.push(crate::guard::Check::Len(id, len));
            Ok(())
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
        static MODULE: PyOnceLock<Obj> = PyOnceLock::new();
        MODULE.get_or_try_init(py(), || py().import("builtins").map(Obj::from))?.attr(name)
    }

    pub fn operator(&self, name: &str) -> R<Obj> {
        static MODULE: PyOnceLock<Obj> = PyOnceLock::new();
        MODULE.get_or_try_init(py(), || py().import("operator").map(Obj::from))?.attr(name)
    }
}

/// Fields of `list[int]` and `int | str`; the other attributes of the first are those of its class.
fn alias_field(object: &Obj, name: &Obj) -> Option<&'static str> {
    const FIELDS: &[&str] = &["__args__", "__origin__", "__parameters__"];
    if !object.class_is(types().generic_alias) && !object.class_is(types().union) {
        return None;
    }
    FIELDS.iter().find(|field| name.to_str().as_deref() == Some(**field)).copied()
}

/// What a dict finds without code of the program's.
pub fn is_key(object: &Obj) -> bool {
    types().is_scalar(object) || types().is_pinnable(object)
}
