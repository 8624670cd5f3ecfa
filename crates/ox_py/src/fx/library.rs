//! Calls that the surface table does not know: done by torch at run time, through its dispatcher where that can carry the arguments,
//! by Python otherwise; typed by torch's fake kernels.

use super::as_strided::BY_PLACE;
use super::call::{Callee, Request};
use super::dispatch::Operator;
use super::importer::Importer;
use super::refusal::{Import, Refusal};
use super::undeclared;
use crate::pieces::written_by_flag;
use crate::report::PythonCall;
use ox_ir::graph::{Arg, Library, LibraryOut};
use ox_ir::{Scalar, Sym};
use ox_ops::decide::rely_on_shape;
use ox_ops::surface::{first_argument, writes_first};
use ox_ops::{FrontValue, OpError, TensorRef, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Tensors of a call, each once, and the arguments that name them by place.
struct Encoder {
    tensors: Vec<TensorRef>,
    /// The place of Python's `...` in the side table.
    ellipsis: u32,
}

impl<'py> Importer<'py> {
    pub(super) fn leave_to_torch(
        &mut self,
        mut request: Request<'py>,
        writes: &[TensorRef],
        reason: String,
    ) -> Import<FrontValue> {
        if request.has_run_time_number() {
            return Err(Refusal::unsupported(format!(
                "{} with a number that is only known while running: {reason}",
                request.name
            )));
        }
        self.rely_on_weights(&request)?;
        let results = self.library_outs(&request, writes)?;
        if !request.is_in_place()? {
            self.note_opaque_view(&request)?;
        }
        // An operator that writes is left to Python, which knows how to hand it its arguments. So is what goes by places: the dispatcher is handed
        // memory, Python the tensors with their storages. A result that is no tensor at all is None to Python only.
        let lacks_result = request.example.as_ref().is_some_and(has_none);
        let by_python = !writes.is_empty() || BY_PLACE.contains(&request.name.name.as_str()) || lacks_result;
        request.callee = self.drawn_in_order(&request)?.unwrap_or(request.callee);
        let operator = if by_python { None } else { self.operator(&request)?.filter(|operator| !is_python(self.py, operator)) };
        let mut encoder = Encoder { tensors: Vec::new(), ellipsis: self.host.add(&self.py.Ellipsis().into_bound(self.py)) };
        let args = request.args.iter().map(|a| encoder.encode(a)).collect();
        let kwargs = request.kwargs.iter().map(|(k, v)| (k.clone(), encoder.encode(v))).collect();
        let tensors = encoder.tensors;
        let mut mutates: Vec<u32> = writes.iter().filter_map(|w| tensors.iter().position(|t| t == w)).map(|p| p as u32).collect();
        mutates.sort_unstable();
        mutates.dedup();
        let (is_in_place, first) = (results.is_none(), request.first().cloned());
        let outs = results.unwrap_or_default();
        // What it does is not known: it keeps its place among other such calls.
        let mut library = Library { callee: nobody(), args, kwargs, outs, mutates, effect: true };
        match operator.and_then(|operator| through_dispatcher(&library, operator)) {
            Some(native) => library = native,
            None => {
                let name = request.name.to_string();
                self.python_calls.push(PythonCall { name: name.clone(), location: self.location.clone(), reason });
                let object = self.host.add_callee(request.callee, self.py);
                library.callee = ox_ir::graph::Callee::Python { object, name };
            }
        }
        let outs = self.recorder.library(library, &tensors).map_err(|error| match error {
            OpError::Bug(text) => Refusal::Bug(text),
            other => Refusal::unsupported(format!("{}: {other}", request.name)),
        })?;
        match request.example {
            Some(example) if !is_in_place => self.rebuild(&example, &mut outs.into_iter()),
            _ => Ok(first.unwrap_or(ValueOf::None)),
        }
    }

    /// Whether fused attention returns weights depends on whether there is anything to weigh, of which torch's fake kernel knows nothing.
    fn rely_on_weights(&self, request: &Request<'py>) -> Import<()> {
        let of_attention = request.name.name == "_native_multi_head_attention";
        let Some(ValueOf::Tensor(query)) = request.args.first().filter(|_| of_attention) else { return Ok(()) };
        let shape = &self.recorder.ty(*query).shape;
        rely_on_shape(shape);
        let is_empty = shape.iter().any(Sym::is_zero);
        if is_empty && !request.example.as_ref().is_some_and(has_none) {
            return Err(Refusal::unsupported(format!("{} of nothing", request.name)));
        }
        Ok(())
    }

    /// The tensors that the call makes: its result is a tensor or a flat sequence of tensors and Nones. `None` for an in-place
    /// call, which returns its argument.
    fn library_outs(&self, request: &Request<'py>, writes: &[TensorRef]) -> Import<Option<Vec<LibraryOut>>> {
        let unsupported = |what: &str| Refusal::unsupported(format!("{}: {what}", request.name));
        match &request.example {
            _ if !writes.is_empty() && request.is_in_place()? => Ok(None),
            Some(example) => self.outs_like(example)?.ok_or_else(|| unsupported("results that are not tensors")).map(Some),
            None if !writes.is_empty() => Ok(None),
            None => Err(unsupported("a call whose result is not known")),
        }
    }

    fn outs_like(&self, example: &Bound<'py, PyAny>) -> Import<Option<Vec<LibraryOut>>> {
        let mut outs = Vec::new();
        let items: Vec<Bound<'py, PyAny>> = match is_sequence(example) {
            true => example.try_iter()?.collect::<PyResult<_>>()?,
            false => vec![example.clone()],
        };
        for item in items {
            if item.is_none() {
                continue;
            }
            if !item.is_instance(self.torch.tensor.bind(self.py))? {
                return Ok(None);
            }
            let fake = self.describe(&item)?;
            outs.push(LibraryOut { ty: fake.ty, strides: fake.strides });
        }
        Ok(Some(outs))
    }

    fn rebuild(&self, example: &Bound<'py, PyAny>, outs: &mut dyn Iterator<Item = TensorRef>) -> Import<FrontValue> {
        if is_sequence(example) {
            let items: Vec<Bound<'py, PyAny>> = example.try_iter()?.collect::<PyResult<_>>()?;
            return Ok(ValueOf::Tuple(items.iter().map(|item| self.rebuild(item, outs)).collect::<Import<_>>()?));
        }
        if example.is_none() {
            return Ok(ValueOf::None);
        }
        Ok(outs.next().map_or(ValueOf::None, ValueOf::Tensor))
    }

    /// The tensors that the call writes: by its schema if it has one, otherwise by torch's naming.
    pub(super) fn written_args(&self, request: &Request<'py>) -> Import<Vec<TensorRef>> {
        let outs = request.kwargs.iter().filter(|(key, _)| key == "out");
        let mut written: Vec<TensorRef> = outs.flat_map(|(_, value)| value.tensors()).collect();
        if let Some(overload) = self.overload(&request.callee)? {
            written.extend(self.written_by_schema(&overload, request)?);
        } else if request.is_in_place()? {
            written.extend(request.first().into_iter().flat_map(|first| first.tensors()));
        }
        written.extend(undeclared::written(request));
        Ok(written)
    }

    /// The operator that a call means, if it says so: an overload, or a packet with one overload.
    fn overload(&self, callee: &Callee<'py>) -> Import<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let Callee::Function(function) = callee else { return Ok(None) };
        if function.is_instance(self.torch.op_overload.bind(py))? {
            return Ok(Some(function.clone()));
        }
        if !function.is_instance(self.torch.op_overload_packet.bind(py))? {
            return Ok(None);
        }
        let overloads: Vec<String> = function.call_method0(intern!(py, "overloads"))?.extract()?;
        match &overloads[..] {
            [only] => Ok(Some(function.getattr(only.as_str())?)),
            _ => Ok(None),
        }
    }

    fn written_by_schema(&self, overload: &Bound<'py, PyAny>, request: &Request<'py>) -> Import<Vec<TensorRef>> {
        let py = self.py;
        let schema = overload.getattr(intern!(py, "_schema"))?;
        let mut written = Vec::new();
        for (place, parameter) in schema.getattr(intern!(py, "arguments"))?.try_iter()?.enumerate() {
            let parameter = parameter?;
            let alias = parameter.getattr(intern!(py, "alias_info"))?;
            if alias.is_none() || !alias.getattr(intern!(py, "is_write"))?.is_truthy()? {
                continue;
            }
            let key: String = parameter.getattr(intern!(py, "name"))?.extract()?;
            let named = || request.kwargs.iter().find(|(k, _)| *k == key).map(|(_, v)| v);
            let value = request.args.get(place).or_else(named);
            written.extend(value.into_iter().flat_map(|v| v.tensors()));
        }
        Ok(written)
    }

    /// Notes a result that shares memory with an argument: the recorder takes it for a fresh tensor.
    pub(super) fn note_opaque_view(&mut self, request: &Request<'py>) -> Import<()> {
        let Some(example) = &request.example else { return Ok(()) };
        if self.is_opaque_view(&request.node, Some(example))?
            && let Some(own) = self.storage(example)?
        {
            self.opaque_views.insert(own, request.name.to_string());
        }
        Ok(())
    }

    /// Whether a call that the recorder does not know gives a view of an argument.
    pub(super) fn is_opaque_view(&self, node: &Bound<'py, PyAny>, example: Option<&Bound<'py, PyAny>>) -> Import<bool> {
        let own = example.map(|example| self.storage(example)).transpose()?.flatten();
        own.map_or(Ok(false), |own| Ok(self.argument_storages(node)?.contains(&own)))
    }

    pub(super) fn argument_storages(&self, node: &Bound<'py, PyAny>) -> Import<Vec<usize>> {
        let mut storages = Vec::new();
        for input in node.getattr(intern!(self.py, "all_input_nodes"))?.try_iter()? {
            if let Some(example) = self.meta(&input?)? {
                storages.extend(self.storage(&example)?);
            }
        }
        Ok(storages)
    }

    /// Refuses a write to memory that has views which the recorder does not know of. An in-place call writes its first argument; for
    /// others any argument counts.
    pub(super) fn check_opaque(&self, request: &Request<'py>) -> Import<()> {
        if self.opaque_views.is_empty() {
            return Ok(());
        }
        let mut storages = self.argument_storages(&request.node)?;
        if request.is_in_place()? {
            storages.truncate(1);
        }
        match storages.iter().find_map(|storage| self.opaque_views.get(storage)) {
            Some(name) => Err(Refusal::unsupported(format!("an in-place operation after {name}, which returned a view"))),
            None => Ok(()),
        }
    }
}

