//! `Captured` as Python sees it.

use super::{Captured, Inner};
use crate::advice::advice;
use crate::explain;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of};
use crate::source::Values;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};

#[pymethods]
impl Captured {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
        let args = items_of(&args.into());
        let kwargs = kwargs.filter(|k| !k.is_empty()).map(Obj::from);
        let result = self.0.call(&args, kwargs.as_ref())?;
        Ok(result.bind().clone().unbind())
    }

    /// As a function does: a method of the object through which it was found. torch's tracers are shown the function.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        object: Option<&Bound<'py, PyAny>>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let is_there = |given: &&Bound<'py, PyAny>| !given.is_none();
        match (object.filter(is_there), owner.filter(is_there)) {
            (None, None) => Err(PyTypeError::new_err("__get__(None, None) is invalid")),
            (None, Some(_)) => Ok(slf.clone().into_any()),
            (Some(object), _) => {
                let function = if is_asked_by_a_tracer(slf.py()) { slf.get().0.function.bind() } else { slf.as_any() };
                slf.py().import("types")?.getattr("MethodType")?.call1((function, object))
            }
        }
    }

    /// By its name where it stands in the place of the function, as a function is; otherwise by what it was made of and how.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(name) = own_name(slf) {
            return Ok(name);
        }
        let function = slf.get().0.function.bind().clone();
        (recompile(slf)?, (function,)).into_bound_py_any(slf.py())
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    /// Functions are not copied; a method is, with its object.
    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let function = slf.get().0.function.bind();
        let copy = slf.py().import("copy")?.call_method1("deepcopy", (function, memo))?;
        if copy.is(function) { Ok(slf.clone().into_any()) } else { recompile(slf)?.call1((copy,)) }
    }

    /// The tree of traces as text.
    fn show(&self) -> String {
        self.0.tree().show()
    }

    /// Counts for tests and people: calls that the machine ran, torch operations recorded, graphs, breaks.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("traced", self.0.counts.traced.get())?;
        dict.set_item("ops", self.0.counts.ops.get())?;
        dict.set_item("segments", self.0.tree().segments.get())?;
        let breaks: Vec<(String, String)> =
            self.0.counts.breaks.borrow().iter().map(|b| (b.location(), b.reason.clone())).collect();
        dict.set_item("breaks", breaks)?;
        Ok(dict)
    }

    /// Sums of sizes of arguments that must be constants in the trace for such a call; if there is none, those of all traces.
    #[pyo3(signature = (*args, **kwargs))]
    fn sums_of_sizes(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Vec<Vec<(i64, String)>> {
        let (inner, tree) = (&self.0, self.0.tree());
        let (args, kwargs) = (items_of(&args.into()), kwargs.filter(|k| !k.is_empty()).map(Obj::from));
        let mut values = Values::new(&inner.function, &args, kwargs.as_ref());
        match inner.choose(&tree, &tree.branches, &mut values, true) {
            Some(segment) => explain::sums_of_sizes(&tree, &segment),
            None => tree.branches.all().iter().flat_map(|segment| explain::sums_of_sizes(&tree, segment)).collect(),
        }
    }

    /// Everything that is known of the traces, for `oxytorch.explain`.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = &self.0;
        let dict = explain::report(py, &inner.tree())?;
        let breaks = inner.counts.breaks.borrow().clone();
        let breaks = breaks
            .iter()
            .map(|b| (&b.reason, advice(&b.reason), &b.stack))
            .map(|(reason, (explanation, hint), stack)| (reason.clone(), explanation, hint, stack.clone()));
        dict.set_item("breaks", breaks.collect::<Vec<_>>())?;
        dict.set_item("reads", inner.counts.reads.borrow().clone())?;
        dict.set_item("recompiles", inner.counts.recompiles.borrow().clone())?;
        dict.set_item("traced", inner.counts.traced.get())?;
        dict.set_item("ops", inner.counts.ops.get())?;
        dict.set_item("seconds", inner.seconds_by_stage().into_py_dict(py)?)?;
        let (traces, computing) = (inner.counts.traces.get(), inner.counts.computing.get());
        dict.set_item(
            "thread_seconds",
            [("trace", traces.thread), ("compile and first run", computing.thread)].into_py_dict(py)?,
        )?;
        Ok(dict)
    }

    /// Forgets all traces, and what was counted.
    fn reset(&self) {
        // What goes may run code: nothing may be borrowed then.
        drop((self.0.tree.take(), self.0.elsewhere.take()));
        self.0.counts.clear();
    }
}

