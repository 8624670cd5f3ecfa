//! Calls that the machine runs: the first of their kind, and those that leave known traces behind an action.

use super::Inner;
use super::passed::PassedBy;
use crate::declared::Varying;
use crate::gc::Rest;
use crate::guard::Check;
use crate::interrupt::{Quiet, is_interrupt, take_late};
use crate::log::place_of;
use crate::obj::{Obj, entries_of, message, py};
use crate::policy::Marks;
use crate::recipe::{Build, Recipe};
use crate::record::spent::Moment;
use crate::record::{Closing, Inspection, Origin, Rec, Recording, Val};
use crate::source::{Key, Source, Values};
use crate::state::TorchState;
use crate::tree::{Action, End, Segment, Tree};
use crate::undone::{InternalError, instead, is_undone};
use crate::vm::{Args, Attach, Called, Escape, Refused, Vm, exception_of, lines_of};
use pyo3::exceptions::{PyException, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

impl Inner {
    /// Goes on with the machine from a snapshot; recording, if there is room for another branch.
    pub(super) fn resume(
        &self,
        tree: &Rc<Tree>,
        segment: &Rc<Segment>,
        action: &Action,
        (values, passed): (&mut Values<'_>, &mut PassedBy),
        outcome: PyResult<Obj>,
        record: bool,
    ) -> PyResult<Obj> {
        if self.is_full(tree, &action.branches)? && !action.branches.full.replace(true) {
            self.tell_of_limit()?;
        }
        let rec = match record && !action.branches.full.get() {
            true => self.recording(tree)?,
            false => None,
        };
        let mut vm = self.machine(tree, rec, Attach::Action(segment.clone()))?;
        let sources_values = {
            let sources = tree.sources.read();
            vm.restore(&action.snapshot, &sources, values)?;
            values.all()
        };
        let mut pushed = None;
        if let Some(rec) = &mut vm.rec {
            rec.checks.push(Check::Returned(outcome.is_ok()));
            let state = rec.state.clone();
            rec.checks.push(Check::State(state.into()));
            rec.restore(&sources_values, action.result);
            rec.adopt_sizes(values.sizes.all());
            match &outcome {
                Ok(object) => pushed = Some(rec.meet(object.clone(), action.result)),
                Err(error) => drop(rec.meet(exception_of(error), action.result)),
            }
        }
        drop(sources_values);
        // Whatever the machine needs of them, its frames and its recording have.
        values.forget();
        drop(std::mem::take(passed));
        vm.adopt_suspended();
        let (whole, before) = (vm.frames.is_empty(), action.branches.len());
        let result = self.finish(vm, |vm| match outcome {
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
        });
        tree.note_unused(action.branches.all().iter().skip(before));
        result
    }

    pub(super) fn machine(&self, tree: &Rc<Tree>, rec: Option<Recording>, attach: Attach) -> PyResult<Vm> {
        let mut vm = Vm::new(tree.clone(), rec, attach);
        vm.settings = self.settings.clone();
        vm.verbose = self.setting("verbose")? != 0;
        Ok(vm)
    }

    pub(super) fn recording(&self, tree: &Rc<Tree>) -> PyResult<Option<Recording>> {
        let state = TorchState::now()?;
        if let Some(objection) = state.objection() {
            self.backend.warn(&format!("oxytorch: nothing is captured while {objection}; the function runs as it is"))?;
            return Ok(None);
        }
        tree.traces.set(tree.traces.get() + 1);
        let mut rec = Recording::new(tree.clone(), self.backend.clone(), state)?;
        rec.place = place_of(&self.function);
        rec.sizing.dynamic = if tree.general.get() { Some(true) } else { self.settings.dynamic };
        Ok(Some(rec))
    }

    /// Of a call that no trace fits. Raises for sizes that were declared not to come, and for marks that cannot be kept.
    pub(super) fn declared_sizes(&self, args: &[Obj], kwargs: Option<&Obj>) -> PyResult<Vec<Varying>> {
        Marks::check(&named_arguments(args, kwargs))?;
        self.declared.of_call(args, kwargs)
    }

    /// The first call of its kind.
    pub(super) fn trace(&self, tree: &Rc<Tree>, args: &[Obj], kwargs: Option<&Obj>, sizes: Vec<Varying>) -> PyResult<Obj> {
        if tree.branches.full.get() || makes_generator(&self.function) {
            return self.plainly(args, kwargs);
        }
        if self.is_full(tree, &tree.branches)? {
            tree.branches.full.set(true);
            self.tell_of_limit()?;
            return self.plainly(args, kwargs);
        }
        let Some(mut rec) = self.recording(tree)? else { return self.plainly(args, kwargs) };
        rec.sizing.declare(sizes);
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
            Err(error) if is_undone(&error) => instead(&error, self.plainly(args, kwargs)),
            done => done,
        }
    }

    /// Runs the machine to its end and keeps what it recorded.
    pub(super) fn finish(&self, mut vm: Vm, run: impl FnOnce(&mut Vm) -> PyResult<Val>) -> PyResult<Obj> {
        let start = Moment::now();
        let spent = vm.rec.as_ref().map(|rec| rec.spending.0.clone());
        self.counts.traced.set(self.counts.traced.get() + 1);
        let entered = vm.entered.clone();
        let rest = Rest::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = run(&mut vm).map_err(refused);
            self.close(&mut vm, result)
        }));
        drop(rest);
        if result.as_ref().map_or(true, |result| result.as_ref().is_err_and(is_undone)) {
            vm.undo_suspended();
        }
        crate::vm::set_handled(&entered);
        if let Some(spent) = spent {
            self.counts.spend(start, &spent);
        }
        self.counts.breaks.borrow_mut().append(&mut vm.breaks);
        self.counts.reads.borrow_mut().append(&mut vm.reads);
        if let Some(why) = vm.gave_up.take() {
            let name = crate::source::short(&self.function);
            self.backend.warn(&format!("oxytorch: {name} runs as it is: {why}"))?;
        }
        if result.as_ref().is_ok_and(|result| result.as_ref().is_err_and(|error| error.is_instance_of::<InternalError>(py()))) {
            // The next graph would fail, too: from here on later calls run as they are.
            vm.attach.branches(&vm.tree).full.set(true);
        }
        if let Some(late) = take_late() {
            return Err(late);
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
    pub(super) fn close(&self, vm: &mut Vm, result: PyResult<Val>) -> PyResult<Obj> {
        let Some(mut rec) = vm.rec.take() else { return result.and_then(|value| Escape::new(&|_| true).outside(&value.obj)) };
        let is_program_s = |error: &PyErr| !is_interrupt(error) && !error.is_instance_of::<PyMemoryError>(py());
        // What the program raised itself, or what an action raised.
        let is_known = |error: &PyErr| {
            let value: Obj = error.value(py()).clone().into();
            rec.raised.contains(&value.id()) || matches!(rec.origin(&value), Origin::Outside(_))
        };
        let is_foreign = result.as_ref().is_err_and(|error| !is_program_s(error) && !is_known(error));
        if vm.fatal || rec.contradicted || is_foreign {
            // An interrupt is no part of the function: the next call is traced anew.
            rec.interrupted()?;
            return result.and_then(|value| Escape::new(&|_| true).outside(&value.obj));
        }
        let (value, error) = match result {
            Ok(value) => (value, None),
            Err(error) => {
                let value = exception_of(&error);
                rec.made_exception(&value);
                (value.into(), Some(error))
            }
        };
        let graph = vm.compute(&mut rec)?;
        vm.keep_told();
        vm.forget_suspended();
        if let Some(error) = rec.broken_mark() {
            return Err(PyValueError::new_err(error));
        }
        self.counts.graphs.set(self.counts.graphs.get() + usize::from(graph.is_some()));
        let is_made = |object: &Obj| matches!(rec.origin(object), Origin::Made | Origin::Unknown);
        let mut escape = Escape::new(&is_made);
        let returned = escape.outside(&value.obj)?;
        let Escape { calls, tuples, stuck, .. } = escape;
        let value = if returned.is(&value.obj) { value } else { returned.clone().into() };
        let escapes = !calls.is_empty();
        calls.into_iter().for_each(|call| rec.made_by(call));
        tuples.iter().for_each(|tuple| rec.register(tuple, Origin::Made));
        if let Some(why) = stuck.map(String::from) {
            vm.gave_up = Some(why.clone());
            vm.attach_segment(rec.gave_up(why));
        } else if let Some(why) = rec.tainted.clone() {
            vm.attach_segment(rec.gave_up(why));
        } else {
            self.keep(vm, &mut rec, graph, &value, error.is_some(), escapes);
        }
        match error {
            Some(error) => Err(error),
            None => Ok(returned),
        }
    }

    /// `escapes`: the value holds iterators that may hold the machine's.
    pub(super) fn keep(
        &self,
        vm: &mut Vm,
        rec: &mut Recording,
        graph: Option<crate::tree::GraphCall>,
        value: &Val,
        raised: bool,
        escapes: bool,
    ) {
        let mut found = Inspection::default();
        let recipes = |rec: &mut Recording, found: &mut Inspection| -> Rec<_> {
            let (value, effects) = (rec.recipe(value, found)?, rec.effects(found)?);
            rec.inspect_machines(found)?;
            vm.told.iter().try_for_each(|object| rec.recipe_of(object, found).map(drop))?;
            Ok((value, effects))
        };
        let segment = match recipes(rec, &mut found) {
            Ok(_) if !escapes && found.builds.iter().any(Build::is_new_iterator) => {
                let why = "an iterator is kept by somebody else".to_string();
                vm.gave_up = Some(why.clone());
                rec.gave_up(why)
            }
            Ok((recipe, effects)) => {
                // What was not made here has the lines that were noted.
                let lines = if matches!(recipe, Recipe::Source(_)) { Vec::new() } else { lines_of(&value.obj) };
                let end = if raised { End::Raise(recipe, lines) } else { End::Return(recipe) };
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
        true => PyRuntimeError::new_err(message(&error)),
        false => error,
    }
}

/// Calling it runs nothing of it yet.
fn makes_generator(function: &Obj) -> bool {
    const GENERATOR_COROUTINE_OR_BOTH: u32 = 0x20 | 0x80 | 0x200;
    let flags = function.attr("__code__").and_then(|code| code.attr("co_flags"));
    flags.quiet().is_some_and(|flags| flags.bind().extract::<u32>().quiet().is_some_and(|f| f & GENERATOR_COROUTINE_OR_BOTH != 0))
}

/// With what people call them.
fn named_arguments(args: &[Obj], kwargs: Option<&Obj>) -> Vec<(String, Obj)> {
    let positional = args.iter().enumerate().map(|(n, arg)| (format!("argument {n}"), arg.clone()));
    let named = kwargs.map(entries_of).unwrap_or_default().into_iter().map(|(name, arg)| (name.to_string(), arg));
    positional.chain(named).collect()
}

/// What every trace relies on, and the arguments with their sources.
fn begin(rec: &mut Recording, args: &[Obj], kwargs: Option<&Obj>) -> Args {
    let named = kwargs.map(entries_of).unwrap_or_default();
    rec.checks.push(Check::Call(args.len(), named.iter().map(|(name, _)| name.clone()).collect()));
    rec.checks.push(Check::State(rec.state.clone().into()));
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
