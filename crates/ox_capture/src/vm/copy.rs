//! `copy.copy` and `copy.deepcopy` of data: the copy is an object of this call, and what was read for it is relied on where it was read.
//!
//! Later calls make no copy unless somebody keeps it: then it is built by its recipe like everything else that the trace made.

use super::{Args, Called, R, Vm};
use crate::attr::{is_as_of, is_as_of_object};
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, dict_get, entries_of, list_of, py, tuple_of};
use crate::record::{Origin, Recording, Shadow, Val};
use crate::source::{Key, Source, instance_dict};
use crate::types::types;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// What is copied already, by address: the original is held, so that the address stays its own.
#[derive(Default)]
struct Memo {
    copies: FxHashMap<usize, (Obj, Obj)>,
    /// How deep it is in the original what is copied now.
    depth: usize,
}

/// What lies deeper is the library's to copy, or to refuse.
const DEEPEST_COPIED: usize = 100;

/// What the library asks a class or an object for, to copy by it.
const HOOKS: &[&str] = &[
    "__copy__",
    "__deepcopy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
];

impl Vm {
    pub fn copy(&mut self, callable: &Val, args: Args) -> R<Called> {
        let [object] = &args.positional[..] else { return self.copy_by_library(callable, args) };
        let name = callable.obj.attr("__name__")?.to_str().unwrap_or_default();
        let mut memo = (name == "deepcopy").then(Memo::default);
        if let Some(copied) = self.copied(object, &mut memo)? {
            return Ok(Called::Value(copied));
        }
        match self.origin(&object.obj) {
            Origin::Outside(_) if !types().is_tensor(&object.obj) => self.copy_again(callable, args),
            _ => self.copy_by_library(callable, args),
        }
    }

    /// By the library's code; but how tensors are copied is up to their memory, and a deep copy remembers addresses, which are others in every
    /// call.
    fn copy_by_library(&mut self, callable: &Val, args: Args) -> R<Called> {
        let is_of_tensor = args.positional.first().is_some_and(|object| super::operators::is_tensor(&object.obj));
        match callable.obj.attr("__name__")?.to_str().as_deref() {
            _ if is_of_tensor => self.opaque_call(callable, args, "a copy of a tensor with its memory"),
            Some("deepcopy") => self.opaque_call(callable, args, "a deep copy that only the library can make"),
            _ => self.call_function(callable, args),
        }
    }

    /// What only the library can copy is copied by it in later calls too: before everything else, so nothing may have changed until here. A copy that
    /// cannot be made now may be made in a later call.
    fn copy_again(&mut self, callable: &Val, args: Args) -> R<Called> {
        let object = args.positional[0].obj.clone();
        let Origin::Outside(source) = self.origin(&object) else { unreachable!("checked by the caller") };
        if self.rec.as_ref().is_some_and(|rec| !rec.changes.is_empty()) {
            return self.opaque_call(callable, args, "a copy of what may have changed before");
        }
        let Some(copied) = callable.obj.call(&[object], None).quiet() else {
            return self.opaque_call(callable, args, "a copy that raises an exception");
        };
        let Some(rec) = &mut self.rec else { return Ok(Called::Value(copied.into())) };
        let source = rec.source(Source::Compute(Key(function_of_its_own(&callable.obj)?), vec![source]));
        Ok(Called::Value(rec.meet(copied, source)))
    }

