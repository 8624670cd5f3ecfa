//! Where eager's graph of a call holds saved tensors. It is built once, by eager, which keeps nothing for it, and only for programs that go through
//! parts of a call one after the other.

use super::TrainingCallable;
use super::reach::{draws_seeds_only, has_effects};
use super::spent::Pass;
use super::unseen::Unseen;
use crate::fx::{SavedBy, Slot};
use crate::torch::{Torch, device_object};
use ox_capture::is_interrupt;
use ox_ir::graph::Shape;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList, PyTuple};
use rustc_hash::FxHashMap;

/// How eager's graph is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By eager once more, on the call's inputs or on zeros; what it saves is let go of at once.
    Really,
    /// On tensors without memory.
    OnFakes,
}

/// A node that cannot be gone through twice.
pub struct Knot {
    /// Among all nodes, in the order in which they were made.
    pub place: u64,
    /// The results whose gradients come through it.
    pub above: Vec<usize>,
    /// The inputs to which they go on.
    pub below: Vec<usize>,
}

impl Knot {
    /// Whether a pass goes through it.
    pub fn is_on(&self, Pass { choice, end }: &Pass) -> bool {
        let comes = || self.above.iter().any(|result| choice.present[*result]);
        let goes_on = || self.below.iter().any(|input| choice.asks_for(*input));
        self.place >= *end && comes() && goes_on()
    }
}

impl TrainingCallable {
    /// None if eager's graph cannot be built.
    pub(super) fn find_knots(&self, ctx: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Knot>>> {
        let (results, inputs) = (self.results, self.gradients.inputs.len());
        if self.backward.together {
            // One node of torch's checkpoint.
            return Ok(Some(vec![Knot { place: 0, above: (0..results).collect(), below: (0..inputs).collect() }]));
        }
        let constants = self.gradients.inputs.iter().rev().take(self.native.constants.len());
        if self.native.eager.is_none(ctx.py()) || constants.into_iter().any(|wanted| *wanted) {
            return Ok(None);
        }
        // Fakes are cheap where torch's own compiler is loaded: they load it. What must not be done twice is not done really.
        let modules = ctx.py().import("sys")?.getattr("modules")?;
        let graph = &self.native.graph;
        let given = graph.inputs.len() - self.native.constants.len();
        let writes_constants = graph.mutations.iter().any(|mutation| mutation.input as usize >= given);
        let is_repeatable = !writes_constants && (!has_effects(graph) || draws_seeds_only(graph));
        let ways = match modules.contains("torch._dynamo")? || !is_repeatable {
            true => &[Way::OnFakes][..],
            false => &[Way::Really, Way::OnFakes][..],
        };
        let _unseen = Unseen::enter(ctx.py())?;
        for way in ways {
            match self.shadow(ctx, *way).and_then(|(inputs, results)| self.knots_between(&inputs, &results)) {
                Ok(knots) => return Ok(Some(knots)),
                Err(error) if is_interrupt(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The call as eager does it: its inputs and results.
    fn shadow<'py>(&self, ctx: &Bound<'py, PyAny>, way: Way) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyList>)> {
        let py = ctx.py();
        let sizes: Vec<i64> = ctx.getattr(intern!(py, "sizes"))?.extract()?;
        let others = ctx.getattr(intern!(py, "others"))?;
        let others = if others.is_none() { PyTuple::empty(py) } else { others.cast_into()? };
        let options = [("allow_non_fake_inputs", true)].into_py_dict(py)?;
        let fakes = || py.import("torch._subclasses.fake_tensor")?.getattr("FakeTensorMode")?.call((), Some(&options));
        let mode = if way == Way::OnFakes { Some(fakes()?) } else { None };
        let given = ctx.getattr(intern!(py, "inputs"))?;
        let inputs = match &mode {
            None if !given.is_none() => self.inputs_apart(given.cast()?)?,
            _ => self.shadows(py, mode.as_ref(), &sizes)?,
        };
        let args = self.arguments(py, sizes, &others, &inputs)?;
        Ok((inputs, self.called_again(ctx, args, mode)?))
    }

    /// The inputs of the call, without history.
    fn inputs_apart<'py>(&self, given: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let py = given.py();
        let mut inputs = Vec::with_capacity(given.len());
        for (place, tensor) in given.iter().enumerate() {
            let mut input = tensor.call_method0(intern!(py, "detach"))?;
            if self.is_written(place) {
                input = input.call_method0(intern!(py, "clone"))?;
            }
            if self.gradients.inputs[place] {
                input.call_method0(intern!(py, "requires_grad_"))?;
            }
            inputs.push(input);
        }
        PyTuple::new(py, inputs)
    }

    /// A tensor for each input, of one element unless it is written. Numbers have a value.
    fn shadows<'py>(&self, py: Python<'py>, mode: Option<&Bound<'py, PyAny>>, sizes: &[i64]) -> PyResult<Bound<'py, PyTuple>> {
        let torch = py.import("torch")?;
        let is_input = |slot: &&Slot| matches!(slot, Slot::Tensor | Slot::Number(_));
        let mut slots = self.native.slots.iter().filter(is_input);
        let mut shadows = Vec::with_capacity(self.native.graph.inputs.len());
        for (place, (input, requires_grad)) in self.native.graph.inputs.iter().zip(&self.gradients.inputs).enumerate() {
            let kwargs = PyDict::new(py);
            kwargs.set_item("dtype", Torch::get(py)?.dtype_object(py, input.ty.dtype))?;
            if matches!(slots.next(), Some(Slot::Number(_))) {
                kwargs.set_item("device", "cpu")?;
                shadows.push(torch.call_method("ones", (PyTuple::empty(py),), Some(&kwargs))?);
                continue;
            }
            kwargs.set_item("device", device_object(py, input.ty.device)?)?;
            let all = |dims: &Shape| dims.iter().map(|sym| self.native.size(sym, sizes)).collect::<PyResult<Vec<i64>>>();
            let (shape, strides) = (all(&input.ty.shape)?, all(&input.strides)?);
            let shadow = match mode {
                Some(mode) => {
                    mode.call_method0(intern!(py, "__enter__"))?;
                    let shadow = torch.call_method("empty_strided", (shape, strides), Some(&kwargs));
                    mode.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
                    shadow?
                }
                None if self.is_written(place) => torch.call_method("zeros", (shape,), Some(&kwargs))?,
                None => torch.call_method("zeros", (PyTuple::empty(py),), Some(&kwargs))?.call_method1("expand", (shape,))?,
            };
            shadows.push(if *requires_grad { shadow.call_method0("requires_grad_")? } else { shadow });
        }
        PyTuple::new(py, shadows)
    }

    fn knots_between(&self, inputs: &Bound<'_, PyTuple>, results: &Bound<'_, PyList>) -> PyResult<Vec<Knot>> {
        let mut walk = Walk::default();
        let mut roots = Vec::with_capacity(self.results);
        for (result, wanted) in results.iter().zip(&self.gradients.outputs) {
            let grad_fn = result.getattr_opt(intern!(inputs.py(), "grad_fn"))?.filter(|node| !node.is_none());
            match grad_fn {
                Some(node) => roots.push(Some(walk.number(node))),
                None if *wanted => return Err(PyRuntimeError::new_err("a result without a history")),
                None => roots.push(None),
            }
        }
        walk.go(inputs)?;
        Ok(walk.knots(&roots, self.gradients.inputs.len()))
    }
}

/// Nodes of eager's graph, each once.
#[derive(Default)]
struct Walk<'py> {
    objects: Vec<Bound<'py, PyAny>>,
    numbers: FxHashMap<usize, usize>,
    nodes: Vec<Seen>,
    saved_by: SavedBy,
}

/// What is known of a node.
struct Seen {
    place: u64,
    next: Vec<usize>,
    saves: bool,
    /// It stands behind the n-th input.
    input: Option<usize>,
}

impl<'py> Walk<'py> {
    fn number(&mut self, node: Bound<'py, PyAny>) -> usize {
        let new = self.objects.len();
        let number = *self.numbers.entry(node.as_ptr() as usize).or_insert(new);
        if number == new {
            self.objects.push(node);
        }
        number
    }

