//! Writing: attributes, items, cells. What others see is written for real, and noted to be done again in later calls.

use super::attribute::{is_of_dict, is_of_modules};
use super::finalised::finaliser;
use super::reading::stores_a_count;
use super::{Args, Called, R, Vm};
use crate::attr::{is_as_of_object, is_data_descriptor, is_generic_store, type_lookup};
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::Obj;
use crate::record::{Origin, Recording, Shadow, Val, is_python_instance};
use crate::source::{Source, instance_dict};
use crate::types::types;
use ox_bytecode::Local;
use ox_ops::surface::Place;
use pyo3::ffi;
use pyo3::prelude::*;

impl Vm {
    /// Whether a change to the object must be done again in later calls. False for what this segment made.
    pub fn is_seen_by_others(&self, object: &Obj) -> bool {
        self.rec.is_some() && matches!(self.origin(object), Origin::Outside(_) | Origin::Const)
    }

    /// A function that stores, by its module or class and its name.
    fn storing(&self, function: &str) -> R<Obj> {
        match function.split_once('.') {
            Some(("operator", name)) => self.operator(name),
            Some(("cell", _)) => crate::vm::native::cell_setter(),
            Some(("object", name)) => self.builtin("object")?.attr(name),
            _ => self.builtin(function),
        }
    }

    /// Notes a change that is made right behind this.
    pub fn note(&mut self, function: &str, args: Vec<Val>) -> R<()> {
        let function = self.storing(function)?;
        let target = args[0].obj.clone();
        if let Some(rec) = &mut self.rec {
            rec.tell_apart(&target);
            rec.note_change(function, args);
        }
        Ok(())
    }

    pub fn store_attr(&mut self, object: &Val, name: &Obj, value: Val) -> R<Called> {
        let this = object.obj.clone();
        if self.rec.is_none() {
            this.bind().setattr(name_of(name)?, value.obj.bind())?;
            return nothing();
        }
        if is_lazy(&this) || types().is_tensor(&this) {
            return self.store_tensor_attr(object, name, value);
        }
        let class = this.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        if self.is_set_by_metaclass(&this, name) {
            return self.store_generic_attr(object, name, value);
        }
        if this.is_instance_of(types().type_) || this.is_instance_of(types().module) {
            self.store_attr_anyhow(object, name, value)?;
            return nothing();
        }
        if !is_generic_store(&class) {
            return self.store_attr_by_hook(object, &class, name, value);
        }
        self.store_generic_attr(object, name, value)
    }

    /// `object.__setattr__`
    pub fn store_generic_attr(&mut self, object: &Val, name: &Obj, value: Val) -> R<Called> {
        let this = &object.obj;
        match type_lookup(&this.class(), name).filter(is_data_descriptor) {
            Some(descriptor) if descriptor.class_is(types().property) => {
                let setter = descriptor.attr("fset")?;
                if setter.is_none() {
                    // SAFETY: live objects.
                    crate::recipe::check(unsafe { ffi::PyObject_GenericSetAttr(this.ptr(), name.ptr(), value.obj.ptr()) })?;
                    return nothing();
                }
                let setter = self.pinned(setter);
                self.call(&setter, Args::positional(vec![object.clone(), value]))
            }
            Some(descriptor) if !descriptor.class_is(types().member) && !descriptor.class_is(types().getset) => {
                self.store_by_descriptor(descriptor, object, name, value)
            }
            _ => self.store_plain_attr(object, name, value).and_then(|()| nothing()),
        }
    }

    /// `__set__` of a descriptor.
    fn store_by_descriptor(&mut self, descriptor: Obj, object: &Val, name: &Obj, value: Val) -> R<Called> {
        let class = descriptor.class();
        match type_lookup(&class, &Obj::str("__set__")).filter(|set| set.class_is(types().function)) {
            Some(set) => {
                self.recorded(|rec| Ok(rec.rely_on_class(&class)));
                let (set, descriptor) = (self.pinned(set), self.pinned(descriptor));
                self.call(&set, Args::positional(vec![descriptor, object.clone(), value]))
            }
            None => self.store_for_real("object.__setattr__", vec![object.clone(), name.clone().into(), value]),
        }
    }

