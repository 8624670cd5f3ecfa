//! torch's generator as it was before a run that failed.
//!
//! A graph draws its seed first. Where a check of values fails behind that, nothing else has been done yet: with the generator as it was, the
//! program or eager can do the call from its beginning.

use ox_driver::Program;
use ox_ir::Graph;
use ox_runtime::RunError;
use pyo3::intern;
use pyo3::prelude::*;

/// Whether the generator's state is worth keeping: something may fail behind the seeds, and seeds are all that is drawn.
pub fn rewinds(graph: &Graph, program: &Program) -> bool {
    !program.plan().checks.is_empty() && crate::training::draws_seeds_only(graph)
}

pub struct Rewind<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Rewind<'py> {
    pub fn new(py: Python<'py>, is_wanted: bool) -> PyResult<Rewind<'py>> {
        let state = || py.import(intern!(py, "torch"))?.call_method0(intern!(py, "get_rng_state"));
        Ok(Rewind(is_wanted.then(state).transpose()?))
    }

    /// The error of a run, which was not done if a check has failed: inputs are written behind all checks.
    pub fn undo(self, error: RunError) -> PyResult<RunError> {
        match (error, self.0) {
            (RunError::Spent(inner), Some(state)) if matches!(*inner, RunError::User { .. }) => {
                let torch = state.py().import(intern!(state.py(), "torch"))?;
                torch.call_method1(intern!(state.py(), "set_rng_state"), (&state,))?;
                Ok(*inner)
            }
            (error, _) => Ok(error),
        }
    }
}
