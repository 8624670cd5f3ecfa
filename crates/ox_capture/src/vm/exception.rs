//! Exceptions and context managers.

use super::{Args, Called, Flow, R, Vm};
use crate::attr::type_lookup;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::record::{MadeBy, Origin, Val};
use crate::types::types;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CString, c_char, c_int};

unsafe extern "C" {
    /// Adds a line to the traceback of the pending exception.
    fn _PyTraceback_Add(function: *const c_char, file: *const c_char, line: c_int);
}

/// The exception that is being handled (`sys.exception()`), or None.
pub fn handled() -> Obj {
    // SAFETY: a new reference, or null for none.
    unsafe { Obj::owned_opt(ffi::PyErr_GetHandledException()) }.unwrap_or_else(Obj::none)
}

pub fn set_handled(exception: &Obj) {
    let ptr = if exception.is_none() { std::ptr::null_mut() } else { exception.ptr() };
    // SAFETY: an exception or null; the reference is not taken over.
    unsafe { ffi::PyErr_SetHandledException(ptr) };
}

fn value_of(error: PyErr) -> Obj {
    error.into_value(py()).into()
}

/// The exception itself, with its traceback: before 3.12 that lies beside it until somebody catches it.
pub fn exception_of(error: &PyErr) -> Obj {
    let value: Obj = error.value(py()).clone().into();
    // Nothing but a traceback or None is set.
    drop(value.bind().setattr("__traceback__", error.traceback(py())));
    value
}

impl Vm {
    /// Looks for the handler of an exception, frame by frame. The exception itself if nobody up to `base` has one.
    pub fn unwind(&mut self, base: usize, error: PyErr) -> R<Option<Val>> {
        let mut error = error;
        loop {
            let frame = self.frames.last_mut().expect("a frame is running");
            let at = frame.pc.saturating_sub(1);
            if !self.reraising && !frame.code.hidden {
                error = with_line(error, &frame.code, at);
                let line = || (frame.code.name.clone(), frame.code.file.clone(), frame.code.line(at));
                if let Some(rec) = &mut self.rec {
                    rec.note_line(&error.value(py()).clone().into(), line);
                }
            }
            self.reraising = false;
            let handler = if self.fatal { None } else { frame.code.code.handler(at).copied() };
            if let Some(handler) = handler {
                frame.stack.truncate(handler.depth as usize);
                if handler.push_index {
                    frame.stack.push(Some(Obj::int(at as i64).into()));
                }
                frame.pc = handler.target.index();
                let exception = value_of(error);
                if let Some(rec) = &mut self.rec {
                    rec.made_exception(&exception);
                }
                self.push(exception);
                return Ok(None);
            }
            // From 3.12 on an instruction of its own is there for that.
            if self.frame().generator.is_some() && self.ends_iterator(&error.value(py()).clone().into()) {
                return self.leave(base, Obj::none().into());
            }
            let mut frame = self.frames.pop().expect("a frame is running");
            self.finished(&mut frame);
            if frame.generator.is_some() && error.is_instance_of::<PyStopIteration>(py()) {
                error = generator_raised(error);
            }
            self.leave_by_exception(&frame, &error);
            if matches!(frame.after, super::After::Hand) || self.frames.len() <= base {
                return Err(error);
            }
        }
    }

    pub fn check_exc_match(&mut self) -> R<()> {
        let class = self.pop();
        let exception = self.frame().stack.last().cloned().flatten().expect("an exception");
        let classes = match class.obj.class_is(types().tuple) {
            true => items_of(&class.obj),
            false => vec![class.obj.clone()],
        };
        // SAFETY: the type lives for ever.
        let base = unsafe { Obj::borrowed(types().base_exception.cast()) };
        for class in &classes {
            let is_exception = class.is_instance_of(types().type_) && crate::recipe::is_subtype(class, base.ptr().cast());
            if !is_exception {
                let text = "catching classes that do not inherit from BaseException is not allowed";
                return Err(PyTypeError::new_err(text));
            }
        }
        let matches = classes.iter().any(|class| exception.obj.is_instance_of(class.ptr().cast()));
        self.push(Obj::bool(matches));
        Ok(())
    }

    /// `except*`: what of the exception is of the class, and what is left.
    pub fn check_group_match(&mut self) -> R<()> {
        let (class, exception) = (self.pop(), self.pop());
        let pair = super::library::function("group_match")?.call(&[exception.obj, class.obj], None)?;
        let [rest, found] = &items_of(&pair)[..] else { return Err(PyRuntimeError::new_err("oxytorch: a group without parts")) };
        for part in [rest, found] {
            self.made_group(part);
            self.push(part.clone());
        }
        if !found.is_none() {
            self.handle(found.clone());
        }
        Ok(())
    }

