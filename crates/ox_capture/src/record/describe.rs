//! Recipes for objects of classes in C, by what they say of themselves.

use super::inspect::{Inspection, built_in_base, members_of};
use super::{MadeBy, Rec, Recording, abandon};
use crate::builtins;
use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of, items_of, py, tuple_of};
use crate::recipe::{Recipe, Rest, Shape};
use crate::source::short;
use crate::types::types;
use pyo3::prelude::*;

impl Recording {
    /// An object that is known to be what a call gave.
    pub(super) fn call_shape(&self, call: &MadeBy, found: &mut Inspection) -> Rec<Shape> {
        let by = self.recipe_of(&call.by, found)?;
        let args = call.args.iter().map(|arg| self.recipe_of(arg, found)).collect::<Rec<_>>()?;
        let rest = Rest { state: call.state.clone().map(Recipe::Const), ..Rest::default() };
        Ok(Shape::Made { by, args, names: call.names.clone(), rest })
    }

    pub(super) fn native_shape(&self, object: &Obj, found: &mut Inspection) -> Rec<Shape> {
        if let Some(shape) = self.array_shape(object, found)? {
            return Ok(shape);
        }
        let t = types();
        let class = object.class();
        if object.class_is(t.builtin) || object.class_is(t.method_wrapper) {
            return self.bound_shape(object, found);
        }
        if let Some(method) = view_method(object) {
            return self.given(method, &referents(object), found);
        }
        if object.class_is(t.deque) {
            let limit = object.attr("maxlen").quiet().unwrap_or_else(Obj::none);
            let args = vec![Recipe::Const(empty()?), Recipe::Const(limit)];
            let items = items_of(object).iter().map(|item| self.recipe_of(item, found)).collect::<Rec<_>>()?;
            return Ok(Shape::Made { by: Recipe::Const(class), args, names: vec![], rest: Rest { items, ..Rest::default() } });
        }
        if object.class_is(t.default_dict) {
            let factory = object.attr("default_factory").quiet().unwrap_or_else(Obj::none);
            let args = vec![self.recipe_of(&factory, found)?];
            let rest = Rest { entries: self.entries(object, found)?, ..Rest::default() };
            return Ok(Shape::Made { by: Recipe::Const(class), args, names: vec![], rest });
        }
        if object.is_instance_of(t.frozenset) {
            let items = tuple_of(&members_of(object)).map_err(lost)?;
            return Ok(Shape::New(frozenset(), vec![self.recipe_of(&items, found)?]));
        }
        if let Some(value) = plain_value(object) {
            return Ok(Shape::New(value.class(), vec![Recipe::Const(value)]));
        }
        if object.class_is(t.partial) {
            return self.partial_shape(object, found);
        }
        if builtins::is_data_class(&class) {
            return self.reduced(object, found);
        }
        abandon(format!("no recipe for a {}", short(&class)))
    }

    fn partial_shape(&self, partial: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let part = |name: &str| partial.attr(name).map_err(lost);
        let (fixed, keywords) = (part("args")?, part("keywords")?);
        let mut args = vec![self.recipe_of(&part("func")?, found)?];
        for (n, arg) in items_of(&fixed).iter().enumerate() {
            args.push(self.recipe_in(&fixed, &Obj::int(n as i64), arg, found)?);
        }
        let mut names = Vec::new();
        for (name, arg) in entries_of(&keywords) {
            args.push(self.recipe_in(&keywords, &name, &arg, found)?);
            names.push(name);
        }
        Ok(Shape::Made { by: Recipe::Const(partial.class()), args, names, rest: Rest::default() })
    }

    /// A method of C with its object.
    fn bound_shape(&self, method: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let (Ok(owner), Ok(name)) = (method.attr("__self__"), method.attr("__name__")) else {
            return abandon("a method without an object");
        };
        let getattr = Obj::from(py().import("builtins").and_then(|b| b.getattr("getattr")).map_err(lost)?);
        self.given(getattr, &[owner, name], found)
    }

    fn given(&self, by: Obj, args: &[Obj], found: &mut Inspection) -> Rec<Shape> {
        let args = args.iter().map(|arg| self.recipe_of(arg, found)).collect::<Rec<_>>()?;
        Ok(Shape::Made { by: Recipe::Const(by), args, names: vec![], rest: Rest::default() })
    }

    /// As `copy` and `pickle` see it.
    fn reduced(&self, object: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let parts = object.bind().call_method1("__reduce_ex__", (2,)).map_err(lost)?;
        let parts = items_of(&parts.into());
        let [by, args, rest @ ..] = &parts[..] else { return abandon(format!("no recipe for a {}", object.class_name())) };
        let args = items_of(args).iter().map(|arg| self.recipe_of(arg, found)).collect::<Rec<_>>()?;
        // What is in its dict is filled in like any instance's.
        let state = rest.first().filter(|state| !state.is_none() && !state.class_is(types().dict));
        let state = state.map(|state| self.recipe_of(state, found)).transpose()?;
        Ok(Shape::Made { by: Recipe::Const(by.clone()), args, names: vec![], rest: Rest { state, ..Rest::default() } })
    }
}

fn lost(error: PyErr) -> super::Abandon {
    super::Abandon(error.to_string())
}

fn empty() -> Rec<Obj> {
    tuple_of(&[]).map_err(lost)
}

fn frozenset() -> Obj {
    // SAFETY: the type lives for ever.
    unsafe { Obj::borrowed(types().frozenset.cast()) }
}

/// What makes a view of a dict, by the view's type.
fn view_method(view: &Obj) -> Option<Obj> {
    let name = view.class_name();
    let class = if name.starts_with("odict_") { types().ordered_dict } else { types().dict };
    // SAFETY: the type lives for ever.
    let dict = unsafe { Obj::borrowed(class.cast()) };
    match name.trim_start_matches('o') {
        "dict_keys" => dict.attr("keys").quiet(),
        "dict_values" => dict.attr("values").quiet(),
        "dict_items" => dict.attr("items").quiet(),
        "mappingproxy" => Some(view.class()),
        _ => None,
    }
}

/// The objects that one of C holds.
pub fn referents(object: &Obj) -> Vec<Obj> {
    let found = py().import("gc").and_then(|gc| gc.call_method1("get_referents", (object.bind(),)));
    found.map(|list| items_of(&list.into())).quiet().unwrap_or_default()
}

/// The number or text in an instance of a subclass of its type.
pub(super) fn plain_value(object: &Obj) -> Option<Obj> {
    let t = types();
    let base = built_in_base(&object.class())?;
    let call = |method: &str, args: &[Obj]| base.attr(method).quiet()?.call(args, None).quiet();
    let one = |number: Obj| [object.clone(), number];
    match base.ptr().cast() {
        class if class == t.int => call("__add__", &one(Obj::int(0))),
        class if class == t.float || class == t.complex => call("__mul__", &one(Obj::int(1))),
        class if class == t.str => call("__str__", std::slice::from_ref(object)),
        _ => None,
    }
}