    /// None if it is no plain data. Without a memo what is inside is shared.
    fn copied(&mut self, value: &Val, memo: &mut Option<Memo>) -> R<Option<Val>> {
        let t = types();
        if self.stays_free(value) {
            return Ok(Some(value.clone()));
        }
        let object = self.settled_but_free(value);
        let is_slice = memo.is_some() && object.class_is(t.slice);
        if t.is_scalar(&object) && !is_slice || t.is_enum(&object) || (t.is_pinnable(&object) && !object.class_is(t.module)) {
            return Ok(Some(object.into()));
        }
        if let Some((_, copy)) = memo.as_ref().and_then(|memo| memo.copies.get(&object.id())) {
            return Ok(Some(copy.clone().into()));
        }
        let is_known =
            self.origin(&object) != Origin::Unknown || self.rec.as_ref().is_some_and(|rec| rec.is_dict_of_made(&object));
        if !is_known {
            return Ok(None);
        }
        if memo.is_some() && super::operators::is_tensor(&object) {
            return Ok(self.copied_tensor(value, memo)?.map(Val::from));
        }
        let copy = if object.class_is(t.list) {
            self.copied_list(value, memo)
        } else if is_slice {
            self.copied_slice(value, memo)
        } else if object.class_is(t.tuple) {
            self.copied_tuple(value, memo)
        } else if object.class_is(t.dict) || object.class_is(t.ordered_dict) {
            self.copied_dict(&object, memo)
        } else if object.class_is(t.set) {
            self.copied_set(value, memo)
        } else if crate::record::is_plain_instance(&object) && copies_by_dict(&object.class())? {
            self.copied_instance(&object, memo)
        } else {
            Ok(None)
        };
        Ok(copy?.map(Val::from))
    }

    /// One without a gradient, whose elements lie one behind the other and are all of its memory, and on which nothing hangs that would be copied with it. Two may share
    /// their memory, and their copies would too: only the library knows.
    fn copied_tensor(&mut self, tensor: &Val, memo: &mut Option<Memo>) -> R<Option<Obj>> {
        let others = memo.iter().flat_map(|memo| memo.copies.values()).any(|(original, _)| super::operators::is_tensor(original));
        if others
            || !(is_lazy(&tensor.obj) || self.is_bare_tensor(&tensor.obj)?)
            || self.requires_grad(tensor)?
            || !self.ask_tensor_method(tensor, "is_contiguous")?.obj.truth()?
            || !self.fills_its_memory(tensor)?
        {
            return Ok(None);
        }
        let copy = self.ask_tensor_method(tensor, "clone")?.obj;
        if let Some(memo) = memo {
            memo.copies.insert(tensor.obj.id(), (tensor.obj.clone(), copy.clone()));
        }
        Ok(Some(copy))
    }

    /// Relied on: the copy of a part of a tensor's memory has all of that memory.
    fn fills_its_memory(&mut self, tensor: &Val) -> R<bool> {
        let question = super::library::function("fills_its_memory")?;
        self.ask_memory(&question, tensor)?.map_or(Ok(false), |answer| answer.obj.truth())
    }

    /// A plain tensor from outside that has no attributes of the program's and no `.grad`: relied on.
    fn is_bare_tensor(&mut self, tensor: &Obj) -> R<bool> {
        let Some(dict) = instance_dict(tensor) else { return Ok(false) };
        if !tensor.class_is(types().tensor) || !matches!(self.origin(tensor), Origin::Outside(_)) || !entries_of(&dict).is_empty()
        {
            return Ok(false);
        }
        let dict = self.found_at(tensor, &Obj::str("__dict__"), dict, Source::Dict).obj;
        self.know_keys(&dict);
        let gradient = self.stored_field(&tensor.clone().into(), &Obj::str("grad"))?;
        Ok(gradient.is_some_and(|gradient| gradient.obj.is_none()))
    }

    fn ask_tensor_method(&mut self, tensor: &Val, name: &str) -> R<Val> {
        // SAFETY: types live as long as torch.
        let method = unsafe { Obj::borrowed(types().tensor.cast()) }.attr(name)?;
        let args = Args::positional(vec![tensor.clone()]);
        self.now(|vm| vm.torch_call(Shadow::Method(Obj::str(name)), &method.into(), args))
    }

    fn part(&mut self, value: &Val, memo: &mut Option<Memo>) -> R<Option<Val>> {
        let Some(inside) = memo else { return Ok(Some(self.shared(value))) };
        if inside.depth == DEEPEST_COPIED {
            return Ok(None);
        }
        inside.depth += 1;
        let copied = self.copied(value, memo);
        if let Some(inside) = memo {
            inside.depth -= 1;
        }
        copied
    }

    fn shared(&mut self, value: &Val) -> Val {
        if self.stays_free(value) { value.clone() } else { self.settled_but_free(value).into() }
    }

