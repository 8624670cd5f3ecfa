//! `Captured`: what the user calls in place of the function.
//!
//! - `recompile`: whether a call that no trace fits is traced.
//! - `trace`: calls that the machine runs, and what is kept of them.
//! - `passed`: generators that a replay has gone past.
//! - `face`: what Python sees.
//! - `counts`: what is counted for people.

mod counts;
mod face;
mod passed;
mod recompile;
mod trace;

pub use face::show_get;

use crate::backend::Backend;
use crate::declared::Declared;
use crate::guard::Context;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::policy::Stance;
use crate::source::Values;
use crate::tree::{Action, Branches, End, Segment, Tree};
use crate::undone::{instead, is_undone};
use crate::vm::{VmGenerator, exception_of, with_lines};
use counts::Counts;
use passed::PassedBy;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// How a function is captured.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub fullgraph: bool,
    /// Settings of this function alone, by name; those of the process are asked of the backend.
    pub own: Vec<(String, i64)>,
    /// Whether sizes are variables: all at once, never, or (None) those that are seen to change.
    pub dynamic: Option<bool>,
}

#[pyclass(frozen, dict, weakref, module = "oxytorch._oxytorch")]
pub struct Captured(Inner);

struct Inner {
    function: Obj,
    /// Another one after a reset; calls that are under way keep theirs.
    tree: RefCell<Rc<Tree>>,
    backend: Arc<dyn Backend>,
    settings: Settings,
    /// Sizes that are variables at once.
    declared: Declared,
    counts: Counts,
    /// The last backend that a stance forced, and what it made of the function.
    elsewhere: RefCell<Option<(Obj, Obj)>>,
}

// SAFETY: only attached threads get here, one at a time, and no borrow of a cell is held where the interpreter may switch threads: what is
// read while Python code runs is `Shared`, and graphs, actions and effects run with everything that they need taken out before.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

/// The function inside of a captured one, which is inlined like any other.
pub fn inner_function(object: &Obj) -> Option<Obj> {
    object.bind().cast::<Captured>().ok().map(|captured| captured.get().0.function.clone())
}

