//! `options={"pad_to": ...}`: sizes of arguments are padded to buckets, and results are cut back.
//!
//! - `bucket`: what the user declares.
//! - `copies`: the padded arguments, and what the function writes to them.
//! - `cut`: results, cut where the graph's sizes say so.

mod bucket;
mod copies;
mod cut;

use bucket::{Bucket, buckets};
use copies::Copied;
use cut::Cutting;
use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// How the arguments of one function are padded.
#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct Padding {
    buckets: Vec<Bucket>,
    /// The parameters that are given by their places.
    by_place: Vec<String>,
}

/// The arguments of a call.
struct Arguments<'a, 'py> {
    by_place: &'a [String],
    args: Bound<'py, PyTuple>,
    kwargs: Bound<'py, PyDict>,
}

impl<'py> Arguments<'_, 'py> {
    /// The tensor that is given for a parameter.
    fn tensor(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let placed = || self.place(name).and_then(|place| self.args.get_item(place).ok());
        let found = self.kwargs.get_item(name)?.or_else(placed);
        Ok(match found {
            Some(found) if is_tensor(&found)? => Some(found),
            _ => None,
        })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.by_place.iter().position(|known| known == name)
    }
}

#[pymethods]
impl Padding {
    /// Raises TypeError or ValueError for what cannot be meant.
    #[new]
    fn new(pad_to: &Bound<'_, PyAny>, parameters: Vec<String>, by_place: Vec<String>) -> PyResult<Padding> {
        Ok(Padding { buckets: buckets(pad_to, &parameters)?, by_place })
    }

    /// The parameters and dimensions that are padded.
    #[getter]
    fn dims(&self) -> Vec<(String, i64)> {
        self.buckets.iter().map(|bucket| (bucket.name.clone(), bucket.dim)).collect()
    }

    /// Calls what was captured with padded arguments. It returns the function's result, and for each tensor in it what its sizes are made of.
    fn call<'py>(
        &self,
        captured: &Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = Arguments { by_place: &self.by_place, args, kwargs };
        let (here, tensors) = self.of_call(&given)?;
        let (padded, copies, lost) = copies::pad(&here, tensors, &given)?;
        let called = captured.call(padded.args.clone(), Some(&padded.kwargs));
        let (result, relations) = called.inspect_err(|_| write_what_can_be(&copies, &given))?.extract()?;
        check_sums(captured, &here, &padded, &lost)?;
        let mut written = Vec::new();
        for copy in &copies {
            written.extend(copy.is_written(&given)?.then_some(copy));
        }
        let mut cutting = Cutting::new(relations, &here, &lost);
        copies.iter().for_each(|copy| cutting.know(&copy.padded, &copy.given));
        let result = cutting.cut(&result, 0)?;
        // Last: what is refused has changed nothing.
        written.into_iter().try_for_each(Copied::write_back)?;
        Ok(result)
    }
}

impl Padding {
    /// The buckets whose arguments are tensors in this call, and those.
    fn of_call<'py>(&self, given: &Arguments<'_, 'py>) -> PyResult<(Vec<&Bucket>, Vec<Bound<'py, PyAny>>)> {
        let mut found = (Vec::new(), Vec::new());
        for bucket in &self.buckets {
            if let Some(tensor) = given.tensor(&bucket.name)? {
                found.0.push(bucket);
                found.1.push(tensor);
            }
        }
        Ok(found)
    }
}

/// Behind an exception of the function's, which goes on: what it has written before stays written.
fn write_what_can_be<'py>(copies: &[Copied<'py>], given: &Arguments<'_, 'py>) {
    let written = copies.iter().filter(|copy| copy.is_written(given).unwrap_or(false));
    written.for_each(|copy| drop(copy.write_back()));
}

