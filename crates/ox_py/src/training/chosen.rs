//! Which gradients come in and which are asked for: `torch.autograd.grad` and `backward(inputs=...)` ask for some.

use super::Backward;
use ox_driver::Source;
use pyo3::intern;
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
        Ok(Choice { present, asked: self.asked(following)? })
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

    /// What autograd is about to go on with.
    fn asked(&self, following: &Bound<'_, PyTuple>) -> PyResult<Option<Vec<bool>>> {
        let py = following.py();
        let will = py.import(intern!(py, "torch._C"))?.getattr(intern!(py, "_will_engine_execute_node"))?;
        let has_gradient = self.gradients.iter().map(|place| place.is_some());
        let mut asked = Vec::with_capacity(self.gradients.len());
        let mut is_partial = false;
        for (behind, has_gradient) in
            following.iter().skip(following.len().saturating_sub(self.gradients.len())).zip(has_gradient)
        {
            let node = behind.get_item(0)?;
            if !has_gradient || node.is_none() {
                asked.push(false);
                continue;
            }
            // It raises for a leaf that `autograd.grad` asks for.
            let is_asked = will.call1((&node,)).and_then(|will| will.is_truthy()).unwrap_or(true);
            asked.push(is_asked);
            is_partial |= !is_asked;
        }
        Ok(is_partial.then_some(asked))
    }
}
