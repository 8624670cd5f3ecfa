//! Recipes by looking at the objects themselves: what was made here is described as it is when the segment ends.

use super::{Origin, Rec, Recording, Val, abandon};
use crate::obj::{Obj, entries_of, items_of};
use crate::recipe::{Build, Recipe, Shape, is_subtype};
use crate::source::{instance_dict, short};
use crate::types::types;
use pyo3::ffi;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// The objects that a segment builds, in an order in which they can be built.
#[derive(Default)]
pub struct Inspection {
    pub builds: Vec<Build>,
    pub objects: Vec<Obj>,
    known: FxHashMap<usize, u32>,
    /// Objects that are being looked at: only changeable ones may be met again.
    open: Vec<usize>,
}

impl Recording {
    pub fn recipe(&self, value: &Val, found: &mut Inspection) -> Rec<Recipe> {
        match value.free {
            Some(source) => Ok(Recipe::Source(source)),
            None => self.recipe_of(&value.obj, found),
        }
    }

    pub fn recipe_of(&self, object: &Obj, found: &mut Inspection) -> Rec<Recipe> {
        match self.origin(object) {
            Origin::Const => Ok(Recipe::Const(object.clone())),
            Origin::Outside(source) => Ok(Recipe::Source(source)),
            Origin::Lazy(_) => abandon("a lazy tensor that was not computed"),
            Origin::Made => self.recipe_of_made(object, found),
            Origin::Unknown if object.class_is(types().tuple) || object.class_is(types().slice) => {
                self.recipe_of_made(object, found)
            }
            Origin::Unknown => abandon(format!("no recipe for a {}", object.class_name())),
        }
    }

    fn recipe_of_made(&self, object: &Obj, found: &mut Inspection) -> Rec<Recipe> {
        if let Some(n) = found.known.get(&object.id()) {
            return Ok(Recipe::Built(*n));
        }
        if found.open.contains(&object.id()) {
            return abandon("an object that holds itself in a way that cannot be rebuilt");
        }
        if is_changeable(object) {
            let n = found.place(object);
            let shape = self.shape(object, found)?;
            let dict = self.own_dict(object, found)?;
            found.builds[n as usize] = Build { class: object.class(), shape, dict };
            return Ok(Recipe::Built(n));
        }
        found.open.push(object.id());
        let shape = self.shape(object, found)?;
        let dict = self.own_dict(object, found)?;
        found.open.pop();
        let n = found.place(object);
        found.builds[n as usize] = Build { class: object.class(), shape, dict };
        Ok(Recipe::Built(n))
    }

    fn shape(&self, object: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let types = types();
        let mut all = |items: Vec<Obj>| -> Rec<Vec<Recipe>> { items.iter().map(|i| self.recipe_of(i, found)).collect() };
        let parts = |names: &[&str]| -> Vec<Obj> { names.iter().filter_map(|n| object.attr(n).ok()).collect() };
        if object.is_instance_of(types.list) {
            return Ok(Shape::List(all(items_of(object))?));
        }
        if object.is_instance_of(types.tuple) {
            return Ok(Shape::Tuple(all(items_of(object))?));
        }
        if object.class_is(types.set) {
            return Ok(Shape::Set(all(object
                .bind()
                .try_iter()
                .map(|i| i.flatten().map(Obj::from).collect())
                .unwrap_or_default())?));
        }
        if object.is_instance_of(types.dict) {
            if object.class_is(types.default_dict) {
                return abandon("a defaultdict that was made here");
            }
            let entries = entries_of(object);
            let entries = entries.iter().map(|(k, v)| Ok((self.recipe_of(k, found)?, self.recipe_of(v, found)?)));
            return Ok(Shape::Dict(entries.collect::<Rec<_>>()?));
        }
        if object.class_is(types.cell) {
            let content = crate::source::cell_contents(object);
            return Ok(Shape::Cell(content.map(|c| self.recipe_of(&c, found)).transpose()?));
        }
        if object.class_is(types.method) {
            return Ok(Shape::Call(all(parts(&["__func__", "__self__"]))?));
        }
        if object.class_is(types.slice) {
            return Ok(Shape::Call(all(parts(&["start", "stop", "step"]))?));
        }
        if object.class_is(types.function) {
            return self.function_shape(object, found);
        }
        if object.is_instance_of(types.base_exception) {
            return self.exception_shape(object, found);
        }
        if let Ok(iterator) = object.bind().cast::<crate::vm::VmIterator>() {
            let (name, parts, at) = iterator.borrow().kind.borrow().parts();
            let mut recipes = vec![Recipe::Const(Obj::str(name)), Recipe::Const(Obj::int(at))];
            for part in &parts {
                recipes.push(self.recipe(part, found)?);
            }
            return Ok(Shape::Call(recipes));
        }
        if is_plain_instance(object) {
            return Ok(Shape::Plain);
        }
        abandon(format!("no recipe for a {}", short(&object.class())))
    }

