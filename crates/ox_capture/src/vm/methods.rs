//! Methods of classes in C: who does them is decided by the class and the name.

use super::container::is_reader;
use super::native::keywords;
use super::operators::is_tensor;
use super::reading::rank;
use super::{Args, Called, R, Vm};
use crate::attr::{is_generic, type_lookup};
use crate::lazy::is_lazy;
use crate::obj::{Obj, py};
use crate::record::{Origin, Val};
use crate::types::types;
use pyo3::exceptions::PyStopIteration;

impl Vm {
    pub(super) fn format_object(&mut self, callable: &Val, object: &Val, args: &Args) -> R<Called> {
        if self.is_plain_data(args) {
            return self.pure(&callable.obj, &args.positional, &args.keywords).map(Called::Value);
        }
        let t = types();
        let name = callable.obj.attr("__name__")?.to_str().unwrap_or_default();
        let spec = args.positional.get(1).cloned().unwrap_or_else(|| Obj::str("").into());
        let class = object.obj.class();
        let python = |name: &str| type_lookup(&class, &Obj::str(name)).filter(|f| f.class_is(t.function));
        let empty = spec.obj.to_str().is_some_and(|text| text.is_empty());
        if name == "format" && self.is_plain_number(&object.obj) {
            return self.call_library("number_text", vec![object.clone(), spec]);
        }
        if name == "format"
            && !is_tensor(&object.obj)
            && let Some(found) = python("__format__")
        {
            self.recorded(|rec| Ok(rec.rely_on_class(&class)));
            let found = self.pinned(found);
            return self.call_library("formatted", vec![found, object.clone(), spec]);
        }
        if !is_tensor(&object.obj) && (name == "repr" || empty) {
            let methods: &[&str] = if name == "format" { &["__str__", "__repr__"] } else { &["__repr__"] };
            if let Some((method, found)) = methods.iter().find_map(|method| Some((method, python(method)?))) {
                self.recorded(|rec| Ok(rec.rely_on_class(&class)));
                let found = self.pinned(found);
                // SAFETY: the type lives for ever.
                let text: Val = unsafe { Obj::borrowed(t.str.cast()) }.into();
                let complaint: Val = Obj::str(&format!("{method} returned non-string (type {{}})")).into();
                return self.call_library("of_type", vec![found, object.clone(), text, complaint]);
            }
        }
        if (name == "repr" || empty)
            && let Some(called) = self.container_text(object)?
        {
            return Ok(called);
        }
        self.opaque_call(callable, args.clone(), &format!("the text of a {}", object.obj.class_name()))
    }

    /// A tensor without dimensions, of no class of somebody's own: `format` takes its number. What a graph is recorded of lies on no meta device.
    fn is_plain_number(&self, object: &Obj) -> bool {
        let seen = || self.rec.as_ref().map_or_else(|| object.clone(), |rec| rec.seen_as(object));
        (is_lazy(object) || object.class_is(types().tensor)) && rank(&seen()) == Some(0)
    }

    // Methods of containers.