/// What TorchDynamo finds for `Captured.__get__`: it goes into a function of Python's, and takes a descriptor of C in a class for the attribute itself.
/// The slot, which CPython calls, stays what it was.
#[pyfunction]
pub fn show_get(function: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = function.py().get_type::<Captured>();
    let (class, name) = (class.as_type_ptr(), c"__get__");
    // SAFETY: a class on the heap has its dict until it goes; caches of what is found in it are told.
    unsafe {
        if ffi::PyDict_SetItemString((*class).tp_dict, name.as_ptr(), function.as_ptr()) != 0 {
            return Err(PyErr::fetch(function.py()));
        }
        ffi::PyType_Modified(class);
    }
    Ok(())
}

/// Whether code of a tracer of torch's looks at an attribute: it asks for the file and the code of what it finds, which only functions have.
fn is_asked_by_a_tracer(py: Python<'_>) -> bool {
    const TRACERS: [&str; 3] = ["torch._dynamo", "torch.export", "torch._export"];
    let is_of =
        |module: &str, tracer: &str| module.strip_prefix(tracer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    module_that_runs(py).is_some_and(|module| TRACERS.iter().any(|tracer| is_of(&module, tracer))) && !is_handed_on(py)
}

fn module_that_runs(py: Python<'_>) -> Option<String> {
    // SAFETY: the thread is attached; the globals of what runs are borrowed, or null.
    let globals = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetGlobals()) }?;
    globals.get_item("__name__").quiet()?.extract().quiet()
}

/// Whether what runs is a `__getattr__`: that of a wrapped module gives others what the module has.
fn is_handed_on(py: Python<'_>) -> bool {
    // SAFETY: the thread is attached; the frame that runs is borrowed, or null.
    let frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    let name = frame.and_then(|frame| frame.getattr("f_code").quiet()?.getattr("co_name").quiet());
    name.is_some_and(|name| name.eq("__getattr__").quiet().unwrap_or(false))
}

/// The name under which this very object is found in the module of the function.
fn own_name<'py>(captured: &Bound<'py, Captured>) -> Option<Bound<'py, PyAny>> {
    let name = captured.getattr("__qualname__").quiet()?;
    let module = captured
        .py()
        .import("sys")
        .quiet()?
        .getattr("modules")
        .quiet()?
        .get_item(captured.getattr("__module__").quiet()?)
        .quiet()?;
    let parts = name.extract::<String>().quiet()?;
    let found = parts.split('.').try_fold(module, |found, part| found.getattr(part)).quiet()?;
    found.is(captured).then_some(name)
}

/// What makes another one of a function, in the same way.
fn recompile<'py>(captured: &Bound<'py, Captured>) -> PyResult<Bound<'py, PyAny>> {
    captured.getattr("_recompile").map_err(|_| PyTypeError::new_err("only what oxytorch.compile made can be copied and pickled"))
}

impl Inner {
    /// Tracing, each stage of the compiler, and the first run of each graph, in that order.
    fn seconds_by_stage(&self) -> Vec<(&'static str, f64)> {
        let mut stages = vec![("trace", self.counts.traces.get().wall)];
        let mut compiled = 0.0;
        for (name, seconds) in self.counts.stages.borrow().iter() {
            compiled += seconds;
            match stages.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += seconds,
                None => stages.push((name, *seconds)),
            }
        }
        stages.push(("first run", (self.counts.computing.get().wall - compiled).max(0.0)));
        stages
    }
}
