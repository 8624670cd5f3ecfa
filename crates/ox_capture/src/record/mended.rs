//! Calls that torch's kernels for the meta device have other results of than its real ones.

use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, list_of, py, tuple_of};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt};

/// Over dimensions of size 1 that are counted from the end, they leave those dimensions where they are.
const NORMS: &[&str] = &["norm", "vector_norm", "linalg_norm", "linalg_vector_norm"];

/// The place of `dim` among their arguments.
const DIM: usize = 2;

/// The arguments by which the kernels say what comes out.
pub fn arguments(
    name: &str,
    args: &[Obj],
    kwargs: &Bound<'static, PyDict>,
) -> PyResult<Option<(Vec<Obj>, Bound<'static, PyDict>)>> {
    if !NORMS.contains(&name) {
        return Ok(None);
    }
    let tensor = match args.first() {
        Some(first) => Some(first.clone()),
        None => ["input", "x", "A"].iter().find_map(|key| kwargs.get_item(key).quiet().flatten()).map(Obj::from),
    };
    let Some(tensor) = tensor.filter(|tensor| types().is_tensor(tensor)) else { return Ok(None) };
    let rank: i64 = tensor.bind().call_method0("dim")?.extract()?;
    let (mut args, named) = (args.to_vec(), kwargs.copy()?);
    if let Some(dims) = args.get_mut(DIM) {
        *dims = from_the_start(dims, rank)?;
    }
    if let Some(dims) = named.get_item("dim")? {
        named.set_item("dim", from_the_start(&dims.into(), rank)?.bind())?;
    }
    Ok(Some((args, named)))
}

/// What is out of range stays as it is, to be refused.
fn from_the_start(dims: &Obj, rank: i64) -> PyResult<Obj> {
    let all = || items_of(dims).iter().map(|dim| from_the_start(dim, rank)).collect::<PyResult<Vec<Obj>>>();
    if dims.class_is(types().tuple) {
        return tuple_of(&all()?);
    }
    if dims.class_is(types().list) {
        return list_of(&all()?);
    }
    let is_number = dims.bind().is_instance_of::<PyInt>() && !dims.bind().is_instance_of::<PyBool>();
    match is_number.then(|| dims.bind().extract::<i64>()).transpose()? {
        Some(dim) if dim < 0 && dim + rank >= 0 => Ok(Obj::int(dim + rank)),
        _ => Ok(dims.clone()),
    }
}

/// The result of the right type: to that of a matrix of blocks, numbers count less than vectors.
pub fn result(name: &str, args: &[Obj], result: Obj) -> PyResult<Obj> {
    if name != "block_diag" || !types().is_tensor(&result) {
        return Ok(result);
    }
    let blocks: Vec<Obj> = args.iter().flat_map(super::graph::tensors_in).collect();
    let real = blocks.iter().map(small).collect::<PyResult<Vec<Obj>>>()?;
    let torch = py().import("torch")?;
    let dtype =
        torch.call_method1("block_diag", pyo3::types::PyTuple::new(py(), real.iter().map(|t| t.bind()))?)?.getattr("dtype")?;
    match result.attr("dtype")?.is(&Obj::from(dtype.clone())) {
        true => Ok(result),
        false => Ok(result.bind().call_method1("to", (dtype,))?.into()),
    }
}

/// A real tensor of the same type with as many dimensions, and as good as no elements.
fn small(shadow: &Obj) -> PyResult<Obj> {
    let rank: usize = shadow.bind().call_method0("dim")?.extract()?;
    let options = PyDict::new(py());
    options.set_item("dtype", shadow.attr("dtype")?.bind())?;
    options.set_item("device", "cpu")?;
    Ok(py().import("torch")?.call_method("zeros", (vec![0i64; rank],), Some(&options))?.into())
}