    pub fn call_container_method(&mut self, callable: &Val, class: &Obj, name: &str, args: Args) -> R<Called> {
        let t = types();
        let owner = args.positional[0].clone();
        let ptr = class.ptr().cast();
        let rest = Args { positional: args.positional[1..].to_vec(), keywords: args.keywords.clone() };
        if let Some(called) = self.object_method(class, name, &owner, &rest)? {
            return Ok(called);
        }
        if self.is_own_iterator(&owner.obj) && name == "__next__" {
            return match self.next_of(&owner)? {
                Some(value) => Ok(Called::Value(value)),
                None => Err(PyStopIteration::new_err(())),
            };
        }
        if ptr == t.mapping_proxy
            && let Some(dict) = self.rec.as_ref().and_then(|rec| rec.viewed(&owner.obj))
            && let Some(method) = type_lookup(&dict.class(), &Obj::str(name))
        {
            return self.call(&method.into(), rest.with_self(dict.into()));
        }
        if ptr == t.context_var
            && let Some(value) = self.context_var_method(callable, name, &owner, &rest)?
        {
            return Ok(Called::Value(value));
        }
        if (ptr == t.dict || ptr == t.ordered_dict)
            && let Some(called) = self.dict_method(callable, name, &owner, &rest)?
        {
            return Ok(called);
        }
        if ptr == t.size && name == "numel" && self.holds_sizes(&owner.obj) {
            let sizes = self.items_made_here(&owner.obj);
            return self.product(&sizes).map(Called::Value);
        }
        if ptr == t.slice
            && name == "indices"
            && let ([length], []) = (&rest.positional[..], &rest.keywords[..])
            && (self.is_size(length) || self.rec.as_ref().is_some_and(|rec| rec.has_stowed(&owner.obj)))
        {
            let mut args = vec![length.clone()];
            for part in ["start", "stop", "step"] {
                args.push(self.now(|vm| vm.load_attr(&owner, &Obj::str(part)))?);
            }
            return self.call_library("indices", args);
        }
        let immutable =
            [t.str, t.int, t.float, t.bytes, t.bool, t.complex, t.tuple, t.frozenset, t.range, t.slice, t.size, t.dtype];
        let reads = is_reader(name);
        let containers = [t.list, t.dict, t.set, t.ordered_dict];
        if immutable.contains(&ptr) || (containers.contains(&ptr) && reads) {
            return self.read_method(callable, name, args);
        }
        if containers.contains(&ptr) || ptr == t.deque {
            return self.changing_method(callable, name, args);
        }
        if let Some(called) = self.call_array_method(callable, class, name, &args)? {
            return Ok(called);
        }
        if self.is_own_data(&owner.obj) && crate::builtins::is_data_class(class) {
            return self.native_method(callable, args);
        }
        let why = format!("the method {name} of a {}", owner.obj.class_name());
        self.opaque_call(callable, args, &why)
    }

    /// A method of an object of this segment's, of a class in C that keeps what it is given.
    fn native_method(&mut self, callable: &Val, args: Args) -> R<Called> {
        if self.asks_what_it_is_given(&args.positional[0].obj.class(), &args.positional[1..]) {
            return self.opaque_call(callable, args, "a method of a class in C, on objects");
        }
        let mut objects = Vec::new();
        for arg in &args.positional {
            objects.push(self.known_data(arg)?);
        }
        for (_, value) in &args.keywords {
            self.settled(value);
        }
        let result = callable.obj.call(&objects, keywords(&args.keywords)?.as_ref())?;
        Ok(Called::Value(self.made_or_known(result)))
    }

    /// Variables of the thread's context: read with a check, set for real and again in later calls. What is reset before anybody else could
    /// look was never set.
    fn context_var_method(&mut self, callable: &Val, name: &str, owner: &Val, rest: &Args) -> R<Option<Val>> {
        let variable = owner.obj.clone();
        let key = Obj::str("value");
        match (name, &rest.positional[..]) {
            ("get", defaults) => {
                let mut args = vec![owner.clone()];
                args.extend(defaults.iter().cloned());
                let objects: Vec<Obj> = args.iter().map(|a| a.obj.clone()).collect();
                let value = callable.obj.call(&objects, None)?;
                let written = self.rec.as_ref().is_some_and(|rec| rec.is_written(&variable, &key));
                if written || self.origin(&value) == Origin::Made {
                    return Ok(Some(value.into()));
                }
                let Some(rec) = &mut self.rec else { return Ok(Some(value.into())) };
                let sources: Option<Vec<_>> = args.iter().map(|a| rec.source_of(a)).collect();
                let Some(sources) = sources else { return Ok(None) };
                let source = rec.source(crate::source::Source::Compute(crate::source::Key(callable.obj.clone()), sources));
                Ok(Some(rec.meet(value, source)))
            }
            ("set", [value]) => {
                let object = self.settled(value);
                let token = callable.obj.call(&[variable.clone(), object.clone()], None)?;
                if let Some(rec) = &mut self.rec {
                    rec.register(&token, Origin::Made);
                    rec.note_change(callable.obj.clone(), vec![owner.clone(), value.clone()]);
                    rec.mark_written(&variable, &key);
                    rec.note_token(&token);
                }
                Ok(Some(token.into()))
            }
            ("reset", [token]) if self.rec.as_mut().is_some_and(|rec| rec.take_token(&token.obj)) => {
                callable.obj.call(&[variable, token.obj.clone()], None)?;
                Ok(Some(Obj::none().into()))
            }
            _ => Ok(None),
        }
    }