    fn parts(&mut self, value: &Val, memo: &mut Option<Memo>) -> R<Option<Vec<Val>>> {
        let mut parts = Vec::new();
        for item in self.iterate_all(value)? {
            let Some(part) = self.part(&item, memo)? else { return Ok(None) };
            parts.push(part);
        }
        Ok(Some(parts))
    }

    fn copied_list(&mut self, value: &Val, memo: &mut Option<Memo>) -> R<Option<Obj>> {
        // It may hold itself.
        let copy = self.new_copy(&value.obj, list_of(&[])?, memo);
        let Some(parts) = self.parts(value, memo)? else { return Ok(None) };
        for part in &parts {
            copy.bind().call_method1("append", (part.obj.bind(),))?;
        }
        self.keep_free(&copy, 0, &parts);
        Ok(Some(copy))
    }

    /// A deep copy is another one, whatever is in it.
    fn copied_slice(&mut self, value: &Val, memo: &mut Option<Memo>) -> R<Option<Obj>> {
        let mut parts = Vec::new();
        for name in ["start", "stop", "step"] {
            let part = self.now(|vm| vm.load_attr(value, &Obj::str(name)))?;
            let Some(part) = self.part(&part, memo)? else { return Ok(None) };
            parts.push(part);
        }
        let copy = self.slice(&parts)?;
        Ok(Some(self.new_copy(&value.obj, copy.obj, memo)))
    }

    /// A tuple of what is shared anyhow is shared itself.
    fn copied_tuple(&mut self, value: &Val, memo: &mut Option<Memo>) -> R<Option<Obj>> {
        if memo.is_none() {
            return Ok(Some(value.obj.clone()));
        }
        let Some(parts) = self.parts(value, memo)? else { return Ok(None) };
        if crate::obj::items_of(&value.obj).iter().zip(&parts).all(|(a, b)| a.is(&b.obj)) {
            return Ok(Some(value.obj.clone()));
        }
        let objects: Vec<Obj> = parts.iter().map(|part| part.obj.clone()).collect();
        let copy = self.new_copy(&value.obj, tuple_of(&objects)?, memo);
        self.keep_free(&copy, 0, &parts);
        Ok(Some(copy))
    }

    fn copied_dict(&mut self, object: &Obj, memo: &mut Option<Memo>) -> R<Option<Obj>> {
        if !entries_of(object).iter().all(|(key, _)| super::read::is_key(key)) {
            return Ok(None);
        }
        if self.has_attributes(object) {
            return Ok(None);
        }
        let copy = self.new_copy(object, object.class().call(&[], None)?, memo);
        for (key, value) in self.mapping_items(&object.clone().into())? {
            let Some(value) = self.part(&value, memo)? else { return Ok(None) };
            copy.bind().set_item(key.bind(), value.obj.bind())?;
            self.stow(&copy, key, &value);
        }
        Ok(Some(copy))
    }

    /// Attributes of a mapping's own are copied with it, by the library: those of `state_dict()` are an OrderedDict's.
    fn has_attributes(&mut self, mapping: &Obj) -> bool {
        let Some(dict) = instance_dict(mapping) else { return false };
        let dict = self.found_at(mapping, &Obj::str("__dict__"), dict, Source::Dict).obj;
        self.know_keys(&dict);
        !entries_of(&dict).is_empty()
    }

    fn copied_set(&mut self, value: &Val, memo: &mut Option<Memo>) -> R<Option<Obj>> {
        if !self.is_plain_data(&Args::positional(vec![value.clone()])) {
            return Ok(None);
        }
        let object = self.known_data(value)?;
        let copy = Obj::from(object.bind().call_method0("copy")?);
        Ok(Some(self.new_copy(&object, copy, memo)))
    }

