//! Writing: attributes, items, cells. What others see is written for real, and noted to be done again in later calls.

use super::{Args, R, Vm};
use crate::attr::{is_data_descriptor, is_generic_store, type_lookup};
use crate::lazy::is_lazy;
use crate::obj::Obj;
use crate::record::{Origin, Val};
use crate::types::types;
use ox_bytecode::Local;
use pyo3::ffi;
use pyo3::prelude::*;

impl Vm {
    /// Whether a change to the object must be done again in later calls. False for what this segment made.
    fn is_seen_by_others(&self, object: &Obj) -> bool {
        self.rec.is_some() && matches!(self.origin(object), Origin::Outside(_) | Origin::Const)
    }

    /// Notes a change that is made right behind this.
    pub fn note(&mut self, function: &str, args: Vec<Val>) -> R<()> {
        let function = match function.split_once('.') {
            Some(("operator", name)) => self.operator(name)?,
            Some(("cell", _)) => crate::vm::native::cell_setter()?,
            _ => self.builtin(function)?,
        };
        let target = args[0].obj.clone();
        if let Some(rec) = &mut self.rec {
            rec.tell_apart(&target);
            rec.note_change(function, args);
        }
        Ok(())
    }

    pub fn store_attr(&mut self, object: &Val, name: &Obj, value: Val) -> R<()> {
        let this = object.obj.clone();
        if self.rec.is_none() {
            return this.bind().setattr(name_of(name)?, value.obj.bind());
        }
        if is_lazy(&this) || types().is_tensor(&this) {
            self.give_up("an attribute of a tensor is set");
            return this.bind().setattr(name_of(name)?, value.obj.bind());
        }
        let class = this.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        if this.is_instance_of(types().type_) || this.is_instance_of(types().module) {
            return self.store_attr_anyhow(object, name, value);
        }
        if !is_generic_store(&class) {
            return self.store_attr_by_hook(object, &class, name, value);
        }
        match type_lookup(&class, name).filter(is_data_descriptor) {
            Some(descriptor) if descriptor.class_is(types().property) => {
                let setter = descriptor.attr("fset")?;
                if setter.is_none() {
                    return this.bind().setattr(name_of(name)?, value.obj.bind());
                }
                let setter = self.pinned(setter);
                self.call_now(&setter, Args::positional(vec![object.clone(), value])).map(drop)
            }
            Some(descriptor) if !descriptor.class_is(types().member) && !descriptor.class_is(types().getset) => {
                self.give_up("a descriptor is set");
                this.bind().setattr(name_of(name)?, value.obj.bind())
            }
            _ => self.store_plain_attr(object, name, value),
        }
    }

    /// `object.__setattr__`
    pub fn store_plain_attr(&mut self, object: &Val, name: &Obj, value: Val) -> R<()> {
        let this = &object.obj;
        if self.is_seen_by_others(this) {
            self.note("setattr", vec![object.clone(), name.clone().into(), value.clone()])?;
        } else {
            self.settled(&value);
        }
        // SAFETY: live objects.
        crate::recipe::check(unsafe { ffi::PyObject_GenericSetAttr(this.ptr(), name.ptr(), value.obj.ptr()) })?;
        if let Some(rec) = &mut self.rec {
            rec.mark_written(this, name);
            rec.settle(&value);
        }
        Ok(())
    }

    /// Modules and classes.
    fn store_attr_anyhow(&mut self, object: &Val, name: &Obj, value: Val) -> R<()> {
        let this = object.obj.clone();
        if this.is_instance_of(types().type_) {
            // Every check of the class's version would fail from now on.
            self.give_up("an attribute of a class is set");
        } else {
            self.note("setattr", vec![object.clone(), name.clone().into(), value.clone()])?;
            if let Some(rec) = &mut self.rec {
                rec.settle(&value);
                if let Some(dict) = crate::source::instance_dict(&this) {
                    rec.mark_written(&dict, name);
                }
            }
        }
        this.bind().setattr(name_of(name)?, value.obj.bind())
    }

    fn store_attr_by_hook(&mut self, object: &Val, class: &Obj, name: &Obj, value: Val) -> R<()> {
        let hook = type_lookup(class, &Obj::str("__setattr__")).expect("it is not the generic one");
        if !hook.class_is(types().function) {
            self.give_up("a __setattr__ written in C");
            return object.obj.bind().setattr(name_of(name)?, value.obj.bind());
        }
        if object.obj.is_instance_of(types().nn_module) && self.is_plain_module_store(&object.obj, name, &value.obj) {
            return self.store_plain_attr(object, name, value);
        }
        let hook = self.pinned(hook);
        let args = Args::positional(vec![object.clone(), name.clone().into(), value]);
        self.call_now(&hook, args).map(drop)
    }

