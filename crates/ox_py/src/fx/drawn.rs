//! Random numbers with which torch fills an argument, from the beginning of its memory: which element gets which number follows from how it lies in
//! eager, of which a graph knows nothing.

use super::call::{Callee, Request};
use super::importer::Importer;
use super::refusal::Import;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

const FILL: [&str; 8] = ["uniform_", "normal_", "exponential_", "geometric_", "log_normal_", "cauchy_", "random_", "bernoulli_"];

impl<'py> Importer<'py> {
    /// The call, of an argument that is laid out as in eager. None where it lies row by row there, or draws nothing.
    pub(super) fn filled_in_order(&self, request: &Request<'py>) -> Import<Option<Callee<'py>>> {
        let py = self.py;
        if !FILL.contains(&request.name.name.as_str()) {
            return Ok(None);
        }
        let Ok(first) = request.node.getattr(intern!(py, "args"))?.get_item(0) else { return Ok(None) };
        let Some(example) = self.meta(&first)? else { return Ok(None) };
        let strides: Vec<i64> = example.call_method0(intern!(py, "stride"))?.extract().unwrap_or_default();
        let mut order: Vec<usize> = (0..strides.len()).collect();
        order.sort_by_key(|dim| -strides[*dim]);
        if order.is_sorted() {
            return Ok(None);
        }
        let callee = match &request.callee {
            Callee::Function(function) => function.clone(),
            Callee::Method(method) => self.torch.tensor.bind(py).getattr(method.as_str())?,
            Callee::Attribute(_) => return Ok(None),
        };
        Ok(Some(Callee::Function(filling(&callee, order)?.into_any())))
    }
}

/// The function, of its first argument with the dimensions in this order in memory.
fn filling<'py>(function: &Bound<'py, PyAny>, order: Vec<usize>) -> PyResult<Bound<'py, PyCFunction>> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, dim)| back[*dim] = place);
    let whole = function.clone().unbind();
    let call = move |args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let py = args.py();
        let given = args.get_item(0)?;
        let dense = given.call_method1(intern!(py, "permute"), (&order,))?.call_method0(intern!(py, "contiguous"))?;
        let laid = dense.call_method1(intern!(py, "permute"), (&back,))?;
        let mut args: Vec<Bound<'_, PyAny>> = args.iter().collect();
        args[0] = laid.clone();
        whole.bind(py).call(PyTuple::new(py, args)?, kwargs)?;
        given.call_method1(intern!(py, "copy_"), (laid,)).map(Bound::unbind)
    };
    PyCFunction::new_closure(function.py(), None, None, call)
}