    fn copied_instance(&mut self, object: &Obj, memo: &mut Option<Memo>) -> R<Option<Obj>> {
        let class = object.class();
        let Some(dict) = instance_dict(object) else { return Ok(None) };
        let relies = |rec: &mut Recording| rec.rely_on_class(&class) && rec.rely_on_class(&class.class());
        if self.recorded(|rec| Ok(relies(rec) && !rec.has_writes(object))) != Some(true) {
            return Ok(None);
        }
        let dict = self.found_at(object, &Obj::str("__dict__"), dict, Source::Dict).obj;
        self.know_keys(&dict);
        if HOOKS.iter().any(|hook| dict_get(&dict, &Obj::str(hook)).is_some()) {
            return Ok(None);
        }
        let finds = !is_as_of_object(&class, "__getattribute__");
        if finds && !self.finds_as_object_does(object, memo.is_some())? {
            return Ok(None);
        }
        let copy = class.attr("__new__")?.call(&[class], None)?;
        let copy = self.new_copy(object, copy, memo);
        let mut parts = Vec::new();
        for (name, value) in entries_of(&dict) {
            let value = self.attr_found(object, &name, value);
            let Some(value) = self.part(&value, memo)? else { return Ok(None) };
            parts.push((name, value));
        }
        let own = instance_dict(&copy).expect("its class gives instances a dict");
        if finds && !parts.is_empty() && !self.takes_its_dict(&copy, &own)? {
            return Ok(None);
        }
        for (name, value) in parts {
            own.bind().set_item(name.bind(), value.obj.bind())?;
            self.stow(&copy, name, &value);
        }
        Ok(Some(copy))
    }

    /// Whether a `__getattribute__` of the program's lets the library put a state into a copy by its dict.
    fn takes_its_dict(&mut self, copy: &Obj, own: &Obj) -> R<bool> {
        let copy = copy.clone().into();
        Ok(self.try_attr(&copy, &Obj::str("__setstate__"))?.is_none()
            && self.try_attr(&copy, &Obj::str("__dict__"))?.is_some_and(|dict| dict.obj.is(own)))
    }

    /// Whether a `__getattribute__` of the program's gives the library what `object` has, which is asked in the library's order.
    fn finds_as_object_does(&mut self, object: &Obj, deep: bool) -> R<bool> {
        if deep && self.try_attr(&object.clone().into(), &Obj::str("__deepcopy__"))?.is_some() {
            return Ok(false);
        }
        for name in ["__reduce_ex__", "__reduce__", "__getstate__"] {
            let found = self.try_attr(&object.clone().into(), &Obj::str(name))?;
            if !found.is_some_and(|found| is_method_of_object(&found.obj, name, object)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn new_copy(&mut self, object: &Obj, copy: Obj, memo: &mut Option<Memo>) -> Obj {
        if let Some(memo) = memo {
            memo.copies.insert(object.id(), (object.clone(), copy.clone()));
        }
        self.made(copy).obj
    }
}

/// Whether it is a method of C of this name, bound to this object, whose class has none but those of `object`.
fn is_method_of_object(found: &Obj, name: &str, object: &Obj) -> bool {
    found.class_is(types().builtin)
        && found.attr("__self__").quiet().is_some_and(|own| own.is(object))
        && found.attr("__name__").quiet().is_some_and(|told| told.bind().eq(name).quiet() == Some(true))
}

/// Whether the library copies instances by their dicts, without code of the class's.
fn copies_by_dict(class: &Obj) -> R<bool> {
    // What is told when nobody holds it any more is watched where it is constructed.
    const OTHERS: &[&str] = &["__new__", "__getattr__", "__del__"];
    // What the library asks the class itself for.
    const OF_METACLASS: &[&str] = &["__copy__", "__getattribute__", "__getattr__"];
    let meta = class.class();
    let table: Obj = py().import("copyreg")?.getattr("dispatch_table")?.into();
    Ok(HOOKS.iter().chain(OTHERS).all(|name| is_as_of_object(class, name))
        && OF_METACLASS.iter().all(|name| is_as_of(&meta, name, types().type_))
        && dict_get(&table, class).is_none())
}

/// The function as another object: two copies are two objects, so their sources must not be one.
fn function_of_its_own(function: &Obj) -> R<Obj> {
    let function = function.clone();
    let call = move |args: &Bound<'_, pyo3::types::PyTuple>, _: Option<&Bound<'_, pyo3::types::PyDict>>| -> PyResult<Py<PyAny>> {
        Ok(function.bind().call1(args)?.unbind())
    };
    Ok(pyo3::types::PyCFunction::new_closure(py(), Some(c"copy"), None, call)?.into())
}
