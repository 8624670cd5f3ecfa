//! Functions that look at the frame that calls them: the machine's, of which CPython knows nothing.

use super::{Args, Called, Frame, R, Vm, library};
use crate::builtins::{self, FrameFunction};
use crate::interrupt::Quiet;
use crate::obj::{Obj, py, tuple_of};
use crate::record::{Origin, Val};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCFunction, PyDict};

impl Vm {
    /// None for all other functions.
    pub(super) fn call_frame_function(&mut self, callable: &Val, args: &Args) -> R<Option<Called>> {
        if self.frames.is_empty() || !args.keywords.is_empty() {
            return Ok(None);
        }
        let known = builtins::frame_function(&callable.obj);
        if known == Some(FrameFunction::Evaluate) {
            return self.evaluate(callable, args);
        }
        if !args.positional.is_empty() {
            return Ok(None);
        }
        if callable.obj.ptr() == types().super_.cast() {
            return self.zero_super().map(Some);
        }
        let Some(known) = known else { return Ok(None) };
        Ok(match known {
            FrameFunction::ExceptionInfo => self.exception_info()?,
            FrameFunction::Exception => self.handled_exception().map(Called::Value),
            FrameFunction::Globals => Some(Called::Value(self.globals())),
            FrameFunction::Locals if self.frame().scope.is_some() => {
                let [scope, now, gone] = self.scope()?;
                let refreshed = self.pinned(library::function("refreshed")?);
                let why = "locals() behind an exec or eval, which may have left names there";
                Some(self.opaque_call(&refreshed, Args::positional(vec![scope, now, gone]), why)?)
            }
            FrameFunction::Locals => {
                let dict = self.locals_dict()?;
                Some(Called::Value(self.made(dict)))
            }
            FrameFunction::Names => {
                let names = self.locals_dict()?.bind().call_method0("keys")?;
                let names = py().import("builtins")?.call_method1("sorted", (names,))?;
                Some(Called::Value(self.made(names.into())))
            }
            FrameFunction::Evaluate => None,
        })
    }

    /// A call for real of what looks at the frames of its callers: functions with the names, lines and globals of the machine's stand there. They have its variables,
    /// too, where the code that is called may ask for them.
    pub(super) fn call_from_here(&mut self, callable: &Val, args: Args, why: &str) -> R<Called> {
        let (from_here, args) = self.calling_from_here(callable, args)?;
        let from_here = self.pinned(from_here);
        self.opaque_call(&from_here, args, why)
    }

    /// What makes a call from here, and what it is to be given.
    pub(super) fn calling_from_here(&mut self, callable: &Val, args: Args) -> R<(Obj, Args)> {
        let args = args.with_self(callable.clone());
        let shown: Vec<usize> = (0..self.frames.len()).filter(|n| !self.frames[*n].code.hidden).collect();
        if !callable.obj.class_is(types().function) || !super::asks_for_frames(&callable.obj) {
            let callers = shown.iter().map(|n| caller(&self.frames[*n])).collect::<R<Vec<Obj>>>()?;
            return Ok((calling_from(callers)?, args));
        }
        let scopes = shown.iter().map(|n| Scope::of(&self.frames[*n])).collect::<R<Vec<Scope>>>()?;
        let variables = shown.iter().map(|n| self.variables_of(*n)).collect::<R<Vec<Obj>>>()?;
        let variables = variables.into_iter().map(|dict| self.made(dict)).collect();
        let variables = self.tuple(variables)?;
        Ok((calling_in(scopes)?, args.with_self(variables)))
    }

    /// `eval` and `exec` of code that does not say where: here.
    fn evaluate(&mut self, callable: &Val, args: &Args) -> R<Option<Called>> {
        let is_given = |n: usize| args.positional.get(n).is_some_and(|scope| !scope.obj.is_none());
        let Some(code) = args.positional.first().filter(|_| !is_given(1) && args.positional.len() <= 3).cloned() else {
            return Ok(None);
        };
        let name = callable.obj.attr("__name__")?;
        let why = format!("{} of code that is known only when it runs", name);
        let locals = match args.positional.get(2).filter(|_| is_given(2)) {
            Some(locals) => locals.clone(),
            None if shares_scope() => {
                let [scope, now, gone] = self.scope()?;
                let in_scope = self.pinned(library::function("in_scope")?);
                let args = Args::positional(vec![callable.clone(), code, self.globals(), scope, now, gone]);
                return self.opaque_call(&in_scope, args, &why).map(Some);
            }
            None => {
                let dict = self.locals_dict()?;
                self.made(dict)
            }
        };
        let args = Args::positional(vec![code, self.globals(), locals]);
        self.opaque_call(callable, args, &why).map(Some)
    }

    /// The dict of the frame, what its variables hold now, and the names of those that hold nothing.
    fn scope(&mut self) -> R<[Val; 3]> {
        let now = self.locals_dict()?;
        let is_unset = |name: &&String| !now.bind().contains(name.as_str()).quiet().unwrap_or(false);
        let variables = &self.frame().code.code.variables;
        let gone: Vec<Obj> = variables.iter().map(|v| &v.name).filter(is_unset).map(|name| Obj::str(name)).collect();
        let scope = match self.frame().scope.clone() {
            Some(scope) => scope.into(),
            None => {
                let scope = self.made(pyo3::types::PyDict::new(py()).into());
                self.frame().scope = Some(scope.obj.clone());
                scope
            }
        };
        Ok([scope, self.made(now), tuple_of(&gone)?.into()])
    }

    fn globals(&mut self) -> Val {
        let globals = self.frame().globals.clone();
        self.pinned(globals)
    }

    fn locals_dict(&mut self) -> R<Obj> {
        self.variables_of(self.frames.len() - 1)
    }

