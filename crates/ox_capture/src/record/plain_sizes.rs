//! torch's kernels for shapes that are written in Python ask `torch.fx.experimental.symbolic_shapes` about sizes, and whether a number is one of sympy's; to
//! import these takes up to two seconds, and 30 MB. Sizes of shadows are plain numbers, of which the answers are plain. So while a shadow is computed a module
//! of ours stands in the place of the one, unless somebody has imported it: whatever is not plain, and all other names, the real one is asked for, also by whoever keeps our functions. And the
//! function that asks for sympy asks a module of ours, as long as there is no other: then no number is one of its.

use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::types::types;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCFunction, PyDict, PyModule, PyTuple, PyType};
use std::sync::atomic::{AtomicUsize, Ordering};

const SHAPES: &str = "torch.fx.experimental.symbolic_shapes";
const PACKAGE: &str = "torch.fx.experimental";
const NAME: &str = "symbolic_shapes";
const SYMPY: &str = "sympy";
/// What stands for sympy, as long as that is not there.
const NO_SYMPY: &str = "_oxytorch_no_sympy";

/// What a function answers of plain arguments; None where they are not.
type Answer = fn(&[Obj]) -> Option<Obj>;

const FUNCTIONS: &[(&str, Answer)] = &[
    ("expect_true", yes_or_no),
    ("guard_bool", yes_or_no),
    ("guard_or_false", yes_or_no),
    ("guard_or_true", yes_or_no),
    ("guard_size_oblivious", yes_or_no),
    ("statically_known_true", yes_or_no),
    ("guard_int", whole),
    ("size_hint", whole),
    ("has_hint", |args| number(args.first()?).map(|_| truth(true))),
    ("is_symbolic", |args| number(args.first()?).map(|_| truth(false))),
    ("is_nested_int", |args| number(args.first()?).map(|_| truth(false))),
    ("sym_and", |args| Some(truth(answers(args)?.into_iter().all(|answer| answer)))),
    ("sym_or", |args| Some(truth(answers(args)?.into_iter().any(|answer| answer)))),
    ("sym_eq", |args| match args {
        [a, b] => equal(a, b).map(truth),
        _ => None,
    }),
];

/// Nothing is imported for plain sizes as long as this lives.
pub struct PlainSizes;

/// How many there are, in all threads. Changed by who has the interpreter's lock.
static USERS: AtomicUsize = AtomicUsize::new(0);

impl PlainSizes {
    pub fn stand_in() -> PyResult<PlainSizes> {
        // Behind Dynamo nothing may have been captured yet.
        crate::types::load(py())?;
        // Made before anything is asked: other threads may run meanwhile.
        let (ours, asking) = (shapes()?, asking()?);
        USERS.fetch_add(1, Ordering::Relaxed);
        let stands = PlainSizes;
        let modules = modules()?;
        if !modules.contains(SHAPES)? {
            modules.set_item(SHAPES, ours.bind())?;
            package()?.setattr(NAME, ours.bind())?;
        }
        if !modules.contains(SYMPY)? {
            asking.iter().try_for_each(|asking| asking.take(&asking.other))?;
        }
        Ok(stands)
    }
}

impl Drop for PlainSizes {
    fn drop(&mut self) {
        if USERS.fetch_sub(1, Ordering::Relaxed) == 1 {
            // Nothing that could be told to anybody.
            let _ = leave();
        }
    }
}

fn modules() -> PyResult<Bound<'static, PyDict>> {
    Ok(py().import("sys")?.getattr("modules")?.cast_into()?)
}

/// Where `import torch.fx.experimental.symbolic_shapes` leaves the module for whoever spells its name out.
fn package() -> PyResult<Bound<'static, PyModule>> {
    py().import(PACKAGE)
}

fn leave() -> PyResult<()> {
    let (modules, package, ours) = (modules()?, package()?, shapes()?);
    if modules.get_item(SHAPES)?.is_some_and(|there| there.is(ours.bind())) {
        modules.del_item(SHAPES)?;
    }
    if package.dict().get_item(NAME)?.is_some_and(|there| there.is(ours.bind())) {
        package.delattr(NAME)?;
    }
    asking()?.iter().try_for_each(|asking| asking.take(&asking.own))
}

/// torch's own module, which is in its place from then on.
fn real() -> PyResult<Bound<'static, PyModule>> {
    leave()?;
    py().import(SHAPES)
}

fn shapes() -> PyResult<&'static Obj> {
    static MODULE: Found<Obj> = Found::new();
    MODULE.or_try_find(|| {
        let module = PyModule::new(py(), SHAPES)?;
        for (name, answer) in FUNCTIONS {
            module.setattr(*name, function(name, *answer)?)?;
        }
        let others = |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
            let name: String = args.get_item(0)?.extract()?;
            match name.starts_with("__") {
                // Every import asks whether it is a package.
                true => Err(PyAttributeError::new_err(name)),
                false => Ok(real()?.getattr(name)?.unbind()),
            }
        };
        module.setattr("__getattr__", PyCFunction::new_closure(py(), None, None, others)?)?;
        Ok(module.into())
    })
}