    /// Everything that Python sees of an exception but its traceback.
    fn exception_shape(&self, exception: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let part = |name: &str| exception.attr(name).map_err(|e| super::Abandon(e.to_string()));
        let base = built_in_base(exception).filter(|base| !has_more_than_args(exception, base));
        let Some(base) = base else { return abandon(format!("no recipe for a {}", short(&exception.class()))) };
        let args = items_of(&part("args")?).iter().map(|arg| self.recipe_of(arg, found)).collect::<Rec<_>>()?;
        let cause = Some(part("__cause__")?).filter(|c| !c.is_none()).map(|c| self.recipe_of(&c, found)).transpose()?;
        // An exception that this call does not know is one that its caller handles.
        let context = Some(part("__context__")?).filter(|c| !c.is_none() && self.origin(c) != Origin::Unknown);
        let context = context.map(|c| self.recipe_of(&c, found)).transpose()?;
        let suppressed = part("__suppress_context__")?.truth().unwrap_or(false);
        let raised = !part("__traceback__")?.is_none();
        Ok(Shape::Exception { base, args, cause, context, suppressed, raised })
    }

    fn function_shape(&self, function: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let part = |name: &str| function.attr(name).ok();
        let (Some(code), Some(globals), Some(name)) = (part("__code__"), part("__globals__"), part("__qualname__")) else {
            return abandon("a function without code");
        };
        let mut recipe = |name: &str| -> Rec<Option<Recipe>> {
            part(name).filter(|p| !p.is_none()).map(|p| self.recipe_of(&p, found)).transpose()
        };
        let parts = [recipe("__defaults__")?, recipe("__kwdefaults__")?, recipe("__closure__")?];
        let globals = self.recipe_of(&globals, found)?;
        Ok(Shape::Function { code, globals, name, parts })
    }

    fn own_dict(&self, object: &Obj, found: &mut Inspection) -> Rec<Vec<(Obj, Recipe)>> {
        let types = types();
        if object.class_is(types.function) || object.class_is(types.cell) {
            return Ok(Vec::new());
        }
        let Some(dict) = instance_dict(object) else { return Ok(Vec::new()) };
        entries_of(&dict).into_iter().map(|(name, value)| Ok((name, self.recipe_of(&value, found)?))).collect()
    }
}

/// The class in C that keeps an exception's fields.
fn built_in_base(exception: &Obj) -> Option<Obj> {
    let mro = items_of(&exception.class().attr("__mro__").ok()?);
    // SAFETY: a type.
    mro.into_iter().find(|base| unsafe { ffi::PyType_HasFeature(base.ptr().cast(), ffi::Py_TPFLAGS_HEAPTYPE) == 0 })
}

/// Fields that are no arguments: the exceptions of a group, the object and name of an AttributeError.
fn has_more_than_args(exception: &Obj, base: &Obj) -> bool {
    let set = |name: &str| exception.attr(name).is_ok_and(|part| !part.is_none());
    let named = ["AttributeError", "NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError"];
    let name = base.attr("__name__").ok().and_then(|n| n.to_str()).unwrap_or_default();
    name.ends_with("ExceptionGroup") || (named.contains(&name.as_str()) && ["name", "obj", "path"].iter().any(|n| set(n)))
}

impl Inspection {
    fn place(&mut self, object: &Obj) -> u32 {
        let n = self.builds.len() as u32;
        self.builds.push(Build { class: object.class(), shape: Shape::Plain, dict: Vec::new() });
        self.objects.push(object.clone());
        self.known.insert(object.id(), n);
        n
    }
}

fn is_changeable(object: &Obj) -> bool {
    let types = types();
    let is_container = object.is_instance_of(types.list) || object.is_instance_of(types.dict) || object.class_is(types.set);
    is_container || object.class_is(types.cell) || (is_plain_instance(object) && !object.is_instance_of(types.tuple))
}

/// An instance of a class written in Python without slots or a base in C: its dict is all that it is.
pub fn is_plain_instance(object: &Obj) -> bool {
    let class = object.class();
    // SAFETY: a type.
    let basic = unsafe { (*class.ptr().cast::<ffi::PyTypeObject>()).tp_basicsize };
    // SAFETY: a type.
    let plain = unsafe { (*types().object).tp_basicsize };
    let words = size_of::<usize>() as isize;
    // Before 3.12 dict and weak references may take a word each.
    is_subtype(&class, types().object) && basic <= plain + 2 * words && instance_dict(object).is_some() && no_slots(&class)
}

fn no_slots(class: &Obj) -> bool {
    let mro = class.attr("__mro__").map(|m| items_of(&m)).unwrap_or_default();
    !mro.iter().any(|base| {
        base.attr("__dict__").is_ok_and(|d| d.bind().contains("__slots__").unwrap_or(false))
            && base.attr("__slots__").is_ok_and(|s| s.bind().len().unwrap_or(1) > 0)
    })
}