    /// What a tensor is: done for real. What the program hangs on it: noted, like on any object.
    fn store_tensor_attr(&mut self, object: &Val, name: &Obj, value: Val) -> R<Called> {
        if self.store_gradient(object, name, &value)? {
            return nothing();
        }
        if name.to_str().as_deref() == Some("requires_grad")
            && self.set_requires_grad(&Args::positional(vec![object.clone(), value.clone()]))?.is_some()
        {
            return nothing();
        }
        let this = object.obj.clone();
        if let Some(rec) = self.rec.as_mut().filter(|_| name.to_str().as_deref() == Some("data")) {
            rec.restate(&this);
        }
        let is_plain = is_lazy(&this) || this.class_is(types().tensor) || this.class_is(types().parameter);
        // SAFETY: types live as long as torch.
        let class = unsafe { Obj::borrowed(types().tensor.cast()) };
        if !is_plain || type_lookup(&class, name).is_some() {
            return self.store_for_real("setattr", vec![object.clone(), name.clone().into(), value]);
        }
        self.note("setattr", vec![object.clone(), name.clone().into(), value.clone()])?;
        // SAFETY: live objects.
        crate::recipe::check(unsafe { ffi::PyObject_GenericSetAttr(this.ptr(), name.ptr(), value.obj.ptr()) })?;
        if let Some(rec) = &mut self.rec {
            rec.mark_written(&this, name);
            rec.settle(&value);
        }
        nothing()
    }

    /// A store that only C can make: a break, in a frame of its own, so that nothing is left on the stack.
    fn store_for_real(&mut self, function: &str, args: Vec<Val>) -> R<Called> {
        let function = self.storing(function)?;
        self.call_library("for_real", [vec![function.into()], args].concat())
    }

    /// Into the instance's dict, or a field of its type.
    pub fn store_plain_attr(&mut self, object: &Val, name: &Obj, value: Val) -> R<()> {
        let this = &object.obj;
        let is_seen = self.is_seen_by_others(this);
        if is_seen {
            // What a hook of the class does besides has been recorded by itself.
            let function = if is_generic_store(&this.class()) { "setattr" } else { "object.__setattr__" };
            self.note(function, vec![object.clone(), name.clone().into(), value.clone()])?;
        }
        // Whoever has its dict does not ask where numbers came from.
        let keeps = |rec: &Recording| instance_dict(this).is_none_or(|dict| !rec.is_dict_of_made(&dict));
        let keeps_numbers = self.is_ours(this) && keeps_attributes(this) && self.rec.as_deref().is_some_and(keeps);
        let stays_free = keeps_numbers && self.stays_free(&value);
        match keeps_numbers {
            true => drop(self.settled_but_free(&value)),
            false if is_seen => self.settle_for_others(&value),
            false => drop(self.settled(&value)),
        }
        // The same place by another way.
        let dict = instance_dict(this).filter(|_| is_seen);
        if let Some(dict) = dict.as_ref().filter(|_| name.to_str().as_deref() == Some("__dict__")) {
            // Marks go by its address, and now nobody else may hold it.
            self.found_at(this, name, dict.clone(), Source::Dict);
        }
        if let (Some(rec), Some(dict)) = (&mut self.rec, &dict) {
            rec.mark_keys_changed(dict);
        }
        // SAFETY: live objects.
        crate::recipe::check(unsafe { ffi::PyObject_GenericSetAttr(this.ptr(), name.ptr(), value.obj.ptr()) })?;
        self.watch_in_new_class(this, name, &value.obj);
        if let Some(rec) = &mut self.rec {
            rec.mark_written(this, name);
            if is_seen || stays_free {
                rec.stow_outside(this, name, &value);
            } else if keeps_numbers {
                rec.forget_place(this, name);
            }
            if let Some(dict) = dict {
                rec.mark_written(&dict, name);
                rec.stow_outside(&dict, name, &value);
            }
        }
        Ok(())
    }

    /// An object of ours becomes one of a class whose instances are told when they go.
    fn watch_in_new_class(&mut self, object: &Obj, name: &Obj, class: &Obj) {
        if name.to_str().as_deref() == Some("__class__") && self.is_ours(object) && finaliser(class).is_some() {
            self.suspended.watch(object);
        }
    }

    /// What is put where others see it. The store is done again with what a later call has: numbers stay free, inside of it, too.
    pub(super) fn settle_for_others(&mut self, value: &Val) {
        if value.free.is_none() {
            self.settled_but_free(value);
        }
    }

