//! `Recipe`: how a later call makes an object again that this call made.

use crate::obj::{Obj, py, tuple_of};
use crate::source::{SourceId, Sources, Values, instance_dict, short};
use crate::types::types;
use crate::vm::snapshot::{FrameShot, value_of};
use crate::vm::{Kind, Line, State, VmGenerator, VmIterator, with_lines};
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
    /// Fields by `__slots__`.
    pub slots: Vec<(Obj, Recipe)>,
    /// An iterator or generator of the machine's that an earlier segment built: it is the same object, further on.
    pub onto: Option<SourceId>,
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
    /// `base.__new__(class, ...)`: a subclass of a built-in type whose value is fixed when it is made.
    New(Obj, Vec<Recipe>),
    /// What a callable gives for these arguments, the last of them by name; then its state, items and entries are put in.
    Made {
        by: Recipe,
        args: Vec<Recipe>,
        names: Vec<Obj>,
        rest: Rest,
    },
    /// An iterator of the machine's: its kind, its place, and what it runs over.
    Iterator(&'static str, i64, Vec<Recipe>),
    /// A generator of the machine's: its frame, unless that runs or is done.
    Generator {
        frame: Option<Box<FrameShot>>,
        state: State,
    },
    /// Made by its class in C, without the `__init__` of the program's, which ran before.
    Exception {
        base: Obj,
        args: Vec<Recipe>,
        cause: Option<Recipe>,
        context: Option<Recipe>,
        suppressed: bool,
        /// The lines of its traceback, outermost first: function, file, line. Empty if it was not raised.
        lines: Vec<Line>,
        /// Fields in C beside the arguments.
        fields: Vec<(&'static str, Recipe)>,
    },
    Function {
        code: Obj,
        globals: Recipe,
        name: Obj,
        parts: [Option<Recipe>; 3],
        /// What the program says of it otherwise than its code does.
        said: Vec<(&'static str, Recipe)>,
    },
}

/// What `__reduce_ex__` says of an object beside how it is made.
#[derive(Clone, Debug, Default)]
pub struct Rest {
    pub state: Option<Recipe>,
    pub items: Vec<Recipe>,
    pub entries: Vec<(Recipe, Recipe)>,
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
            built[n] = Some(build.shell(sources, values)?);
        }
    }
    let mut filled = vec![false; builds.len()];
    for (n, build) in builds.iter().enumerate() {
        if !build.shape.is_changeable() {
            // What a call may look into at once is filled before it; what that holds stands before the call too.
            for k in build.shape.looked_into().filter(|k| builds[*k].shape.has_fixed_keys()) {
                let object = built[k].clone().expect("made above");
                if !std::mem::replace(&mut filled[k], true) {
                    builds[k].fill(&object, sources, values, &built)?;
                }
            }
            built[n] = Some(build.whole(sources, values, &built)?);
        }
    }
    // Keys and members are hashed, which may read all of them: dicts and sets come last, the inner ones first.
    let hashes = |build: &Build| matches!(build.shape, Shape::Dict(_) | Shape::Set(_));
    let (last, first): (Vec<_>, Vec<_>) = builds.iter().enumerate().partition(|(_, build)| hashes(build));
    for (n, build) in builds.iter().enumerate() {
        build.fill_dict(built[n].as_ref().expect("made above"), sources, values, &built)?;
    }
    for (n, build) in first.into_iter().chain(last.into_iter().rev()).filter(|(n, _)| !filled[*n]) {
        let object = built[n].clone().expect("made above");
        build.fill(&object, sources, values, &built)?;
    }
    Ok(built)
}

impl Shape {
    /// The objects of the same segment that a call gets.
    fn looked_into(&self) -> impl Iterator<Item = usize> {
        let args: &[Recipe] = if let Shape::Made { args, .. } = self { args } else { &[] };
        args.iter().filter_map(|arg| if let Recipe::Built(k) = arg { Some(*k as usize) } else { None })
    }

    /// A dict or set whose keys are there already.
    fn has_fixed_keys(&self) -> bool {
        let is_fixed = |recipe: &Recipe| !matches!(recipe, Recipe::Built(_));
        match self {
            Shape::Dict(entries) => entries.iter().all(|(key, _)| is_fixed(key)),
            Shape::Set(items) => items.iter().all(is_fixed),
            _ => false,
        }
    }

    fn is_changeable(&self) -> bool {
        use Shape::*;
        matches!(self, List(_) | Set(_) | Dict(_) | Plain | Cell(_) | Iterator(..) | Generator { .. })
    }
}

impl Build {
    /// An iterator of the machine's that no earlier segment has given away.
    pub fn is_new_iterator(&self) -> bool {
        self.onto.is_none() && matches!(self.shape, Shape::Iterator(..))
    }

