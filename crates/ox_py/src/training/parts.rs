//! Results that have nothing on their way in common are nodes of autograd's by themselves, where it matters: autograd walks on behind all
//! inputs of a node, whether a gradient comes to them or not, and lets go of what was saved there.

use super::{TrainingCallable, autograd, autograd_function};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A graph with more groups of results is one node: each has a backward program of its own.
pub const MOST_GROUPS: usize = 4;

impl TrainingCallable {
    /// Whether an input was computed by somebody, and only some groups of results depend on it.
    pub(super) fn is_parted(&self, inputs: &[Bound<'_, PyAny>]) -> PyResult<bool> {
        if self.groups.len() < 2 {
            return Ok(false);
        }
        for (place, input) in inputs.iter().enumerate().filter(|(place, _)| self.gradients.inputs[*place]) {
            let reached = self.groups.iter().filter(|group| self.is_reached_by(group, place)).count();
            if reached > 0 && reached < self.groups.len() && !input.getattr(intern!(input.py(), "grad_fn"))?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_reached_by(&self, group: &[usize], input: usize) -> bool {
        group.iter().any(|result| self.backward.reach[*result][input])
    }

    /// The call is a node that nothing leads to but those of its groups.
    pub(super) fn apply_in_parts<'py>(
        slf: &Bound<'py, Self>,
        sizes: Bound<'py, PyTuple>,
        others: Bound<'py, PyTuple>,
        inputs: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let detached = inputs.iter().map(|input| input.call_method0(intern!(py, "detach"))).collect::<PyResult<Vec<_>>>()?;
        let anchor = autograd(py)?.call_method0(intern!(py, "anchor"))?;
        let mut call = vec![slf.clone().into_any(), sizes.into_any(), others.into_any(), anchor];
        call.extend(detached.iter().cloned());
        let whole = autograd_function(py)?.call1(PyTuple::new(py, call)?)?.cast_into::<PyTuple>()?;
        let edge =
            autograd(py)?.call_method1(intern!(py, "edge"), (whole.get_item(this.groups[0][0])?, PyTuple::new(py, inputs)?))?;
        let mut results: Vec<Bound<'py, PyAny>> = whole.iter().collect();
        for group in &this.groups {
            let of_group: Vec<_> =
                group.iter().map(|n| results[*n].call_method0(intern!(py, "detach"))).collect::<PyResult<Vec<_>>>()?;
            let mut call = vec![edge.clone(), PyTuple::new(py, group)?.into_any(), PyTuple::new(py, of_group)?.into_any()];
            for place in 0..inputs.len() {
                let of_input = if this.is_reached_by(group, place) { &inputs[place] } else { &detached[place] };
                call.push(of_input.clone());
            }
            let part = autograd(py)?.getattr(intern!(py, "Part"))?.getattr(intern!(py, "apply"))?;
            let part = part.call1(PyTuple::new(py, call)?)?.cast_into::<PyTuple>()?;
            group.iter().zip(part.iter()).for_each(|(n, result)| results[*n] = result);
        }
        PyTuple::new(py, results)
    }
}