    /// Modules and classes.
    fn store_attr_anyhow(&mut self, object: &Val, name: &Obj, value: Val) -> R<()> {
        let this = object.obj.clone();
        if this.is_instance_of(types().type_) {
            return self.store_class_attr(object, name, value);
        }
        self.note("setattr", vec![object.clone(), name.clone().into(), value.clone()])?;
        self.settle_for_others(&value);
        if let (Some(rec), Some(dict)) = (&mut self.rec, instance_dict(&this)) {
            rec.mark_keys_changed(&dict);
            rec.mark_written(&dict, name);
            rec.stow_outside(&dict, name, &value);
        }
        this.bind().setattr(name_of(name)?, value.obj.bind())
    }

    fn store_attr_by_hook(&mut self, object: &Val, class: &Obj, name: &Obj, value: Val) -> R<Called> {
        let hook = type_lookup(class, &Obj::str("__setattr__")).expect("it is not the generic one");
        if self.is_item_method(&hook, &object.obj, "__setitem__") {
            return self.store_item(object, &name.clone().into(), value);
        }
        if !hook.class_is(types().function) && !is_of_dict(&hook, &object.obj) {
            return self.store_for_real("setattr", vec![object.clone(), name.clone().into(), value]);
        }
        if object.obj.is_instance_of(types().nn_module) && self.is_plain_module_store(&object.obj, name, &value.obj) {
            return self.store_generic_attr(object, name, value);
        }
        let hook = self.pinned(hook);
        self.call(&hook, Args::positional(vec![object.clone(), name.clone().into(), value]))
    }

    /// A value that `nn.Module.__setattr__` would just give to `object.__setattr__`: no tensor, no module, and no table has the name.
    fn is_plain_module_store(&mut self, module: &Obj, name: &Obj, value: &Obj) -> bool {
        let hook = type_lookup(&module.class(), &Obj::str("__setattr__"));
        let plain_hook = hook.is_some_and(|hook| is_of_modules(&hook, "__setattr__"));
        let is_part = is_lazy(value) || types().is_tensor(value) || value.is_instance_of(types().nn_module);
        if !plain_hook || is_part {
            return false;
        }
        for table in ["_parameters", "_buffers", "_modules"] {
            let table = Obj::str(table);
            let Some(dict) = instance_dict(module).and_then(|d| crate::obj::dict_get(&d, &table)) else {
                return false;
            };
            if crate::obj::dict_get(&dict, name).is_some() {
                return false;
            }
            let dict = self.attr_found(module, &table, dict);
            self.recorded(|rec| rec.check_no_key(&dict.obj, name));
        }
        self.rec.is_some()
    }

    pub fn delete_attr(&mut self, object: &Val, name: &Obj) -> R<Called> {
        let this = &object.obj;
        if self.rec.is_none() {
            return this.bind().delattr(name_of(name)?).and_then(|()| nothing());
        }
        if self.is_set_by_metaclass(this, name) {
            return self.delete_generic_attr(object, name);
        }
        if this.is_instance_of(types().type_) {
            return self.delete_class_attr(object, name).and_then(|()| nothing());
        }
        if is_lazy(this) || types().is_tensor(this) {
            return self.delete_plain_attr(object, name);
        }
        let class = this.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        let of_dict = || type_lookup(&class, &Obj::str("__delattr__")).filter(|hook| is_of_dict(hook, this));
        match deleting_hook(&class).or_else(of_dict) {
            Some(hook) => {
                let hook = self.pinned(hook);
                self.call(&hook, Args::positional(vec![object.clone(), name.clone().into()]))
            }
            None if !is_as_of_object(&class, "__delattr__") => {
                self.store_for_real("delattr", vec![object.clone(), name.clone().into()])
            }
            None => self.delete_generic_attr(object, name),
        }
    }

    /// `object.__delattr__`
    pub fn delete_generic_attr(&mut self, object: &Val, name: &Obj) -> R<Called> {
        let descriptor = type_lookup(&object.obj.class(), name).filter(is_data_descriptor);
        let Some(descriptor) = descriptor.filter(|d| !d.class_is(types().member) && !d.class_is(types().getset)) else {
            return self.delete_plain_attr(object, name);
        };
        let class = descriptor.class();
        let deleter = match descriptor.class_is(types().property) {
            true => Some(descriptor.attr("fdel")?).filter(|deleter| !deleter.is_none()).map(|deleter| (deleter, None)),
            false => type_lookup(&class, &Obj::str("__delete__"))
                .filter(|delete| delete.class_is(types().function))
                .map(|delete| (delete, Some(descriptor))),
        };
        let Some((deleter, descriptor)) = deleter else {
            return self.store_for_real("object.__delattr__", vec![object.clone(), name.clone().into()]);
        };
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        let deleter = self.pinned(deleter);
        let descriptor = descriptor.map(|descriptor| self.pinned(descriptor));
        self.call(&deleter, Args::positional(descriptor.into_iter().chain([object.clone()]).collect()))
    }

