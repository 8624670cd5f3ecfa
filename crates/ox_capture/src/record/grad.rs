//! What autograd adds to a recorded graph: which tensors require grad, and the grad mode in which each call is made.

use super::Recording;
use super::graph::Recorded;
use crate::found::Found;
use crate::guard::Check;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};

pub fn requires_grad(tensor: &Obj) -> PyResult<bool> {
    tensor.attr("requires_grad")?.truth()
}

pub fn is_leaf(tensor: &Obj) -> PyResult<bool> {
    tensor.attr("is_leaf")?.truth()
}

pub fn any_requires_grad(tensors: &[Obj]) -> PyResult<bool> {
    for tensor in tensors {
        if requires_grad(tensor)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The shadow of a tensor that requires grad: by itself, or because it was computed, which decides whether it may be written in place.
pub fn require_grad(shadow: &Obj, leaf: bool) -> PyResult<()> {
    if !leaf {
        let _mode = GradMode::set(true)?;
        let kwargs = [("device", "meta")];
        let kwargs = pyo3::types::IntoPyDict::into_py_dict(kwargs, py())?;
        kwargs.set_item("dtype", shadow.bind().getattr("dtype")?)?;
        let source = py().import("torch")?.call_method("empty", ((),), Some(&kwargs))?;
        source.call_method1("requires_grad_", (true,))?;
        // Fails where elements share memory: then writing it fails as well, and a leaf will do.
        if shadow.bind().call_method1("add_", (source,)).quiet().is_some() {
            return Ok(());
        }
    }
    shadow.bind().call_method1("requires_grad_", (true,)).map(drop)
}

/// An object of its own for a tensor that others have too. Gradients pass through it.
pub fn alias(tensor: &Obj) -> PyResult<Obj> {
    let tensor = tensor.bind();
    if !tensor.getattr("requires_grad")?.is_truthy()? {
        return Ok(tensor.call_method0("detach")?.into());
    }
    let _mode = GradMode::set(true)?;
    Ok(tensor.call_method1("view_as", (tensor,))?.into())
}

struct Functions {
    get: Obj,
    set: Obj,
}

static FUNCTIONS: Found<Functions> = Found::new();

fn functions() -> PyResult<&'static Functions> {
    FUNCTIONS.or_try_find(|| {
        let get = py().import("torch")?.getattr("is_grad_enabled")?.into();
        let set = py().import("torch._C")?.getattr("_set_grad_enabled")?.into();
        Ok(Functions { get, set })
    })
}

/// A grad mode, until it is dropped.
pub struct GradMode {
    before: bool,
}

impl GradMode {
    pub fn is_on() -> PyResult<bool> {
        functions()?.get.call(&[], None)?.truth()
    }

    pub fn set(enabled: bool) -> PyResult<GradMode> {
        let before = GradMode::is_on()?;
        functions()?.set.call(&[Obj::bool(enabled)], None)?;
        Ok(GradMode { before })
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        // Neither the function nor its argument can be wrong.
        let _ = functions().and_then(|f| f.set.call(&[Obj::bool(self.before)], None));
    }
}

/// Saved-tensor hooks of the program's are for its own tensors, not for shadows: while this lives, what is saved is kept as it is.
pub struct NoHooks {
    pushed: bool,
}

impl NoHooks {
    pub fn new() -> PyResult<NoHooks> {
        static KEEP: Found<Obj> = Found::new();
        let hooks = autograd()?;
        if hooks.bind().call_method1("_top_saved_tensors_default_hooks", (true,))?.is_none() {
            return Ok(NoHooks { pushed: false });
        }
        let keep = KEEP.or_try_find(|| -> PyResult<Obj> {
            let keep =
                PyCFunction::new_closure(py(), None, None, |args, _| -> PyResult<Py<PyAny>> { Ok(args.get_item(0)?.unbind()) })?;
            Ok(keep.into())
        })?;
        hooks.bind().call_method1("_push_saved_tensors_default_hooks", (keep.bind(), keep.bind()))?;
        Ok(NoHooks { pushed: true })
    }
}

impl Drop for NoHooks {
    fn drop(&mut self) {
        if self.pushed {
            // What was pushed can be popped.
            let _ = autograd().and_then(|hooks| hooks.bind().call_method0("_pop_saved_tensors_default_hooks").map(drop));
        }
    }
}

fn autograd() -> PyResult<&'static Obj> {
    static MODULE: Found<Obj> = Found::new();
    MODULE.or_try_find(|| Ok(py().import("torch._C._autograd")?.into()))
}

impl Recording {
    /// The next call is made in this grad mode: noted in the graph where it differs from the call before.
    pub(super) fn enter_grad_mode(&mut self, enabled: bool) -> Recorded<()> {
        let Some((first, now)) = self.graph.grad else {
            self.graph.grad = Some((enabled, enabled));
            self.rely_on_grad(enabled)?;
            return Ok(());
        };
        if now == enabled {
            return Ok(());
        }
        self.graph.grad = Some((first, enabled));
        let kwargs: Obj = PyDict::new(py()).into();
        let node = self.call_node("call_function", &functions()?.set, &[Obj::bool(enabled)], kwargs)?;
        node.attr("meta")?.bind().set_item("example_value", py().None())?;
        self.rely_on_grad(enabled)
    }

    /// In a segment that began without grad, what the inputs require matters from the first call with it.
    fn rely_on_grad(&mut self, enabled: bool) -> Recorded<()> {
        if !enabled || self.state.grad {
            return Ok(());
        }
        // Numbers are inputs as well.
        let tensors = self.graph.inputs.iter().filter(|input| types().is_tensor(&input.object));
        let tensors: Vec<_> = tensors.map(|input| (input.source, input.object.clone())).collect();
        for (source, tensor) in tensors {
            self.checks.push(Check::RequiresGrad(source, requires_grad(&tensor)?));
        }
        Ok(())
    }
}