    /// A value that `nn.Module.__setattr__` would just put into the instance's dict: no tensor, no module, and no table has the name.
    fn is_plain_module_store(&mut self, module: &Obj, name: &Obj, value: &Obj) -> bool {
        let plain_hook = type_lookup(&module.class(), &Obj::str("__setattr__")).is_some_and(|hook| {
            // SAFETY: a type.
            let base = unsafe { Obj::borrowed(types().nn_module.cast()) };
            type_lookup(&base, &Obj::str("__setattr__")).is_some_and(|own| own.is(&hook))
        });
        let is_part = is_lazy(value) || types().is_tensor(value) || value.is_instance_of(types().nn_module);
        if !plain_hook || is_part {
            return false;
        }
        for table in ["_parameters", "_buffers", "_modules"] {
            let table = Obj::str(table);
            let Some(dict) = crate::source::instance_dict(module).and_then(|d| crate::obj::dict_get(&d, &table)) else {
                return false;
            };
            if crate::obj::dict_get(&dict, name).is_some() {
                return false;
            }
            let dict =
                self.found_at(module, &table, dict, |of| crate::source::Source::Attr(of, crate::source::Key(table.clone())));
            self.recorded(|rec| rec.check_no_key(&dict.obj, name));
        }
        self.rec.is_some()
    }

    pub fn delete_attr(&mut self, object: &Val, name: &Obj) -> R<()> {
        if self.is_seen_by_others(&object.obj) {
            self.note("delattr", vec![object.clone(), name.clone().into()])?;
            if let Some(rec) = &mut self.rec {
                rec.mark_written(&object.obj, name);
            }
        }
        object.obj.bind().delattr(name_of(name)?)
    }

    pub fn store_item(&mut self, object: &Val, key: &Val, value: Val) -> R<()> {
        let this = object.obj.clone();
        if self.rec.is_none() {
            return this.bind().set_item(key.obj.bind(), value.obj.bind());
        }
        let types = types();
        if is_lazy(&this) || types.is_tensor(&this) {
            return self.torch_operator_now("setitem", &[object.clone(), key.clone(), value]).map(drop);
        }
        let index = self.settled(key);
        let is_dict = this.is_instance_of(types.dict) && self.uses_slot(&this, "__setitem__", types.dict);
        if (is_dict && super::read::is_key(&index)) || this.class_is(types.list) {
            if !is_dict {
                self.know_len(&this);
            }
            if self.is_seen_by_others(&this) {
                self.note("operator.setitem", vec![object.clone(), key.clone(), value.clone()])?;
            }
            self.settled(&value);
            if let Some(rec) = &mut self.rec {
                match is_dict {
                    true => rec.mark_keys_changed(&this),
                    false => rec.mark_opaque(&this),
                }
                rec.mark_written(&this, &index);
            }
            return this.bind().set_item(index.bind(), value.obj.bind());
        }
        let class = this.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        match type_lookup(&class, &Obj::str("__setitem__")) {
            Some(function) if function.class_is(types.function) => {
                let function = self.pinned(function);
                self.call_now(&function, Args::positional(vec![object.clone(), key.clone(), value])).map(drop)
            }
            _ => {
                self.give_up(&format!("an item of a {} is set", this.class_name()));
                this.bind().set_item(key.obj.bind(), value.obj.bind())
            }
        }
    }

    pub fn delete_item(&mut self, object: &Val, key: &Val) -> R<()> {
        let this = object.obj.clone();
        if self.rec.is_some() && !matches!(self.origin(&this), Origin::Made) {
            self.give_up("an item of an outside object is deleted");
        }
        this.bind().del_item(key.obj.bind())
    }

    pub fn store_cell(&mut self, n: Local) -> R<()> {
        let value = self.pop();
        let cell = self.frame().locals[n.index()].clone().expect("a cell is made before it is used");
        if self.is_seen_by_others(&cell.obj) {
            self.note("cell.set", vec![cell.clone(), value.clone()])?;
        }
        let content = self.settled(&value);
        // SAFETY: a cell.
        crate::recipe::check(unsafe { ffi::PyCell_Set(cell.obj.ptr(), content.ptr()) })?;
        if let Some(rec) = &mut self.rec {
            rec.mark_written(&cell.obj, &Obj::str("cell_contents"));
        }
        Ok(())
    }

    pub fn delete_cell(&mut self, n: Local) -> R<()> {
        let cell = self.frame().locals[n.index()].clone().expect("a cell is made before it is used");
        if self.is_seen_by_others(&cell.obj) {
            self.give_up("a closure's variable is deleted");
        }
        self.load_cell(n)?;
        // SAFETY: a cell; null empties it.
        crate::recipe::check(unsafe { ffi::PyCell_Set(cell.obj.ptr(), std::ptr::null_mut()) })
    }
}

fn name_of(name: &Obj) -> R<Bound<'static, pyo3::types::PyString>> {
    Ok(name.bind().clone().cast_into::<pyo3::types::PyString>()?)
}
