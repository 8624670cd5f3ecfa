//! `Recipe`: how a later call makes an object again that this call made.

use crate::obj::{Obj, py, tuple_of};
use crate::source::{SourceId, Sources, Values, instance_dict, short};
use crate::types::types;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

#[derive(Clone, Debug)]
pub enum Recipe {
    Const(Obj),
    Source(SourceId),
    /// The n-th object that the segment builds.
    Built(u32),
}

/// One object to build. Objects that can be changed are made empty first and filled when all are there, so that they may hold one another.
#[derive(Clone, Debug)]
pub struct Build {
    pub class: Obj,
    pub shape: Shape,
    /// Entries of the instance's own dict.
    pub dict: Vec<(Obj, Recipe)>,
}

#[derive(Clone, Debug)]
pub enum Shape {
    List(Vec<Recipe>),
    Tuple(Vec<Recipe>),
    Set(Vec<Recipe>),
    Dict(Vec<(Recipe, Recipe)>),
    /// Only its dict.
    Plain,
    Cell(Option<Recipe>),
    /// Called with these arguments: bound methods, slices, iterators.
    Call(Vec<Recipe>),
    /// Made by its class in C, without the `__init__` of the program's, which ran before.
    Exception {
        base: Obj,
        args: Vec<Recipe>,
        cause: Option<Recipe>,
        context: Option<Recipe>,
        suppressed: bool,
        raised: bool,
    },
    Function {
        code: Obj,
        globals: Recipe,
        name: Obj,
        parts: [Option<Recipe>; 3],
    },
}

impl Recipe {
    pub fn get(&self, sources: &Sources, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<Obj> {
        let found = match self {
            Recipe::Const(object) => Some(object.clone()),
            Recipe::Source(id) => values.get(sources, *id),
            Recipe::Built(n) => built.get(*n as usize).cloned().flatten(),
        };
        found.ok_or_else(|| PyRuntimeError::new_err("oxytorch: an object of a trace is gone"))
    }

    pub fn show(&self, sources: &Sources) -> String {
        match self {
            Recipe::Const(object) => object.text(),
            Recipe::Source(id) => sources.show(*id),
            Recipe::Built(n) => format!("new{n}"),
        }
    }
}

/// Builds all of a segment's objects.
pub fn build_all(builds: &[Build], sources: &Sources, values: &mut Values<'_>) -> PyResult<Vec<Option<Obj>>> {
    let mut built: Vec<Option<Obj>> = vec![None; builds.len()];
    // Tuples and calls stand behind what they hold: `inspect` numbers children first.
    for (n, build) in builds.iter().enumerate() {
        if build.shape.is_changeable() {
            built[n] = Some(build.shell()?);
        }
    }
    for (n, build) in builds.iter().enumerate() {
        if !build.shape.is_changeable() {
            built[n] = Some(build.whole(sources, values, &built)?);
        }
    }
    // Keys and members are hashed, which may read all of them: dicts and sets come last, the inner ones first.
    let hashes = |build: &Build| matches!(build.shape, Shape::Dict(_) | Shape::Set(_));
    let (last, first): (Vec<_>, Vec<_>) = builds.iter().enumerate().partition(|(_, build)| hashes(build));
    for (n, build) in builds.iter().enumerate() {
        build.fill_dict(built[n].as_ref().expect("made above"), sources, values, &built)?;
    }
    for (n, build) in first.into_iter().chain(last.into_iter().rev()) {
        let object = built[n].clone().expect("made above");
        build.fill(&object, sources, values, &built)?;
    }
    Ok(built)
}

impl Shape {
    fn is_changeable(&self) -> bool {
        matches!(self, Shape::List(_) | Shape::Set(_) | Shape::Dict(_) | Shape::Plain | Shape::Cell(_))
    }
}

impl Build {
    /// An empty object of the class, without `__init__`.
    fn shell(&self) -> PyResult<Obj> {
        let base = match &self.shape {
            Shape::List(_) => types().list,
            Shape::Set(_) => types().set,
            Shape::Dict(_) if self.class.ptr() == types().default_dict.cast() => return self.class.call(&[], None),
            Shape::Dict(_) if is_subtype(&self.class, types().ordered_dict) => types().ordered_dict,
            Shape::Dict(_) => types().dict,
            // SAFETY: a new, empty cell.
            Shape::Cell(_) => return unsafe { Obj::owned(ffi::PyCell_New(std::ptr::null_mut())) },
            _ => types().object,
        };
        // SAFETY: types live as long as the process or their keeper.
        unsafe { Obj::borrowed(base.cast()) }.attr("__new__")?.call(std::slice::from_ref(&self.class), None)
    }

