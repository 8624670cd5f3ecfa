//! What is computed for our own books: nobody who watches torch sees it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCFunction};

/// Modes of the program's and its hooks for saved tensors are out of the way until it is dropped. What is saved meanwhile is let go of at once.
pub struct Unseen<'py> {
    core: Bound<'py, PyModule>,
    /// Innermost first.
    dispatch_modes: Vec<Bound<'py, PyAny>>,
    function_modes: Vec<Bound<'py, PyAny>>,
    /// Those that say on which device tensors are made go on doing so.
    devices: usize,
    has_hooks: bool,
}

impl<'py> Unseen<'py> {
    pub fn enter(py: Python<'py>) -> PyResult<Unseen<'py>> {
        let core = py.import(intern!(py, "torch._C"))?;
        let mut unseen = Unseen { core, dispatch_modes: Vec::new(), function_modes: Vec::new(), devices: 0, has_hooks: false };
        while unseen.core.call_method0(intern!(py, "_len_torch_dispatch_stack"))?.is_truthy()? {
            let mode = unseen.core.call_method1(intern!(py, "_pop_torch_dispatch_stack"), (py.None(),))?;
            unseen.dispatch_modes.push(mode);
        }
        while unseen.core.call_method0(intern!(py, "_len_torch_function_stack"))?.is_truthy()? {
            let mode = unseen.core.call_method0(intern!(py, "_pop_torch_function_stack"))?;
            unseen.function_modes.push(mode);
        }
        let of_devices = py.import(intern!(py, "torch.utils._device"))?.getattr(intern!(py, "DeviceContext"))?;
        for mode in unseen.function_modes.iter().rev() {
            if mode.is_instance(&of_devices)? {
                unseen.core.call_method1(intern!(py, "_push_on_torch_function_stack"), (mode,))?;
                unseen.devices += 1;
            }
        }
        // Where hooks are forbidden, there are none.
        unseen.has_hooks = push_hooks(py).is_ok();
        Ok(unseen)
    }

    fn leave(&self, py: Python<'py>) -> PyResult<()> {
        if self.has_hooks {
            hooks(py)?.call_method0(intern!(py, "_pop_saved_tensors_default_hooks"))?;
        }
        for _ in 0..self.devices {
            self.core.call_method0(intern!(py, "_pop_torch_function_stack"))?;
        }
        for mode in self.function_modes.iter().rev() {
            self.core.call_method1(intern!(py, "_push_on_torch_function_stack"), (mode,))?;
        }
        for mode in self.dispatch_modes.iter().rev() {
            self.core.call_method1(intern!(py, "_push_on_torch_dispatch_stack"), (mode,))?;
        }
        Ok(())
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        let py = self.core.py();
        if let Err(error) = self.leave(py) {
            error.write_unraisable(py, Some(self.core.as_any()));
        }
    }
}

fn hooks(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "torch._C._autograd"))
}

fn push_hooks(py: Python<'_>) -> PyResult<()> {
    let kwargs = [("device", "cpu")].into_py_dict(py)?;
    let nothing = py.import(intern!(py, "torch"))?.call_method(intern!(py, "empty"), (0,), Some(&kwargs))?.unbind();
    let pack = PyCFunction::new_closure(py, None, None, |args, _| -> PyResult<Py<PyAny>> { Ok(args.py().None()) })?;
    let unpack =
        PyCFunction::new_closure(py, None, None, move |args, _| -> PyResult<Py<PyAny>> { Ok(nothing.clone_ref(args.py())) })?;
    hooks(py)?.call_method1(intern!(py, "_push_saved_tensors_default_hooks"), (pack, unpack)).map(drop)
}
