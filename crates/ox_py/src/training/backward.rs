//! The backward program.

use super::TrainingCallable;
use super::chosen::Choice;
use crate::error::{Verdict, judge, report_bug};
use crate::tensor::Crossing;
use crate::torch::{Torch, device_object};
use ox_driver::{CompileError, Options, Program, Source};
use ox_ir::Graph;
use ox_ir::Scalar;
use ox_ir::graph::{Node, Op};
use ox_runtime::{HostCalls, Input};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyList, PyTuple};
use std::sync::{Arc, Mutex, PoisonError};

/// Programs for gradients. Which results have one is seen when they come.
pub struct Backward {
    pub graph: Graph,
    /// Where each input of the graph comes from.
    pub sources: Vec<Source>,
    /// For each input of the forward graph, which result is its gradient.
    pub gradients: Vec<Option<u32>>,
    /// For each result of the forward graph, which of its inputs a gradient flows to.
    pub reach: Vec<Vec<bool>>,
    /// Where one result has a gradient, the others have zeros: so does the older variant of torch's checkpoint.
    pub together: bool,
    pub options: Options,
    pub host: Arc<dyn HostCalls>,
    /// For when all results have one.
    pub program: Arc<Program>,
    /// For other choices, made on first use; None where there is no such program.
    pub others: Mutex<Vec<Other>>,
}

type Other = (Choice, Option<Arc<Program>>);

/// A program that asks for gradients in more ways than this has them all computed.
const MOST_OTHERS: usize = 64;

