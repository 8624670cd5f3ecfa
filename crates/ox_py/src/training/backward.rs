//! The backward program.

use super::TrainingCallable;
use super::chosen::Choice;
use super::known::Known;
use super::spent::Saved;
use crate::error::{Verdict, judge, out_of_memory, report_bug};
use crate::tensor::Crossing;
use crate::torch::{Torch, device_object};
use ox_driver::{CompileError, Options, Part, Program, Source, part};
use ox_ir::Graph;
use ox_runtime::{HostCalls, Input};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyTuple};
use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

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
    pub others: Known<Choice, Option<Special>>,
    /// By result: some gradients and which inputs of the graph they need, as was asked last.
    pub needs: Mutex<FxHashMap<usize, Needs>>,
    /// The first few, counted.
    pub passes: AtomicU32,
}

/// Some gradients and what they need.
type Needs = (Vec<bool>, Arc<[bool]>);

/// A program for some gradients.
#[derive(Clone)]
pub struct Special {
    program: Arc<Program>,
    /// For each input of the backward graph, whether it is called with it.
    inputs: Arc<[bool]>,
}

impl Backward {
    /// `saved`: what there is of it, in the order of the sources. The program lets go of it piece by piece.
    pub fn run<'py>(
        &self,
        py: Python<'py>,
        callable: &TrainingCallable,
        sizes: &[i64],
        saved: Vec<Option<Saved<'py>>>,
        grads: &Bound<'py, PyTuple>,
        choice: &Choice,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let wanted = self.wanted(choice);
        if !wanted.contains(&true) {
            return PyTuple::new(py, self.gradients.iter().map(|_| py.None()));
        }
        let special = self.special(py, choice, &wanted)?;
        let is_used = |place: usize| special.as_ref().is_none_or(|special| special.inputs[place]);
        let Operands { inputs, _lent } = self.operands(py, sizes, saved, grads, &is_used)?;
        let program = special.as_ref().map_or(&self.program, |special| &special.program);
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
        let is_given = |n: &u32| special.is_none() || wanted[*n as usize];
        let mut out = Vec::with_capacity(self.gradients.len());
        for (input, place) in self.gradients.iter().enumerate() {
            out.push(match place.filter(|n| self.flows(choice, input) && is_given(n)) {
                Some(n) if special.is_none() => crossing.wrap(py, tensors[n as usize].as_ref())?,
                Some(n) => crossing.wrap(py, tensors[(0..n).filter(is_given).count()].as_ref())?,
                None => py.None().into_bound(py),
            });
        }
        PyTuple::new(py, out)
    }

    /// What the program is called with: what was saved, and the gradients that there are, laid out as it expects them.
    fn operands<'a, 'py>(
        &self,
        py: Python<'py>,
        sizes: &[i64],
        saved: Vec<Option<Saved<'py>>>,
        grads: &Bound<'py, PyTuple>,
        is_used: &dyn Fn(usize) -> bool,
    ) -> PyResult<Operands<'a, 'py>> {
        let crossing = Crossing::get(py)?;
        let mut operands = Operands { inputs: Vec::with_capacity(self.sources.len()), _lent: Vec::new() };
        let mut saved = saved.into_iter();
        for (place, source) in self.sources.iter().enumerate() {
            let kept = if matches!(source, Source::Gradient(_)) { None } else { saved.next().flatten() };
            if !is_used(place) {
                continue;
            }
            let kept = || kept.ok_or_else(|| PyRuntimeError::new_err("oxytorch: a saved tensor is gone"))?.unchanged();
            match source {
                Source::Gradient(n) => match grads.get_item(*n as usize)? {
                    grad if !grad.is_none() => operands.lend(crossing, grad.call_method0(intern!(py, "contiguous"))?)?,
                    _ => operands.lend(crossing, self.zeros(py, place, sizes)?)?,
                },
                Source::Saved(_) => operands.inputs.push(Input::Given(crossing.own(&kept()?)?)),
                Source::Input(_) | Source::Output(_) => operands.lend(crossing, kept()?)?,
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
    fn special(&self, py: Python<'_>, choice: &Choice, wanted: &[bool]) -> PyResult<Option<Special>> {
        let has_all = self.sources.iter().all(|source| !choice.lacks(source));
        if has_all && choice.asked.is_none() {
            return Ok(None);
        }
        if let Some(special) = self.others.get(choice) {
            return Ok(special);
        }
        let made = match py.detach(|| self.compile(choice, wanted)) {
            Ok(special) => Some(special),
            Err(CompileError::Unsupported(_)) => None,
            Err(bug) => {
                report_bug(py, &bug.to_string(), &[("backward graph", &self.graph)])?;
                None
            }
        };
        self.others.put(choice.clone(), made.clone());
        Ok(made)
    }

    /// Compiles the program for the gradients that there are, and for those that are asked for.
    fn compile(&self, choice: &Choice, wanted: &[bool]) -> Result<Special, CompileError> {
        let Part { graph, inputs } = part(&self.graph, &self.sources, &choice.present, wanted);
        let used = self.sources.iter().zip(&inputs).filter(|(_, used)| **used).map(|(source, _)| source);
        let options = ox_driver::for_backward(&self.options, used);
        let program = ox_driver::compile(&graph, &options, self.host.clone())?.program;
        Ok(Special { program: Arc::new(program), inputs: inputs.into() })
    }

    fn failed(&self, py: Python<'_>, callable: &TrainingCallable, verdict: Verdict) -> PyResult<PyErr> {
        Ok(match verdict {
            Verdict::Raise(error) | Verdict::Mistake(error, _) => error,
            Verdict::Eager { why, .. } => PyRuntimeError::new_err(format!("oxytorch: the backward pass failed: {why}")),
            Verdict::NoMemory { bytes, device } => out_of_memory(py, bytes, device),
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
