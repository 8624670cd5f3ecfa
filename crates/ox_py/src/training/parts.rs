//! Nodes of autograd's for the results and the inputs of one call, where it matters. autograd walks on behind all inputs of a node, whether a
//! gradient comes to them or not: it lets go of what was saved there, and calls hooks with None. So every result is a node, and so are all inputs
//! that the same results depend on, and a pass comes to those inputs alone that eager's would come to. The gradients are computed at once, by
//! whichever inputs autograd comes to first.

use super::again::Given;
use super::chosen::{Behind, Choice, will_execute};
use super::spent::{Left, Pass, Saved};
use super::{TrainingCallable, again, autograd, autograd_function};
use crate::fx::Gradients;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefMethods, PyWeakrefReference};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Inputs that the same results depend on.
pub struct Gate {
    inputs: Vec<usize>,
    results: Vec<usize>,
}

/// `reach`: for each result, which inputs a gradient flows to.
pub fn gates(reach: &[Vec<bool>], gradients: &Gradients) -> Vec<Gate> {
    let mut gates: Vec<Gate> = Vec::new();
    for input in (0..gradients.inputs.len()).filter(|input| gradients.inputs[*input]) {
        let results: Vec<usize> = (0..reach.len()).filter(|result| reach[*result][input]).collect();
        match gates.iter_mut().find(|gate| gate.results == results) {
            Some(gate) => gate.inputs.push(input),
            None if results.is_empty() => {}
            None => gates.push(Gate { inputs: vec![input], results }),
        }
    }
    gates
}

/// The nodes of a call, and the passes that go through it now.
#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct Doors {
    /// By result, where it has a gradient. What they stand for holds the call.
    ends: Vec<Option<Py<PyWeakrefReference>>>,
    gates: Vec<Py<PyWeakrefReference>>,
    passing: Mutex<Vec<(i64, Passing)>>,
}

/// A pass that goes on.
struct Passing {
    /// By result; an absent gradient may come, too.
    grads: Vec<Option<Py<PyAny>>>,
    arrived: Vec<bool>,
    /// By gate, the gradients of its inputs, and whether they were asked for.
    found: Vec<Option<Vec<Py<PyAny>>>>,
    left: Vec<bool>,
    /// What the pass goes on with, where the gates are gone through one by one.
    rest: Option<Rest>,
}

/// What a call has for a pass that goes through it. Behind a pass that does not retain the graph the call itself has let go of it.
struct Rest {
    saved: Vec<Option<Left>>,
    /// Where eager does the pass.
    given: Option<Given>,
}

/// Passes that raised on their way are forgotten behind as many others.
const MOST_PASSING: usize = 64;

/// Where a pass goes.
struct Way<'py> {
    /// Behind each input.
    behind: Vec<Behind<'py>>,
    /// By result, whether the pass comes from it.
    expected: Vec<bool>,
}

impl Doors {
    fn lock(&self) -> MutexGuard<'_, Vec<(i64, Passing)>> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, task: i64) -> Passing {
        let mut passing = self.lock();
        match passing.iter().position(|(of, _)| *of == task) {
            Some(n) => passing.remove(n).1,
            None => {
                let (results, gates) = (self.ends.len(), self.gates.len());
                let found = (0..gates).map(|_| None).collect();
                let grads = (0..results).map(|_| None).collect();
                Passing { grads, arrived: vec![false; results], found, left: vec![false; gates], rest: None }
            }
        }
    }

    fn put(&self, task: i64, pass: Passing) {
        let mut passing = self.lock();
        let _oldest = (passing.len() >= MOST_PASSING).then(|| passing.remove(0));
        passing.push((task, pass));
        // In front of what goes: with gradients code of the program's may run.
        drop(passing);
    }

    fn way<'py>(&self, py: Python<'py>, gates: &[Gate], inputs: usize) -> PyResult<Way<'py>> {
        let mut way = Way { behind: (0..inputs).map(|_| Behind::Nothing).collect(), expected: vec![false; self.ends.len()] };
        let mut leads_on = vec![false; self.ends.len()];
        for (gate, node) in gates.iter().zip(&self.gates) {
            let node = node.bind(py).upgrade();
            let following = match node {
                Some(node) if will_execute(&node)? => Some(node.getattr(intern!(py, "next_functions"))?),
                _ => None,
            };
            gate.results.iter().for_each(|result| leads_on[*result] |= following.is_some());
            for (n, input) in gate.inputs.iter().enumerate() {
                way.behind[*input] = match &following {
                    Some(following) => Behind::of(following.get_item(n)?.get_item(0)?),
                    None => Behind::Unasked,
                };
            }
        }
        // One whose gradient is asked for, and nothing behind it, is not gone through.
        for ((expected, end), leads_on) in way.expected.iter_mut().zip(&self.ends).zip(leads_on) {
            let end = end.as_ref().and_then(|end| end.bind(py).upgrade()).filter(|_| leads_on);
            *expected = end.map(|end| will_execute(&end)).transpose()?.unwrap_or(false);
        }
        Ok(way)
    }
}

