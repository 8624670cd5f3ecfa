//! An FX graph in the place of a GraphModule, which takes longer to make than the rest of a compile: it is made if it must run.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

#[pyclass(frozen)]
pub struct Recorded {
    #[pyo3(get)]
    graph: Py<PyAny>,
    /// The module whose tensors and submodules the graph names; None if it names none.
    root: Option<Py<PyAny>>,
    module: PyOnceLock<Py<PyAny>>,
}

impl Recorded {
    pub fn new(graph: Py<PyAny>, root: Option<Py<PyAny>>) -> Recorded {
        Recorded { graph, root, module: PyOnceLock::new() }
    }

    /// A part of another graph, which may name what that one does.
    pub fn part_of(gm: &Bound<'_, PyAny>, graph: Py<PyAny>) -> Recorded {
        let root = match gm.cast::<Recorded>() {
            Ok(recorded) => recorded.get().root.as_ref().map(|root| root.clone_ref(gm.py())),
            Err(_) => Some(gm.clone().unbind()),
        };
        Recorded::new(graph, root)
    }

    fn module<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let module = self.module.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
            let root = match &self.root {
                Some(root) => root.bind(py).clone(),
                None => py.import("torch.nn")?.getattr("Module")?.call0()?,
            };
            Ok(py.import("torch.fx")?.getattr("GraphModule")?.call1((root, self.graph.bind(py)))?.unbind())
        })?;
        Ok(module.bind(py))
    }
}

#[pymethods]
impl Recorded {
    /// Runs the graph in eager.
    #[pyo3(signature = (*args))]
    fn forward<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.module(args.py())?.getattr(intern!(args.py(), "forward"))?.call1(args.clone())
    }

    #[getter]
    fn code(&self, py: Python<'_>) -> PyResult<String> {
        self.module(py)?.getattr("code")?.extract()
    }

    /// Tensors and submodules.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match &self.root {
            Some(root) => root.bind(py).getattr(name),
            None => Err(pyo3::exceptions::PyAttributeError::new_err(name.to_string())),
        }
    }
}
