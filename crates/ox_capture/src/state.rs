//! The modes of torch that a trace depends on.

use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use pyo3::prelude::*;
use std::fmt;

#[derive(Clone, Debug)]
pub struct TorchState {
    pub grad: bool,
    pub inference: bool,
    /// `torch.use_deterministic_algorithms`.
    pub deterministic: bool,
    pub autocast: Autocast,
    /// There is one object for each type.
    pub default_dtype: Obj,
    /// Where tensors are made, if the program has said so: `torch.set_default_device`, `with torch.device(...)`.
    pub default_device: Option<Obj>,
    /// Other function modes, dispatch modes, functorch's transforms and levels of forward derivatives that are active, and anomaly mode, which
    /// tells of operations of the program's.
    pub modes: usize,
}

/// The types that autocast converts to where it is on, for the kinds of devices.
#[derive(Clone, Debug)]
pub struct Autocast {
    cpu: Option<Obj>,
    cuda: Option<Obj>,
}

impl Autocast {
    /// The kinds of devices whose state is followed, as torch calls them.
    pub const KINDS: [&'static str; 2] = ["cpu", "cuda"];

    fn now(f: &Functions) -> PyResult<Autocast> {
        let of = |kind: &str| match f.autocast.call(&[Obj::str(kind)], None)?.truth()? {
            true => f.autocast_dtype.call(&[Obj::str(kind)], None).map(Some),
            false => Ok(None),
        };
        Ok(Autocast { cpu: of(Autocast::KINDS[0])?, cuda: of(Autocast::KINDS[1])? })
    }

    pub fn is_on(&self) -> bool {
        self.cpu.is_some() || self.cuda.is_some()
    }

    pub fn on(&self, kind: &str) -> Option<&Obj> {
        if kind == "cpu" { self.cpu.as_ref() } else { self.cuda.as_ref().filter(|_| kind == "cuda") }
    }

    fn ids(&self) -> [Option<usize>; 2] {
        [&self.cpu, &self.cuda].map(|dtype| dtype.as_ref().map(Obj::id))
    }
}

impl fmt::Display for Autocast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cpu, &self.cuda) {
            (None, None) => f.write_str("off"),
            (Some(cpu), None) => f.write_str(&cpu.text()),
            (None, Some(cuda)) => write!(f, "{} on GPUs", cuda.text()),
            (Some(cpu), Some(cuda)) => write!(f, "{}, {} on GPUs", cpu.text(), cuda.text()),
        }
    }
}

struct Functions {
    grad: Obj,
    inference: Obj,
    deterministic: Obj,
    autocast: Obj,
    autocast_dtype: Obj,
    default_dtype: Obj,
    function_modes: Obj,
    function_mode: Obj,
    device_mode: Obj,
    dispatch_modes: Obj,
    functorch: Obj,
    forward: Obj,
    anomaly: Obj,
}

static FUNCTIONS: Found<Functions> = Found::new();

fn functions() -> PyResult<&'static Functions> {
    let py = py();
    FUNCTIONS.or_try_find(|| {
        let core: Obj = py.import("torch._C")?.into();
        Ok(Functions {
            grad: core.attr("is_grad_enabled").or_else(|_| Obj::from(py.import("torch")?).attr("is_grad_enabled"))?,
            inference: Obj::from(py.import("torch")?).attr("is_inference_mode_enabled")?,
            deterministic: core.attr("_get_deterministic_algorithms")?,
            autocast: Obj::from(py.import("torch")?).attr("is_autocast_enabled")?,
            autocast_dtype: Obj::from(py.import("torch")?).attr("get_autocast_dtype")?,
            default_dtype: Obj::from(py.import("torch")?).attr("get_default_dtype")?,
            function_modes: core.attr("_len_torch_function_stack")?,
            function_mode: core.attr("_get_function_stack_at")?,
            device_mode: Obj::from(py.import("torch.utils._device")?).attr("DeviceContext")?,
            dispatch_modes: core.attr("_len_torch_dispatch_stack")?,
            functorch: core.attr("_functorch")?.attr("maybe_current_level")?,
            forward: py.import("torch.autograd.forward_ad")?.into(),
            anomaly: core.attr("is_anomaly_enabled")?,
        })
    })
}

pub fn default_dtype() -> PyResult<Obj> {
    functions()?.default_dtype.call(&[], None)
}

/// Whether graphs are computed on such devices.
fn is_followed(device: &Obj) -> bool {
    device.attr("type").quiet().and_then(|kind| kind.to_str()).is_some_and(|kind| Autocast::KINDS.contains(&&*kind))
}

/// The device of the innermost mode that says one, and how many do.
fn default_device(f: &Functions, modes: usize) -> PyResult<(Option<Obj>, usize)> {
    let (mut device, mut devices) = (None, 0);
    for n in 0..modes {
        let mode = f.function_mode.call(&[Obj::int(n as i64)], None)?;
        let said = mode.class_is(f.device_mode.ptr().cast()).then(|| mode.attr("device")).transpose()?;
        if let Some(said) = said.filter(is_followed) {
            (device, devices) = (Some(said), devices + 1);
        }
    }
    Ok((device, devices))
}

impl PartialEq for TorchState {
    fn eq(&self, other: &TorchState) -> bool {
        let rest = |state: &TorchState| (state.grad, state.inference, state.deterministic, state.default_dtype.id(), state.modes);
        let device = |state: &TorchState| state.default_device.as_ref().map(Obj::text);
        let is_rest_same = rest(self) == rest(other) && self.autocast.ids() == other.autocast.ids();
        is_rest_same && device(self) == device(other)
    }
}

impl TorchState {
    /// Whether what is computed gets a history: in inference mode nothing does, whatever the grad mode says.
    pub fn has_histories(&self) -> bool {
        self.grad && !self.inference
    }

    pub fn now() -> PyResult<TorchState> {
        let f = functions()?;
        let truth = |function: &Obj| -> PyResult<bool> { function.call(&[], None)?.truth() };
        let count = |function: &Obj| -> PyResult<usize> { function.call(&[], None)?.bind().extract() };
        let transforms = usize::from(!f.functorch.call(&[], None)?.is_none());
        // The innermost level, -1 if there is none.
        let levels: isize = f.forward.attr("_current_level")?.bind().extract()?;
        let function_modes = count(&f.function_modes)?;
        let (default_device, devices) = default_device(f, function_modes)?;
        Ok(TorchState {
            grad: truth(&f.grad)?,
            inference: truth(&f.inference)?,
            deterministic: truth(&f.deterministic)?,
            autocast: Autocast::now(f)?,
            default_dtype: f.default_dtype.call(&[], None)?,
            default_device,
            modes: function_modes - devices
                + count(&f.dispatch_modes)?
                + transforms
                + usize::from(levels >= 0)
                + usize::from(truth(&f.anomaly)?),
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
        write!(f, "grad mode {}, inference mode {}, autocast {}", word(self.grad), word(self.inference), self.autocast)?;
        if let Some(device) = &self.default_device {
            write!(f, ", tensors made on {}", device.text())?;
        }
        if self.deterministic {
            f.write_str(", deterministic algorithms")?;
        }
        let default = self.default_dtype.text();
        if default == "torch.float32" { Ok(()) } else { write!(f, ", default type {default}") }
    }
}
