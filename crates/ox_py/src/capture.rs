//! `capture`: a function of the user's, captured by our own machine; its graphs go the way of Dynamo's.

use crate::anatomy::{Anatomy, keys_at};
use crate::bound::bind;
use crate::compile::{compile_graph, parse_options};
use crate::error::warn_once;
use crate::fx::Follower;
use crate::gauging;
use crate::recorded::Recorded;
use crate::tensor::{Crossing, gives_plain_tensors};
use crate::torch::device_of;
use ox_capture::{Backend, Body, BoundGraph, Captured, Compiled, Obj, Settings, Sizes, TensorSpec, Words};
use ox_driver::{Options, Setting};
use ox_ir::Device;
use ox_runtime::TensorRef;
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

/// How a size is made of another, while a program is captured: 1 if it is that size, 2 if that size is a part of it, 0 if not. 3 where that cannot
/// be told, as in a program that runs as it is.
#[pyfunction]
pub fn size_relation(_size: &Bound<'_, PyAny>, _of: &Bound<'_, PyAny>) -> i64 {
    3
}

/// Captures a function: the result is called in its place.
#[pyfunction]
#[pyo3(signature = (function, fullgraph=false, mode=None, options=None, settings=None, dynamic=None, shapes=None))]
pub fn capture(
    function: &Bound<'_, PyAny>,
    fullgraph: bool,
    mode: Option<&str>,
    options: Option<&Bound<'_, PyDict>>,
    settings: Option<Vec<(String, i64)>>,
    dynamic: Option<bool>,
    shapes: Option<&Bound<'_, PyAny>>,
) -> PyResult<Captured> {
    let options = parse_options(mode, options)?;
    if uses_gpu(function.py()).unwrap_or(false) {
        ox_driver::warm_up_gpu();
    }
    let settings = Settings { fullgraph, own: settings.unwrap_or_default(), dynamic };
    Captured::new(Obj::from(function), Arc::new(Rest { options }), settings, shapes)
}

/// Whether torch has begun to use a GPU. Nobody begins it here: a process may still be forked.
fn uses_gpu(py: Python<'_>) -> PyResult<bool> {
    py.import(intern!(py, "torch.cuda"))?.call_method0(intern!(py, "is_initialized"))?.extract()
}

/// The rest of oxytorch, as capture sees it.
struct Rest {
    options: Options,
}

/// Dispatch keys of a plain dense tensor on CPU or CUDA, with and without autograd's.
fn is_plain(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = tensor.py();
    let is_known = tensor.getattr(intern!(py, "is_cpu"))?.is_truthy()? || tensor.getattr(intern!(py, "is_cuda"))?.is_truthy()?;
    let strided = tensor.getattr(intern!(py, "layout"))?.is(&py.import(intern!(py, "torch"))?.getattr(intern!(py, "strided"))?);
    let nested = tensor.getattr(intern!(py, "is_nested"))?.is_truthy()?;
    let bits =
        tensor.call_method0(intern!(py, "is_conj"))?.is_truthy()? || tensor.call_method0(intern!(py, "is_neg"))?.is_truthy()?;
    let wrapped =
        py.import(intern!(py, "torch._C"))?.getattr("_functorch")?.call_method1("is_functorch_wrapped_tensor", (tensor,))?;
    Ok(is_known && strided && !nested && !bits && !wrapped.is_truthy()?)
}

