//! Which operator of torch's dispatcher a call means: then it needs no Python at run time.

use super::call::{Callee, Request};
use super::importer::Importer;
use super::refusal::Import;
use ox_capture::Obj;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyString, PyTuple};

/// An operator, and its schema as torch prints it.
pub(super) struct Operator {
    pub name: String,
    /// "" for the default one.
    pub overload: String,
    pub schema: String,
}

impl<'py> Importer<'py> {
    /// The overload that torch would choose. None for functions that are not an operator's plain binding, and for those that only TorchScript
    /// has, as `as_tensor`: the dispatcher refuses each call of them.
    pub(super) fn operator(&self, request: &Request<'py>) -> Import<Option<Operator>> {
        let Some(name) = self.qualified_name(request)? else { return Ok(None) };
        let py = self.py;
        let torch = py.import(intern!(py, "torch._C"))?;
        let overload = if request.name.overload.is_empty() {
            let examples = self.example_arguments(request)?;
            let mut args = vec![PyString::new(py, &name).into_any()];
            args.extend(examples.0.iter());
            let resolve = torch.getattr(intern!(py, "_jit_resolve_packet"))?;
            // An error means that no overload takes these arguments as they are.
            let Ok(found) = resolve.call(PyTuple::new(py, args)?, Some(&examples.1)) else { return Ok(None) };
            found.extract::<String>()?
        } else {
            request.name.overload.clone()
        };
        let overload = if overload == "default" { String::new() } else { overload };
        let Ok(schema) = torch.call_method1(intern!(py, "_get_schema"), (&name, &overload)) else { return Ok(None) };
        let schema = Obj::from(schema).to_string();
        let is_dispatched = torch.call_method1(intern!(py, "_dispatch_find_schema_or_throw"), (&name, &overload)).is_ok();
        Ok(is_dispatched.then_some(Operator { name, overload, schema }))
    }

    /// `aten::linalg_det` for `torch.linalg.det`, if that is torch's own binding and not a Python function around it.
    fn qualified_name(&self, request: &Request<'py>) -> Import<Option<String>> {
        let py = self.py;
        let name = &request.name;
        let is_binding = match &request.callee {
            Callee::Function(function) => {
                let is_operator = function.is_instance(self.torch.op_overload.bind(py))?
                    || function.is_instance(self.torch.op_overload_packet.bind(py))?;
                if is_operator {
                    return Ok(Some(format!("{}::{}", name.namespace, name.name)));
                }
                is_c_function(function)?
            }
            Callee::Method(method) => {
                let method = self.torch.tensor.bind(py).getattr(method.as_str());
                method.is_ok_and(|method| is_c_function(&method).unwrap_or(false))
            }
            Callee::Attribute(_) => false,
        };
        Ok(match name.namespace.as_str() {
            _ if !is_binding => None,
            "torch" | "Tensor" | "F" => Some(format!("aten::{}", name.name)),
            "special" | "linalg" | "fft" => Some(format!("aten::{}_{}", name.namespace, name.name)),
            _ => None,
        })
    }

    /// The call's arguments with fake tensors in the place of nodes.
    pub(super) fn example_arguments(&self, request: &Request<'py>) -> Import<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let py = self.py;
        let map = py.import(intern!(py, "torch.fx.node"))?.getattr(intern!(py, "map_arg"))?;
        let example = PyCFunction::new_closure(py, None, None, |args, _| -> PyResult<Py<PyAny>> {
            let meta = args.get_item(0)?.getattr("meta")?;
            Ok(meta.get_item("example_value").or_else(|_| meta.get_item("val"))?.unbind())
        })?;
        let args = map.call1((request.node.getattr(intern!(py, "args"))?, &example))?;
        let kwargs = map.call1((request.node.getattr(intern!(py, "kwargs"))?, &example))?;
        let plain = PyDict::new(py);
        plain.update(kwargs.cast::<PyDict>()?.as_mapping())?;
        Ok((PyTuple::new(py, args.try_iter()?.collect::<PyResult<Vec<_>>>()?)?, plain))
    }
}

fn is_c_function(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = object.get_type();
    let name = class.name()?;
    Ok(matches!(name.extract::<&str>()?, "builtin_function_or_method" | "method_descriptor"))
}