impl Backward {
    pub fn run<'py>(
        &self,
        py: Python<'py>,
        callable: &TrainingCallable,
        sizes: &[i64],
        saved: &Bound<'py, PyList>,
        grads: &Bound<'py, PyTuple>,
        asked: Option<Vec<bool>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let present: Vec<bool> = grads.iter_borrowed().map(|grad| self.together || !grad.is_none()).collect();
        let choice = Choice { present, asked };
        let special = self.special(py, &choice)?;
        let Operands { inputs, _lent } = self.operands(py, sizes, saved, grads, special.is_none() || self.together)?;
        let program = special.as_ref().unwrap_or(&self.program);
        let crossing = Crossing::get(py)?;
        let tensors = match py.detach(|| program.run_given(inputs, sizes)) {
            Ok(tensors) => tensors,
            Err(error) => {
                callable.native.leave_to_eager_without_kernels(program);
                return Err(self.failed(py, callable, judge(py, error))?);
            }
        };
        // Behind the last backward program the optimizer needs as much as the gradients take, and eager holds nothing then. Which one is the
        // last is not known here.
        ox_runtime::free_idle_arenas();
        // A program of its own gives only what was asked for.
        let is_given = |n: &u32| special.is_none() || choice.asks_for(&self.gradients, *n);
        let mut out = Vec::with_capacity(self.gradients.len());
        for (input, place) in self.gradients.iter().enumerate() {
            let flows = self.reach.iter().zip(&choice.present).any(|(reach, present)| *present && reach[input]);
            out.push(match place.filter(|n| flows && is_given(n)) {
                Some(n) if special.is_none() => crossing.wrap(py, tensors[n as usize].as_ref())?,
                Some(n) => crossing.wrap(py, tensors[(0..n).filter(is_given).count()].as_ref())?,
                None => py.None().into_bound(py),
            });
        }
        PyTuple::new(py, out)
    }

    /// What the program is called with: what was saved, which is taken out of the list, and the gradients that there are, laid out as
    /// it expects them.
    fn operands<'a, 'py>(
        &self,
        py: Python<'py>,
        sizes: &[i64],
        saved: &Bound<'py, PyList>,
        grads: &Bound<'py, PyTuple>,
        all: bool,
    ) -> PyResult<Operands<'a, 'py>> {
        let crossing = Crossing::get(py)?;
        let mut operands = Operands { inputs: Vec::with_capacity(self.sources.len()), _lent: Vec::new() };
        let mut saved = taken(saved)?.into_iter();
        let mut next = || saved.next().ok_or_else(|| PyRuntimeError::new_err("oxytorch: a saved tensor is missing"));
        for (place, source) in self.sources.iter().enumerate() {
            match source {
                Source::Gradient(n) => match grads.get_item(*n as usize)? {
                    grad if !grad.is_none() => operands.lend(crossing, grad.call_method0(intern!(py, "contiguous"))?)?,
                    _ if all => operands.lend(crossing, self.zeros(py, place, sizes)?)?,
                    _ => {}
                },
                Source::Saved(_) => operands.inputs.push(Input::Given(crossing.own(&next()?)?)),
                Source::Input(_) | Source::Output(_) => operands.lend(crossing, next()?)?,
            }
        }
        Ok(operands)
    }

    /// Zeros for an input of the graph.
    fn zeros<'py>(&self, py: Python<'py>, place: usize, sizes: &[i64]) -> PyResult<Bound<'py, PyAny>> {
        let ty = &self.graph.inputs[place].ty;
        let value = |var: &ox_ir::Var| self.graph.sizes.iter().position(|known| known == var).map(|n| sizes[n]);
        let shape: Option<Vec<i64>> = ty.shape.iter().map(|size| size.eval(&value)).collect();
        let shape = shape.ok_or_else(|| PyRuntimeError::new_err("oxytorch: the size of a gradient cannot be computed"))?;
        let (dtype, device) = (Torch::get(py)?.dtype_object(py, ty.dtype), device_object(py, ty.device)?);
        let kwargs = [("dtype", dtype), ("device", device)].into_py_dict(py)?;
        py.import(intern!(py, "torch"))?.call_method(intern!(py, "zeros"), (PyTuple::new(py, shape)?,), Some(&kwargs))
    }

    /// Zeros in the place of the gradient of a result.
    pub fn zeros_of<'py>(&self, py: Python<'py>, result: u32, sizes: &[i64]) -> PyResult<Bound<'py, PyAny>> {
        let place = self.sources.iter().position(|source| *source == Source::Gradient(result));
        self.zeros(py, place.ok_or_else(|| PyRuntimeError::new_err("oxytorch: no such gradient"))?, sizes)
    }

    /// The program for this choice, if it is another than that for everything.
    fn special(&self, py: Python<'_>, choice: &Choice) -> PyResult<Option<Arc<Program>>> {
        let has_all = self.sources.iter().all(|source| !choice.lacks(source));
        if has_all && choice.asked.is_none() {
            return Ok(None);
        }
        let lock = || self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, program)) = lock().iter().find(|(known, _)| known == choice) {
            return Ok(program.clone());
        }
        if lock().len() >= MOST_OTHERS {
            return Ok(None);
        }
        let made = match py.detach(|| self.compile(choice)) {
            Ok(program) => Some(Arc::new(program)),
            Err(CompileError::Unsupported(_)) => None,
            Err(bug) => {
                report_bug(py, &bug.to_string(), &[("backward graph", &self.graph)])?;
                None
            }
        };
        lock().push((choice.clone(), made.clone()));
        Ok(made)
    }

    /// Compiles the program for the gradients that there are, the others being zero, and for those that are asked for.
    fn compile(&self, choice: &Choice) -> Result<Program, CompileError> {
        let missing: Vec<bool> = self.sources.iter().map(|source| choice.lacks(source)).collect();
        let mut graph = without_inputs(&self.graph, &missing);
        let mut n = 0..;
        graph.outputs.retain(|_| n.next().is_some_and(|n| choice.asks_for(&self.gradients, n)));
        let options = ox_driver::for_backward(&self.options, self.sources.iter().filter(|source| !choice.lacks(source)));
        ox_driver::compile(&graph, &options, self.host.clone()).map(|compiled| compiled.program)
    }

    fn failed(&self, py: Python<'_>, callable: &TrainingCallable, verdict: Verdict) -> PyResult<PyErr> {
        Ok(match verdict {
            Verdict::Raise(error) | Verdict::Mistake(error, _) => error,
            Verdict::Eager { why, .. } => PyRuntimeError::new_err(format!("oxytorch: the backward pass failed: {why}")),
            Verdict::Bug(message) | Verdict::LateBug(message) => {
                callable.native.give_up(py, &message)?;
                PyRuntimeError::new_err(format!("oxytorch: internal error in the backward pass: {message}"))
            }
        })
    }
}

/// Inputs of a run, and the objects that keep those alive that are not given away.
struct Operands<'a, 'py> {
    inputs: Vec<Input<'a>>,
    _lent: Vec<Bound<'py, PyAny>>,
}

impl<'py> Operands<'_, 'py> {
    fn lend(&mut self, crossing: &Crossing, object: Bound<'py, PyAny>) -> PyResult<()> {
        // SAFETY: the object is kept as long as the handle.
        self.inputs.push(Input::Lent(unsafe { crossing.unwrap(&object)? }));
        self._lent.push(object);
        Ok(())
    }
}

/// The items of a list, which is empty then.
fn taken<'py>(list: &Bound<'py, PyList>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let items = list.iter().collect();
    list.del_slice(0, list.len())?;
    Ok(items)
}

/// The graph with zeros in the place of some inputs.
fn without_inputs(graph: &Graph, missing: &[bool]) -> Graph {
    let mut out = graph.clone();
    let mut kept = missing.iter();
    out.inputs.retain(|_| !kept.next().copied().unwrap_or(false));
    let number = |n: u32| missing[..n as usize].iter().filter(|missing| !**missing).count() as u32;
    for Node { op, .. } in &mut out.nodes {
        if let Op::Input(n) = *op {
            *op = if missing[n as usize] { Op::Full(Scalar::Float(0.0)) } else { Op::Input(number(n)) };
        }
    }
    out
}
