//! What is written behind a piece. Each piece keeps for its gradients what they need: of what the program writes later in the same call that has to be
//! a copy, where eager did not keep the tensor itself. torch would tell of the write otherwise, for which eager has no reason to complain.

use super::cut::{Piece, ordered};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashSet;

/// Notes it at the end of each piece of the graph. `written`: the memory that each of them may write.
pub fn tell_of_later_writes(gm: &Bound<'_, PyAny>, pieces: &[Piece<'_>], written: &[FxHashSet<usize>]) -> PyResult<()> {
    // The graph may be a piece itself.
    let mut later = written_behind(gm)?;
    for (piece, own) in pieces.iter().zip(written).rev() {
        if let Some(meta) = meta_of_end(&piece.module)?.filter(|_| !later.is_empty()) {
            let later: Vec<usize> = later.iter().copied().collect();
            meta.set_item(intern!(gm.py(), "written_behind"), later)?;
        }
        later.extend(own);
    }
    Ok(())
}

/// The memory that pieces behind this one may write.
pub fn written_behind(gm: &Bound<'_, PyAny>) -> PyResult<FxHashSet<usize>> {
    let Some(meta) = meta_of_end(gm)? else { return Ok(FxHashSet::default()) };
    let noted = meta.get_item(intern!(gm.py(), "written_behind"))?;
    noted.map_or_else(|| Ok(FxHashSet::default()), |noted| Ok(noted.extract::<Vec<usize>>()?.into_iter().collect()))
}

fn meta_of_end<'py>(gm: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(end) = ordered(gm)?.pop() else { return Ok(None) };
    Ok(Some(end.getattr(intern!(gm.py(), "meta"))?.cast_into::<PyDict>()?))
}
