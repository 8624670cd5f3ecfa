//! Reading attributes of what is no plain instance: modules, classes, tensors, methods, `super()`.

use super::attribute::Found;
use super::{Args, Called, Flow, R, Vm};
use crate::attr::{has_get, is_c_descriptor, is_data_descriptor, super_lookup, type_lookup};
use crate::callable::inner_function;
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, dict_get};
use crate::record::Val;
use crate::source::{Key, Source, instance_dict};
use crate::types::types;
use ox_bytecode::{Instruction, Name};
use pyo3::exceptions::PyAttributeError;

impl Vm {
    /// `nn.Module.__getattr__`: parameters, buffers and submodules.
    pub(super) fn module_part(&mut self, this: &Obj, name: &Obj) -> R<Option<Val>> {
        for table in ["_parameters", "_buffers", "_modules"] {
            let table = Obj::str(table);
            let Some(dict) = instance_dict(this).and_then(|d| dict_get(&d, &table)) else { continue };
            if !dict.class_is(types().dict) {
                return Ok(None);
            }
            let dict = self.attr_found(this, &table, dict);
            if let Some(found) = dict_get(&dict.obj, name) {
                return Ok(Some(self.found_at(&dict.obj, name, found, |of| Source::Value(of, Key(name.clone())))));
            }
            self.recorded(|rec| rec.check_no_key(&dict.obj, name));
        }
        Ok(None)
    }

    pub(super) fn class_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        let this = &object.obj;
        let meta = this.class();
        let relied = self.recorded(|rec| Ok(rec.rely_on_class(this) && rec.rely_on_class(&meta)));
        if relied == Some(false) {
            self.give_up("a class whose changes are not counted");
            return Ok(Found::Called(Called::Value(this.get_attr(name)?.into())));
        }
        if type_lookup(&meta, &Obj::str("__getattribute__")).is_some_and(|hook| hook.class_is(types().function)) {
            return self.attr_by_hook(object, &meta, name);
        }
        let on_meta = type_lookup(&meta, name);
        // The members of an enumeration stay what they are.
        let is_property = |descriptor: &Obj| descriptor.class_is(types().property) && !is_of_enumerations(descriptor);
        let found = match (&on_meta, type_lookup(this, name)) {
            (Some(descriptor), _) if is_data_descriptor(descriptor) => {
                if is_property(descriptor) || !is_c_descriptor(descriptor) {
                    return self.data_descriptor(object, this, name, descriptor, true);
                }
                let value = this.get_attr(name)?;
                return Ok(Found::Called(Called::Value(self.pinned(value))));
            }
            (_, Some(found)) => match self.written_on_class(this, name)? {
                Some(value) => return Ok(Found::Called(Called::Value(value))),
                None => found,
            },
            (Some(found), None) => return self.bind_found(object, &meta, found.clone(), None),
            (None, None) => {
                let hook = type_lookup(&meta, &Obj::str("__getattr__"));
                if let Some(hook) = hook.filter(|hook| hook.class_is(types().function)) {
                    return self.call_hook(hook, vec![object.clone(), name.clone().into()]);
                }
                let value = this.get_attr(name)?;
                return Ok(Found::Called(Called::Value(self.pinned(value))));
            }
        };
        let types = types();
        if found.class_is(types.classmethod) {
            let function = self.pinned(found.attr("__func__")?);
            if function.obj.class_is(types.function) {
                return Ok(Found::Method(function));
            }
        }
        if has_get(&found) && !is_c_descriptor(&found) && inner_function(&found).is_none() {
            let found = self.pinned(found);
            let class = this.clone();
            return self.call_get(&found, &Obj::none().into(), &class, None);
        }
        let value = this.get_attr(name)?;
        Ok(Found::Called(Called::Value(self.pinned(value))))
    }

    /// Of a module in `sys.modules`, or of another. Properties of its class come first, then its dict, then what computes attributes that are not there.
    pub(super) fn module_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
        let this = &object.obj;
        self.pinned(this.clone());
        let class = this.class();
        if own_of_class(&class, &Obj::str("__getattribute__")).is_some() {
            return self.attr_by_hook(object, &class, name);
        }
        if own_of_class(&class, name).is_some() {
            return self.generic_instance_attr(object, name, true);
        }
        let dict = instance_dict(this).expect("modules have a dict");
        self.pinned(dict.clone());
        if dict_get(&dict, name).is_none() {
            if let Some(hook) = hook_of(this).filter(|_| of_all_modules(name).is_none()) {
                self.recorded(|rec| rec.check_no_key(&dict, name));
                return self.ask_module(object, hook, name);
            }
            // A lazy module fills its dict when it is first asked.
            let value = this.get_attr(name);
            if dict_get(&dict, name).is_none() {
                self.recorded(|rec| rec.check_no_key(&dict, name));
                self.recorded(|rec| Ok(rec.rely_on_class(&class)));
                self.hook_in(&dict);
                return Ok(Found::Called(Called::Value(self.pinned(value?))));
            }
        }
        let found = dict_get(&dict, name).expect("it is there now");
        Ok(Found::Called(Called::Value(self.found_at(&dict, name, found, |of| Source::Value(of, Key(name.clone()))))))
    }

    fn ask_module(&mut self, object: &Val, hook: Hook, name: &Obj) -> R<Found> {
        let class = object.obj.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        match hook {
            Hook::OfClass(hook) => self.call_hook(hook, vec![object.clone(), name.clone().into()]),
            Hook::OfModule(hook) => {
                let found = instance_dict(&object.obj).and_then(|dict| self.hook_in(&dict)).unwrap_or(hook.into());
                Ok(Found::Called(self.call(&found, Args::positional(vec![name.clone().into()]))?))
            }
        }
    }

    /// The `__getattr__` in the dict of a module. That there is none is relied on.
    fn hook_in(&mut self, dict: &Obj) -> Option<Val> {
        let name = Obj::str("__getattr__");
        let Some(hook) = dict_get(dict, &name) else {
            self.recorded(|rec| rec.check_no_key(dict, &name));
            return None;
        };
        Some(self.found_at(dict, &name, hook, |of| Source::Value(of, Key(name.clone()))))
    }

    /// A method of Python's of the object's class, which says what an attribute is.
    pub(super) fn call_hook(&mut self, hook: Obj, args: Vec<Val>) -> R<Found> {
        let hook = self.pinned(hook);
        Ok(Found::Called(self.call(&hook, Args::positional(args))?))
    }

    pub(super) fn tensor_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
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
                let value = self.attr_found(this, name, found);
                return Ok(Found::Called(Called::Value(value)));
            }
            self.recorded(|rec| rec.check_no_attr(this, name));
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
    pub(super) fn method_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
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

    pub(super) fn super_object_attr(&mut self, object: &Val, name: &Obj) -> R<Found> {
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
            let text = format!("'super' object has no attribute '{}'", name);
            return Err(PyAttributeError::new_err(text));
        };
        self.recorded(|rec| Ok(rec.class_reads.insert(Key(name.clone()))));
        if of.obj.is_instance_of(types().type_) && of.obj.is(class) {
            return self.through_class(of, found);
        }
        if found.class_is(types().property) {
            let getter = self.pinned(found.attr("fget")?);
            return Ok(Found::Called(self.call(&getter, Args::positional(vec![of.clone()]))?));
        }
        self.bind_found(of, class, found, None)
    }

    /// What `__get__(None, class)` gives: functions, properties and the like stay what they are.
    fn through_class(&mut self, class: &Val, found: Obj) -> R<Found> {
        if found.class_is(types().classmethod) || found.class_is(types().staticmethod) {
            return self.bind_found(class, &class.obj, found, None);
        }
        let stays = !has_get(&found) || is_c_descriptor(&found) || inner_function(&found).is_some();
        let own = [types().function, types().property, types().method_descriptor, types().wrapper_descriptor, types().lru_cache];
        let is_one = own.into_iter().any(|class| found.class_is(class));
        let found = self.pinned(found);
        if stays || is_one {
            return Ok(Found::Called(Called::Value(found)));
        }
        self.call_get(&found, &Obj::none().into(), &class.obj, None)
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
}