/// Functions of torch's that import sympy to ask whether their arguments are numbers of its.
const ASKING: [(&str, &str); 2] = [("torch._prims_common", "elementwise_dtypes"), ("torch", "sym_not")];

struct Asking {
    function: Obj,
    own: Obj,
    /// Its code with another name in that place.
    other: Obj,
}

impl Asking {
    fn take(&self, code: &Obj) -> PyResult<()> {
        match self.function.attr("__code__")?.is(code) {
            true => Ok(()),
            false => self.function.bind().setattr("__code__", code.bind()),
        }
    }
}

fn asking() -> PyResult<&'static [Asking]> {
    static FOUND: Found<Vec<Asking>> = Found::new();
    let find = || {
        modules()?.set_item(NO_SYMPY, no_sympy()?)?;
        ASKING.into_iter().filter_map(|(module, name)| find(module, name).transpose()).collect()
    };
    FOUND.or_try_find(find).map(Vec::as_slice)
}

/// None where there is no such function, or none of Python's.
fn find(module: &str, name: &str) -> PyResult<Option<Asking>> {
    let function = py().import(module)?.getattr(name).map(Obj::from);
    let Some(function) = function.quiet().filter(|function| function.class_is(types().function)) else { return Ok(None) };
    let own = function.attr("__code__")?;
    let mut names: Vec<String> = own.attr("co_names")?.bind().extract()?;
    let Some(name) = names.iter_mut().find(|name| *name == SYMPY) else { return Ok(None) };
    *name = NO_SYMPY.into();
    let changed = PyDict::new(py());
    changed.set_item("co_names", PyTuple::new(py(), names)?)?;
    let other = own.bind().call_method("replace", (), Some(&changed))?.into();
    Ok(Some(Asking { function, own, other }))
}

/// A module whose `Basic` has no instances, unless another thread has imported sympy: then it is that one's.
fn no_sympy() -> PyResult<Bound<'static, PyModule>> {
    let module = PyModule::new(py(), NO_SYMPY)?;
    let nothing = Obj::from(py().get_type::<PyType>().call1(("Basic", PyTuple::empty(py()), PyDict::new(py())))?);
    let get = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let name: String = args.get_item(0)?.extract()?;
        match modules()?.get_item(SYMPY)? {
            _ if name != "Basic" => Err(PyAttributeError::new_err(name)),
            Some(real) => Ok(real.getattr(name)?.unbind()),
            None => Ok(nothing.bind().clone().unbind()),
        }
    };
    module.setattr("__getattr__", PyCFunction::new_closure(py(), None, None, get)?)?;
    Ok(module)
}

fn function(name: &'static str, answer: Answer) -> PyResult<Bound<'static, PyCFunction>> {
    let call = move |args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        match answer(&items_of(&Obj::from(args))).filter(|_| kwargs.is_none()) {
            Some(known) => Ok(known.bind().clone().unbind()),
            None => Ok(real()?.getattr(name)?.call(args, kwargs)?.unbind()),
        }
    };
    PyCFunction::new_closure(py(), None, None, call)
}

fn truth(answer: bool) -> Obj {
    PyBool::new(py(), answer).to_owned().into()
}

fn yes_or_no(args: &[Obj]) -> Option<Obj> {
    args.first().filter(|arg| arg.class_is(types().bool)).cloned()
}

fn whole(args: &[Obj]) -> Option<Obj> {
    args.first().filter(|arg| arg.class_is(types().int)).cloned()
}

fn number(arg: &Obj) -> Option<&Obj> {
    (arg.class_is(types().int) || arg.class_is(types().bool)).then_some(arg)
}

fn answers(args: &[Obj]) -> Option<Vec<bool>> {
    let answer = |arg: &Obj| arg.truth().quiet().filter(|_| arg.class_is(types().bool));
    args.iter().map(answer).collect::<Option<Vec<bool>>>().filter(|answers| !answers.is_empty())
}

/// Of whole numbers, and of rows of them.
fn equal(a: &Obj, b: &Obj) -> Option<bool> {
    let is_row = |obj: &Obj| [types().tuple, types().list, types().size].into_iter().any(|class| obj.class_is(class));
    if is_row(a) && is_row(b) {
        let (a, b) = (items_of(a), items_of(b));
        if a.len() != b.len() {
            return Some(false);
        }
        let each: Option<Vec<bool>> = a.iter().zip(&b).map(|(a, b)| equal(a, b)).collect();
        return each.map(|each| each.into_iter().all(|one| one));
    }
    number(a)?.bind().eq(number(b)?.bind()).quiet()
}
