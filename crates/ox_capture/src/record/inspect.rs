//! Recipes by looking at the objects themselves: what was made here is described as it is when the segment ends.

use super::modes::is_inference_guard;
use super::{Abandon, Origin, Rec, Recording, Val, abandon};
use crate::interrupt::Quiet;
use crate::obj::{DEEPEST, Obj, entries_of, items_of};
use crate::recipe::{Build, Recipe, Shape};
use crate::source::{generic_attr, instance_dict, same_value};
use crate::types::types;
use crate::vm::snapshot::FrameShot;
use crate::vm::{Frame, VmGenerator, VmIterator, lines_of};
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

    /// Of what stands at a place of a container.
    pub(super) fn recipe_in(&self, container: &Obj, key: &Obj, item: &Obj, found: &mut Inspection) -> Rec<Recipe> {
        match self.stowed_at(container, key, item) {
            Some(source) => Ok(Recipe::Source(source)),
            None => self.recipe_of(item, found),
        }
    }

    pub(super) fn recipe_of_made(&self, object: &Obj, found: &mut Inspection) -> Rec<Recipe> {
        if let Some(n) = found.known.get(&object.id()) {
            return Ok(Recipe::Built(*n));
        }
        if let Some(source) = self.resting(object) {
            return Ok(Recipe::Source(source));
        }
        if found.open.contains(&object.id()) {
            return abandon("an object that holds itself in a way that cannot be rebuilt");
        }
        if found.open.len() > DEEPEST {
            return abandon("objects that lie very deep in others");
        }
        let first = is_changeable(object).then(|| found.place(object));
        found.open.push(object.id());
        let shape = self.shape(object, found)?;
        let (dict, slots) = (self.own_dict(object, found)?, self.own_slots(object, found)?);
        found.open.pop();
        let n = first.unwrap_or_else(|| found.place(object));
        let onto = self.machines.get(&object.id()).copied();
        found.builds[n as usize] = Build { class: object.class(), shape, dict, slots, onto };
        Ok(Recipe::Built(n))
    }

    fn all(&self, items: &[Obj], found: &mut Inspection) -> Rec<Vec<Recipe>> {
        items.iter().map(|item| self.recipe_of(item, found)).collect()
    }

    /// The items of a list or tuple.
    fn placed(&self, sequence: &Obj, found: &mut Inspection) -> Rec<Vec<Recipe>> {
        let items = items_of(sequence);
        items.iter().enumerate().map(|(n, item)| self.recipe_in(sequence, &Obj::int(n as i64), item, found)).collect()
    }

    fn shape(&self, object: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let t = types();
        let parts = |names: &[&str]| -> Vec<Obj> { names.iter().filter_map(|n| object.attr(n).quiet()).collect() };
        if let Some(call) = self.calls.get(&object.id()) {
            return self.call_shape(call, found);
        }
        if object.is_instance_of(t.list) {
            return Ok(Shape::List(self.placed(object, found)?));
        }
        if object.is_instance_of(t.tuple) {
            return Ok(Shape::Tuple(self.placed(object, found)?));
        }
        if object.is_instance_of(t.set) {
            return Ok(Shape::Set(self.all(&members_of(object), found)?));
        }
        if object.is_instance_of(t.dict) && !object.is_instance_of(t.default_dict) {
            return Ok(Shape::Dict(self.entries(object, found)?));
        }
        if object.class_is(t.cell) {
            let content = crate::source::cell_contents(object);
            let place = Obj::str("cell_contents");
            return Ok(Shape::Cell(content.map(|c| self.recipe_in(object, &place, &c, found)).transpose()?));
        }
        if object.class_is(t.method) {
            return Ok(Shape::Call(self.all(&parts(&["__func__", "__self__"]), found)?));
        }
        if object.class_is(t.slice) || object.class_is(t.range) {
            let part = |name: &&str| {
                self.recipe_in(object, &Obj::str(name), &object.attr(name).map_err(|e| Abandon(e.to_string()))?, found)
            };
            return Ok(Shape::Call(["start", "stop", "step"].iter().map(part).collect::<Rec<_>>()?));
        }
        if object.class_is(t.super_) {
            return Ok(Shape::Call(self.all(&parts(&["__thisclass__", "__self__"]), found)?));
        }
        if object.class_is(t.function) {
            return self.function_shape(object, found);
        }
        if object.is_instance_of(t.base_exception) {
            return self.exception_shape(object, found);
        }
        if let Some(shape) = self.machine_shape(object, found)? {
            return Ok(shape);
        }
        if is_python_instance(object) {
            return Ok(Shape::Plain);
        }
        self.native_shape(object, found)
    }

    pub(super) fn entries(&self, dict: &Obj, found: &mut Inspection) -> Rec<Vec<(Recipe, Recipe)>> {
        let entries = entries_of(dict);
        entries.iter().map(|(k, v)| Ok((self.recipe_of(k, found)?, self.recipe_in(dict, k, v, found)?))).collect()
    }

    /// The machine's own iterators and generators.
    fn machine_shape(&self, object: &Obj, found: &mut Inspection) -> Rec<Option<Shape>> {
        if let Ok(iterator) = object.bind().cast::<VmIterator>() {
            let (name, parts, at) = iterator.borrow().kind.borrow().parts();
            let parts = parts.iter().map(|part| self.recipe(part, found)).collect::<Rec<_>>()?;
            return Ok(Some(Shape::Iterator(name, at, parts)));
        }
        let Ok(generator) = object.bind().cast::<VmGenerator>() else { return Ok(None) };
        let generator = generator.borrow();
        let shot = |frame: &Frame| FrameShot::of(frame, &mut |value| self.recipe(value, found)).map(Box::new);
        let frame = generator.with_frame(|frame| frame.map(shot).transpose())?;
        Ok(Some(Shape::Generator { frame, state: generator.state() }))
    }

    /// Everything that Python sees of an exception but the frames of its traceback.
    fn exception_shape(&self, exception: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let part = |name: &str| exception.attr(name).map_err(|e| super::Abandon(e.to_string()));
        let Some(base) = built_in_base(&exception.class()) else { return abandon("an exception without a class in C") };
        let given = part("args")?;
        let is_group = exception.is_instance_of(types().exception_group);
        let args = match is_group {
            // A group is made of its exceptions as they are; the list that the program gave is among its arguments all the same.
            true => vec![self.recipe_of(&part("message")?, found)?, self.recipe_of(&part("exceptions")?, found)?],
            false => self.all(&items_of(&given), found)?,
        };
        let cause = Some(part("__cause__")?).filter(|c| !c.is_none()).map(|c| self.recipe_of(&c, found)).transpose()?;
        // An exception that this call does not know is one that its caller handles.
        let context = Some(part("__context__")?).filter(|c| !c.is_none() && self.origin(c) != Origin::Unknown);
        let context = context.map(|c| self.recipe_of(&c, found)).transpose()?;
        let suppressed = part("__suppress_context__")?.truth().quiet().unwrap_or(false);
        let set = |name: &&'static str| exception.attr(name).quiet().filter(|part| !part.is_none()).map(|part| (*name, part));
        let fields = fields_of(&base).iter().filter_map(set).collect::<Vec<_>>();
        let mut fields: Vec<(&'static str, Recipe)> =
            fields.iter().map(|(name, part)| Ok((*name, self.recipe_of(part, found)?))).collect::<Rec<_>>()?;
        if is_group {
            fields.push(("args", self.recipe_of(&given, found)?));
        }
        let lines = lines_of(exception);
        Ok(Shape::Exception { base, args, cause, context, suppressed, lines, fields })
    }

    fn function_shape(&self, function: &Obj, found: &mut Inspection) -> Rec<Shape> {
        let part = |name: &str| function.attr(name).quiet();
        let (Some(code), Some(globals), Some(name)) = (part("__code__"), part("__globals__"), part("__qualname__")) else {
            return abandon("a function without code");
        };
        let mut recipe = |name: &str| -> Rec<Option<Recipe>> {
            part(name).filter(|p| !p.is_none()).map(|p| self.recipe_of(&p, found)).transpose()
        };
        let parts = [recipe("__defaults__")?, recipe("__kwdefaults__")?, recipe("__closure__")?];
        let said = self.said_of_function(function, [&code, &globals, &name], found)?;
        let globals = self.recipe_of(&globals, found)?;
        Ok(Shape::Function { code, globals, name, parts, said })
    }

    /// Its name, text and module, where they are not those that its code gives it, and its annotations, which others may hold, too.
    fn said_of_function(
        &self,
        function: &Obj,
        [code, globals, name]: [&Obj; 3],
        found: &mut Inspection,
    ) -> Rec<Vec<(&'static str, Recipe)>> {
        // SAFETY: a code object, a dict and a string.
        let plain = unsafe { Obj::owned(ffi::PyFunction_NewWithQualName(code.ptr(), globals.ptr(), name.ptr())) };
        let Some(plain) = plain.quiet() else { return abandon("a function that cannot be made") };
        let mut said = Vec::new();
        for name in ["__name__", "__doc__", "__module__"] {
            if let (Ok(own), Ok(usual)) = (function.attr(name), plain.attr(name))
                && !same_value(&own, &usual)
            {
                said.push((name, self.recipe_of(&own, found)?));
            }
        }
        if let Some(all) = function.attr("__annotations__").quiet().filter(|all| !entries_of(all).is_empty()) {
            said.push(("__annotations__", self.recipe_of(&all, found)?));
        }
        Ok(said)
    }

    fn own_dict(&self, object: &Obj, found: &mut Inspection) -> Rec<Vec<(Obj, Recipe)>> {
        let types = types();
        if object.class_is(types.cell) {
            return Ok(Vec::new());
        }
        let Some(dict) = instance_dict(object) else { return Ok(Vec::new()) };
        let kept = entries_of(&dict).into_iter().filter(|(_, value)| !is_inference_guard(value));
        kept.map(|(name, value)| Ok((name.clone(), self.recipe_in(object, &name, &value, found)?))).collect()
    }

    fn own_slots(&self, object: &Obj, found: &mut Inspection) -> Rec<Vec<(Obj, Recipe)>> {
        let filled = slots_of(&object.class()).into_iter().filter_map(|name| Some((name.clone(), generic_attr(object, &name)?)));
        filled.map(|(name, value)| Ok((name.clone(), self.recipe_in(object, &name, &value, found)?))).collect()
    }
}