impl Captured {
    pub fn new(
        function: Obj,
        backend: Arc<dyn Backend>,
        settings: Settings,
        shapes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Captured> {
        let py = py();
        if !function.bind().is_callable() {
            return Err(PyTypeError::new_err(format!("a {} cannot be called", function.class_name())));
        }
        crate::types::load(py)?;
        crate::builtins::load(py)?;
        crate::vm::load_library(py)?;
        crate::lazy::lazy_class()?;
        let declared = shapes.map_or(Ok(Declared::default()), |shapes| Declared::new(&function, shapes))?;
        if settings.dynamic == Some(false) && !declared.is_empty() {
            return Err(PyValueError::new_err("oxytorch: dynamic=False says that no size varies, and shapes= says which do"));
        }
        Ok(Captured(Inner {
            function,
            tree: Default::default(),
            backend,
            settings,
            declared,
            counts: Counts::default(),
            elsewhere: RefCell::default(),
        }))
    }
}

impl Inner {
    fn plainly(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Obj> {
        self.function.call(args, kwargs)
    }

    fn call(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Obj> {
        // Goes behind the values, which hold the same.
        let mut passed = PassedBy::default();
        let mut values = Values::new(&self.function, args, kwargs);
        let stance = Stance::now();
        match stance {
            Stance::ForceEager => return self.plainly(args, kwargs),
            Stance::Elsewhere => return self.elsewhere(args, kwargs),
            _ => {}
        }
        let tree = self.tree();
        match self.choose(&tree, &tree.branches, &mut values, true) {
            Some(segment) => match &segment.end {
                End::GiveUp(_) => self.plainly(args, kwargs),
                _ => match self.run_down(&tree, segment, &mut values, &mut passed) {
                    Err(error) if is_undone(&error) => instead(&error, self.plainly(args, kwargs)),
                    done => done,
                },
            },
            None => {
                let sizes = self.declared_sizes(args, kwargs)?;
                match self.may_trace(&tree, stance, &mut values)? {
                    true => self.trace(&tree, args, kwargs, sizes),
                    false => self.plainly(args, kwargs),
                }
            }
        }
    }

    /// By the backend that the stance forces.
    fn elsewhere(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Obj> {
        let Some(backend) = Stance::backend() else { return self.plainly(args, kwargs) };
        let known = self.elsewhere.borrow().clone().filter(|(of, _)| of.is(&backend));
        if let Some((_, compiled)) = known {
            return compiled.call(args, kwargs);
        }
        let options = PyDict::new(py());
        options.set_item("backend", backend.bind())?;
        options.set_item("fullgraph", self.settings.fullgraph)?;
        options.set_item("dynamic", self.settings.dynamic)?;
        let compiled = Obj::from(py().import("torch")?.call_method("compile", (self.function.bind(),), Some(&options))?);
        // What goes may run code: nothing may be borrowed then.
        drop(self.elsewhere.replace(Some((backend, compiled.clone()))));
        compiled.call(args, kwargs)
    }

    fn tree(&self) -> Rc<Tree> {
        self.tree.borrow().clone()
    }

    /// Tests want to see every bug.
    fn bugs_are_fatal(&self) -> bool {
        self.setting("suppress_errors").quiet().is_some_and(|on| on == 0)
            || std::env::var("OXYTORCH_BUG").is_ok_and(|value| value == "fatal")
    }

    fn setting(&self, name: &str) -> PyResult<i64> {
        match self.settings.own.iter().find(|(known, _)| known == name) {
            Some((_, value)) => Ok(*value),
            None => self.backend.setting(name),
        }
    }

    /// The first whose checks hold.
    fn choose(&self, tree: &Tree, branches: &Branches, values: &mut Values<'_>, returned: bool) -> Option<Rc<Segment>> {
        let segments = branches.all();
        let sources = tree.sources.read();
        let context = Context { sources: &sources, backend: &*self.backend, returned };
        let found = segments.iter().find(|segment| segment.fits(&context, values)).cloned();
        found.inspect(|segment| segment.used.set(true))
    }

    /// Runs known segments until the end, or until nothing known fits. `Undone` if nothing came of it.
    fn run_down(&self, tree: &Rc<Tree>, segment: Rc<Segment>, values: &mut Values<'_>, passed: &mut PassedBy) -> PyResult<Obj> {
        let mut segment = segment;
        let mut before: Option<(Rc<Segment>, PyResult<Obj>)> = None;
        loop {
            let built = match (segment.perform(tree, values), &before) {
                (Ok(built), _) => built,
                (Err(error), Some((parent, outcome))) if is_undone(&error) => {
                    let End::Action(action) = &parent.end else { return Err(error) };
                    return instead(&error, self.resume(tree, parent, action, (values, passed), copied(outcome), false));
                }
                (Err(error), _) => return Err(error),
            };
            let recipe = match &segment.end {
                End::Return(recipe) | End::Raise(recipe, _) => recipe,
                End::Action(action) => {
                    let outcome = self.act(tree, action, values, &built)?;
                    let generators: Vec<Obj> = built.into_iter().flatten().filter(VmGenerator::is_live).collect();
                    let returned = outcome.is_ok();
                    let object = match &outcome {
                        Ok(object) => object.clone(),
                        Err(error) => exception_of(error),
                    };
                    values.set(action.result, object);
                    let next = self.choose(tree, &action.branches, values, returned);
                    let is_unknown = next.is_none();
                    if let Some(next) = next.filter(|next| !matches!(next.end, End::GiveUp(_))) {
                        passed.add(generators);
                        before = Some((std::mem::replace(&mut segment, next), outcome));
                        continue;
                    }
                    drop(generators);
                    let record = is_unknown
                        && !self.grows_in_vain(tree)?
                        && self.may_grow(tree, Stance::now(), &action.branches, values, returned)?;
                    return self.resume(tree, &segment, action, (values, passed), outcome, record);
                }
                End::GiveUp(_) => return Err(PyRuntimeError::new_err("oxytorch: a trace without an end")),
            };
            let object = recipe.get(&tree.sources.read(), values, &built)?;
            return match &segment.end {
                End::Raise(_, lines) => Err(with_lines(&object, lines)),
                _ => Ok(object),
            };
        }
    }

    fn act(&self, tree: &Tree, action: &Action, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<PyResult<Obj>> {
        let (function, args, kwargs) = action.perform(tree, values, built)?;
        let Some(handled) = &action.snapshot.handled else { return Ok(function.call(&args, kwargs.as_ref())) };
        let before = crate::vm::handled();
        crate::vm::set_handled(&handled.get(&tree.sources.read(), values, built)?);
        let outcome = function.call(&args, kwargs.as_ref());
        crate::vm::set_handled(&before);
        Ok(outcome)
    }
}

fn copied(outcome: &PyResult<Obj>) -> PyResult<Obj> {
    match outcome {
        Ok(object) => Ok(object.clone()),
        Err(error) => Err(error.clone_ref(py())),
    }
}

/// Seconds that this thread has had the processor.
pub fn thread_time() -> f64 {
    let now = py().import("time").and_then(|time| time.call_method0("thread_time")?.extract());
    now.quiet().unwrap_or(0.0)
}