impl TrainingCallable {
    /// Whether an input that only some results depend on was computed by somebody or has hooks.
    pub(super) fn is_parted(&self, inputs: &[Bound<'_, PyAny>]) -> PyResult<bool> {
        let results = self.gradients.outputs.iter().filter(|wanted| **wanted).count();
        if results < 2 || self.backward.together {
            return Ok(false);
        }
        for gate in self.gates.iter().filter(|gate| gate.results.len() < results) {
            for input in gate.inputs.iter().map(|place| &inputs[*place]) {
                let py = input.py();
                let watched =
                    [intern!(py, "grad_fn"), intern!(py, "_backward_hooks"), intern!(py, "_post_accumulate_grad_hooks")];
                for name in watched {
                    if !input.getattr(name)?.is_none() {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The call is a node that nothing leads to but those of its results and inputs.
    pub(super) fn apply_in_parts<'py>(
        slf: &Bound<'py, Self>,
        sizes: Bound<'py, PyTuple>,
        others: Bound<'py, PyTuple>,
        inputs: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let detached = inputs.iter().map(|input| input.call_method0(intern!(py, "detach"))).collect::<PyResult<Vec<_>>>()?;
        let anchor = autograd(py)?.call_method0(intern!(py, "anchor"))?;
        let given = PyTuple::new(py, inputs)?.into_any();
        let mut call = vec![slf.clone().into_any(), sizes.into_any(), others.into_any(), given, anchor];
        call.extend(detached);
        let whole = autograd_function(py)?.call1(PyTuple::new(py, call)?)?.cast_into::<PyTuple>()?;
        let mut results: Vec<Bound<'py, PyAny>> = whole.iter().collect();
        let wanted = || (0..this.results).filter(|n| this.gradients.outputs[*n]);
        let of_call = wanted().next().map(|n| results[n].clone());
        let device = of_call.as_ref().map(|result| result.getattr(intern!(py, "device"))).transpose()?;
        let edge = autograd(py)?.call_method1(intern!(py, "edge"), (of_call,))?;
        let (gate, end) = (apply_of(py, "Gate")?, apply_of(py, "End")?);
        let mut doors = Doors { ends: (0..this.results).map(|_| None).collect(), gates: Vec::new(), passing: Mutex::default() };
        let mut tokens = Vec::with_capacity(this.gates.len());
        for (n, of) in this.gates.iter().enumerate() {
            let mut call = vec![edge.clone(), n.into_pyobject(py)?.into_any(), device.clone().into_pyobject(py)?.into_any()];
            call.extend(of.inputs.iter().map(|place| inputs[*place].clone()));
            let token = gate.call1(PyTuple::new(py, call)?)?;
            doors.gates.push(node_of(&token)?);
            tokens.push(token);
        }
        for n in wanted() {
            let result = results[n].call_method0(intern!(py, "detach"))?;
            let mut call = vec![edge.clone(), n.into_pyobject(py)?.into_any(), PyTuple::new(py, [result])?.into_any()];
            call.extend(
                this.gates.iter().zip(&tokens).filter(|(gate, _)| gate.results.contains(&n)).map(|(_, token)| token.clone()),
            );
            results[n] = end.call1(PyTuple::new(py, call)?)?;
            doors.ends[n] = Some(node_of(&results[n])?);
        }
        edge.getattr(intern!(py, "node"))?.setattr(intern!(py, "doors"), doors)?;
        PyTuple::new(py, results)
    }

    /// A gradient has come to a result. `ctx` is the call's.
    pub(super) fn arrive_at(&self, ctx: &Bound<'_, PyAny>, result: usize, grad: Bound<'_, PyAny>) -> PyResult<()> {
        let (py, task) = (ctx.py(), task(ctx.py())?);
        let doors = ctx.getattr(intern!(py, "doors"))?.cast_into::<Doors>()?;
        let mut pass = doors.get().take(task);
        pass.arrived[result] = true;
        pass.grads[result] = (!grad.is_none()).then(|| grad.unbind());
        doors.get().put(task, pass);
        Ok(())
    }

    /// The gradients of the inputs of a gate.
    pub(super) fn leave_by<'py>(&self, ctx: &Bound<'py, PyAny>, gate: usize) -> PyResult<Vec<Py<PyAny>>> {
        let (py, task) = (ctx.py(), task(ctx.py())?);
        let doors = ctx.getattr(intern!(py, "doors"))?.cast_into::<Doors>()?;
        let mut pass = doors.get().take(task);
        if pass.found[gate].is_none() {
            self.find(ctx, doors.get(), &mut pass, gate)?;
        }
        let found = pass.found[gate].take().ok_or_else(|| PyRuntimeError::new_err("oxytorch: no gradients for an input"))?;
        pass.left[gate] = true;
        if (0..self.gates.len()).any(|n| !pass.left[n] && doors.get().is_on(py, n)) {
            doors.get().put(task, pass);
        }
        Ok(found)
    }

    /// Of all gates if all gradients have come that the pass brings. Otherwise of this one, which no later gradient flows to.
    fn find(&self, ctx: &Bound<'_, PyAny>, doors: &Doors, pass: &mut Passing, gate: usize) -> PyResult<()> {
        let py = ctx.py();
        let way = doors.way(py, &self.gates, self.gradients.inputs.len())?;
        if self.gates[gate].results.iter().any(|result| way.expected[*result] && !pass.arrived[*result]) {
            return Err(PyRuntimeError::new_err("oxytorch: a gradient of a result is lost"));
        }
        let is_whole = way.expected.iter().zip(&pass.arrived).all(|(expected, arrived)| arrived | !expected);
        let grads = PyTuple::new(py, pass.grads.iter().map(|grad| grad.as_ref().map(|grad| grad.bind(py))))?;
        let mut choice =
            Choice { present: pass.grads.iter().map(Option::is_some).collect(), asked: self.backward.asked(&way.behind)? };
        let by_eager = again::is_grad_enabled(py)? || again::is_batched(&grads)?;
        let (saved, given) = match pass.rest.take() {
            Some(rest) => (rest.saved.iter().map(|left| left.as_ref().map(|left| left.bound(py))).collect(), rest.given),
            None => {
                let present = choice.present.iter().zip(&way.expected).map(|(present, expected)| present | expected);
                let of_pass = Choice { present: present.collect(), asked: choice.asked.clone() };
                let saved = self.saved(ctx, &of_pass)?;
                let given = if by_eager { Some(Given::of(ctx)?) } else { None };
                // A pass that is refused lets go of nothing.
                given.as_ref().map(|given| self.ensure_again(ctx, given, &grads)).transpose()?;
                self.let_go(ctx, Pass { choice: of_pass, end: 0 }, &saved)?;
                (saved, given)
            }
        };
        if !is_whole {
            let left = saved.iter().map(|saved| saved.as_ref().map(Saved::kept)).collect();
            pass.rest = Some(Rest { saved: left, given: given.as_ref().map(|given| given.clone_ref(py)) });
            let is_here = |input: usize| self.gates[gate].inputs.contains(&input);
            choice.asked = Some((0..way.behind.len()).map(|input| is_here(input) && choice.asks_for(input)).collect());
        }
        let gradients = match given {
            Some(given) => PyTuple::new(py, self.differentiated_again(ctx, &given, &grads)?)?,
            None => {
                let sizes: Vec<i64> = ctx.getattr(intern!(py, "sizes"))?.extract()?;
                self.backward.run(py, self, &sizes, saved, &grads, &choice)?
            }
        };
        for (n, of) in self.gates.iter().enumerate().filter(|(n, _)| *n == gate || is_whole) {
            let inputs = of.inputs.iter();
            pass.found[n] = Some(inputs.map(|input| Ok(gradients.get_item(*input)?.unbind())).collect::<PyResult<_>>()?);
        }
        Ok(())
    }
}

impl Doors {
    /// Whether the pass that is going on comes to a gate.
    fn is_on(&self, py: Python<'_>, gate: usize) -> bool {
        self.gates[gate].bind(py).upgrade().is_some_and(|node| will_execute(&node).unwrap_or(false))
    }
}

fn apply_of<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    autograd(py)?.getattr(class)?.getattr(intern!(py, "apply"))
}

fn node_of(tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyWeakrefReference>> {
    let node = tensor.getattr(intern!(tensor.py(), "grad_fn"))?;
    Ok(PyWeakrefReference::new(&node)?.unbind())
}

/// The number of the pass that is going on.
fn task(py: Python<'_>) -> PyResult<i64> {
    py.import(intern!(py, "torch._C"))?.call_method0(intern!(py, "_current_graph_task_id"))?.extract()
}
