//! Which gradients come in and which are asked for: `torch.autograd.grad` and `backward(inputs=...)` ask for some.

use super::Backward;
use ox_driver::Source;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[derive(Clone, PartialEq, Eq, Debug)]
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

    /// Whether the n-th result of the backward graph is asked for; `gradients` says which input it belongs to.
    pub fn asks_for(&self, gradients: &[Option<u32>], n: u32) -> bool {
        let Some(asked) = &self.asked else { return true };
        gradients.iter().zip(asked).any(|(place, asked)| *asked && *place == Some(n))
    }
}

impl Backward {
    /// Whether a gradient can come to this input.
    pub fn is_reached(&self, input: usize) -> bool {
        self.reach.iter().any(|reach| reach[input])
    }

    /// What autograd is about to go on with, by what stands behind each input.
    pub fn asked(&self, following: &Bound<'_, PyTuple>) -> PyResult<Option<Vec<bool>>> {
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
