//! Where a graph is computed: its tensors lie on one device, which the meta device of their shadows stands for.

use super::graph::{NotRecorded, Recorded};
use super::{Origin, Recording};
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::types::types;
use pyo3::prelude::*;

impl Recording {
    /// The graph has a tensor on this device. If it has others elsewhere, the call is done for real, behind what the graph computes.
    pub(super) fn join_device(&mut self, device: &Obj) -> Recorded<()> {
        let device = settled(device)?;
        match &self.graph.device {
            Some(known) if known.bind().eq(device.bind())? => Ok(()),
            Some(known) => Err(NotRecorded::Break(format!("a tensor on {} beside those on {}", device.text(), known.text()))),
            None => {
                self.graph.device = Some(device);
                Ok(())
            }
        }
    }

    /// The graph's device; that of a graph without tensors is the CPU.
    pub(super) fn device(&self) -> PyResult<Obj> {
        self.graph.device.clone().map_or_else(|| named("cpu"), Ok)
    }

    pub(super) fn is_on_cpu(&self) -> PyResult<bool> {
        let Some(device) = &self.graph.device else { return Ok(true) };
        Ok(device.attr("type")?.to_str().as_deref() == Some("cpu"))
    }
}

impl Recording {
    /// What the elements of a tensor on the CPU are. A lazy one is not looked at; None for tensors of other classes.
    pub fn dtype_on_cpu(&self, tensor: &Obj) -> Option<Obj> {
        let types = types();
        match self.origin(tensor) {
            Origin::Lazy(n) => {
                self.graph.lazies[n].shadow.attr("dtype").quiet().filter(|_| self.is_on_cpu().quiet().unwrap_or(false))
            }
            _ if !tensor.class_is(types.tensor) && !tensor.class_is(types.parameter) => None,
            _ => {
                tensor.attr("dtype").quiet().filter(|_| tensor.attr("is_cpu").and_then(|is| is.truth()).quiet().unwrap_or(false))
            }
        }
    }
}

/// The functions that make tensors where a mode says.
pub(super) fn constructors() -> PyResult<Obj> {
    Ok(py().import("torch.utils._device")?.call_method0("_device_constructors")?.into())
}

/// The device that torch means by this name.
pub(super) fn named(name: &str) -> PyResult<Obj> {
    Ok(py().import("torch")?.getattr("device")?.call1((name,))?.into())
}

/// With its number: plain `cuda` is the current one.
fn settled(device: &Obj) -> Recorded<Obj> {
    let kind = device.attr("type")?.to_str().unwrap_or_default();
    match kind.as_str() {
        "cpu" => Ok(named("cpu")?),
        "cuda" if device.attr("index")?.is_none() => {
            let current: i64 = py().import("torch.cuda")?.call_method0("current_device")?.extract()?;
            Ok(named(&format!("cuda:{current}"))?)
        }
        "cuda" => Ok(device.clone()),
        _ => Err(NotRecorded::Abandon(format!("a device that is neither CPU nor CUDA: {kind}"))),
    }
}

/// The type of tensors that torch means by one of Python's classes of numbers.
pub(super) fn dtype_of_class(class: &Obj) -> PyResult<Option<Obj>> {
    let t = types();
    let name = match class.ptr().cast() {
        class if class == t.int => "int64",
        class if class == t.float => "float64",
        class if class == t.bool => "bool",
        class if class == t.complex => "complex128",
        _ => return Ok(None),
    };
    Ok(Some(py().import("torch")?.getattr(name)?.into()))
}