    /// `object`'s and `type`'s own.
    fn object_method(&mut self, class: &Obj, name: &str, owner: &Val, rest: &Args) -> R<Option<Called>> {
        let t = types();
        let is_object = class.ptr() == t.object.cast();
        let value = match (name, &rest.positional[..]) {
            ("__init__", []) if is_object => Obj::none().into(),
            ("__init__", args) if rest.keywords.is_empty() && self.is_made_exception(class, &owner.obj) => {
                let mut objects = vec![owner.obj.clone()];
                objects.extend(args.iter().map(|arg| self.settled(arg)));
                class.attr("__init__")?.call(&objects, None)?.into()
            }
            (method, args) if is_exception_method(method) && self.is_made_exception(class, &owner.obj) => {
                return self.exception_method(class, method, owner, args).map(Some);
            }
            ("__setattr__", [attribute, value]) if is_object => {
                let attribute = self.settled(attribute);
                let called = self.store_generic_attr(owner, &attribute, value.clone())?;
                return Ok(Some(self.as_none(called)));
            }
            // Dicts and lists show the generic one as their own.
            ("__getattribute__", [attribute]) if is_generic(class) && owner.obj.is_instance_of(class.ptr().cast()) => {
                let attribute = self.settled(attribute);
                return self.plain_attr(owner, &attribute).map(Some);
            }
            ("__getattribute__", [attribute]) if class.ptr() == t.module.cast() && owner.obj.class_is(t.module) => {
                let attribute = self.settled(attribute);
                return self.now(|vm| vm.load_attr(owner, &attribute)).map(|found| Some(Called::Value(found)));
            }
            ("__delattr__", [attribute]) if is_object => {
                let attribute = self.settled(attribute);
                let called = self.delete_generic_attr(owner, &attribute)?;
                return Ok(Some(self.as_none(called)));
            }
            ("__eq__", [other]) if is_object => match self.is_same(owner, other) {
                true => Obj::bool(true).into(),
                false => Obj::from(py().NotImplemented().into_bound(py())).into(),
            },
            _ => return Ok(None),
        };
        Ok(Some(Called::Value(value)))
    }

    /// What an exception of this call's does with itself, by its class in C.
    fn exception_method(&mut self, class: &Obj, name: &str, owner: &Val, args: &[Val]) -> R<Called> {
        let mut objects = vec![owner.obj.clone()];
        for arg in args {
            objects.push(self.known_data(arg)?);
        }
        let result = class.attr(name)?.call(&objects, None)?;
        if name == "add_note" {
            self.made(owner.obj.attr("__notes__")?);
        }
        let parts = if result.class_is(types().tuple) { crate::obj::items_of(&result) } else { vec![result.clone()] };
        parts.iter().filter(|part| part.is_instance_of(types().base_exception)).for_each(|part| self.made_group(part));
        Ok(Called::Value(self.made_or_known(result)))
    }

    /// An exception of this call's, to be filled by its class in C.
    fn is_made_exception(&self, class: &Obj, object: &Obj) -> bool {
        crate::recipe::is_subtype(class, types().base_exception) && self.origin(object) == Origin::Made
    }
}

/// Methods of exceptions that are about the exception alone.
fn is_exception_method(name: &str) -> bool {
    matches!(name, "add_note" | "with_traceback" | "split" | "subgroup")
}