    fn go(&mut self, inputs: &Bound<'py, PyTuple>) -> PyResult<()> {
        let py = inputs.py();
        while let Some(node) = self.objects.get(self.nodes.len()).cloned() {
            let mut next = Vec::new();
            for behind in node.getattr(intern!(py, "next_functions"))?.try_iter()? {
                let behind = behind?.get_item(0)?;
                if !behind.is_none() {
                    next.push(self.number(behind));
                }
            }
            let leaf = node.getattr_opt(intern!(py, "variable"))?;
            let input = leaf.and_then(|leaf| inputs.iter().position(|input| input.is(&leaf)));
            // A write through a view lets go of all that it does.
            let saves = input.is_none() && self.saved_by.tensors(&node)?.is_none_or(|saved| !saved.is_empty());
            let place = node.call_method0(intern!(py, "_sequence_nr"))?.extract()?;
            self.nodes.push(Seen { place, next, saves, input });
        }
        Ok(())
    }

    fn knots(&self, roots: &[Option<usize>], inputs: usize) -> Vec<Knot> {
        let order = self.order();
        let mut below = vec![vec![false; inputs]; self.nodes.len()];
        for n in order.iter().copied() {
            let mut found = std::mem::take(&mut below[n]);
            for next in &self.nodes[n].next {
                found.iter_mut().zip(&below[*next]).for_each(|(found, below)| *found |= below);
            }
            if let Some(input) = self.nodes[n].input {
                found[input] = true;
            }
            below[n] = found;
        }
        let mut above = vec![vec![false; roots.len()]; self.nodes.len()];
        for (result, root) in roots.iter().enumerate() {
            if let Some(root) = root {
                above[*root][result] = true;
            }
        }
        for n in order.iter().rev().copied() {
            let from = above[n].clone();
            for next in &self.nodes[n].next {
                above[*next].iter_mut().zip(&from).for_each(|(above, from)| *above |= from);
            }
        }
        let saving = (0..self.nodes.len()).filter(|n| self.nodes[*n].saves);
        saving.map(|n| Knot { place: self.nodes[n].place, above: set_places(&above[n]), below: set_places(&below[n]) }).collect()
    }

    /// Every node behind all that it leads to.
    fn order(&self) -> Vec<usize> {
        let (mut order, mut state) = (Vec::with_capacity(self.nodes.len()), vec![0; self.nodes.len()]);
        for root in 0..self.nodes.len() {
            let mut stack = vec![root];
            while let Some(n) = stack.last().copied() {
                match state[n] {
                    0 => {
                        state[n] = 1;
                        stack.extend(self.nodes[n].next.iter().filter(|next| state[**next] == 0));
                    }
                    1 => {
                        state[n] = 2;
                        order.push(n);
                        stack.pop();
                    }
                    _ => {
                        stack.pop();
                    }
                }
            }
        }
        order
    }
}

fn set_places(of: &[bool]) -> Vec<usize> {
    (0..of.len()).filter(|place| of[*place]).collect()
}
