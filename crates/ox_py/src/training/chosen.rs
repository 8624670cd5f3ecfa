//! Which gradients come in and which are asked for: `torch.autograd.grad` and `backward(inputs=...)` ask for some.

use super::Backward;
use ox_capture::Found;
use ox_driver::Source;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Choice {
    /// For each result of the forward graph, whether it has a gradient.
    pub present: Vec<bool>,
    /// For each input of the forward graph, whether its gradient is asked for. None: all are.
    pub asked: Option<Vec<bool>>,
}

impl Choice {
    pub fn lacks(&self, source: &Source) -> bool {
        matches!(source, Source::Gradient(n) if !self.present[*n as usize])
    }

    /// Whether the gradient of an input is asked for.
    pub fn asks_for(&self, input: usize) -> bool {
        self.asked.as_ref().is_none_or(|asked| asked[input])
    }
}

impl Backward {
    /// Whether a gradient can come to this input.
    pub fn is_reached(&self, input: usize) -> bool {
        self.reach.iter().any(|reach| reach[input])
    }

    /// What there is and what is asked for. `following`: what stands behind each input.
    pub fn choice(&self, grads: &Bound<'_, PyTuple>, following: &Bound<'_, PyTuple>) -> PyResult<Choice> {
        let present = grads.iter_borrowed().map(|grad| self.together || !grad.is_none()).collect();
        let following = following.iter().skip(following.len().saturating_sub(self.gradients.len()));
        let behind = following.map(|behind| behind.get_item(0).map(Behind::of)).collect::<PyResult<Vec<_>>>()?;
        Ok(Choice { present, asked: self.asked(&behind)? })
    }

    /// Whether a gradient comes to this input.
    pub fn flows(&self, choice: &Choice, input: usize) -> bool {
        self.reach.iter().zip(&choice.present).any(|(reach, present)| *present && reach[input])
    }

    /// For each result of the backward graph, whether it is asked for and there is one.
    pub fn wanted(&self, choice: &Choice) -> Vec<bool> {
        let mut wanted = vec![false; self.graph.outputs.len()];
        for (input, place) in self.gradients.iter().enumerate() {
            if let Some(n) = place {
                wanted[*n as usize] |= choice.asks_for(input) && self.flows(choice, input);
            }
        }
        wanted
    }

    /// What autograd is about to go on with. None: all that there is.
    pub fn asked(&self, behind: &[Behind<'_>]) -> PyResult<Option<Vec<bool>>> {
        let has_gradient = self.gradients.iter().map(|place| place.is_some());
        let mut asked = Vec::with_capacity(self.gradients.len());
        let mut is_partial = false;
        for (behind, has_gradient) in behind.iter().zip(has_gradient) {
            let is_asked = match behind {
                Behind::Node(node) if has_gradient => will_execute(node)?,
                _ => false,
            };
            is_partial |= has_gradient && !is_asked && !matches!(behind, Behind::Nothing);
            asked.push(is_asked);
        }
        Ok(is_partial.then_some(asked))
    }
}

/// What stands behind an input.
pub enum Behind<'py> {
    Nothing,
    /// Something that this pass does not come to.
    Unasked,
    Node(Bound<'py, PyAny>),
}

impl<'py> Behind<'py> {
    pub fn of(node: Bound<'py, PyAny>) -> Behind<'py> {
        if node.is_none() { Behind::Nothing } else { Behind::Node(node) }
    }
}

/// Whether the pass that is going on comes to a node.
pub fn will_execute(node: &Bound<'_, PyAny>) -> PyResult<bool> {
    static WILL: Found<Py<PyAny>> = Found::new();
    let py = node.py();
    let will = WILL
        .or_try_find(|| -> PyResult<Py<PyAny>> { Ok(py.import("torch._C")?.getattr("_will_engine_execute_node")?.unbind()) })?;
    // It raises for a leaf that `autograd.grad` asks for.
    will.bind(py).call1((node,)).and_then(|will| will.is_truthy()).or(Ok(true))
}
