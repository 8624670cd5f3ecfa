//! The modes of torch that a trace depends on.

use crate::obj::{Obj, py};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TorchState {
    pub grad: bool,
    pub inference: bool,
    pub autocast: bool,
    /// The address of the dtype object, of which there is one for each type.
    pub default_dtype: usize,
    /// Function modes, dispatch modes and functorch's transforms that are active.
    pub modes: usize,
}

struct Functions {
    grad: Obj,
    inference: Obj,
    autocast: Obj,
    default_dtype: Obj,
    function_modes: Obj,
    dispatch_modes: Obj,
    functorch: Obj,
}

static FUNCTIONS: PyOnceLock<Functions> = PyOnceLock::new();

fn functions() -> PyResult<&'static Functions> {
    let py = py();
    FUNCTIONS.get_or_try_init(py, || {
        let core: Obj = py.import("torch._C")?.into();
        Ok(Functions {
            grad: core.attr("is_grad_enabled").or_else(|_| Obj::from(py.import("torch")?).attr("is_grad_enabled"))?,
            inference: Obj::from(py.import("torch")?).attr("is_inference_mode_enabled")?,
            autocast: Obj::from(py.import("torch")?).attr("is_autocast_enabled")?,
            default_dtype: Obj::from(py.import("torch")?).attr("get_default_dtype")?,
            function_modes: core.attr("_len_torch_function_stack")?,
            dispatch_modes: core.attr("_len_torch_dispatch_stack")?,
            functorch: core.attr("_functorch")?.attr("maybe_current_level")?,
        })
    })
}

impl TorchState {
    pub fn now() -> PyResult<TorchState> {
        let f = functions()?;
        let truth = |function: &Obj| -> PyResult<bool> { function.call(&[], None)?.truth() };
        let count = |function: &Obj| -> PyResult<usize> { function.call(&[], None)?.bind().extract() };
        let transforms = usize::from(!f.functorch.call(&[], None)?.is_none());
        Ok(TorchState {
            grad: truth(&f.grad)?,
            inference: truth(&f.inference)?,
            autocast: f.autocast.call(&[Obj::str("cpu")], None)?.truth()?,
            default_dtype: f.default_dtype.call(&[], None)?.id(),
            modes: count(&f.function_modes)? + count(&f.dispatch_modes)? + transforms,
        })
    }

    /// Why nothing is captured now.
    pub fn objection(&self) -> Option<&'static str> {
        if self.modes > 0 {
            Some("a mode or transform of torch's is active")
        } else if self.autocast {
            Some("autocast")
        } else {
            None
        }
    }
}

impl fmt::Display for TorchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: bool| if on { "on" } else { "off" };
        write!(f, "grad mode {}, inference mode {}, autocast {}", word(self.grad), word(self.inference), word(self.autocast))
    }
}
