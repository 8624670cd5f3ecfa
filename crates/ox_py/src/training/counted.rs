//! Results that eager's graph has saved and our backward program does not read: a norm, whose gradient is computed of its argument here. Who writes to such
//! a result is told so all the same, as torch tells it.

use super::TrainingCallable;
use super::chosen::Choice;
use super::spent::{changed, version_of};
use ox_driver::Source;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyTuple};

/// A result that only eager saves.
pub struct Counted {
    result: usize,
    /// The results whose gradients come to who has saved it.
    above: Vec<usize>,
}

/// `saved_behind`: by result, which of them are saved on the way of its gradient.
pub fn counted(saved_behind: &[Vec<bool>], wanted: &[bool], sources: &[Source]) -> Vec<Counted> {
    let is_read = |n: usize| sources.contains(&Source::Output(n as u32));
    let above = |n: usize| (0..saved_behind.len()).filter(|above| saved_behind[*above][n]).collect();
    let results = (0..saved_behind.len()).filter(|n| wanted[*n] && !is_read(*n));
    results.map(|result| Counted { result, above: above(result) }).filter(|counted| !counted.above.is_empty()).collect()
}

impl TrainingCallable {
    /// What counts the writes to these results, and does not hold their memory.
    pub(super) fn counters<'py>(&self, results: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = results.py();
        self.counted.iter().map(|counted| counter(&results.get_item(counted.result)?, py)).collect()
    }

    /// Raises where a pass comes to a node of eager's whose result was written since.
    pub(super) fn ensure_uncounted(&self, ctx: &Bound<'_, PyAny>, choice: &Choice) -> PyResult<()> {
        if self.counted.is_empty() {
            return Ok(());
        }
        let counters: Vec<Bound<'_, PyAny>> = ctx.getattr(intern!(ctx.py(), "counters"))?.extract()?;
        for (counted, counter) in self.counted.iter().zip(counters) {
            // Nobody had written to it when it was made.
            if counted.above.iter().any(|result| self.comes_from(*result, choice))
                && let Some(now) = version_of(&counter)?.filter(|now| *now != 0)
            {
                return Err(changed(&counter, now, 0)?);
            }
        }
        Ok(())
    }

    /// Whether a gradient goes from this result to an input that is asked for.
    fn comes_from(&self, result: usize, choice: &Choice) -> bool {
        let reach = &self.backward.reach[result];
        choice.present[result] && (0..reach.len()).any(|input| reach[input] && choice.asks_for(input))
    }
}

/// A tensor of one element, shown as the shape of another, whose version it has.
fn counter<'py>(tensor: &Bound<'py, PyAny>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    let counter = tensor.call_method0(intern!(py, "detach"))?;
    let like = ["dtype", "device"].map(|name| Ok::<_, PyErr>((name, tensor.getattr(name)?)));
    let like = like.into_iter().collect::<PyResult<Vec<_>>>()?.into_py_dict(py)?;
    let one = py.import(intern!(py, "torch"))?.call_method(intern!(py, "empty"), (PyTuple::empty(py),), Some(&like))?;
    counter.setattr(intern!(py, "data"), one.call_method1(intern!(py, "expand"), (tensor.getattr(intern!(py, "shape"))?,))?)?;
    Ok(counter)
}