/// The names of the fields that classes written in Python keep in slots.
fn slots_of(class: &Obj) -> Vec<Obj> {
    let mro = class.attr("__mro__").map(|mro| items_of(&mro)).quiet().unwrap_or_default();
    let dicts = mro.into_iter().filter(is_heap_type).filter_map(|base| base.attr("__dict__").quiet());
    let written = dicts.filter(|dict| dict.bind().contains("__slots__").quiet().unwrap_or(false));
    let fields = written.filter_map(|dict| dict.bind().call_method0("items").quiet()?.try_iter().quiet());
    let fields = fields.flat_map(|items| items.flatten().map(|pair| items_of(&pair.into())).collect::<Vec<_>>());
    fields.filter(|pair| pair[1].class_is(types().member)).map(|pair| pair[0].clone()).collect()
}

pub(super) fn is_heap_type(class: &Obj) -> bool {
    // SAFETY: a type.
    unsafe { ffi::PyType_HasFeature(class.ptr().cast(), ffi::Py_TPFLAGS_HEAPTYPE) != 0 }
}

/// The class in C that an instance of the class is laid out by.
pub fn built_in_base(class: &Obj) -> Option<Obj> {
    items_of(&class.attr("__mro__").quiet()?).into_iter().find(|base| !is_heap_type(base))
}