    /// An empty object of the class, without `__init__`.
    fn shell(&self, sources: &Sources, values: &mut Values<'_>) -> PyResult<Obj> {
        if let Some(earlier) = self.onto.and_then(|id| values.get(sources, id)) {
            return Ok(earlier);
        }
        let base = match &self.shape {
            Shape::Iterator(..) => return Ok(Bound::new(py(), VmIterator::empty())?.into()),
            Shape::Generator { .. } => return Ok(Bound::new(py(), VmGenerator::empty())?.into()),
            Shape::List(_) => types().list,
            Shape::Set(_) => types().set,
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
            Shape::New(base, args) => {
                let args = all(args)?;
                base.attr("__new__")?.call(&[std::slice::from_ref(&self.class), &args].concat(), None)
            }
            Shape::Made { by, args, names, .. } => {
                let mut args = all(args)?;
                let named = args.split_off(args.len() - names.len());
                let keywords = pyo3::types::PyDict::new(py());
                for (name, value) in names.iter().zip(&named) {
                    keywords.set_item(name.bind(), value.bind())?;
                }
                let keywords = Obj::from(keywords);
                by.get(sources, values, built)?.call(&args, (!names.is_empty()).then_some(&keywords))
            }
            Shape::Exception { base, args, lines, .. } => {
                let args = all(args)?;
                let made = base.attr("__new__")?.call(&[std::slice::from_ref(&self.class), &args].concat(), None)?;
                base.attr("__init__")?.call(&[std::slice::from_ref(&made), &args].concat(), None)?;
                Ok(with_lines(&made, lines).into_value(py()).into())
            }
            Shape::Function { code, globals, name, parts, .. } => {
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
            Shape::Function { said, .. } => {
                for (name, value) in said {
                    object.bind().setattr(*name, value.get(sources, values, built)?.bind())?;
                }
            }
            Shape::Exception { cause, context, suppressed, lines, fields, .. } => {
                let mut get = |recipe: &Option<Recipe>| recipe.as_ref().map(|r| r.get(sources, values, built)).transpose();
                let (cause, context) = (get(cause)?, get(context)?);
                set_chain(object, cause, context, *suppressed, !lines.is_empty())?;
                for (name, value) in fields {
                    object.bind().setattr(*name, value.get(sources, values, built)?.bind())?;
                }
            }
            Shape::Made { rest, .. } => {
                if let Some(state) = &rest.state {
                    object.bind().call_method1("__setstate__", (state.get(sources, values, built)?.bind(),))?;
                }
                for item in &rest.items {
                    object.bind().call_method1("append", (item.get(sources, values, built)?.bind(),))?;
                }
                for (key, value) in &rest.entries {
                    let (key, value) = (key.get(sources, values, built)?, value.get(sources, values, built)?);
                    object.bind().set_item(key.bind(), value.bind())?;
                }
            }
            Shape::Iterator(name, at, parts) => {
                let parts = parts.iter().map(|part| value_of(part, part.get(sources, values, built)));
                let kind = Kind::from_parts(name, parts.collect::<PyResult<_>>()?, *at)?;
                object.bind().cast::<VmIterator>().map_err(PyErr::from)?.borrow().kind.replace(kind);
            }
            Shape::Generator { frame, state } => {
                let mut get = |recipe: &Recipe| value_of(recipe, recipe.get(sources, values, built));
                let frame = frame.as_ref().map(|shot| shot.frame(&mut get)).transpose()?;
                let generator = object.bind().cast::<VmGenerator>().map_err(PyErr::from)?.borrow();
                generator.set(frame, state);
            }
            _ => {}
        }
        Ok(())
    }

    fn fill_dict(&self, object: &Obj, sources: &Sources, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<()> {
        for (name, value) in &self.slots {
            let value = value.get(sources, values, built)?;
            // SAFETY: live objects.
            check(unsafe { ffi::PyObject_GenericSetAttr(object.ptr(), name.ptr(), value.ptr()) })?;
        }
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
            Shape::New(_, items) | Shape::Iterator(_, _, items) => list(items),
            Shape::Made { by, args, .. } => format!("by {}({})", by.show(sources), list(args)),
            Shape::Generator { .. } => String::new(),
            Shape::Exception { args, .. } => list(args),
            Shape::Dict(entries) => {
                let parts = entries.iter().map(|(k, v)| format!("{}: {}", k.show(sources), v.show(sources)));
                parts.collect::<Vec<_>>().join(", ")
            }
            Shape::Plain => String::new(),
            Shape::Cell(value) => value.as_ref().map(|v| v.show(sources)).unwrap_or_default(),
            Shape::Function { name, .. } => name.text(),
        };
        let dict: Vec<String> = self.dict.iter().chain(&self.slots).map(|(k, v)| format!("{}={}", k, v.show(sources))).collect();
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