impl Rest {
    /// The tensor, if it has the class, the dispatch keys and the type of the description.
    fn is_of_kind<'a>(&self, tensor: &'a Obj, spec: &TensorSpec) -> Option<TensorRef<'a>> {
        let bound = tensor.bind();
        if bound.get_type_ptr() as usize != spec.class {
            return None;
        }
        let (crossing, anatomy) = (Crossing::get(bound.py()).ok()?, Anatomy::get(bound.py()).ok()?);
        // SAFETY: the tensor outlives the handle; its class is the one that was accepted.
        let handle: TensorRef<'a> = unsafe { crossing.unwrap(bound) }.ok()?;
        // SAFETY: a live TensorImpl.
        let found = unsafe { *handle.impl_ptr().cast::<u64>().add(anatomy.keys) };
        let same_type = handle.dtype().is_ok_and(|dtype| dtype.is_some_and(|dtype| dtype as i32 == spec.dtype));
        (found == spec.keys && same_type).then_some(handle)
    }

    fn describe_tensor(&self, tensor: &Obj) -> PyResult<Option<TensorSpec>> {
        let bound = tensor.bind();
        // A class of the program's may be told what is asked of its tensors.
        if !gives_plain_tensors(bound)? || !is_plain(bound)? {
            return Ok(None);
        }
        let crossing = Crossing::get(bound.py())?;
        // SAFETY: the tensor outlives the handle.
        let Ok(handle) = (unsafe { crossing.unwrap(bound) }) else { return Ok(None) };
        let keys = keys_at(bound, Anatomy::get(bound.py())?.keys)?;
        let (Ok(Some(dtype)), Ok(sizes), Ok(strides)) = (handle.dtype(), handle.sizes(), handle.strides()) else {
            return Ok(None);
        };
        let class = bound.get_type().as_ptr() as usize;
        Ok(Some(TensorSpec {
            class,
            keys,
            dtype: dtype as i32,
            number: gauging::number_of(handle),
            dtype_name: dtype.to_string(),
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
        }))
    }
}

impl Backend for Rest {
    fn describe(&self, tensor: &Obj) -> Option<TensorSpec> {
        self.describe_tensor(tensor).ok().flatten()
    }

    fn is_like(&self, tensor: &Obj, spec: &TensorSpec) -> bool {
        self.measure(tensor, spec, &mut |sizes, strides| sizes == spec.sizes && strides == spec.strides)
    }

    fn portray(&self, tensor: &Obj, is_told: bool, words: &mut Words) -> bool {
        let py = ox_capture::py();
        let (Ok(crossing), Ok(anatomy)) = (Crossing::get(py), Anatomy::get(py)) else { return false };
        // SAFETY: capture keeps what it has portrayed.
        unsafe { anatomy.portray(crossing, tensor.bind(), is_told, words) }.unwrap_or(false)
    }

    fn bind(&self, callable: &Obj, known: Vec<Option<Obj>>, sizes: &[Option<i64>]) -> Option<Box<dyn BoundGraph>> {
        let bound = bind(callable, known, sizes).ok().flatten()?;
        Some(Box::new(bound))
    }

    fn measure(&self, tensor: &Obj, spec: &TensorSpec, fits: &mut dyn FnMut(&[i64], &[i64]) -> bool) -> bool {
        let found = self.is_of_kind(tensor, spec).and_then(|handle| handle.sizes_and_strides().ok());
        found.is_some_and(|(sizes, strides)| fits(sizes, strides))
    }

    fn body(&self) -> Option<Body> {
        gauging::body(ox_capture::py())
    }

    fn sizes(&self, graph: &Obj, device: &Obj) -> Option<Box<dyn Sizes>> {
        let follower = Follower::new(graph, device_of(device.bind()).ok()?).ok()?;
        Some(Box::new(follower))
    }

    fn compile(&self, graph: &Obj, device: Option<&Obj>) -> PyResult<Compiled> {
        let py = ox_capture::py();
        let recorded = Bound::new(py, Recorded::new(graph.bind().clone().unbind(), None))?;
        let device = device.map_or(Ok(Device::Cpu), |device| device_of(device.bind()))?;
        let (callable, facts) = compile_graph(recorded.as_any(), PyTuple::empty(py).as_any(), &self.options, Some(device))?;
        Ok(Compiled { callable: callable.into(), facts })
    }

    fn stages(&self) -> Vec<(&'static str, f64)> {
        crate::report::stages()
    }

    fn setting(&self, name: &str) -> PyResult<i64> {
        let setting = Setting::find(name).ok_or_else(|| PyAttributeError::new_err(format!("no setting {name}")))?;
        Ok(setting.get())
    }

    fn warn(&self, text: &str) -> PyResult<()> {
        warn_once(ox_capture::py(), text)
    }
}