/// Fields that are no arguments: the object and name of an AttributeError.
fn fields_of(base: &Obj) -> &'static [&'static str] {
    match base.attr("__name__").quiet().and_then(|n| n.to_str()).as_deref() {
        Some("AttributeError") => &["name", "obj"],
        Some("NameError" | "UnboundLocalError") => &["name"],
        Some("ImportError" | "ModuleNotFoundError") => &["name", "path"],
        _ => &[],
    }
}

pub fn members_of(object: &Obj) -> Vec<Obj> {
    object.bind().try_iter().map(|items| items.flatten().map(Obj::from).collect()).quiet().unwrap_or_default()
}

impl Inspection {
    pub(super) fn place(&mut self, object: &Obj) -> u32 {
        let n = self.builds.len() as u32;
        let (dict, slots) = (Vec::new(), Vec::new());
        self.builds.push(Build { class: object.class(), shape: Shape::Plain, dict, slots, onto: None });
        self.objects.push(object.clone());
        self.known.insert(object.id(), n);
        n
    }
}

fn is_changeable(object: &Obj) -> bool {
    let t = types();
    let is_dict = object.is_instance_of(t.dict) && !object.is_instance_of(t.default_dict);
    let is_container = object.is_instance_of(t.list) || is_dict || object.is_instance_of(t.set);
    is_container || object.class_is(t.cell) || is_machine(object) || is_python_instance(object)
}

/// An iterator or generator of the machine's: it goes on changing without a note.
pub fn is_machine(object: &Obj) -> bool {
    object.bind().is_instance_of::<VmIterator>() || object.bind().is_instance_of::<VmGenerator>()
}

/// An instance of a class written in Python without slots or a base in C: its dict is all that it is.
pub fn is_plain_instance(object: &Obj) -> bool {
    is_python_instance(object) && slots_of(&object.class()).is_empty() && instance_dict(object).is_some()
}

/// An instance of a class written in Python without a base in C: its dict and slots are all that it is.
pub fn is_python_instance(object: &Obj) -> bool {
    let class = object.class();
    if built_in_base(&class).is_none_or(|base| base.ptr() != types().object.cast()) {
        return false;
    }
    // Classes of C may be heap types too: their instances are larger than slots, dict and weak references explain.
    let ptr = class.ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: types.
    let (size, plain, dict, weak) =
        unsafe { ((*ptr).tp_basicsize, (*types().object).tp_basicsize, (*ptr).tp_dictoffset, (*ptr).tp_weaklistoffset) };
    let words = slots_of(&class).len() + usize::from(dict > 0) + usize::from(weak > 0);
    size <= plain + (words * size_of::<usize>()) as isize
}
