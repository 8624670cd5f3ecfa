//! Arguments of FX nodes as values of the recorder.

use super::call::Keywords;
use super::importer::Importer;
use super::refusal::{Import, Refusal};
use crate::torch::{EnumKind, device_of};
use ox_ops::{FrontValue, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyEllipsis, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple};

impl<'py> Importer<'py> {
    /// Any argument: nodes are looked up, constants are taken as they are.
    pub(super) fn value(&mut self, object: &Bound<'py, PyAny>) -> Import<FrontValue> {
        if object.get_type().is(self.torch.fx_node.bind(self.py)) {
            return match self.env.get(&(object.as_ptr() as usize)) {
                Some(ValueOf::Object(n)) if self.host.is_missing(*n) => {
                    Err(Refusal::unsupported(format!("the argument {object}, which is neither a tensor nor a number")))
                }
                Some(value) => Ok(value.clone()),
                None => Err(Refusal::Bug(format!("node {object} is used before it is made"))),
            };
        }
        if object.is_none() {
            return Ok(ValueOf::None);
        }
        if let Some(number) = self.number(object)? {
            return Ok(number);
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(ValueOf::Str(text.extract()?));
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return Ok(ValueOf::Tuple(tuple.iter().map(|v| self.value(&v)).collect::<Import<_>>()?));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(ValueOf::List(list.iter().map(|v| self.value(&v)).collect::<Import<_>>()?));
        }
        if object.is_instance_of::<PySlice>() {
            return self.slice(object);
        }
        self.rare(object)
    }

    pub(super) fn number(&mut self, object: &Bound<'py, PyAny>) -> Import<Option<FrontValue>> {
        if object.is_exact_instance_of::<PyBool>() {
            return Ok(Some(ValueOf::Bool(object.is_truthy()?)));
        }
        if object.is_instance_of::<PyInt>() {
            // Beyond i64 only torch itself knows what to do.
            return Ok(object.extract::<i64>().ok().map(ValueOf::int));
        }
        if object.is_exact_instance_of::<PyFloat>() {
            return Ok(Some(ValueOf::Float(object.extract()?)));
        }
        if object.is_instance(self.torch.sym_int.bind(self.py))? {
            let sym = self.symbols.to_sym(object)?;
            return sym.map(|sym| Some(ValueOf::Int(sym))).ok_or_else(|| only_while_running(object));
        }
        // A symbolic float or bool is settled here: reading it makes Dynamo guard its value.
        if object.is_instance(self.torch.sym_float.bind(self.py))? {
            let value = self.py.get_type::<PyFloat>().call1((object,)).map_err(|_| only_while_running(object))?;
            return Ok(Some(ValueOf::Float(value.extract()?)));
        }
        if object.is_instance(self.torch.sym_bool.bind(self.py))? {
            return Ok(Some(ValueOf::Bool(object.is_truthy().map_err(|_| only_while_running(object))?)));
        }
        Ok(None)
    }

    fn slice(&mut self, object: &Bound<'py, PyAny>) -> Import<FrontValue> {
        let py = self.py;
        let mut part = |name: &Bound<'py, PyString>| -> Import<FrontValue> { self.value(&object.getattr(name)?) };
        let parts = [part(intern!(py, "start"))?, part(intern!(py, "stop"))?, part(intern!(py, "step"))?];
        Ok(ValueOf::Slice(Box::new(parts)))
    }

    fn rare(&mut self, object: &Bound<'py, PyAny>) -> Import<FrontValue> {
        if object.is_instance_of::<PyEllipsis>() {
            return Ok(ValueOf::Ellipsis);
        }
        if let Some(dtype) = self.torch.dtype_of(object) {
            return Ok(ValueOf::DType(dtype));
        }
        if let Some((kind, number)) = self.torch.enum_number(object) {
            return Ok(match kind {
                EnumKind::MemoryFormat => ValueOf::MemoryFormat(number),
                EnumKind::Layout => ValueOf::Layout(number),
            });
        }
        if object.is_instance(self.torch.device.bind(self.py))? {
            return Ok(ValueOf::Device(device_of(object)?));
        }
        if let Ok(dict) = object.cast::<PyDict>()
            && self.mentions_node(dict)?
        {
            return Err(Refusal::unsupported("a dict of tensors as an argument"));
        }
        Ok(ValueOf::Object(self.host.add(object)))
    }

    fn mentions_node(&self, dict: &Bound<'py, PyDict>) -> PyResult<bool> {
        for (_, value) in dict.iter() {
            if value.is_instance(self.torch.fx_node.bind(self.py))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn arguments(&mut self, node: &Bound<'py, PyAny>) -> Import<(Vec<FrontValue>, Keywords)> {
        let py = self.py;
        let mut args = Vec::new();
        for arg in node.getattr(intern!(py, "args"))?.cast::<PyTuple>()?.iter() {
            args.push(self.value(&arg)?);
        }
        let mut kwargs = Vec::new();
        for (key, value) in node.getattr(intern!(py, "kwargs"))?.cast::<PyDict>()?.iter() {
            kwargs.push((key.extract::<String>()?, self.value(&value)?));
        }
        Ok((args, kwargs))
    }
}

fn only_while_running(object: &Bound<'_, PyAny>) -> Refusal {
    Refusal::unsupported(format!("a number that is only known while running: {object}"))
}