    /// From the instance's dict, or a field of its type.
    fn delete_plain_attr(&mut self, object: &Val, name: &Obj) -> R<Called> {
        let this = &object.obj;
        if self.is_seen_by_others(this) {
            let dict = instance_dict(this);
            match dict.as_ref().and_then(|dict| crate::obj::dict_get(dict, name)) {
                Some(found) => drop(self.attr_found(this, name, found)),
                None => drop(self.recorded(|rec| rec.check_no_attr(this, name))),
            }
            let function = if deleting_hook(&this.class()).is_some() { "object.__delattr__" } else { "delattr" };
            self.note(function, vec![object.clone(), name.clone().into()])?;
            for place in [Some(this), dict.as_ref()].into_iter().flatten() {
                if let Some(rec) = &mut self.rec {
                    if !place.is(this) {
                        rec.mark_keys_changed(place);
                    }
                    rec.mark_written(place, name);
                    rec.forget_place(place, name);
                }
            }
        }
        // SAFETY: live objects; null deletes.
        crate::recipe::check(unsafe { ffi::PyObject_GenericSetAttr(this.ptr(), name.ptr(), std::ptr::null_mut()) })?;
        nothing()
    }

    pub fn store_item(&mut self, object: &Val, key: &Val, value: Val) -> R<Called> {
        let this = object.obj.clone();
        if self.rec.is_none() {
            this.bind().set_item(key.obj.bind(), value.obj.bind())?;
            return nothing();
        }
        let types = types();
        if is_lazy(&this) || types.is_tensor(&this) {
            return self.store_tensor_item(object, key, value);
        }
        let index = self.as_key(key);
        let is_dict = this.is_instance_of(types.dict) && self.uses_slot(&this, "__setitem__", types.dict);
        let by_key = is_dict && (self.is_fixed_key(&index) || (self.is_ours(&this) && self.find_key(&this, &index).is_some()));
        if (this.class_is(types.list) || this.class_is(types.deque))
            && let setitem = self.operator("setitem")?
            && let args = Args::positional(vec![object.clone(), key.clone(), value.clone()])
            && let Some(called) = self.call_with_number(&setitem.into(), &args, &[Place::Position(1)])?
        {
            return Ok(called);
        }
        if this.class_is(types.list)
            && let Some(called) = self.store_run(object, &index, &value)?
        {
            return Ok(called);
        }
        if by_key || this.class_is(types.list) || this.class_is(types.deque) {
            if self.store_sizes(&this, &index, &value)? {
                return nothing();
            }
            if !is_dict {
                self.know_len(&this);
            }
            if self.is_seen_by_others(&this) {
                self.note("operator.setitem", vec![object.clone(), key.clone(), value.clone()])?;
            }
            let is_seen = self.is_seen_by_others(&this);
            let place = if is_dict { Some(index.clone()) } else { place_in(&this, &index) };
            let is_named = place.is_some();
            let in_own_dict = is_dict && self.is_ours(&this);
            let value: Val = match is_seen && is_named {
                true => {
                    self.settle_for_others(&value);
                    value
                }
                false if in_own_dict && self.stays_free(&value) => value,
                false if in_own_dict => self.settled_but_free(&value).into(),
                false => self.settled(&value).into(),
            };
            let place = place.unwrap_or_else(|| index.clone());
            if let Some(rec) = self.mark_place(&this, &place, is_dict) {
                rec.forget_place(&this, &place);
                if is_named {
                    rec.stow_outside(&this, &place, &value);
                }
            }
            this.bind().set_item(index.bind(), value.obj.bind())?;
            return nothing();
        }
        let class = this.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        match type_lookup(&class, &Obj::str("__setitem__")) {
            Some(function) if function.class_is(types.function) => {
                let function = self.pinned(function);
                self.call(&function, Args::positional(vec![object.clone(), key.clone(), value]))
            }
            Some(method) if this.is_instance_of(types.list) && self.uses_slot(&this, "__setitem__", types.list) => {
                self.call(&method.into(), Args::positional(vec![object.clone(), key.clone(), value]))
            }
            // CPython's words.
            None => this.bind().set_item(index.bind(), value.obj.bind()).and_then(|()| nothing()),
            Some(_) if self.is_own_data(&this) && self.asks_for_numbers(&this, &[key, &value]) => {
                self.store_for_real("operator.setitem", vec![object.clone(), key.clone(), value])
            }
            Some(_) if self.is_own_data(&this) && !self.asks_for_hashes([&index]) => {
                self.known_data(key)?;
                self.known_data(&value)?;
                this.bind().set_item(index.bind(), value.obj.bind()).and_then(|()| nothing())
            }
            Some(_) => self.store_for_real("operator.setitem", vec![object.clone(), key.clone(), value]),
        }
    }