    /// An exception that C made, with those in it.
    pub fn made_group(&mut self, exception: &Obj) {
        let Some(rec) = self.rec.as_mut().filter(|_| !exception.is_none()) else { return };
        rec.made_exception(exception);
        if let Some(args) = exception.attr("args").quiet() {
            rec.made(&args);
        }
        if exception.is_instance_of(types().exception_group) {
            let inner = exception.attr("exceptions").map(|inner| items_of(&inner)).quiet().unwrap_or_default();
            inner.iter().for_each(|exception| self.made_group(exception));
        }
    }

    pub fn raise(&mut self, n: usize) -> R<Flow> {
        if n == 0 {
            let current = handled();
            if current.is_none() {
                return Err(PyRuntimeError::new_err("No active exception to reraise"));
            }
            self.reraising = true;
            return Err(PyErr::from_value(current.bind().clone()));
        }
        let cause = if n == 2 { Some(self.pop()) } else { None };
        let raised = self.pop();
        let exception = self.exception_of(&raised, "exceptions")?;
        if let Some(rec) = &mut self.rec {
            rec.raised.insert(exception.obj.id());
        }
        if let Some(cause) = cause {
            let cause = if cause.obj.is_none() { cause } else { self.exception_of(&cause, "exception causes")? };
            exception.obj.bind().setattr("__cause__", cause.obj.bind())?;
        }
        super::handled::chain(&exception.obj)?;
        Err(PyErr::from_value(exception.obj.bind().clone()))
    }

    /// An exception, or a class of which one is made.
    fn exception_of(&mut self, value: &Val, what: &str) -> R<Val> {
        let base = types().base_exception;
        if value.obj.is_instance_of(types().type_) && crate::recipe::is_subtype(&value.obj, base) {
            return self.call_now(value, Args::default());
        }
        if value.obj.is_instance_of(base) {
            return Ok(value.clone());
        }
        Err(PyTypeError::new_err(format!("{what} must derive from BaseException")))
    }

    pub fn reraise(&mut self, n: usize) -> R<Flow> {
        let exception = self.pop();
        if n > 0 {
            let stack = &self.frame().stack;
            let index = stack[stack.len() - n].clone().expect("an index");
            if let Some(index) = index.obj.bind().extract::<usize>().quiet() {
                // The handler of the place where it was first raised has been left already: only the line is taken from there.
                let _ = index;
            }
        }
        self.reraising = true;
        Err(PyErr::from_value(exception.obj.bind().clone()))
    }

    /// Whether the running frame stands for an iterator of C's, and the exception says that there is no more.
    pub fn ends_iterator(&mut self, exception: &Obj) -> bool {
        let function = self.frame().function.clone();
        let stop = py().get_type::<PyStopIteration>();
        exception.is_instance_of(stop.as_type_ptr()) && super::library::native_of(&function).is_some()
    }

    pub fn stop_iteration_error(&mut self, exception: &Obj) -> R<Obj> {
        let stop = py().get_type::<PyStopIteration>();
        if !exception.is_instance_of(stop.as_type_ptr()) {
            return Ok(exception.clone());
        }
        let error = generator_raised(PyErr::from_value(exception.bind().clone()));
        Ok(value_of(error))
    }

    pub fn cleanup_throw(&mut self) -> R<()> {
        let exception = self.pop();
        self.pop_slot();
        self.pop_slot();
        let stop = py().get_type::<PyStopIteration>();
        if !exception.obj.is_instance_of(stop.as_type_ptr()) {
            self.reraising = true;
            return Err(PyErr::from_value(exception.obj.bind().clone()));
        }
        let value = exception.obj.attr("value")?;
        self.push(value);
        Ok(())
    }

    /// Whether this part of the call has made the exception, or left lines in its traceback: that is there when the checks have been made.
    pub fn has_traceback_of_ours(&self, exception: &Obj) -> bool {
        self.is_ours(exception) || self.rec.as_ref().is_some_and(|rec| rec.has_lines(exception))
    }

    /// Later calls find it where it is found now: at the exception.
    pub fn traceback_of(&mut self, exception: &Obj) -> R<Val> {
        let traceback = exception.attr("__traceback__")?;
        let getattr = self.builtin("getattr")?;
        if let Some(rec) = self.rec.as_mut().filter(|rec| rec.origin(&traceback) == Origin::Unknown) {
            let args = vec![exception.clone(), Obj::str("__traceback__")];
            rec.made_by(MadeBy { object: traceback.clone(), by: getattr, args, names: vec![], state: None });
        }
        Ok(traceback.into())
    }

