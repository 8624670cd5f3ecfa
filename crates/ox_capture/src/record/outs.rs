//! Tensors that are given as `out=` with another size than the result has. torch resizes them, with a warning; a graph gives its inputs no sizes.

use super::graph::tensors_in;
use super::order::dims_of;
use crate::obj::Obj;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The shadows that a call is to write its results into, with their sizes and strides before it.
pub(super) struct Outs(Vec<(Obj, Vec<i64>, Vec<i64>)>);

impl Outs {
    pub(super) fn of(kwargs: &Bound<'_, PyDict>) -> PyResult<Outs> {
        let given = kwargs.get_item("out")?.map(|out| tensors_in(&out.into())).unwrap_or_default();
        let with_dims = |shadow: Obj| dims_of(&shadow).map(|(sizes, strides)| (shadow, sizes, strides));
        given.into_iter().map(with_dims).collect::<PyResult<_>>().map(Outs)
    }

    /// Whether the call has given one another size. The shadows have their old ones again: what stands before the call knows them so.
    pub(super) fn have_changed(&self) -> PyResult<bool> {
        let mut any = false;
        for (shadow, sizes, strides) in &self.0 {
            if dims_of(shadow)?.0 != *sizes {
                shadow.bind().call_method1("resize_", (sizes.clone(),))?;
                shadow.bind().call_method1("as_strided_", (sizes.clone(), strides.clone()))?;
                any = true;
            }
        }
        Ok(any)
    }
}