    /// To be called before a place of a dict or list is written.
    fn mark_place(&mut self, container: &Obj, index: &Obj, is_dict: bool) -> Option<&mut Recording> {
        let rec = self.rec.as_deref_mut()?;
        match is_dict {
            true => rec.mark_keys_changed(container),
            false => rec.mark_opaque(container),
        }
        rec.mark_written(container, index);
        Some(rec)
    }

    /// Where it cannot be recorded, it is done between two graphs.
    fn store_tensor_item(&mut self, object: &Val, key: &Val, value: Val) -> R<Called> {
        let setitem = Shadow::Function(self.operator("setitem")?);
        if self.waiting == 0 && self.rec.as_mut().is_some_and(|rec| stores_a_count(rec, &object.obj, &key.obj, &value.obj)) {
            return self.store_between_graphs(vec![object.clone(), key.clone(), value]);
        }
        let args = Args::positional(vec![object.clone(), key.clone(), value]);
        let function = self.operator("setitem")?;
        self.refuse_numbers("setitem", &function, &args)?;
        let may_fail = self.may_fail(&setitem, &args);
        match self.record_torch(&setitem, &args, may_fail)? {
            Ok(_) => nothing(),
            Err(refused) if refused.stands_apart() && self.rec.is_some() => self.store_between_graphs(args.positional),
            Err(_) if self.rec.is_some() => self.store_for_real("operator.setitem", args.positional),
            Err(_) => object.obj.bind().set_item(key.obj.bind(), args.positional[2].obj.bind()).and_then(|()| nothing()),
        }
    }

    fn store_between_graphs(&mut self, args: Vec<Val>) -> R<Called> {
        let setitem = self.operator("setitem")?.into();
        self.call_library("between_graphs", [vec![setitem], args].concat())
    }

    pub fn delete_item(&mut self, object: &Val, key: &Val) -> R<Called> {
        let this = object.obj.clone();
        if self.rec.is_none() {
            this.bind().del_item(key.obj.bind())?;
            return nothing();
        }
        let types = types();
        let index = self.settled(key);
        let is_dict = this.is_instance_of(types.dict) && self.uses_slot(&this, "__delitem__", types.dict);
        if this.class_is(types.list)
            && let delitem = self.operator("delitem")?
            && let args = Args::positional(vec![object.clone(), key.clone()])
            && let Some(called) = self.call_with_number(&delitem.into(), &args, &[Place::Position(1)])?
        {
            return Ok(called);
        }
        if self.is_list_of_sizes(&this, &[]) {
            let delete = |list: &Obj, _: &[Obj]| list.bind().del_item(index.bind()).map(|()| Obj::none());
            return self.rearrange(&this, &[], delete).and_then(|_| nothing());
        }
        if (is_dict && self.is_fixed_key(&index)) || this.class_is(types.list) {
            match is_dict {
                true => drop(self.dict_item(&this, &index)?),
                false => self.know_len(&this),
            }
            if self.is_seen_by_others(&this) {
                self.note("operator.delitem", vec![object.clone(), key.clone()])?;
            }
            if let Some(rec) = self.mark_place(&this, &index, is_dict) {
                match is_dict {
                    true => rec.forget_place(&this, &index),
                    false => rec.forget_places(&this),
                }
            }
            this.bind().del_item(index.bind())?;
            return nothing();
        }
        let class = this.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        match type_lookup(&class, &Obj::str("__delitem__")) {
            Some(function) if function.class_is(types.function) => {
                let function = self.pinned(function);
                self.call(&function, Args::positional(vec![object.clone(), key.clone()]))
            }
            None => this.bind().del_item(index.bind()).and_then(|()| nothing()),
            Some(_) if self.is_ours(&this) && !self.asks_for_numbers(&this, &[key]) && !self.asks_for_hashes([&index]) => {
                this.bind().del_item(index.bind()).and_then(|()| nothing())
            }
            Some(_) => self.store_for_real("operator.delitem", vec![object.clone(), key.clone()]),
        }
    }

