//! Second derivatives of graphs with random numbers of our own, which eager could not draw again: the graph that computes the gradients is
//! differentiated itself. It draws the seed of the call once more, from the generator as it was then.

use super::again::RandomState;
use super::{Again, Backward, Place, Served, TrainingCallable, Views, Ways, reach};
use crate::callable::NativeCallable;
use crate::fx::{Gradients, OutTree};
use crate::limits::Limits;
use crate::rewind::rewinds;
use ox_capture::Found;
use ox_driver::{CompileError, Held, Joint, Race, Training, TrainingError, Wanted, compile_training, gradient_graph};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The gradients as a function that can be differentiated.
pub struct Second {
    callable: Py<TrainingCallable>,
    /// Results whose gradients it takes, behind the inputs.
    tangents: Vec<u32>,
    /// For each input, which of its results is the gradient.
    gradients: Vec<Option<u32>>,
}

impl Second {
    /// One of the results. To autograd all of them depend on all inputs.
    fn gradient<'py>(
        &self,
        n: usize,
        inputs: &[Bound<'py, PyAny>],
        results: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, result) = (results.py(), results.get_item(n)?);
        for (input, _) in inputs.iter().zip(&self.callable.get().backward.reach[n]).filter(|(_, reached)| **reached) {
            if input.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
                return Ok(result);
            }
        }
        result.call_method0(intern!(py, "detach"))
    }
}

impl TrainingCallable {
    pub(super) fn natively<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyTuple>,
        grads: &Bound<'py, PyTuple>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let py = ctx.py();
        let second = self.second.or_try_find(|| self.differentiated(py))?;
        let sizes: Vec<i64> = ctx.getattr(intern!(py, "sizes"))?.extract()?;
        let mut inputs: Vec<Bound<'py, PyAny>> = inputs.iter().collect();
        for result in &second.tangents {
            let grad = grads.get_item(*result as usize)?;
            inputs.push(match grad.is_none() {
                true => self.backward.zeros_of(py, *result, &sizes)?,
                false => grad.call_method0(intern!(py, "contiguous"))?,
            });
        }
        let _numbers = RandomState::set(&ctx.getattr(intern!(py, "random"))?)?;
        let results = TrainingCallable::apply(second.callable.bind(py), &sizes, Vec::new(), &inputs)
            .map_err(|error| unserved(py, error))?;
        let flows =
            |input: usize| self.backward.reach.iter().zip(grads.iter()).any(|(reach, grad)| !grad.is_none() && reach[input]);
        let gradient = |(input, place): (usize, &Option<u32>)| {
            place.filter(|_| flows(input)).map(|n| second.gradient(n as usize, &inputs, &results)).transpose()
        };
        second.gradients.iter().enumerate().map(gradient).collect()
    }

    fn differentiated(&self, py: Python<'_>) -> PyResult<Second> {
        let (of, host) = (&self.backward, self.backward.host.clone());
        let wanted = Wanted {
            inputs: self.gradients.inputs.clone(),
            outputs: self.gradients.outputs.clone(),
            attention: Default::default(),
            held: Held::all_inputs(&self.native.graph),
        };
        let first = gradient_graph(&self.native.graph, &wanted).map_err(|at| refused(&at.to_string()))?;
        let Joint { graph, tangents, gradients: places, .. } = first;
        // All that has a gradient, and the gradients that come in.
        let mut inputs = wanted.inputs;
        inputs.resize(graph.inputs.len(), true);
        let gradients = Gradients { outputs: vec![true; graph.outputs.len()], inputs, origins: Vec::new(), ambient: true };
        let wanted = Wanted {
            inputs: gradients.inputs.clone(),
            outputs: gradients.outputs.clone(),
            attention: Default::default(),
            held: Held::all_inputs(&graph),
        };
        let compiled = py.detach(|| compile_training(&graph, &wanted, &of.options, host.clone())).map_err(failed)?;
        let Training { forward, backward, graph: of_gradients, sources, gradients: its, .. } = compiled;
        let backward = Backward {
            graph: of_gradients,
            sources,
            gradients: its,
            reach: reach(&graph, &gradients),
            options: of.options.clone(),
            host,
            together: false,
            program: Arc::new(backward.program),
            others: Default::default(),
            needs: Default::default(),
            passes: AtomicU32::new(0),
        };
        let results = graph.outputs.len();
        let native = NativeCallable {
            rewinds: rewinds(&graph, &forward.program),
            program: forward.program,
            race: Race::new(&graph, false),
            graph,
            text: None,
            on_cpu: self.native.on_cpu,
            slots: Vec::new(),
            constants: Vec::new(),
            outputs: OutTree::Tuple(Vec::new()),
            eager: py.None(),
            broken: AtomicBool::new(false),
            pinned: Vec::new(),
            limits: Limits::default(),
            unheard: Vec::new(),
        };
        let views = Views { places: (0..results).map(Place::Result).collect() };
        let (again, second, ways) = (Again::Natively, Found::new(), Ways::default());
        let (gates, copied) = (Vec::new(), vec![false; gradients.inputs.len()]);
        // Their results were handed on to autograd, which nobody writes.
        let counted = Vec::new();
        let callable =
            TrainingCallable { native, gradients, results, views, backward, ways, gates, again, copied, counted, second };
        Ok(Second { callable: Py::new(py, callable)?, tangents, gradients: places })
    }
}

fn refused(why: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "oxytorch: create_graph=True: this graph has random numbers of its own, and no second derivative: {why}; \
         options={{\"fallback_random\": True}} takes random numbers from eager, which then computes it"
    ))
}

/// Here eager cannot serve the call.
fn unserved(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<Served>(py) {
        return error;
    }
    let why = match error.value(py).getattr(intern!(py, "args")).and_then(|args| args.get_item(0)?.extract::<String>()) {
        Ok(why) if !why.is_empty() => why,
        _ => "internal error".into(),
    };
    PyRuntimeError::new_err(format!("oxytorch: create_graph=True: the backward pass failed: {why}"))
}

fn failed(error: TrainingError) -> PyErr {
    match error {
        TrainingError::Undifferentiable(at) => refused(&at.to_string()),
        TrainingError::Compile(CompileError::Unsupported(why)) => refused(&why),
        TrainingError::Compile(bug) => PyRuntimeError::new_err(format!("oxytorch: internal error: {bug}")),
    }
}
