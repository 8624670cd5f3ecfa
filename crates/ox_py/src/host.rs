//! What a Plan asks of Python at run time: the calls that only Python can make, and the schemas of operators.

use crate::fx::Callee;
use crate::graphs;
use crate::tensor::Crossing;
use crate::torch::{EnumKind, Torch, device_object};
use ox_capture::{Obj, Topic, log};
use ox_ir::graph::{self, Arg, Library};
use ox_ir::{Scalar, Sym, Var};
use ox_runtime::{Capture, HostCalls, PoolId, Reserved, RunError, Tensor, TensorRef};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyString, PyTuple};

enum Object {
    /// A constant, or a function to call.
    Plain(Py<PyAny>),
    Method(Py<PyString>),
    Attribute(Py<PyString>),
    /// An argument of the graph that cannot be passed on.
    Missing,
}

/// The side table: Python objects that a Graph names by number.
#[derive(Default)]
pub struct HostTable(Vec<Object>);

impl HostTable {
    pub fn add(&mut self, object: &Bound<'_, PyAny>) -> u32 {
        let known = self.0.iter().position(|known| matches!(known, Object::Plain(o) if o.is(object)));
        known.map_or_else(|| self.push(Object::Plain(object.clone().unbind())), |n| n as u32)
    }

    pub fn add_missing(&mut self) -> u32 {
        self.push(Object::Missing)
    }

    pub fn add_callee(&mut self, callee: Callee<'_>, py: Python<'_>) -> u32 {
        match callee {
            Callee::Function(function) => self.add(&function),
            Callee::Method(name) => self.push(Object::Method(PyString::intern(py, &name).unbind())),
            Callee::Attribute(name) => self.push(Object::Attribute(PyString::intern(py, &name).unbind())),
        }
    }

    fn push(&mut self, object: Object) -> u32 {
        self.0.push(object);
        self.0.len() as u32 - 1
    }

    /// Whether the argument can be had at run time.
    pub fn is_missing(&self, object: u32) -> bool {
        matches!(self.0.get(object as usize), Some(Object::Missing))
    }

    pub fn into_host(self) -> Host {
        Host(self.0)
    }
}

pub struct Host(Vec<Object>);

/// One call, while its arguments are built.
struct Call<'a, 'py> {
    py: Python<'py>,
    host: &'a Host,
    tensors: Vec<Bound<'py, PyAny>>,
    sizes: &'a dyn Fn(&Var) -> Option<i64>,
}