    /// Whether a row of C's asks what it is given for numbers, which a dict does not.
    fn asks_for_numbers(&self, row: &Obj, given: &[&Val]) -> bool {
        !row.is_instance_of(types().dict) && !self.is_plain_data(&Args::positional(given.iter().copied().cloned().collect()))
    }

    /// Made in this segment: nobody else sees it before its end.
    pub fn is_ours(&self, object: &Obj) -> bool {
        self.origin(object) == Origin::Made
    }

    /// An object of this segment's, of a class in C that keeps what it is given.
    pub fn is_own_data(&self, object: &Obj) -> bool {
        (self.is_ours(object) && crate::builtins::is_data_class(&object.class())) || self.is_own_array(object)
    }

    pub fn store_cell(&mut self, n: Local) -> R<()> {
        let value = self.pop();
        let cell = self.frame().locals[n.index()].clone().expect("a cell is made before it is used");
        let is_seen = self.is_seen_by_others(&cell.obj);
        if is_seen {
            self.note("cell.set", vec![cell.clone(), value.clone()])?;
        }
        let stays_free = !is_seen && self.stays_free(&value);
        match is_seen {
            true => self.settle_for_others(&value),
            false => drop(self.settled_but_free(&value)),
        }
        // SAFETY: a cell.
        crate::recipe::check(unsafe { ffi::PyCell_Set(cell.obj.ptr(), value.obj.ptr()) })?;
        let place = Obj::str("cell_contents");
        if let Some(rec) = &mut self.rec {
            rec.mark_written(&cell.obj, &place);
            match is_seen {
                true => rec.stow_outside(&cell.obj, &place, &value),
                false => rec.forget_place(&cell.obj, &place),
            }
            if stays_free {
                rec.stow(&cell.obj, place, &value);
            }
        }
        Ok(())
    }

    pub fn delete_cell(&mut self, n: Local) -> R<()> {
        let cell = self.frame().locals[n.index()].clone().expect("a cell is made before it is used");
        self.load_cell(n)?;
        let place = Obj::str("cell_contents");
        if self.is_seen_by_others(&cell.obj) {
            self.note("delattr", vec![cell.clone(), place.clone().into()])?;
        }
        if let Some(rec) = &mut self.rec {
            rec.mark_written(&cell.obj, &place);
            rec.forget_place(&cell.obj, &place);
        }
        // SAFETY: a cell; null empties it.
        crate::recipe::check(unsafe { ffi::PyCell_Set(cell.obj.ptr(), std::ptr::null_mut()) })
    }
}

/// The place of a list that a number names, counted from the start. None of others: slices, and what is not there.
fn place_in(list: &Obj, index: &Obj) -> Option<Obj> {
    let is_number = list.class_is(types().list) && index.class_is(types().int);
    let (at, len) = (index.bind().extract::<i64>().quiet().filter(|_| is_number)?, crate::guard::length(list)? as i64);
    let place = if at < 0 { at + len } else { at };
    (0..len).contains(&place).then(|| Obj::int(place))
}

/// Whether the object is what its attributes are, and these are asked for one by one.
pub(super) fn keeps_attributes(object: &Obj) -> bool {
    is_python_instance(object) || object.class_is(types().namespace)
}

/// `__delattr__` of a class in Python.
fn deleting_hook(class: &Obj) -> Option<Obj> {
    type_lookup(class, &Obj::str("__delattr__")).filter(|hook| hook.class_is(types().function))
}

pub fn name_of(name: &Obj) -> R<Bound<'static, pyo3::types::PyString>> {
    Ok(name.bind().clone().cast_into::<pyo3::types::PyString>()?)
}

fn nothing() -> R<Called> {
    Ok(Called::Value(Obj::none().into()))
}
