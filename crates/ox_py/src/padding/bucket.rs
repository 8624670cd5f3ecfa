//! The sizes that dimensions are padded to, as the user declares them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

/// The sizes that one dimension may have.
pub struct Bucket {
    pub name: String,
    /// Counted from the end if negative.
    pub dim: i64,
    sizes: Sizes,
    /// What is padded with.
    pub value: Py<PyAny>,
}

enum Sizes {
    Multiple(i64),
    /// In their order.
    OneOf(Vec<i64>),
}

impl Bucket {
    pub fn size(&self, actual: i64) -> PyResult<i64> {
        match &self.sizes {
            Sizes::Multiple(of) => Ok(((actual + of - 1) / of).max(1) * of),
            Sizes::OneOf(sizes) => sizes.iter().copied().find(|size| *size >= actual).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "oxytorch: pad_to: dimension {} of {} is {actual}, above its largest bucket, {}",
                    self.dim,
                    self.name,
                    sizes.last().expect("there is one")
                ))
            }),
        }
    }
}

/// Of all parameters. Raises TypeError or ValueError for what cannot be meant.
pub fn buckets(pad_to: &Bound<'_, PyAny>, parameters: &[String]) -> PyResult<Vec<Bucket>> {
    let wrong = || PyTypeError::new_err("oxytorch: pad_to is a dict of parameters' names, as in {'input_ids': {1: 64}}");
    let mut found = Vec::new();
    for entry in pad_to.cast::<PyMapping>().map_err(|_| wrong())?.items()?.iter() {
        let (name, dims): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
        let known = name.extract::<String>().ok().filter(|name| parameters.contains(name));
        let name = known.ok_or_else(|| {
            let all = parameters.join(", ");
            PyValueError::new_err(format!("oxytorch: pad_to: there is no parameter {}; there are {all}", repr(&name)))
        })?;
        let wrong = || PyTypeError::new_err(format!("oxytorch: pad_to: {name} needs a dict of its dimensions, as in {{1: 64}}"));
        for entry in dims.cast::<PyMapping>().map_err(|_| wrong())?.items()?.iter() {
            let (dim, how): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
            found.push(bucket(&name, &dim, &how)?);
        }
    }
    Ok(found)
}

fn bucket(name: &str, dim: &Bound<'_, PyAny>, how: &Bound<'_, PyAny>) -> PyResult<Bucket> {
    let place = format!("oxytorch: pad_to: {name}, dimension {dim}");
    let dim = integer(dim).ok_or_else(|| PyTypeError::new_err(format!("{place}: a dimension is a number")))?;
    let (how, value) = match how.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, pair.get_item(1)?),
        _ => (how.clone(), PyInt::new(how.py(), 0).into_any()),
    };
    let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    if is_text || !(value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>()) {
        return Err(PyTypeError::new_err(format!("{place}: padded with {}, which is no number", repr(&value))));
    }
    let several = how.cast::<PyList>();
    let sizes: Option<Vec<i64>> = match &several {
        Ok(list) => list.iter().map(|size| integer(&size)).collect(),
        Err(_) => integer(&how).map(|size| vec![size]),
    };
    let mut sizes = sizes.filter(|sizes| !sizes.is_empty()).ok_or_else(|| {
        let text = "takes a multiple, a list of sizes, or (one of them, value)";
        PyTypeError::new_err(format!("{place}: {text}, not {}", repr(&how)))
    })?;
    sizes.sort_unstable();
    if sizes[0] < 2 {
        return Err(PyValueError::new_err(format!("{place}: a bucket is 2 or more, not {}", sizes[0])));
    }
    let sizes = if several.is_ok() { Sizes::OneOf(sizes) } else { Sizes::Multiple(sizes[0]) };
    Ok(Bucket { name: name.to_string(), dim, sizes, value: value.unbind() })
}

fn integer(value: &Bound<'_, PyAny>) -> Option<i64> {
    let is_int = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    if is_int { value.extract().ok() } else { None }
}

fn repr(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "something".to_string(), |text| text.to_string())
}
