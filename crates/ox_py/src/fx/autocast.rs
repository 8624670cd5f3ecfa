//! Autocast: inside of its regions the arguments of some functions are converted. The conversions are recorded, so that a Graph means
//! the same wherever it runs.

use super::call::{Callee, Request};
use super::importer::Importer;
use super::refusal::{Import, Refusal};
use ox_ir::{DType, Device};
use ox_ops::{FrontValue, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What autocast does on one kind of device: whether it is on, and the type that it has (even while it is off).
#[derive(Clone, Copy)]
struct Setting {
    enabled: bool,
    dtype: Option<DType>,
}

impl Setting {
    fn ambient(py: Python<'_>, kind: &str) -> PyResult<Setting> {
        let torch = py.import(intern!(py, "torch"))?;
        let enabled = torch.call_method1(intern!(py, "is_autocast_enabled"), (kind,))?.is_truthy()?;
        let dtype = torch.call_method1(intern!(py, "get_autocast_dtype"), (kind,))?;
        Ok(Setting { enabled, dtype: crate::torch::Torch::get(py)?.dtype_of(&dtype) })
    }
}

#[derive(Clone, Copy)]
struct Region {
    cpu: Setting,
    cuda: Setting,
}

/// As torch calls it.
fn kind(device: Device) -> &'static str {
    if device == Device::Cpu { "cpu" } else { "cuda" }
}

/// The regions that are open, the innermost last. The first is the state around the graph.
pub(super) struct Autocast(Vec<Region>);

impl Autocast {
    /// The state around the graph, which Dynamo guards.
    pub fn ambient(py: Python<'_>) -> PyResult<Autocast> {
        Ok(Autocast(vec![Region { cpu: Setting::ambient(py, "cpu")?, cuda: Setting::ambient(py, "cuda")? }]))
    }

    fn innermost(&self) -> Region {
        *self.0.last().expect("the state around the graph is never left")
    }

    /// The type that calls on the device are converted to here.
    fn dtype(&self, device: Device) -> Option<DType> {
        let Region { cpu, cuda } = self.innermost();
        Some(if device == Device::Cpu { cpu } else { cuda }).filter(|setting| setting.enabled)?.dtype
    }
}

impl<'py> Importer<'py> {
    /// `_enter_autocast(device_type, dtype, enabled, cache_enabled)`. A region without a type has that of the region around it.
    pub(super) fn enter_autocast(&mut self, node: &Bound<'py, PyAny>) -> Import<FrontValue> {
        let args = node.getattr(intern!(self.py, "args"))?.cast_into::<PyTuple>()?;
        let (device, dtype, enabled) = (args.get_item(0)?, args.get_item(1)?, args.get_item(2)?.is_truthy()?);
        let given = if dtype.is_none() { None } else { Some(self.torch.dtype_of(&dtype)) };
        let mut region = self.autocast.innermost();
        match device.extract::<&str>()? {
            "cpu" => {
                let dtype = given.unwrap_or(region.cpu.dtype);
                // torch switches a region off whose type is another.
                region.cpu = Setting { enabled: enabled && matches!(dtype, Some(DType::BF16 | DType::F16)), dtype };
            }
            "cuda" => region.cuda = Setting { enabled, dtype: given.unwrap_or(region.cuda.dtype) },
            _ => {}
        }
        self.autocast.0.push(region);
        Ok(ValueOf::None)
    }

    pub(super) fn exit_autocast(&mut self) -> Import<FrontValue> {
        match self.autocast.0.len() {
            0 | 1 => Err(Refusal::unsupported("the end of an autocast region that began elsewhere")),
            _ => {
                self.autocast.0.pop();
                Ok(ValueOf::None)
            }
        }
    }

    /// Converts the arguments of a call as autocast does.
    pub(super) fn convert_as_autocast(&mut self, request: &mut Request<'py>) -> Import<()> {
        let Some(dtype) = self.autocast.dtype(self.recorder.builder().device) else { return Ok(()) };
        let Some(target) = self.conversion(request, dtype)? else { return Ok(()) };
        if !self.written_args(request)?.is_empty() {
            return Err(Refusal::unsupported(format!("{} writes what autocast converts", request.name)));
        }
        for value in request.args.iter_mut().chain(request.kwargs.iter_mut().map(|(_, value)| value)) {
            *value = self.converted(value, target)?;
        }
        Ok(())
    }

    /// The type that autocast converts the call's tensors to, if it does.
    fn conversion(&mut self, request: &Request<'py>, dtype: DType) -> Import<Option<DType>> {
        let py = self.py;
        let function = match &request.callee {
            Callee::Function(function) => function.clone(),
            Callee::Method(name) => self.torch.tensor.bind(py).getattr(name.as_str())?,
            Callee::Attribute(_) => return Ok(None),
        };
        let (args, kwargs) = self.example_arguments(request)?;
        let helper = py.import(intern!(py, "oxytorch._autocast"))?;
        let (kind, dtype) = (kind(self.recorder.builder().device), self.torch.dtype_object(py, dtype));
        let asked = helper.call_method1(intern!(py, "conversion"), (function, args, kwargs, kind, dtype));
        match asked {
            Ok(target) if target.is_none() => Ok(None),
            Ok(target) => Ok(self.torch.dtype_of(&target)),
            Err(error) => Err(Refusal::unsupported(format!("{} under autocast: {}", request.name, error.value(py)))),
        }
    }

    fn converted(&mut self, value: &FrontValue, target: DType) -> Import<FrontValue> {
        let converted = value.map(&mut |tensor| {
            let dtype = self.recorder.ty(*tensor).dtype;
            if !dtype.is_float() || matches!(dtype, DType::F64) || dtype == target {
                return Ok(*tensor);
            }
            let node = self.recorder.read(*tensor)?;
            let cast = self.recorder.builder().cast(node, target);
            Ok(self.recorder.fresh(cast))
        });
        converted.map_err(|error| Refusal::unsupported(error.to_string()))
    }
}