impl Request<'_> {
    fn has_run_time_number(&self) -> bool {
        fn holds(value: &FrontValue) -> bool {
            matches!(value, ValueOf::Number(_)) || value.items().is_some_and(|items| items.iter().any(holds))
        }
        self.args.iter().chain(self.kwargs.iter().map(|(_, value)| value)).any(holds)
    }

    fn first(&self) -> Option<&FrontValue> {
        let named = |name: &str| self.kwargs.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        first_argument(self.args.first(), named)
    }

    /// `add_`, `iadd`, `setitem`, `relu(x, inplace=True)`; not `__add__`.
    fn is_in_place(&self) -> Import<bool> {
        let is_flag = |(key, value): &(String, FrontValue)| key == "inplace" && *value == ValueOf::Bool(true);
        let is_named = self.kwargs.iter().any(is_flag) || writes_first(&self.name.name);
        Ok(is_named || written_by_flag(&self.node)?.is_some())
    }
}

impl Encoder {
    fn encode(&mut self, value: &FrontValue) -> Arg {
        match value {
            ValueOf::Tensor(tensor) => {
                let known = self.tensors.iter().position(|t| t == tensor);
                let place = known.unwrap_or_else(|| {
                    self.tensors.push(*tensor);
                    self.tensors.len() - 1
                });
                Arg::Tensor(place as u32)
            }
            ValueOf::Int(sym) => Arg::Int(sym.clone()),
            ValueOf::Number(tensor) => self.encode(&ValueOf::Tensor(*tensor)),
            ValueOf::Float(x) => Arg::Float(Scalar::Float(*x)),
            ValueOf::Bool(x) => Arg::Bool(*x),
            ValueOf::None => Arg::None,
            ValueOf::Str(x) => Arg::Str(x.clone()),
            ValueOf::DType(x) => Arg::DType(*x),
            ValueOf::Device(x) => Arg::Device(*x),
            ValueOf::MemoryFormat(x) => Arg::MemoryFormat(*x),
            ValueOf::Layout(x) => Arg::Layout(*x),
            ValueOf::List(items) => Arg::List(items.iter().map(|v| self.encode(v)).collect()),
            ValueOf::Tuple(items) => Arg::Tuple(items.iter().map(|v| self.encode(v)).collect()),
            ValueOf::Slice(s) => Arg::Slice(Box::new([self.encode(&s[0]), self.encode(&s[1]), self.encode(&s[2])])),
            ValueOf::Ellipsis => Arg::Object(self.ellipsis),
            ValueOf::Object(x) => Arg::Object(*x),
        }
    }
}