impl HostCalls for Host {
    fn call(
        &self,
        library: &Library,
        tensors: &[TensorRef<'_>],
        sizes: &dyn Fn(&Var) -> Option<i64>,
    ) -> Result<Vec<Tensor>, RunError> {
        Python::attach(|py| self.call_python(py, library, tensors, sizes)).map_err(RunError::host)
    }

    fn schema(&self, name: &str, overload: &str) -> Option<String> {
        Python::attach(|py| {
            let get = py.import(intern!(py, "torch._C")).ok()?.getattr(intern!(py, "_get_schema")).ok()?;
            Some(Obj::from(get.call1((name, overload)).ok()?).to_string())
        })
    }

    /// By torch's own tag. An operator that is not found may draw.
    fn is_random(&self, name: &str, overload: &str) -> bool {
        Python::attach(|py| -> PyResult<bool> {
            let tag =
                py.import(intern!(py, "torch"))?.getattr(intern!(py, "Tag"))?.getattr(intern!(py, "nondeterministic_seeded"))?;
            operator(py, name, overload)?.getattr(intern!(py, "tags"))?.contains(tag)
        })
        .unwrap_or(true)
    }

    /// Operators of Python's on tensors, attributes that C computes, and torch's functions and methods that have the name of an operator of its, none of whose forms draws.
    fn only_computes(&self, object: u32) -> bool {
        Python::attach(|py| -> PyResult<bool> {
            let name = match self.0.get(object as usize) {
                Some(Object::Method(name)) => name.bind(py).clone(),
                Some(Object::Attribute(name)) => return is_computed_by_c(name.bind(py)),
                Some(Object::Plain(function)) if is_torchs(function.bind(py)) => {
                    let function = function.bind(py);
                    if function.getattr(intern!(py, "__module__"))?.str()?.to_string_lossy() == "_operator" {
                        return Ok(true);
                    }
                    function.getattr(intern!(py, "__name__"))?.cast_into()?
                }
                _ => return Ok(false),
            };
            computes_in_all_forms(&name)
        })
        .unwrap_or(false)
    }

    fn waits(&self, name: &str, overload: &str) -> bool {
        Python::attach(|py| graphs::is_unsafe(&operator(py, name, overload)?)).unwrap_or(true)
    }

    fn empty_cache(&self) {
        graphs::empty_cache();
    }

    fn begin_capture(&self, device: u8, pool: Option<PoolId>) -> Result<Box<dyn Capture>, RunError> {
        graphs::begin(device, pool)
    }

    fn reserve(&self, device: u8, bytes: usize) -> Result<Option<Reserved>, RunError> {
        graphs::reserve(device, bytes)
    }

    fn tell_written(&self, tensors: &[TensorRef<'_>]) -> Result<(), RunError> {
        graphs::tell_written(tensors)
    }

    fn note_graphs(&self, text: &str) {
        log(Topic::CudaGraphs, || text.to_string());
    }
}

impl Host {
    fn call_python(
        &self,
        py: Python<'_>,
        library: &Library,
        tensors: &[TensorRef<'_>],
        sizes: &dyn Fn(&Var) -> Option<i64>,
    ) -> PyResult<Vec<Tensor>> {
        let crossing = Crossing::get(py)?;
        let tensors = tensors.iter().map(|t| crossing.wrap(py, *t)).collect::<PyResult<_>>()?;
        let call = Call { py, host: self, tensors, sizes };
        let args: Vec<Bound<'_, PyAny>> = library.args.iter().map(|arg| call.arg(arg)).collect::<PyResult<_>>()?;
        let kwargs = PyDict::new(py);
        for (key, value) in &library.kwargs {
            kwargs.set_item(key, call.arg(value)?)?;
        }
        let result = self.invoke(py, &library.callee, args, &kwargs)?;
        if library.outs.is_empty() {
            return Ok(Vec::new());
        }
        flatten(py, crossing, &result)
    }

    fn invoke<'py>(
        &self,
        py: Python<'py>,
        callee: &graph::Callee,
        args: Vec<Bound<'py, PyAny>>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let object = match callee {
            graph::Callee::Dispatcher { name, overload } => {
                return operator(py, name, overload)?.call(PyTuple::new(py, args)?, Some(kwargs));
            }
            graph::Callee::Python { object, .. } => self.0.get(*object as usize),
        };
        let first = || args.first().cloned().ok_or_else(|| PyTypeError::new_err("a method of nothing"));
        match object {
            Some(Object::Plain(function)) => function.bind(py).call(PyTuple::new(py, args)?, Some(kwargs)),
            Some(Object::Method(name)) => {
                let method = first()?.getattr(name.bind(py))?;
                method.call(PyTuple::new(py, &args[1..])?, Some(kwargs))
            }
            Some(Object::Attribute(name)) => first()?.getattr(name.bind(py)),
            _ => Err(PyRuntimeError::new_err("a call of something that is not there")),
        }
    }
}

/// A function of C, or one of torch's layers as a function.
fn is_torchs(function: &Bound<'_, PyAny>) -> bool {
    let is_of = |type_name: &str| function.get_type().name().is_ok_and(|name| name == type_name);
    let is_layer = || function.getattr("__module__").is_ok_and(|module| module.eq("torch.nn.functional").unwrap_or(false));
    is_of("builtin_function_or_method") || is_of("function") && is_layer()
}

/// Whether a tensor's attribute is one of torch's own, as `real` is.
fn is_computed_by_c(name: &Bound<'_, PyString>) -> PyResult<bool> {
    let of_all = Torch::get(name.py())?.tensor.bind(name.py()).getattr(name)?;
    Ok(of_all.get_type().name()? == "getset_descriptor")
}

fn computes_in_all_forms(name: &Bound<'_, PyString>) -> PyResult<bool> {
    let py = name.py();
    let torch = py.import(intern!(py, "torch"))?;
    let tag = torch.getattr(intern!(py, "Tag"))?.getattr(intern!(py, "nondeterministic_seeded"))?;
    let packet = torch.getattr(intern!(py, "ops"))?.getattr(intern!(py, "aten"))?.getattr(name)?;
    for overload in packet.call_method0(intern!(py, "overloads"))?.try_iter()? {
        let form = packet.getattr(overload?.cast::<PyString>()?)?;
        if form.getattr(intern!(py, "tags"))?.contains(&tag)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `torch.ops.aten.sort.stable` for `aten::sort`, `stable`.
fn operator<'py>(py: Python<'py>, name: &str, overload: &str) -> PyResult<Bound<'py, PyAny>> {
    let mut object = py.import(intern!(py, "torch"))?.getattr(intern!(py, "ops"))?;
    for part in name.split("::") {
        object = object.getattr(part)?;
    }
    object.getattr(if overload.is_empty() { "default" } else { overload })
}

/// The tensors of a result: itself, or those of a flat sequence. Nones in between are left out, as the importer left them out.
fn flatten(py: Python<'_>, crossing: &Crossing, result: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    if result.is_instance(Torch::get(py)?.tensor.bind(py))? {
        return Ok(vec![crossing.own(result)?]);
    }
    let mut out = Vec::new();
    for item in result.try_iter()? {
        let item = item?;
        if !item.is_none() {
            out.push(crossing.own(&item)?);
        }
    }
    Ok(out)
}

