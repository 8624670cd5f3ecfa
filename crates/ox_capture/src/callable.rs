//! `Captured`: what the user calls in place of the function.

use crate::advice::advice;
use crate::backend::Backend;
use crate::explain;
use crate::guard::{Check, Context};
use crate::log::{Topic, log, place_of};
use crate::obj::{Obj, entries_of, items_of, py};
use crate::policy::{Stance, wants_dynamic};
use crate::record::{Closing, Inspection, Origin, Rec, Recording, Val};
use crate::source::{Key, Source, Values, short};
use crate::state::TorchState;
use crate::tree::{Action, Branches, End, Segment, Tree};
use crate::vm::{Args, Attach, Break, Called, Escape, Refused, Vm, VmIterator};
use pyo3::exceptions::{PyException, PyMemoryError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// How a function is captured.
#[derive(Clone, Debug)]
pub struct Settings {
    pub fullgraph: bool,
    /// Settings of this function alone, by name; those of the process are asked of the backend.
    pub own: Vec<(String, i64)>,
    /// Makes of the function one that takes sizes as they come, for calls with tensors that are marked so.
    pub dynamic: Option<Obj>,
}

#[pyclass(frozen, dict, weakref, module = "oxytorch._oxytorch")]
pub struct Captured(Inner);

struct Inner {
    function: Obj,
    /// Another one after a reset; calls that are under way keep theirs.
    tree: RefCell<Rc<Tree>>,
    /// What `Settings::dynamic` made.
    dynamic: RefCell<Option<Obj>>,
    backend: Arc<dyn Backend>,
    settings: Settings,
    /// How many calls the machine ran, and where and why it broke.
    traced: Cell<usize>,
    breaks: RefCell<Vec<Break>>,
    ops: Cell<usize>,
    graphs: Cell<usize>,
    /// Why calls were traced although there were traces.
    recompiles: RefCell<Vec<String>>,
    /// Seconds spent in tracing, and within that in compiling and running graphs for the first time.
    seconds: Cell<(f64, f64)>,
    /// Seconds spent in the stages of the compiler.
    stages: RefCell<Vec<(&'static str, f64)>>,
    called: Cell<bool>,
    /// Whether it was said that traces are not used again.
    told: Cell<bool>,
}

// SAFETY: only attached threads get here, one at a time, and no borrow of a cell is held where the interpreter may switch threads: graphs,
// actions and effects run with everything that they need taken out before.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

/// The function inside of a captured one, which is inlined like any other.
pub fn inner_function(object: &Obj) -> Option<Obj> {
    object.bind().cast::<Captured>().ok().map(|captured| captured.get().0.function.clone())
}

impl Captured {
    pub fn new(function: Obj, backend: Arc<dyn Backend>, settings: Settings) -> PyResult<Captured> {
        let py = py();
        if !function.bind().is_callable() {
            return Err(PyTypeError::new_err(format!("a {} cannot be called", function.class_name())));
        }
        crate::types::load(py)?;
        crate::builtins::load(py)?;
        crate::lazy::lazy_class()?;
        Ok(Captured(Inner {
            function,
            tree: RefCell::default(),
            dynamic: RefCell::default(),
            backend,
            settings,
            traced: Cell::new(0),
            breaks: RefCell::default(),
            ops: Cell::new(0),
            graphs: Cell::new(0),
            recompiles: RefCell::default(),
            seconds: Cell::default(),
            stages: RefCell::default(),
            called: Cell::new(false),
            told: Cell::new(false),
        }))
    }
}

impl Inner {
    fn plainly(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Obj> {
        self.function.call(args, kwargs)
    }

    fn call(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Obj> {
        let mut values = Values::new(&self.function, args, kwargs);
        let stance = Stance::now();
        if stance == Stance::ForceEager {
            return self.plainly(args, kwargs);
        }
        let tree = self.tree();
        match self.choose(&tree, &tree.branches, &mut values, true) {
            Some(segment) => match &segment.end {
                End::GiveUp(_) => self.plainly(args, kwargs),
                _ => self.run_down(&tree, segment, &mut values),
            },
            None => match self.for_any_size(args, kwargs)? {
                Some(dynamic) => dynamic.call(args, kwargs),
                None if self.may_trace(&tree, stance, &mut values)? => self.trace(&tree, args, kwargs),
                None => self.plainly(args, kwargs),
            },
        }
    }

    fn tree(&self) -> Rc<Tree> {
        self.tree.borrow().clone()
    }

    /// The function compiled for varying sizes, if an argument asks for that.
    fn for_any_size(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Option<Obj>> {
        let Some(make) = &self.settings.dynamic else { return Ok(None) };
        if !wants_dynamic(args) && !kwargs.is_some_and(|kwargs| wants_dynamic(std::slice::from_ref(kwargs))) {
            return Ok(None);
        }
        let made = self.dynamic.borrow().clone();
        if made.is_some() {
            return Ok(made);
        }
        let made = make.call(std::slice::from_ref(&self.function), None)?;
        Ok(Some(self.dynamic.borrow_mut().get_or_insert(made).clone()))
    }

    /// Tests want to see every bug.
    fn bugs_are_fatal(&self) -> bool {
        self.setting("suppress_errors").is_ok_and(|on| on == 0)
            || std::env::var("OXYTORCH_BUG").is_ok_and(|value| value == "fatal")
    }

    fn setting(&self, name: &str) -> PyResult<i64> {
        match self.settings.own.iter().find(|(known, _)| known == name) {
            Some((_, value)) => Ok(*value),
            None => self.backend.setting(name),
        }
    }

    /// Whether a call that no trace fits is traced; otherwise it runs as it is.
    fn may_trace(&self, tree: &Tree, stance: Stance, values: &mut Values<'_>) -> PyResult<bool> {
        let first = !self.called.replace(true);
        if first && stance == Stance::EagerThenCompile {
            return Ok(false);
        }
        self.may_grow(tree, stance, &tree.branches, values, true)
    }

    /// Whether a branch may be added here. `returned`: whether the action before it did.
    fn may_grow(
        &self,
        tree: &Tree,
        stance: Stance,
        branches: &Branches,
        values: &mut Values<'_>,
        returned: bool,
    ) -> PyResult<bool> {
        let name = short(&self.function);
        let mut why = || match self.why_not(tree, branches, values, returned) {
            reasons if reasons.is_empty() => "there is no trace of it".to_string(),
            reasons => reasons.join("; "),
        };
        match stance {
            Stance::EagerOnRecompile => return Ok(false),
            Stance::FailOnRecompile => {
                let text = format!("oxytorch: the stance is \"fail_on_recompile\", and {name} would be traced: {}", why());
                return Err(PyRuntimeError::new_err(text));
            }
            _ if branches.len() == 0 || branches.full.get() => return Ok(true),
            _ => {}
        }
        let why = why();
        if self.setting("error_on_recompile")? != 0 {
            let text = format!("oxytorch: error_on_recompile is set, and {name} would be traced again: {why}");
            return Err(PyRuntimeError::new_err(text));
        }
        log(Topic::Recompiles, || format!("{}: {name} is traced again: {why}", place_of(&self.function)));
        self.tell_of_repetition(tree, branches, values, returned)?;
        self.recompiles.borrow_mut().push(why);
        Ok(true)
    }

    /// For each trace, what does not hold.
    fn why_not(&self, tree: &Tree, branches: &Branches, values: &mut Values<'_>, returned: bool) -> Vec<String> {
        let sources = tree.sources.borrow();
        let context = Context { sources: &sources, backend: &*self.backend, returned };
        branches.all().iter().filter_map(|segment| segment.objection(&context, values)).collect()
    }

    /// Two traces that no call has ever used again, both for the same place that no argument decides: probably no trace ever will be.
    fn tell_of_repetition(&self, tree: &Tree, branches: &Branches, values: &mut Values<'_>, returned: bool) -> PyResult<()> {
        let places: Vec<String> = {
            let sources = tree.sources.borrow();
            let context = Context { sources: &sources, backend: &*self.backend, returned };
            let unused = branches.all().into_iter().filter(|segment| !segment.used.get());
            unused.filter_map(|segment| segment.strange_objection(&context, values)).collect()
        };
        let twice = places.iter().enumerate().find(|(n, place)| places[..*n].contains(place));
        match twice {
            Some((_, place)) if !self.told.replace(true) => self.backend.warn(&format!(
                "oxytorch: {} is traced again and again: {place} is another in every call",
                short(&self.function)
            )),
            _ => Ok(()),
        }
    }

    fn choose(&self, tree: &Tree, branches: &Branches, values: &mut Values<'_>, returned: bool) -> Option<Rc<Segment>> {
        let sources = tree.sources.borrow();
        let context = Context { sources: &sources, backend: &*self.backend, returned };
        branches.choose(&context, values)
    }

    /// Runs known segments until the end, or until nothing known fits.
    fn run_down(&self, tree: &Rc<Tree>, segment: Rc<Segment>, values: &mut Values<'_>) -> PyResult<Obj> {
        let mut segment = segment;
        loop {
            let built = segment.perform(tree, values)?;
            let recipe = match &segment.end {
                End::Return(recipe) | End::Raise(recipe) => recipe,
                End::Action(action) => {
                    let outcome = self.act(tree, action, values, &built)?;
                    let returned = outcome.is_ok();
                    let object = match &outcome {
                        Ok(object) => object.clone(),
                        Err(error) => error.value(py()).clone().into(),
                    };
                    values.set(action.result, object);
                    match self.choose(tree, &action.branches, values, returned) {
                        Some(next) if !matches!(next.end, End::GiveUp(_)) => segment = next,
                        Some(_) => return self.resume(tree, &segment, action, values, outcome, false),
                        None => {
                            let record = self.may_grow(tree, Stance::now(), &action.branches, values, returned)?;
                            return self.resume(tree, &segment, action, values, outcome, record);
                        }
                    }
                    continue;
                }
                End::GiveUp(_) => return Err(PyRuntimeError::new_err("oxytorch: a trace without an end")),
            };
            let object = recipe.get(&tree.sources.borrow(), values, &built)?;
            return match &segment.end {
                End::Raise(_) => Err(PyErr::from_value(object.bind().clone())),
                _ => Ok(object),
            };
        }
    }

    fn act(&self, tree: &Tree, action: &Action, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<PyResult<Obj>> {
        let (function, args, kwargs) = action.perform(tree, values, built)?;
        Ok(function.call(&args, kwargs.as_ref()))
    }

    /// Goes on with the machine from a snapshot; recording, if there is room for another branch.
    fn resume(
        &self,
        tree: &Rc<Tree>,
        segment: &Rc<Segment>,
        action: &Action,
        values: &mut Values<'_>,
        outcome: PyResult<Obj>,
        record: bool,
    ) -> PyResult<Obj> {
        let full = action.branches.len() >= self.setting("recompile_limit")? as usize;
        let rec = match record && !full {
            true => self.recording(tree)?,
            false => None,
        };
        let mut vm = self.machine(tree, rec, Attach::Action(segment.clone()))?;
        let sources_values = {
            let sources = tree.sources.borrow();
            vm.restore(&action.snapshot, &sources, values)?;
            values.all()
        };
        let mut pushed = None;
        if let Some(rec) = &mut vm.rec {
            rec.restore(&sources_values, action.result);
            rec.checks.push(Check::Returned(outcome.is_ok()));
            let state = rec.state.clone();
            rec.checks.push(Check::State(state));
            if let Ok(object) = &outcome {
                pushed = Some(rec.meet(object.clone(), action.result));
            }
        }
        let whole = vm.frames.is_empty();
        self.finish(vm, |vm| match outcome {
            // The action was the whole function.
            Ok(object) if whole => Ok(pushed.unwrap_or_else(|| object.into())),
            Err(error) if whole => Err(error),
            Ok(object) => {
                vm.push(pushed.unwrap_or_else(|| object.into()));
                vm.run(0)
            }
            Err(error) => match vm.unwind(0, error)? {
                Some(value) => Ok(value),
                None => vm.run(0),
            },
        })
    }

    fn machine(&self, tree: &Rc<Tree>, rec: Option<Recording>, attach: Attach) -> PyResult<Vm> {
        let mut vm = Vm::new(tree.clone(), rec, attach);
        vm.fullgraph = self.settings.fullgraph;
        vm.verbose = self.setting("verbose")? != 0;
        Ok(vm)
    }

    fn recording(&self, tree: &Rc<Tree>) -> PyResult<Option<Recording>> {
        let state = TorchState::now()?;
        if let Some(objection) = state.objection() {
            self.backend.warn(&format!("oxytorch: {objection} is not captured; the function runs as it is"))?;
            return Ok(None);
        }
        let mut rec = Recording::new(tree.clone(), self.backend.clone(), state)?;
        rec.place = place_of(&self.function);
        Ok(Some(rec))
    }

    /// The first call of its kind.
    fn trace(&self, tree: &Rc<Tree>, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Obj> {
        if tree.branches.full.get() || makes_generator(&self.function) {
            return self.plainly(args, kwargs);
        }
        let segments = tree.segments.get() as i64;
        if tree.branches.len() as i64 >= self.setting("recompile_limit")?
            || segments >= self.setting("accumulated_recompile_limit")?
        {
            tree.branches.full.set(true);
            let name = short(&self.function);
            self.backend.warn(&format!("oxytorch: {name} was compiled for too many kinds of calls; others run as they are"))?;
            return self.plainly(args, kwargs);
        }
        let Some(mut rec) = self.recording(tree)? else { return self.plainly(args, kwargs) };
        let arguments = begin(&mut rec, args, kwargs);
        let root = rec.source(Source::Root);
        let function: Val = rec.meet(self.function.clone(), root);
        let vm = self.machine(tree, Some(rec), Attach::Root)?;
        let done = self.finish(vm, |vm| match vm.call(&function, arguments)? {
            Called::Value(value) => Ok(value),
            Called::Pushed => vm.run(0),
        });
        match done {
            Err(error) if error.is_instance_of::<NothingDone>(py()) => self.plainly(args, kwargs),
            done => done,
        }
    }

    /// Runs the machine to its end and keeps what it recorded.
    fn finish(&self, mut vm: Vm, run: impl FnOnce(&mut Vm) -> PyResult<Val>) -> PyResult<Obj> {
        let start = Instant::now();
        self.traced.set(self.traced.get() + 1);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = run(&mut vm).map_err(refused);
            self.close(&mut vm, result)
        }));
        let (traced, computed) = self.seconds.get();
        self.seconds.set((traced + start.elapsed().as_secs_f64(), computed));
        self.breaks.borrow_mut().append(&mut vm.breaks);
        if let Some(why) = vm.gave_up.take() {
            let name = crate::source::short(&self.function);
            self.backend.warn(&format!("oxytorch: {name} runs as it is: {why}"))?;
        }
        result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default();
            if vm.has_done_nothing() && !self.bugs_are_fatal() {
                self.backend.warn(&format!("oxytorch: a bug in capture: {text}; the function runs as it is"))?;
                vm.tree.branches.full.set(true);
                return Err(NothingDone::new_err(()));
            }
            Err(PyRuntimeError::new_err(format!("oxytorch: a bug in capture: {text}")))
        })
    }

    /// The last segment: what is pending is computed, and the value gets a recipe.
    fn close(&self, vm: &mut Vm, result: PyResult<Val>) -> PyResult<Obj> {
        let Some(mut rec) = vm.rec.take() else { return result.and_then(|value| Escape::new(&|_| true).outside(&value.obj)) };
        self.ops.set(self.ops.get() + rec.ops);
        let is_program_s =
            |error: &PyErr| error.is_instance_of::<PyException>(py()) && !error.is_instance_of::<PyMemoryError>(py());
        if vm.fatal || result.as_ref().is_err_and(|error| !is_program_s(error)) {
            // An interrupt is no part of the function: the next call is traced anew.
            rec.compute()?;
            return result.map(|value| value.obj);
        }
        let (value, error) = match result {
            Ok(value) => (value, None),
            Err(error) => {
                let value: Obj = error.value(py()).clone().into();
                rec.made_exception(&value);
                (value.into(), Some(error))
            }
        };
        let graph = rec.compute()?;
        let (traced, computed) = self.seconds.get();
        self.seconds.set((traced, computed + rec.computing.as_secs_f64()));
        self.stages.borrow_mut().append(&mut rec.stages);
        self.graphs.set(self.graphs.get() + usize::from(graph.is_some()));
        let is_made = |object: &Obj| matches!(rec.origin(object), Origin::Made | Origin::Unknown);
        let mut escape = Escape::new(&is_made);
        let returned = escape.outside(&value.obj)?;
        if escape.met {
            let why = "an iterator or generator comes out".to_string();
            vm.gave_up = Some(why.clone());
            vm.attach_segment(rec.gave_up(why));
        } else if let Some(why) = rec.tainted.clone() {
            vm.attach_segment(rec.gave_up(why));
        } else {
            self.keep(vm, &mut rec, graph, &value, error.is_some());
        }
        match error {
            Some(error) => Err(error),
            None => Ok(returned),
        }
    }

    /// Tracing, each stage of the compiler, and the first run of each graph, in that order.
    fn seconds_by_stage(&self) -> Vec<(&'static str, f64)> {
        let (traced, computed) = self.seconds.get();
        let mut stages = vec![("trace", traced - computed)];
        let mut compiled = 0.0;
        for (name, seconds) in self.stages.borrow().iter() {
            compiled += seconds;
            match stages.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += seconds,
                None => stages.push((name, *seconds)),
            }
        }
        stages.push(("first run", (computed - compiled).max(0.0)));
        stages
    }

    fn keep(&self, vm: &mut Vm, rec: &mut Recording, graph: Option<crate::tree::GraphCall>, value: &Val, raised: bool) {
        let mut found = Inspection::default();
        let recipes = |rec: &mut Recording, found: &mut Inspection| -> Rec<_> {
            let value = rec.recipe(value, found)?;
            Ok((value, rec.effects(found)?))
        };
        let segment = match recipes(rec, &mut found) {
            Ok(_) if found.objects.iter().any(|object| object.bind().is_instance_of::<VmIterator>()) => {
                let why = "an iterator is kept by somebody else".to_string();
                vm.gave_up = Some(why.clone());
                rec.gave_up(why)
            }
            Ok((recipe, effects)) => {
                let end = if raised { End::Raise(recipe) } else { End::Return(recipe) };
                rec.segment(Closing { graph, found, effects }, end)
            }
            Err(error) => {
                vm.gave_up = Some(error.0.clone());
                rec.gave_up(error.0)
            }
        };
        vm.attach_segment(segment);
    }
}

// The machine failed before anybody could see a change: CPython can run the call from its beginning.
pyo3::create_exception!(oxytorch, NothingDone, PyException);

/// The function may not break, but would.
fn refused(error: PyErr) -> PyErr {
    match error.is_instance_of::<Refused>(py()) {
        true => PyRuntimeError::new_err(error.value(py()).to_string()),
        false => error,
    }
}

/// Calling it runs nothing of it yet.
fn makes_generator(function: &Obj) -> bool {
    const GENERATOR_COROUTINE_OR_BOTH: u32 = 0x20 | 0x80 | 0x200;
    let flags = function.attr("__code__").and_then(|code| code.attr("co_flags"));
    flags.is_ok_and(|flags| flags.bind().extract::<u32>().is_ok_and(|f| f & GENERATOR_COROUTINE_OR_BOTH != 0))
}

/// What every trace relies on, and the arguments with their sources.
fn begin(rec: &mut Recording, args: &[Obj], kwargs: Option<&Obj>) -> Args {
    let named = kwargs.map(entries_of).unwrap_or_default();
    rec.checks.push(Check::Call(args.len(), named.iter().map(|(name, _)| name.clone()).collect()));
    rec.checks.push(Check::State(rec.state.clone()));
    let mut arguments = Args::default();
    for (n, arg) in args.iter().enumerate() {
        let source = rec.source(Source::Arg(n as u32));
        arguments.positional.push(rec.meet(arg.clone(), source));
    }
    for (name, arg) in named {
        let source = rec.source(Source::Kwarg(Key(name.clone())));
        let value = rec.meet(arg, source);
        arguments.keywords.push((name, value));
    }
    arguments
}

#[pymethods]
impl Captured {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
        let args = items_of(&args.into());
        let kwargs = kwargs.filter(|k| !k.is_empty()).map(Obj::from);
        let result = self.0.call(&args, kwargs.as_ref())?;
        Ok(result.bind().clone().unbind())
    }

    /// As a function does: a method of the object through which it was found.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        object: Option<&Bound<'py, PyAny>>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match object.filter(|o| !o.is_none()) {
            None => Ok(slf.clone().into_any()),
            Some(object) => slf.py().import("types")?.getattr("MethodType")?.call1((slf, object)),
        }
    }

    /// The tree of traces as text.
    fn show(&self) -> String {
        self.0.tree().show()
    }

    /// Counts for tests and people: calls that the machine ran, torch operations recorded, graphs, breaks.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("traced", self.0.traced.get())?;
        dict.set_item("ops", self.0.ops.get())?;
        dict.set_item("segments", self.0.tree().segments.get())?;
        let breaks: Vec<(String, String)> = self.0.breaks.borrow().iter().map(|b| (b.location(), b.reason.clone())).collect();
        dict.set_item("breaks", breaks)?;
        Ok(dict)
    }

    /// Everything that is known of the traces, for `oxytorch.explain`.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = &self.0;
        let dict = explain::report(py, &inner.tree())?;
        let breaks = inner.breaks.borrow().clone();
        let breaks = breaks
            .iter()
            .map(|b| (&b.reason, advice(&b.reason), &b.stack))
            .map(|(reason, (explanation, hint), stack)| (reason.clone(), explanation, hint, stack.clone()));
        dict.set_item("breaks", breaks.collect::<Vec<_>>())?;
        dict.set_item("recompiles", inner.recompiles.borrow().clone())?;
        dict.set_item("traced", inner.traced.get())?;
        dict.set_item("ops", inner.ops.get())?;
        dict.set_item("seconds", inner.seconds_by_stage().into_py_dict(py)?)?;
        Ok(dict)
    }

    /// Forgets all traces.
    fn reset(&self) {
        // What goes may run code: nothing may be borrowed then.
        drop((self.0.tree.take(), self.0.dynamic.take()));
        self.0.called.set(false);
    }
}