    fn whole(&self, sources: &Sources, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<Obj> {
        let mut all = |items: &[Recipe]| -> PyResult<Vec<Obj>> { items.iter().map(|r| r.get(sources, values, built)).collect() };
        match &self.shape {
            Shape::Tuple(items) if self.class.ptr() == types().tuple.cast() => tuple_of(&all(items)?),
            Shape::Tuple(items) if is_subtype(&self.class, types().size) => self.class.call(&[tuple_of(&all(items)?)?], None),
            Shape::Tuple(items) => {
                // SAFETY: as above.
                let new = unsafe { Obj::borrowed(types().tuple.cast()) }.attr("__new__")?;
                match new.call(&[self.class.clone(), tuple_of(&all(items)?)?], None) {
                    Ok(made) => Ok(made),
                    // torch's structseqs have a constructor of their own.
                    Err(_) => self.class.call(&[tuple_of(&all(items)?)?], None),
                }
            }
            Shape::Call(args) => self.class.call(&all(args)?, None),
            Shape::Exception { base, args, .. } => {
                let args = all(args)?;
                let made = base.attr("__new__")?.call(&[std::slice::from_ref(&self.class), &args].concat(), None)?;
                base.attr("__init__")?.call(&[std::slice::from_ref(&made), &args].concat(), None)?;
                Ok(made)
            }
            Shape::Function { code, globals, name, parts } => {
                let globals = globals.get(sources, values, built)?;
                // SAFETY: a code object, a dict and a string.
                let made = unsafe { Obj::owned(ffi::PyFunction_NewWithQualName(code.ptr(), globals.ptr(), name.ptr()))? };
                for (part, attribute) in parts.iter().zip(["__defaults__", "__kwdefaults__", "closure"]) {
                    let Some(part) = part else { continue };
                    set_function_part(&made, attribute, &part.get(sources, values, built)?)?;
                }
                Ok(made)
            }
            _ => unreachable!("made as a shell"),
        }
    }

    fn fill(&self, object: &Obj, sources: &Sources, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<()> {
        match &self.shape {
            Shape::List(items) => {
                for item in items {
                    let item = item.get(sources, values, built)?;
                    // SAFETY: a list.
                    check(unsafe { ffi::PyList_Append(object.ptr(), item.ptr()) })?;
                }
            }
            Shape::Set(items) => {
                for item in items {
                    let item = item.get(sources, values, built)?;
                    // SAFETY: a set.
                    check(unsafe { ffi::PySet_Add(object.ptr(), item.ptr()) })?;
                }
            }
            Shape::Dict(entries) => {
                let ordered = object.is_instance_of(types().ordered_dict);
                for (key, value) in entries {
                    let (key, value) = (key.get(sources, values, built)?, value.get(sources, values, built)?);
                    if ordered {
                        // SAFETY: the type lives for ever.
                        let class = unsafe { Obj::borrowed(types().ordered_dict.cast()) };
                        class.attr("__setitem__")?.call(&[object.clone(), key, value], None)?;
                    } else {
                        // SAFETY: a dict.
                        check(unsafe { ffi::PyDict_SetItem(object.ptr(), key.ptr(), value.ptr()) })?;
                    }
                }
            }
            Shape::Cell(Some(value)) => {
                let value = value.get(sources, values, built)?;
                // SAFETY: a cell.
                check(unsafe { ffi::PyCell_Set(object.ptr(), value.ptr()) })?;
            }
            Shape::Exception { cause, context, suppressed, raised, .. } => {
                let mut get = |recipe: &Option<Recipe>| recipe.as_ref().map(|r| r.get(sources, values, built)).transpose();
                let (cause, context) = (get(cause)?, get(context)?);
                set_chain(object, cause, context, *suppressed, *raised)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn fill_dict(&self, object: &Obj, sources: &Sources, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<()> {
        if self.dict.is_empty() {
            return Ok(());
        }
        let dict = instance_dict(object).ok_or_else(|| PyRuntimeError::new_err("oxytorch: an instance without a dict"))?;
        for (name, value) in &self.dict {
            let value = value.get(sources, values, built)?;
            // SAFETY: a dict.
            check(unsafe { ffi::PyDict_SetItem(dict.ptr(), name.ptr(), value.ptr()) })?;
        }
        Ok(())
    }

    pub fn show(&self, sources: &Sources) -> String {
        let list = |items: &[Recipe]| items.iter().map(|r| r.show(sources)).collect::<Vec<_>>().join(", ");
        let shape = match &self.shape {
            Shape::List(items) | Shape::Tuple(items) | Shape::Set(items) | Shape::Call(items) => list(items),
            Shape::Exception { args, .. } => list(args),
            Shape::Dict(entries) => {
                let parts = entries.iter().map(|(k, v)| format!("{}: {}", k.show(sources), v.show(sources)));
                parts.collect::<Vec<_>>().join(", ")
            }
            Shape::Plain => String::new(),
            Shape::Cell(value) => value.as_ref().map(|v| v.show(sources)).unwrap_or_default(),
            Shape::Function { name, .. } => name.text(),
        };
        let dict: Vec<String> = self.dict.iter().map(|(k, v)| format!("{}={}", k.bind(), v.show(sources))).collect();
        let dict = if dict.is_empty() { String::new() } else { format!(" with {}", dict.join(", ")) };
        format!("{}({shape}){dict}", short(&self.class))
    }
}

/// Cause and context. What was raised while nothing of the function's was handled has for context what its caller handles now.
fn set_chain(exception: &Obj, cause: Option<Obj>, context: Option<Obj>, suppressed: bool, raised: bool) -> PyResult<()> {
    let bound = exception.bind();
    if let Some(cause) = cause {
        bound.setattr("__cause__", cause.bind())?;
    }
    // SAFETY: a new reference, or null for none.
    let handled = || unsafe { Obj::owned_opt(ffi::PyErr_GetHandledException()) }.filter(|e| !e.is_none());
    if let Some(context) = context.or_else(|| if raised { handled() } else { None }) {
        bound.setattr("__context__", context.bind())?;
    }
    bound.setattr("__suppress_context__", suppressed)
}

pub fn set_function_part(function: &Obj, attribute: &str, value: &Obj) -> PyResult<()> {
    // SAFETY: a function; the setters check their values.
    check(unsafe {
        match attribute {
            "closure" => ffi::PyFunction_SetClosure(function.ptr(), value.ptr()),
            "__defaults__" => ffi::PyFunction_SetDefaults(function.ptr(), value.ptr()),
            _ => ffi::PyFunction_SetKwDefaults(function.ptr(), value.ptr()),
        }
    })
}

pub fn is_subtype(class: &Obj, of: crate::types::Type) -> bool {
    // SAFETY: two types.
    unsafe { ffi::PyType_IsSubtype(class.ptr().cast(), of) != 0 }
}

pub fn check(code: std::ffi::c_int) -> PyResult<()> {
    if code < 0 { Err(PyErr::fetch(py())) } else { Ok(()) }
}
