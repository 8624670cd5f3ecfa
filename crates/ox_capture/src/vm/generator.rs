//! Generators whose frames the machine runs.

use super::abandoned::{awaited, is_inside};
use super::exception::exception_of;
use super::seen::seen_class;
use super::{After, Args, Called, Flow, Frame, R, Vm};
use crate::obj::{Obj, entries_of, items_of, py};
use crate::record::{Origin, Val};
use crate::source::cell_contents;
use crate::types::types;
use pyo3::exceptions::{PyAttributeError, PyGeneratorExit, PyRuntimeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};

/// A suspended frame. None while it runs and when it is done.
#[pyclass(weakref, module = "oxytorch")]
pub struct VmGenerator {
    frame: RefCell<Option<Box<Frame>>>,
    /// What made it, for people.
    function: RefCell<Option<Obj>>,
    started: Cell<bool>,
    running: Cell<bool>,
    /// By somebody who does not record (`moving`).
    pub moved: Cell<bool>,
    /// Nothing is done any more when it goes: it was closed then, or what it did never happened.
    spent: Cell<bool>,
}

// SAFETY: only attached threads get here, one at a time, and no borrow is held while Python code runs.
unsafe impl Send for VmGenerator {}
unsafe impl Sync for VmGenerator {}

impl Drop for VmGenerator {
    /// The last who held it has let go: it is closed, as CPython closes it, by one that lives as long as that takes.
    fn drop(&mut self) {
        let inside = self.started.get() && !self.spent.get() && self.frame.get_mut().as_deref().is_some_and(is_inside);
        let Some(frame) = self.frame.get_mut().take().filter(|_| inside) else { return };
        let pending = PyErr::take(py());
        let last = VmGenerator::of(Some(frame));
        last.started.set(true);
        last.spent.set(true);
        if let Ok(last) = Bound::new(py(), last)
            && let Err(error) = Vm::plain().generator_method(&last, "close", Args::default())
        {
            error.write_unraisable(py(), Some(last.as_any()));
        }
        if let Some(pending) = pending {
            pending.restore(py());
        }
    }
}

/// What a generator is at one moment.
#[derive(Clone, Debug)]
pub struct State {
    started: bool,
    running: bool,
    spent: bool,
}

#[pymethods]
impl VmGenerator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(this: Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let mut vm = Vm::plain();
        // SAFETY: the thread is attached as long as this call runs.
        let this = unsafe { forever(this) };
        Ok(vm.resume_now(&this, Obj::none().into())?.map(|v| v.obj.bind().clone().unbind()))
    }

    fn send(this: Bound<'_, Self>, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let mut vm = Vm::plain();
        // SAFETY: as above.
        let this = unsafe { forever(this) };
        let args = Args::positional(vec![Obj::from(value).into()]);
        vm.generator_method(&this, "send", args).map(|v| v.obj.bind().clone().unbind())
    }

    #[pyo3(signature = (*args))]
    fn throw(this: Bound<'_, Self>, args: Bound<'_, pyo3::types::PyTuple>) -> PyResult<Py<PyAny>> {
        let mut vm = Vm::plain();
        // SAFETY: as above.
        let this = unsafe { forever(this) };
        let args = Args::positional(args.iter().map(|a| Obj::from(a).into()).collect());
        vm.generator_method(&this, "throw", args).map(|v| v.obj.bind().clone().unbind())
    }

    fn close(this: Bound<'_, Self>) -> PyResult<()> {
        let mut vm = Vm::plain();
        // SAFETY: as above.
        let this = unsafe { forever(this) };
        vm.generator_method(&this, "close", Args::default()).map(drop)
    }

    /// For C code that asks whether it is a generator.
    #[getter]
    fn __class__(this: Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        seen_class(&Obj::from(this)).map(|class| class.bind().clone().unbind())
    }

    #[getter]
    fn gi_running(&self) -> bool {
        self.running.get()
    }

    #[getter]
    fn gi_suspended(&self) -> bool {
        self.started.get() && !self.running.get() && self.frame.borrow().is_some()
    }

    #[getter]
    fn gi_yieldfrom(&self) -> Option<Py<PyAny>> {
        self.with_frame(|frame| frame.and_then(awaited)).map(|inner| inner.bind().clone().unbind())
    }

    #[getter]
    fn gi_code(&self) -> PyResult<Py<PyAny>> {
        self.of_function("__code__")
    }

    #[getter]
    fn __name__(&self) -> PyResult<Py<PyAny>> {
        self.of_function("__name__")
    }

    #[getter]
    fn __qualname__(&self) -> PyResult<Py<PyAny>> {
        self.of_function("__qualname__")
    }
}