/// What eager would refuse because sizes do not fit must not pass because they do when they are padded.
fn check_sums(captured: &Bound<'_, PyAny>, here: &[&Bucket], padded: &Arguments<'_, '_>, lost: &[i64]) -> PyResult<()> {
    if lost.iter().all(|lost| *lost == 0) {
        return Ok(());
    }
    let mut places = Vec::new();
    for bucket in here {
        let rank = rank_of(&padded.tensor(&bucket.name)?.expect("it was padded"))?;
        let place = match padded.kwargs.contains(&bucket.name)? {
            true => format!("kwarg['{}']", bucket.name),
            false => format!("arg{}", padded.place(&bucket.name).expect("it was found there")),
        };
        places.push(format!("{place}.shape[{}]", bucket.dim.rem_euclid(rank)));
    }
    let sums = captured.getattr(intern!(captured.py(), "sums_of_sizes"))?;
    let sums: Vec<Vec<(i64, String)>> = sums.call(padded.args.clone(), Some(&padded.kwargs))?.extract()?;
    let at = |place: &String| places.iter().position(|known| known == place);
    for sum in sums {
        let here_of = |(factor, place): &(i64, String)| Some((*factor, at(place)?));
        let terms: Vec<(i64, usize)> = sum.iter().filter_map(here_of).collect();
        if terms.len() < 2 || terms.iter().map(|(factor, n)| factor * lost[*n]).sum::<i64>() == 0 {
            continue;
        }
        let named: Vec<String> = terms.iter().map(|(_, n)| format!("dimension {} of {}", here[*n].dim, here[*n].name)).collect();
        let must = if matches!(terms[..], [(1, _), (-1, _)]) { "be equal" } else { "fit together" };
        let text = format!("oxytorch: pad_to: {} must {must}, but do not before they are padded", named.join(" and "));
        return Err(PyValueError::new_err(text));
    }
    Ok(())
}

fn is_tensor(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    object.is_instance(&py.import(intern!(py, "torch"))?.getattr(intern!(py, "Tensor"))?)
}

fn rank_of(tensor: &Bound<'_, PyAny>) -> PyResult<i64> {
    tensor.getattr(intern!(tensor.py(), "ndim"))?.extract()
}

fn shape_of(tensor: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    tensor.getattr(intern!(tensor.py(), "shape"))?.extract()
}

/// An object of a dataclass.
fn is_record(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let is_dataclass = py.import(intern!(py, "dataclasses"))?.getattr(intern!(py, "is_dataclass"))?;
    Ok(is_dataclass.call1((object,))?.is_truthy()? && !object.is_instance_of::<pyo3::types::PyType>())
}

/// The fields of such an object; None for those that are not set.
fn fields_of<'py>(record: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let py = record.py();
    let fields = py.import(intern!(py, "dataclasses"))?.call_method1(intern!(py, "fields"), (record,))?;
    let field = |field: PyResult<Bound<'py, PyAny>>| {
        let name = field?.getattr(intern!(py, "name"))?;
        let value = record.getattr(name.cast::<pyo3::types::PyString>()?).unwrap_or_else(|_| py.None().into_bound(py));
        Ok((name, value))
    };
    fields.try_iter()?.map(field).collect()
}

/// Containers that hold themselves have no end.
const DEEPEST: usize = 500;

fn check_depth(depth: usize) -> PyResult<()> {
    if depth < DEEPEST {
        Ok(())
    } else {
        Err(PyRecursionError::new_err("oxytorch: pad_to: containers that hold one another too deeply"))
    }
}

/// The tensors in tuples, lists, dicts and dataclasses, in their order.
fn tensors_in<'py>(object: &Bound<'py, PyAny>, found: &mut Vec<Bound<'py, PyAny>>, depth: usize) -> PyResult<()> {
    check_depth(depth)?;
    if is_tensor(object)? {
        found.push(object.clone());
    } else if let Ok(dict) = object.cast::<PyDict>() {
        dict.values().iter().try_for_each(|item| tensors_in(&item, found, depth + 1))?;
    } else if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
        object.try_iter()?.try_for_each(|item| tensors_in(&item?, found, depth + 1))?;
    } else if is_record(object)? {
        fields_of(object)?.iter().try_for_each(|(_, item)| tensors_in(item, found, depth + 1))?;
    }
    Ok(())
}
