//! An FX graph in the place of a GraphModule, which takes longer to make than the rest of a compile: it is made if it must run.

use crate::pieces::example;
use ox_capture::Found;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyFunction, PyString, PyTuple};

#[pyclass(frozen)]
pub struct Recorded {
    #[pyo3(get)]
    graph: Py<PyAny>,
    /// The module whose tensors and submodules the graph names; None if it names none.
    root: Option<Py<PyAny>>,
    ready: Found<Ready>,
}

impl Recorded {
    pub fn new(graph: Py<PyAny>, root: Option<Py<PyAny>>) -> Recorded {
        Recorded { graph, root, ready: Found::new() }
    }

    /// A part of another graph, which may name what that one does.
    pub fn part_of(gm: &Bound<'_, PyAny>, graph: Py<PyAny>) -> Recorded {
        let root = match gm.cast::<Recorded>() {
            Ok(recorded) => recorded.get().root.as_ref().map(|root| root.clone_ref(gm.py())),
            Err(_) => Some(gm.clone().unbind()),
        };
        Recorded::new(graph, root)
    }

    fn ready(&self, py: Python<'_>) -> PyResult<&Ready> {
        self.ready.or_try_find(|| {
            let root = match &self.root {
                Some(root) => root.bind(py).clone(),
                None => py.import("torch.nn")?.getattr("Module")?.call0()?,
            };
            let graph = self.graph.bind(py);
            numbers_as_one_tensor(graph)?;
            functions_by_their_names(graph)?;
            Ok(match takes_functions(graph)? {
                true => Ready::Walked(root.unbind()),
                false => {
                    Ready::Text(py.import("torch.fx")?.getattr("GraphModule")?.call1((root, graph))?.getattr("forward")?.unbind())
                }
            })
        })
    }
}

/// How eager runs the graph.
enum Ready {
    /// By a function of Python's that says the same.
    Text(Py<PyAny>),
    /// Node by node, with the module that it names.
    Walked(Py<PyAny>),
}

/// Whether a call has a function among its arguments, which no text of the graph can name.
fn takes_functions(graph: &Bound<'_, PyAny>) -> PyResult<bool> {
    for node in graph.getattr("nodes")?.try_iter()? {
        let node = node?;
        let named = node.getattr("kwargs")?.cast_into::<PyDict>()?.values();
        let args = node.getattr("args")?.cast_into::<PyTuple>()?;
        if args.iter().chain(named.iter()).any(|arg| arg.is_instance_of::<PyFunction>()) {
            return Ok(true);
        }
    }
    Ok(false)
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
        let py = args.py();
        match self.ready(py)? {
            Ready::Text(forward) => forward.bind(py).call1(args.clone()),
            // What walks keeps the values of its call, and there may be calls on several threads.
            Ready::Walked(root) => {
                let walker = py.import("torch.fx")?.getattr("Interpreter")?.call1((root, true, &self.graph))?;
                walker.getattr("run")?.call1(args.clone())
            }
        }
    }

    #[getter]
    fn code(&self, py: Python<'_>) -> PyResult<String> {
        self.graph.bind(py).str()?.extract()
    }

    /// Tensors and submodules.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match &self.root {
            Some(root) => root.bind(py).getattr(name),
            None => Err(pyo3::exceptions::PyAttributeError::new_err(name.to_string())),
        }
    }
}
