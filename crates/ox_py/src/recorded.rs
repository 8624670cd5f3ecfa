//! An FX graph in the place of a GraphModule, which takes longer to make than the rest of a compile: it is made if it must run.

use crate::pieces::example;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyString, PyTuple};

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
            numbers_as_one_tensor(self.graph.bind(py))?;
            functions_by_their_names(self.graph.bind(py))?;
            Ok(py.import("torch.fx")?.getattr("GraphModule")?.call1((root, self.graph.bind(py)))?.unbind())
        })?;
        Ok(module.bind(py))
    }
}

/// Functions over lists of tensors with a number for each, which may be computed: then eager takes them as one tensor, not as a list of them.
/// Numbers of sizes are computed, too, but are no tensors: a list of them is what eager takes.
const WITH_NUMBERS: [&str; 4] = ["_foreach_addcdiv", "_foreach_addcdiv_", "_foreach_addcmul", "_foreach_addcmul_"];
/// Where the numbers stand.
const NUMBERS: usize = 3;

fn numbers_as_one_tensor(graph: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = graph.py();
    let (node_class, torch) = (py.import("torch.fx")?.getattr("Node")?, py.import("torch")?);
    let tensor_class = torch.getattr("Tensor")?;
    let is_tensor = |number: &Bound<'_, PyAny>| -> PyResult<bool> {
        if !number.is_instance(&node_class)? {
            return Ok(false);
        }
        example(number)?.map_or(Ok(false), |example| example.is_instance(&tensor_class))
    };
    for node in graph.getattr("nodes")?.try_iter()?.collect::<PyResult<Vec<_>>>()? {
        let name = node.getattr("target")?.getattr_opt("__name__")?;
        let is_one = name.is_some_and(|name| name.extract::<&str>().is_ok_and(|name| WITH_NUMBERS.contains(&name)));
        let args = node.getattr("args")?.cast_into::<PyTuple>()?;
        let Some(numbers) = args.get_item(NUMBERS).ok().filter(|_| is_one) else { continue };
        let Ok(numbers) = numbers.try_iter() else { continue };
        let numbers = numbers.collect::<PyResult<Vec<_>>>()?;
        let are_tensors = numbers.iter().map(is_tensor).collect::<PyResult<Vec<bool>>>()?;
        if are_tensors.is_empty() || are_tensors.contains(&false) {
            continue;
        }
        let place = graph.call_method1("inserting_before", (&node,))?;
        place.call_method0("__enter__")?;
        let together = torch.getattr("stack").and_then(|stack| graph.call_method1("call_function", (stack, (numbers,))));
        place.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
        node.call_method1("update_arg", (NUMBERS, together?))?;
    }
    Ok(())
}

/// Functions of C that a function of Python's has taken the name of in `torch`, with other arguments: the text of the graph would call that one.
fn functions_by_their_names(graph: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = graph.py();
    let torch = py.import("torch")?;
    for node in graph.getattr("nodes")?.try_iter()? {
        let node = node?;
        let target = node.getattr("target")?;
        let module = target.getattr_opt("__module__")?.filter(|_| target.is_instance_of::<PyCFunction>());
        if !module.is_some_and(|module| module.extract::<&str>().is_ok_and(|module| module == "torch")) {
            continue;
        }
        let name = target.getattr("__name__")?.cast_into::<PyString>()?;
        if torch.getattr_opt(&name)?.is_some_and(|named| named.eq(&target).unwrap_or(false)) {
            continue;
        }
        node.setattr("target", torch.getattr("ops")?.getattr("aten")?.getattr(&name)?)?;
    }
    Ok(())
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