/// A property that the standard library gives all enumerations.
fn is_of_enumerations(property: &Obj) -> bool {
    let module = property.attr("fget").and_then(|getter| getter.attr("__module__"));
    module.quiet().is_some_and(|module| module.to_str().as_deref() == Some("enum"))
}

/// What says which attributes a module has that are not in its dict.
pub(super) enum Hook {
    OfClass(Obj),
    OfModule(Obj),
}

/// That of a module, if it is code of the program's.
pub(super) fn hook_of(module: &Obj) -> Option<Hook> {
    let name = Obj::str("__getattr__");
    let (found, hook): (Obj, fn(Obj) -> Hook) = match own_of_class(&module.class(), &name) {
        Some(found) => (found, Hook::OfClass),
        None => (instance_dict(module).and_then(|dict| dict_get(&dict, &name))?, Hook::OfModule),
    };
    (found.class_is(types().function) && !fills_its_module(&found)).then(|| hook(found))
}

/// What a class of modules has besides what all of them have.
fn own_of_class(class: &Obj, name: &Obj) -> Option<Obj> {
    let of_all = of_all_modules(name);
    type_lookup(class, name).filter(|own| !of_all.is_some_and(|of| of.is(own)))
}

/// `__dict__`, `__class__` and their like.
fn of_all_modules(name: &Obj) -> Option<Obj> {
    // SAFETY: the type lives for ever.
    type_lookup(&unsafe { Obj::borrowed(types().module.cast()) }, name)
}

/// Whether a `__getattr__` of a module's looks for what is to stand there from now on: it imports, or writes into the module. That is no part of what the
/// program does, and done once.
fn fills_its_module(hook: &Obj) -> bool {
    const FILLING: &[&str] = &["import_module", "__import__", "setattr", "globals", "__dict__"];
    let Some(code) = hook.attr("__code__").quiet().and_then(|code| super::code_info(&code)) else { return true };
    let is_filling = |name: &Obj| FILLING.contains(&name.to_str().unwrap_or_default().as_str());
    code.names.iter().any(is_filling) || code.code.instructions.iter().any(|at| matches!(at, Instruction::ImportName(_)))
}

/// Fields of `list[int]` and `int | str`; the other attributes of the first are those of its class.
pub(super) fn alias_field(object: &Obj, name: &Obj) -> Option<&'static str> {
    const FIELDS: &[&str] = &["__args__", "__origin__", "__parameters__"];
    if !object.class_is(types().generic_alias) && !object.class_is(types().union) {
        return None;
    }
    FIELDS.iter().find(|field| name.to_str().as_deref() == Some(**field)).copied()
}