    /// `sys.exception()`. None where the caller handles one: later callers handle another, or none.
    pub fn handled_exception(&mut self) -> Option<Val> {
        let handled = handled();
        if !handled.is_none() {
            return (!handled.is(&self.entered)).then(|| handled.into());
        }
        let function = Obj::from(py().import("sys").quiet()?.getattr("exception").quiet()?);
        if let Some(rec) = &mut self.rec {
            rec.rely_on_state(&function, &[], &Obj::none());
        }
        Some(Obj::none().into())
    }

    /// `sys.exc_info()`
    pub fn exception_info(&mut self) -> R<Option<Called>> {
        let Some(exception) = self.handled_exception() else { return Ok(None) };
        if exception.obj.is_none() {
            let parts = vec![exception; 3];
            return Ok(Some(Called::Value(self.tuple(parts)?)));
        }
        let class = self.pinned(exception.obj.class());
        let traceback = self.traceback_of(&exception.obj)?;
        Ok(Some(Called::Value(self.tuple(vec![class, exception, traceback])?)))
    }

    // Context managers.

    fn special(&mut self, object: &Val, name: &str) -> R<Val> {
        let class = object.obj.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        if type_lookup(&class, &Obj::str(name)).is_none() {
            // SAFETY: a live type's name, as CPython writes it.
            let class = unsafe { std::ffi::CStr::from_ptr((*object.obj.class_ptr()).tp_name) }.to_string_lossy();
            let missed = if name == "__exit__" { " (missed __exit__ method)" } else { "" };
            let text = format!("'{class}' object does not support the context manager protocol{missed}");
            return Err(PyTypeError::new_err(text));
        }
        self.now(|vm| vm.load_attr(object, &Obj::str(name)))
    }

    pub fn before_with(&mut self) -> R<Flow> {
        let manager = self.pop();
        let enter = self.special(&manager, "__enter__")?;
        let exit = self.special(&manager, "__exit__")?;
        self.push(exit);
        let called = self.call(&enter, Args::default())?;
        self.take(called)
    }

    pub fn with_except_start(&mut self) -> R<Flow> {
        let stack = &self.frame().stack;
        let top = stack.len();
        let (exit, exception) = (stack[top - 4].clone().expect("exit"), stack[top - 1].clone().expect("an exception"));
        let traceback = self.traceback_of(&exception.obj)?;
        let class = self.pinned(exception.obj.class());
        let called = self.call(&exit, Args::positional(vec![class, exception, traceback]))?;
        self.take(called)
    }
}

fn generator_raised(error: PyErr) -> PyErr {
    let cause = error.clone_ref(py());
    let raised = PyRuntimeError::new_err("generator raised StopIteration");
    let _ = raised.value(py()).setattr("__context__", cause.value(py()));
    raised.set_cause(py(), Some(cause));
    raised
}

/// The exception with the user's line in its traceback.
fn with_line(error: PyErr, code: &super::CodeInfo, at: usize) -> PyErr {
    at_line(error, &code.name, &code.file, code.line(at))
}

/// The exception with a line more in its traceback.
pub fn at_line(error: PyErr, function: &str, file: &str, line: u32) -> PyErr {
    let (Ok(function), Ok(file)) = (CString::new(function), CString::new(file)) else { return error };
    error.restore(py());
    // SAFETY: an exception is pending; two C strings.
    unsafe { _PyTraceback_Add(function.as_ptr(), file.as_ptr(), line as c_int) };
    PyErr::fetch(py())
}

/// A line of a traceback: function, file, line.
pub type Line = (String, String, u32);

/// The lines of an exception's traceback, outermost first.
pub fn lines_of(exception: &Obj) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut next = exception.attr("__traceback__").quiet().unwrap_or_else(Obj::none);
    while !next.is_none() {
        let line = || -> PyResult<Line> {
            let code = next.attr("tb_frame")?.attr("f_code")?;
            let text = |name: &str| -> PyResult<String> { code.attr(name)?.bind().extract() };
            Ok((text("co_name")?, text("co_filename")?, next.attr("tb_lineno")?.bind().extract()?))
        };
        lines.extend(line());
        let Some(inner) = next.attr("tb_next").quiet() else { break };
        next = inner;
    }
    lines
}

/// The exception with these lines in its traceback. What raised it may have left the innermost of them there already.
pub fn with_lines(exception: &Obj, lines: &[Line]) -> PyErr {
    let missing = lines.len().saturating_sub(lines_of(exception).len());
    let error = PyErr::from_value(exception.bind().clone());
    lines[..missing].iter().rev().fold(error, |error, (function, file, line)| at_line(error, function, file, *line))
}