    /// Of the frame at this depth.
    fn variables_of(&mut self, depth: usize) -> R<Obj> {
        let dict = pyo3::types::PyDict::new(py());
        let mut settled: Vec<Val> = Vec::new();
        let frame = &self.frames[depth];
        for (variable, value) in frame.code.code.variables.iter().zip(&frame.locals) {
            let Some(value) = value else { continue };
            let content = match crate::source::cell_contents(&value.obj) {
                Some(content) => content,
                None if value.obj.class_is(types().cell) => continue,
                None => value.obj.clone(),
            };
            settled.push(value.clone());
            dict.set_item(&variable.name, content.bind())?;
        }
        settled.iter().for_each(|value| drop(self.settled(value)));
        Ok(dict.into())
    }

    fn zero_super(&mut self) -> R<Called> {
        let frame = self.frame();
        let variables = &frame.code.code.variables;
        let place = variables.iter().position(|v| v.name == "__class__");
        let class = place.and_then(|n| frame.locals[n].clone()).and_then(|cell| crate::source::cell_contents(&cell.obj));
        let first = frame.locals.first().cloned().flatten();
        let (Some(class), Some(first)) = (class, first) else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err("super(): no arguments"));
        };
        let this = crate::source::cell_contents(&first.obj).unwrap_or(first.obj);
        // SAFETY: the type lives for ever.
        let made = unsafe { Obj::borrowed(types().super_.cast()) }.call(&[class, this], None)?;
        if let Some(rec) = &mut self.rec {
            rec.register(&made, Origin::Made);
        }
        Ok(Called::Value(made.into()))
    }
}

/// Before 3.13 a frame has one dict for all that ask for its variables, and names that code puts there stay.
fn shares_scope() -> bool {
    py().version_info().minor < 13
}

/// A function that calls what it is given, with the name of the frame's function, at its line.
fn caller(frame: &Frame) -> R<Obj> {
    let template = library::function("called_from")?.attr("__code__")?;
    // The call stands in the line behind the first one.
    let code = named_as(&template, frame, 1)?;
    // SAFETY: the type lives for ever.
    unsafe { Obj::borrowed(types().function.cast()) }.call(&[code, frame.globals.clone()], None)
}

/// Code with the name of the frame's function, whose line `below` its first one is the frame's.
fn named_as(template: &Obj, frame: &Frame, below: u32) -> R<Obj> {
    let line = frame.code.line(frame.pc.saturating_sub(1));
    let names = PyDict::new(py());
    for name in ["co_name", "co_qualname", "co_filename"] {
        names.set_item(name, frame.code.object.attr(name)?.bind())?;
    }
    names.set_item("co_firstlineno", line.saturating_sub(below))?;
    Ok(Obj::from(template.bind().call_method("replace", (), Some(&names))?))
}

/// Where code of a frame's name is evaluated, with variables in a dict: CPython shows that dict to whoever asks for the frame's.
struct Scope {
    /// Calls its only constant.
    code: Obj,
    globals: Obj,
}

impl Scope {
    fn of(frame: &Frame) -> R<Scope> {
        let template = library::function("code_of_a_call")?.call(&[], None)?;
        Ok(Scope { code: named_as(&template, frame, 0)?, globals: frame.globals.clone() })
    }

    /// What calls `next` from here.
    fn calling(&self, next: &Bound<'_, PyAny>, variables: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let constants = [("co_consts", (next,))].into_py_dict(py())?;
        let code = self.code.bind().call_method("replace", (), Some(&constants))?;
        let eval = py().import("builtins")?.getattr("eval")?;
        let partial = py().import("functools")?.getattr("partial")?;
        Ok(partial.call1((eval, code, self.globals.bind(), variables))?.unbind())
    }
}

/// Calls its second argument with the others, from the innermost of these, with the variables that the first one gives for each.
fn calling_in(scopes: Vec<Scope>) -> R<Obj> {
    let function = PyCFunction::new_closure(py(), Some(c"call_in"), None, move |args, names| -> PyResult<Py<PyAny>> {
        let partial = py().import("functools")?.getattr("partial")?;
        let variables = args.get_item(0)?;
        let mut next = partial.call(args.get_slice(1, args.len()), names)?;
        for (n, scope) in scopes.iter().enumerate().rev() {
            next = scope.calling(&next, &variables.get_item(n)?)?.into_bound(py());
        }
        next.call0().map(Bound::unbind).inspect_err(|error| without_first(error, scopes.len()))
    })?;
    Ok(function.into())
}

/// Calls its first argument with the others, from the innermost of these, which the one before it has called.
fn calling_from(callers: Vec<Obj>) -> R<Obj> {
    let function = PyCFunction::new_closure(py(), Some(c"call_from_here"), None, move |args, names| -> PyResult<Py<PyAny>> {
        let given = args.iter().map(Obj::from);
        let all: Vec<Obj> = callers.iter().cloned().chain(given).collect();
        // There is one at least: what is called.
        let names = names.map(|names| Obj::from(names.clone().into_any()));
        let called = all[0].call(&all[1..], names.as_ref());
        called.map(|result| result.bind().clone().unbind()).inspect_err(|error| without_first(error, callers.len()))
    })?;
    Ok(function.into())
}

/// Those that stand for the machine's frames are no part of a traceback: the machine's frames are.
fn without_first(error: &PyErr, count: usize) {
    let mut traceback = error.traceback(py()).map(|traceback| traceback.into_any());
    for _ in 0..count {
        traceback = traceback.and_then(|at| at.getattr("tb_next").quiet()).filter(|next| !next.is_none());
    }
    error.set_traceback(py(), traceback.and_then(|at| at.cast_into().ok()));
}