/// Whether somebody has written the operator, or a part of it, in Python: the dispatcher would lose the exceptions that it raises.
fn is_python(py: Python<'_>, operator: &Operator) -> bool {
    let Some((namespace, name)) = operator.name.split_once("::") else { return false };
    if namespace == "aten" {
        return false;
    }
    let registered = || -> PyResult<bool> {
        let keys = py.import(intern!(py, "torch.library"))?.getattr(intern!(py, "_impls"))?;
        let of_operator = |key: PyResult<Bound<'_, PyAny>>| -> PyResult<bool> {
            let key: String = key?.extract()?;
            let rest = key.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')?.strip_prefix(name));
            Ok(rest.is_some_and(|rest| rest.starts_with(['/', '.'])))
        };
        keys.try_iter()?.map(of_operator).try_fold(false, |found, one| Ok(found || one?))
    };
    registered().unwrap_or(true)
}

/// Stands in until it is known who is called.
fn nobody() -> ox_ir::graph::Callee {
    ox_ir::graph::Callee::Python { object: u32::MAX, name: String::new() }
}

/// The call through the dispatcher, if its arguments can be carried there.
fn through_dispatcher(call: &Library, operator: Operator) -> Option<Library> {
    let callee = ox_ir::graph::Callee::Dispatcher { name: operator.name, overload: operator.overload };
    let mut native = Library { callee, ..call.clone() };
    // torch's functions say `input` where schemas say `self`.
    for (key, _) in native.kwargs.iter_mut().filter(|(key, _)| key == "input") {
        *key = "self".to_string();
    }
    ox_runtime::supports(&native, &operator.schema).then_some(native)
}

fn has_none(example: &Bound<'_, PyAny>) -> bool {
    is_sequence(example) && example.try_iter().is_ok_and(|items| items.flatten().any(|item| item.is_none()))
}

pub(super) fn is_sequence(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>()
}
