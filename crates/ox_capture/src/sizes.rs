//! Size expressions as Python carries them.

use ox_ops::Sym;
use pyo3::prelude::*;

/// A size expression as Python carries it, in the notes of `torch.fx` nodes.
#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct SizeObject(pub Sym);

#[pymethods]
impl SizeObject {
    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}