impl<'py> Call<'_, 'py> {
    fn arg(&self, arg: &Arg) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match arg {
            Arg::None => py.None().into_bound(py),
            Arg::Tensor(n) => {
                self.tensors.get(*n as usize).cloned().ok_or_else(|| PyTypeError::new_err("a tensor is missing"))?
            }
            Arg::Int(sym) => self.size(sym)?.into_pyobject(py)?.into_any(),
            Arg::Float(Scalar::Int(x)) => x.into_pyobject(py)?.into_any(),
            Arg::Float(Scalar::Bool(x)) | Arg::Bool(x) => x.into_pyobject(py)?.to_owned().into_any(),
            Arg::Float(Scalar::Float(x)) => x.into_pyobject(py)?.into_any(),
            Arg::Str(text) => text.into_pyobject(py)?.into_any(),
            Arg::DType(dtype) => Torch::get(py)?.dtype_object(py, *dtype),
            Arg::Device(device) => device_object(py, *device)?,
            Arg::MemoryFormat(n) => self.constant(EnumKind::MemoryFormat, *n)?,
            Arg::Layout(n) => self.constant(EnumKind::Layout, *n)?,
            Arg::Object(n) => self.object(*n)?,
            Arg::List(items) => PyList::new(py, self.args(items)?)?.into_any(),
            Arg::Tuple(items) => PyTuple::new(py, self.args(items)?)?.into_any(),
            Arg::Slice(parts) => {
                py.get_type::<PySlice>().call1((self.arg(&parts[0])?, self.arg(&parts[1])?, self.arg(&parts[2])?))?
            }
            Arg::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, value) in items {
                    dict.set_item(key, self.arg(value)?)?;
                }
                dict.into_any()
            }
        })
    }

    fn args(&self, items: &[Arg]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        items.iter().map(|item| self.arg(item)).collect()
    }

    fn size(&self, sym: &Sym) -> PyResult<i64> {
        sym.eval(self.sizes).ok_or_else(|| PyValueError::new_err(format!("the size {sym} cannot be computed")))
    }

    fn constant(&self, kind: EnumKind, number: i32) -> PyResult<Bound<'py, PyAny>> {
        let object = Torch::get(self.py)?.enum_object(self.py, kind, number);
        object.ok_or_else(|| PyValueError::new_err("a memory format or layout without a name"))
    }

    fn object(&self, n: u32) -> PyResult<Bound<'py, PyAny>> {
        match self.host.0.get(n as usize) {
            Some(Object::Plain(object)) => Ok(object.bind(self.py).clone()),
            _ => Err(PyTypeError::new_err("an argument that is not there")),
        }
    }
}