impl VmGenerator {
    fn of_function(&self, name: &'static str) -> PyResult<Py<PyAny>> {
        let function = self.function.borrow().clone();
        let function = function.ok_or_else(|| PyAttributeError::new_err(name))?;
        Ok(function.attr(name)?.bind().clone().unbind())
    }
}

/// # Safety
/// The result must not outlive the attachment of the thread.
unsafe fn forever<T>(bound: Bound<'_, T>) -> Bound<'static, T> {
    // SAFETY: only the lifetime changes.
    unsafe { std::mem::transmute(bound) }
}

/// A function, its positional arguments and its named ones.
type Call = (Obj, Vec<Obj>, Vec<(Obj, Obj)>);

impl VmGenerator {
    pub fn empty() -> VmGenerator {
        VmGenerator::of(None)
    }

    fn of(frame: Option<Box<Frame>>) -> VmGenerator {
        let no = || Cell::new(false);
        let function = frame.as_ref().map(|frame| frame.function.clone());
        let (frame, function) = (RefCell::new(frame), RefCell::new(function));
        VmGenerator { frame, function, started: no(), running: no(), moved: no(), spent: no() }
    }

    /// The function of which it is a call.
    pub fn made_by(&self) -> Option<Obj> {
        self.function.borrow().clone()
    }

    pub fn state(&self) -> State {
        State { started: self.started.get(), running: self.running.get(), spent: self.spent.get() }
    }

    pub fn set(&self, frame: Option<Frame>, state: &State) {
        if let Some(frame) = &frame {
            self.function.replace(Some(frame.function.clone()));
        }
        self.frame.replace(frame.map(Box::new));
        self.started.set(state.started);
        self.running.set(state.running);
        self.spent.set(state.spent);
    }

    /// Nothing is done any more when it goes.
    pub fn spend(&self) {
        self.spent.set(true);
    }

    /// Whether something is done when it goes.
    pub fn is_live(object: &Obj) -> bool {
        object.bind().cast::<VmGenerator>().is_ok_and(|generator| {
            let generator = generator.borrow();
            generator.started.get() && !generator.spent.get()
        })
    }

    pub fn mark_spent(object: &Obj, spent: bool) {
        if let Ok(generator) = object.bind().cast::<VmGenerator>() {
            generator.borrow().spent.set(spent);
        }
    }

    /// Looks at the suspended frame.
    pub fn with_frame<T>(&self, look: impl FnOnce(Option<&Frame>) -> T) -> T {
        look(self.frame.borrow().as_deref())
    }

    /// The call that made it. None if it has begun.
    pub fn call(&self) -> Option<Call> {
        if self.started.get() {
            return None;
        }
        let frame = self.frame.borrow();
        let frame = frame.as_ref()?;
        let code = &frame.code.code;
        let value = |n: usize| -> Option<Obj> {
            let local = frame.locals[n].as_ref()?.obj.clone();
            // A variable that inner functions see stands in a cell by now.
            let in_cell = code.variables[n].kind != ox_bytecode::VariableKind::Local && local.class_is(types().cell);
            if in_cell { cell_contents(&local) } else { Some(local) }
        };
        let (positional, named) = (code.arguments.positional as usize, code.arguments.keyword_only as usize);
        let mut args = (0..positional).map(value).collect::<Option<Vec<Obj>>>()?;
        let mut keywords = Vec::new();
        for n in positional..positional + named {
            keywords.push((Obj::str(&code.variables[n].name), value(n)?));
        }
        let mut next = positional + named;
        if code.has_varargs() {
            args.extend(items_of(&value(next)?));
            next += 1;
        }
        if code.has_varkeywords() {
            keywords.extend(entries_of(&value(next)?));
        }
        Some((frame.function.clone(), args, keywords))
    }
}

impl Vm {
    /// The frame becomes a generator, which its caller gets: an empty frame returns it.
    pub fn return_generator(&mut self) -> R<Flow> {
        let running = self.frame();
        let empty = Frame {
            code: running.code.clone(),
            function: running.function.clone(),
            globals: running.globals.clone(),
            builtins: running.builtins.clone(),
            locals: Vec::new(),
            stack: Vec::new(),
            pc: running.pc,
            after: std::mem::replace(&mut running.after, After::Push),
            generator: None,
            handled: Default::default(),
            scope: None,
        };
        let frame = std::mem::replace(running, empty);
        let generator: Obj = Bound::new(py(), VmGenerator::of(Some(Box::new(frame))))?.into();
        if let Some(rec) = &mut self.rec {
            rec.register(&generator, Origin::Made);
        }
        Ok(Flow::Return(generator.into()))
    }

    /// Pushes the generator's frame with the value that is sent. False if it is done.
    pub fn resume(&mut self, generator: &Bound<'static, VmGenerator>, value: Val, after: After) -> R<bool> {
        if generator.borrow().running.get() {
            return Err(PyValueError::new_err("generator already executing"));
        }
        self.moves_on(&Obj::from(generator))?;
        let cell = generator.borrow();
        let Some(mut frame) = cell.frame.borrow_mut().take() else { return Ok(false) };
        cell.running.set(true);
        cell.started.set(true);
        frame.stack.push(Some(value));
        frame.after = after;
        frame.generator = Some(Obj::from(generator));
        drop(cell);
        self.enter_handled(&mut frame);
        self.frames.push(*frame);
        Ok(true)
    }

    /// Runs the generator to its next value.
    pub fn resume_now(&mut self, generator: &Bound<'static, VmGenerator>, value: Val) -> R<Option<Val>> {
        match self.drive(generator, value, None) {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ok(Ok(yielded)), Ok(Err(returned)).
    fn drive(&mut self, generator: &Bound<'static, VmGenerator>, value: Val, thrown: Option<PyErr>) -> R<Result<Val, Val>> {
        if !self.resume(generator, value, After::Hand)? {
            return match thrown {
                Some(error) => Err(error),
                None => Ok(Err(Obj::none().into())),
            };
        }
        let base = self.frames.len() - 1;
        self.waiting += 1;
        let result = match thrown {
            Some(error) => match self.raise_in_generator(base, error) {
                Ok(Some(value)) => Ok(value),
                Ok(None) => self.run(base),
                Err(error) => Err(error),
            },
            None => self.run(base),
        };
        self.waiting -= 1;
        let suspended = generator.borrow().frame.borrow().is_some();
        result.map(|value| if suspended { Ok(value) } else { Err(value) })
    }

    /// What a generator waits for in a `yield from`, which gets what is thrown into it; unless it is thrown at this very place.
    fn awaited_for(&mut self, generator: &Bound<'static, VmGenerator>, rest: &[Val]) -> R<Option<Val>> {
        let here = super::library::function("HERE")?;
        if rest.iter().any(|value| value.obj.is(&here)) {
            return Ok(None);
        }
        Ok(generator.borrow().with_frame(|frame| frame.and_then(awaited)).map(Val::from))
    }

    /// The exception that is thrown, which may be made for that.
    fn exception_to_throw(&mut self, first: &Val, rest: &[Val]) -> R<Val> {
        let exception = exception_of(&thrown(first, rest)?);
        if exception.is(&first.obj) {
            return Ok(first.clone());
        }
        if let Some(rec) = &mut self.rec {
            rec.made_exception(&exception);
        }
        Ok(exception.into())
    }

    fn raise_in_generator(&mut self, base: usize, error: PyErr) -> R<Option<Val>> {
        self.chain_thrown(&error)?;
        self.unwind(base, error)
    }

    /// The running frame, a generator's, gives out a value.
    pub fn suspend(&mut self, base: usize, value: Val) -> R<Option<Val>> {
        let mut frame = self.frames.pop().expect("a frame is running");
        let after = std::mem::replace(&mut frame.after, After::Push);
        self.leave_handled(&mut frame);
        let generator = frame.generator.take().expect("only generators yield");
        let bound = generator.bind().cast::<VmGenerator>().map_err(PyErr::from)?.clone();
        self.runs(&generator);
        if self.rec.is_some() {
            self.suspended.note(&generator, &frame);
        }
        bound.borrow().frame.replace(Some(Box::new(frame)));
        bound.borrow().running.set(false);
        match after {
            After::Hand => return Ok(Some(value)),
            _ if self.frames.len() == base => return Ok(Some(value)),
            // The iterator stays on the caller's stack, the value comes above it.
            _ => self.push(value),
        }
        Ok(None)
    }

    /// A generator's frame is left for good.
    pub fn finished(&mut self, frame: &mut Frame) {
        if let Some(generator) = frame.generator.clone()
            && let Ok(bound) = generator.bind().cast::<VmGenerator>()
        {
            self.leave_handled(frame);
            self.runs(&generator);
            bound.borrow().running.set(false);
            self.suspended.forget(&generator);
        }
    }

    /// `[receiver, value] → [receiver, yielded]`, or at its end `[returned]` and a jump.
    pub fn send(&mut self, label: usize) -> R<Flow> {
        let value = self.pop();
        let receiver = self.frame().stack.last().cloned().flatten().expect("a receiver");
        if let Ok(generator) = receiver.obj.bind().cast::<VmGenerator>() {
            let generator = generator.clone();
            if !self.resume(&generator, value, After::Send(label))? {
                self.pop_slot();
                self.push(Obj::none());
                self.frame().pc = label;
            }
            return Ok(Flow::Next);
        }
        let next = match value.obj.is_none() {
            true => self.next_or_returned(&receiver),
            false => {
                self.give_up("a value is sent to an iterator");
                let sent = receiver.obj.bind().call_method1("send", (value.obj.bind(),));
                sent.map(|v| Ok(Obj::from(v).into())).or_else(stop_value)
            }
        };
        match next? {
            Ok(value) => self.push(value),
            Err(returned) => {
                self.pop_slot();
                self.push(returned);
                self.frame().pc = label;
            }
        }
        Ok(Flow::Next)
    }

    fn next_or_returned(&mut self, receiver: &Val) -> R<Result<Val, Val>> {
        // What the end of an iterator of the program's says is the value of the `yield from`.
        if let Some(method) = self.python_method(&receiver.obj, "__next__") {
            return self.call_now(&method, Args::positional(vec![receiver.clone()])).map(Ok).or_else(stop_value);
        }
        match self.next_of(receiver) {
            Ok(Some(value)) => Ok(Ok(value)),
            Ok(None) => Ok(Err(Obj::none().into())),
            Err(error) => stop_value(error),
        }
    }

    pub fn call_generator(&mut self, generator: &Val, name: &Obj, args: Args) -> R<Called> {
        let bound = generator.obj.bind().cast::<VmGenerator>().map_err(PyErr::from)?.clone();
        let name = name.to_str().unwrap_or_default();
        if self.rec.is_none() || self.waiting > 0 {
            return self.generator_method(&bound, &name, args).map(Called::Value);
        }
        let started = bound.borrow().started.get();
        match (name.as_str(), &args.positional[..]) {
            ("__next__", []) => self.enter(&bound, Obj::none().into(), None),
            ("send", [value]) if started || value.obj.is_none() => self.enter(&bound, value.clone(), None),
            ("throw", [first, rest @ ..]) => match self.awaited_for(&bound, rest)? {
                Some(inner) => {
                    let error = self.exception_to_throw(first, rest)?;
                    self.call_library("throw_into", vec![generator.clone(), inner, error])
                }
                None => {
                    let error = thrown(first, rest)?;
                    self.enter(&bound, Obj::none().into(), Some(error))
                }
            },
            ("close", []) if started => self.call_library("close", vec![generator.clone()]),
            _ => self.generator_method(&bound, &name, args).map(Called::Value),
        }
    }

    /// The generator's frame runs next; what it yields is the value of the call.
    fn enter(&mut self, generator: &Bound<'static, VmGenerator>, value: Val, thrown: Option<PyErr>) -> R<Called> {
        match (self.resume(generator, value, After::Next)?, thrown) {
            // Raised where the frame stands, which is the innermost now.
            (true, Some(error)) => {
                self.chain_thrown(&error)?;
                Err(error)
            }
            (false, Some(error)) => Err(error),
            (true, None) => Ok(Called::Pushed),
            (false, None) => Err(PyStopIteration::new_err(())),
        }
    }

    pub(super) fn generator_method(&mut self, generator: &Bound<'static, VmGenerator>, name: &str, args: Args) -> R<Val> {
        let none: Val = Obj::none().into();
        let result = match (name, &args.positional[..]) {
            ("__next__", []) => self.drive(generator, none, None)?,
            ("send", [value]) => {
                if !generator.borrow().started.get() && !value.obj.is_none() {
                    return Err(PyTypeError::new_err("can't send non-None value to a just-started generator"));
                }
                self.drive(generator, value.clone(), None)?
            }
            ("throw", [first, rest @ ..]) => {
                if let Some(inner) = self.awaited_for(generator, rest)? {
                    let error = self.exception_to_throw(first, rest)?;
                    let this: Val = Obj::from(generator).into();
                    return self.now(|vm| vm.call_library("throw_into", vec![this, inner, error]));
                }
                let error = thrown(first, rest)?;
                self.drive(generator, none, Some(error))?
            }
            ("close", []) => {
                if !generator.borrow().started.get() {
                    self.moves_on(&Obj::from(generator))?;
                    let frame = generator.borrow().frame.borrow_mut().take();
                    drop(frame);
                    return Ok(none);
                }
                let closed = match self.awaited_for(generator, &[])? {
                    Some(inner) => self.now(|vm| vm.call_library("close_awaited", vec![inner])).map(drop),
                    None => Ok(()),
                };
                let error = closed.err().unwrap_or_else(|| PyGeneratorExit::new_err(()));
                return match self.drive(generator, none.clone(), Some(error)) {
                    Ok(Ok(_)) => Err(PyRuntimeError::new_err("generator ignored GeneratorExit")),
                    Ok(Err(_)) => Ok(none),
                    Err(error) if error.is_instance_of::<PyGeneratorExit>(py()) => Ok(none),
                    Err(error) if error.is_instance_of::<PyStopIteration>(py()) => Ok(none),
                    Err(error) => Err(error),
                };
            }
            ("__iter__", []) => return Ok(Obj::from(generator).into()),
            _ => return Err(PyTypeError::new_err(format!("the generator's method {name}"))),
        };
        result.map_err(|returned| stop_iteration(&returned.obj))
    }
}

/// The end of a generator that returned a value.
pub fn stop_iteration(value: &Obj) -> PyErr {
    match value.is_none() {
        true => PyStopIteration::new_err(()),
        // In a tuple of its own: a tuple would be taken for the arguments.
        false => PyStopIteration::new_err((value.bind().clone().unbind(),)),
    }
}

/// The value of a StopIteration; other exceptions stay.
fn stop_value(error: PyErr) -> R<Result<Val, Val>> {
    if !error.is_instance_of::<PyStopIteration>(py()) {
        return Err(error);
    }
    let value: Obj = error.value(py()).getattr("value")?.into();
    Ok(Err(value.into()))
}

/// `throw(exception)` and `throw(type, value, traceback)`
fn thrown(first: &Val, rest: &[Val]) -> R<PyErr> {
    let is_class = first.obj.is_instance_of(crate::types::types().type_);
    let given = rest.first().filter(|v| !v.obj.is_none());
    let exception = match (is_class, given) {
        (false, _) => first.obj.clone(),
        (true, Some(value)) if value.obj.is_instance_of(first.obj.ptr().cast()) => value.obj.clone(),
        (true, Some(value)) => first.obj.call(std::slice::from_ref(&value.obj), None)?,
        (true, None) => first.obj.call(&[], None)?,
    };
    Ok(PyErr::from_value(exception.bind().clone()))
}
