//! Dynamo does not look at whether the parameters of a module require grad. A graph that was compiled when some did not gives them no
//! gradient, so it is not used once they do.

use crate::error::warn_once;
use crate::torch::Torch;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct Watched {
    callable: Py<PyAny>,
    /// The same computation, done by torch.
    eager: Py<PyAny>,
    /// The arguments that did not require grad.
    without: Vec<usize>,
}

/// The callable itself where nothing can change, because it was compiled without grad.
pub fn watched<'py>(
    gm: &Bound<'py, PyAny>,
    examples: &Bound<'py, PyAny>,
    callable: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = gm.py();
    if !py.import(intern!(py, "torch"))?.call_method0(intern!(py, "is_grad_enabled"))?.is_truthy()? {
        return Ok(callable);
    }
    let (tensor, mut without) = (Torch::get(py)?.tensor.bind(py), Vec::new());
    for (place, example) in examples.try_iter()?.enumerate() {
        let example = example?;
        if example.is_instance(tensor)?
            && (example.call_method0(intern!(py, "is_floating_point"))?.is_truthy()?
                || example.call_method0(intern!(py, "is_complex"))?.is_truthy()?)
            && !example.getattr(intern!(py, "requires_grad"))?.is_truthy()?
        {
            without.push(place);
        }
    }
    if without.is_empty() {
        return Ok(callable);
    }
    let eager = gm.getattr(intern!(py, "forward"))?.unbind();
    Ok(Bound::new(py, Watched { callable: callable.unbind(), eager, without })?.into_any())
}

#[pymethods]
impl Watched {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        for place in &self.without {
            if args.get_borrowed_item(*place)?.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
                let text = "oxytorch: a graph runs in eager: a tensor requires grad that did not when it was compiled";
                warn_once(py, &format!("{text}; torch.compiler.reset() compiles it again"))?;
                return self.eager.bind(py).call1(args.clone());
            }
        }
        self.callable.bind(py).call1(args.clone())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        self.callable.bind(py).to_string()
    }
}
