//! The modes of torch that a trace depends on.

use crate::obj::{Obj, py};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::fmt;

#[derive(Clone, Debug)]
pub struct TorchState {
    pub grad: bool,
    pub inference: bool,
    /// `torch.use_deterministic_algorithms`.
    pub deterministic: bool,
    /// The type that autocast on the CPU converts to.
    pub autocast: Option<Obj>,
    /// There is one object for each type.
    pub default_dtype: Obj,
    /// Function modes, dispatch modes, functorch's transforms and levels of forward derivatives that are active.
    pub modes: usize,
}

struct Functions {
    grad: Obj,
    inference: Obj,
    deterministic: Obj,
    autocast: Obj,
    autocast_dtype: Obj,
    default_dtype: Obj,
    function_modes: Obj,
    dispatch_modes: Obj,
    functorch: Obj,
    forward: Obj,
}

static FUNCTIONS: PyOnceLock<Functions> = PyOnceLock::new();

fn functions() -> PyResult<&'static Functions> {
    let py = py();
    FUNCTIONS.get_or_try_init(py, || {
        let core: Obj = py.import("torch._C")?.into();
        Ok(Functions {
            grad: core.attr("is_grad_enabled").or_else(|_| Obj::from(py.import("torch")?).attr("is_grad_enabled"))?,
            inference: Obj::from(py.import("torch")?).attr("is_inference_mode_enabled")?,
            deterministic: core.attr("_get_deterministic_algorithms")?,
            autocast: Obj::from(py.import("torch")?).attr("is_autocast_enabled")?,
            autocast_dtype: Obj::from(py.import("torch")?).attr("get_autocast_dtype")?,
            default_dtype: Obj::from(py.import("torch")?).attr("get_default_dtype")?,
            function_modes: core.attr("_len_torch_function_stack")?,
            dispatch_modes: core.attr("_len_torch_dispatch_stack")?,
            functorch: core.attr("_functorch")?.attr("maybe_current_level")?,
            forward: py.import("torch.autograd.forward_ad")?.into(),
        })
    })
}

pub fn default_dtype() -> PyResult<Obj> {
    functions()?.default_dtype.call(&[], None)
}

impl PartialEq for TorchState {
    fn eq(&self, other: &TorchState) -> bool {
        let autocast = |state: &TorchState| state.autocast.as_ref().map(Obj::id);
        let rest = |state: &TorchState| (state.grad, state.inference, state.deterministic, state.default_dtype.id(), state.modes);
        rest(self) == rest(other) && autocast(self) == autocast(other)
    }
}

impl TorchState {
    pub fn now() -> PyResult<TorchState> {
        let f = functions()?;
        let truth = |function: &Obj| -> PyResult<bool> { function.call(&[], None)?.truth() };
        let on_gpu = f.autocast.call(&[Obj::str("cuda")], None)?.truth()?;
        let count = |function: &Obj| -> PyResult<usize> { function.call(&[], None)?.bind().extract() };
        let transforms = usize::from(!f.functorch.call(&[], None)?.is_none());
        // The innermost level, -1 if there is none.
        let levels: isize = f.forward.attr("_current_level")?.bind().extract()?;
        Ok(TorchState {
            grad: truth(&f.grad)?,
            inference: truth(&f.inference)?,
            deterministic: truth(&f.deterministic)?,
            autocast: match f.autocast.call(&[Obj::str("cpu")], None)?.truth()? {
                true => Some(f.autocast_dtype.call(&[Obj::str("cpu")], None)?),
                false => None,
            },
            default_dtype: f.default_dtype.call(&[], None)?,
            // What autocast does on a GPU is not recorded: there it counts as a mode.
            modes: count(&f.function_modes)?
                + count(&f.dispatch_modes)?
                + transforms
                + usize::from(levels >= 0)
                + usize::from(on_gpu),
        })
    }

    /// Why nothing is captured now.
    pub fn objection(&self) -> Option<&'static str> {
        if self.modes > 0 { Some("a mode or transform of torch's is active") } else { None }
    }
}

impl fmt::Display for TorchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: bool| if on { "on" } else { "off" };
        let autocast = self.autocast.as_ref().map_or("off".to_string(), |dtype| dtype.text());
        write!(f, "grad mode {}, inference mode {}, autocast {}", word(self.grad), word(self.inference), autocast)?;
        if self.deterministic { f.write_str(", deterministic algorithms") } else { Ok(()) }
    }
}
