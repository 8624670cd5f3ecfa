//! Arguments that are padded: the function gets copies, and what it writes to them is copied back.

use super::bucket::Bucket;
use super::{Arguments, rank_of, shape_of, tensors_in};
use crate::unheard;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyTuple};

/// An argument, and the padded copy that the function gets.
pub struct Copied<'py> {
    name: String,
    pub given: Bound<'py, PyAny>,
    pub padded: Bound<'py, PyAny>,
    versions: (i64, i64),
    /// When that was, among the writes that torch does not count.
    moment: i64,
    /// Of the copy: its shape and strides, and where it begins.
    layout: Layout,
}

type Layout = (Vec<i64>, Vec<i64>, usize);

/// The arguments with copies of those that are padded, the copies, and how much each bucket has added.
#[allow(clippy::type_complexity)]
pub fn pad<'a, 'py>(
    here: &[&Bucket],
    tensors: Vec<Bound<'py, PyAny>>,
    given: &Arguments<'a, 'py>,
) -> PyResult<(Arguments<'a, 'py>, Vec<Copied<'py>>, Vec<i64>)> {
    let mut padded: Vec<(&str, Bound<'py, PyAny>, Bound<'py, PyAny>)> = Vec::new();
    let (mut lost, mut seen) = (Vec::new(), Vec::new());
    for (bucket, tensor) in here.iter().zip(tensors) {
        let place = padded.iter().position(|(name, ..)| *name == bucket.name).unwrap_or_else(|| {
            padded.push((&bucket.name, tensor.clone(), tensor.clone()));
            padded.len() - 1
        });
        let dim = place_of(bucket, rank_of(&tensor)?, &mut seen)?;
        let size = shape_of(&tensor)?[dim];
        let more = bucket.size(size)? - size;
        if more > 0 {
            padded[place].2 = pad_tensor(&padded[place].2, dim, more, bucket)?;
        }
        lost.push(more);
    }
    let copies = padded.iter().filter(|(_, given, copy)| !copy.is(given));
    let copies = copies.map(|(name, given, copy)| Copied::new(name, given, copy)).collect::<PyResult<Vec<_>>>()?;
    Ok((replaced(given, &copies)?, copies, lost))
}

/// The dimension of a bucket in a tensor of this rank.
fn place_of<'a>(bucket: &'a Bucket, rank: i64, seen: &mut Vec<(&'a str, usize)>) -> PyResult<usize> {
    let Bucket { name, dim, .. } = bucket;
    if !(-rank..rank).contains(dim) {
        let text = format!("oxytorch: pad_to: {name} has {rank} dimensions; there is no dimension {dim}");
        return Err(PyValueError::new_err(text));
    }
    let place = dim.rem_euclid(rank) as usize;
    if seen.contains(&(name, place)) {
        return Err(PyValueError::new_err(format!("oxytorch: pad_to: dimension {place} of {name} has two buckets")));
    }
    seen.push((name, place));
    Ok(place)
}

fn pad_tensor<'py>(tensor: &Bound<'py, PyAny>, dim: usize, more: i64, bucket: &Bucket) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let behind = rank_of(tensor)? as usize - 1 - dim;
    let widths: Vec<i64> = std::iter::repeat_n(0, 2 * behind).chain([0, more]).collect();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "value"), &bucket.value)?;
    let pad = || py.import(intern!(py, "torch.nn.functional"))?.call_method(intern!(py, "pad"), (tensor, widths), Some(&options));
    let torch = py.import(intern!(py, "torch"))?;
    if !torch.call_method0(intern!(py, "is_inference_mode_enabled"))?.is_truthy()? {
        return pad();
    }
    // A tensor that is made in inference mode does not count its writes.
    within(&torch.call_method1(intern!(py, "inference_mode"), (false,))?, || {
        within(&torch.call_method0(intern!(py, "no_grad"))?, pad)
    })
}

/// What is done inside of a context manager that keeps no exception.
fn within<T>(context: &Bound<'_, PyAny>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let py = context.py();
    context.call_method0(intern!(py, "__enter__"))?;
    let done = work();
    context.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
    done
}

fn replaced<'a, 'py>(given: &Arguments<'a, 'py>, copies: &[Copied<'py>]) -> PyResult<Arguments<'a, 'py>> {
    let mut args: Vec<Bound<'py, PyAny>> = given.args.iter().collect();
    let kwargs = given.kwargs.copy()?;
    for copy in copies {
        match given.kwargs.contains(&copy.name)? {
            true => kwargs.set_item(&copy.name, &copy.padded)?,
            false => args[given.place(&copy.name).expect("it was found there")] = copy.padded.clone(),
        }
    }
    Ok(Arguments { by_place: given.by_place, args: PyTuple::new(given.args.py(), args)?, kwargs })
}

impl<'py> Copied<'py> {
    fn new(name: &str, given: &Bound<'py, PyAny>, padded: &Bound<'py, PyAny>) -> PyResult<Copied<'py>> {
        let (given, padded) = (given.clone(), padded.clone());
        let (versions, layout) = (versions(&given, &padded)?, layout_of(&padded)?);
        Ok(Copied { name: name.to_string(), versions, moment: unheard::now(), layout, given, padded })
    }

    /// Whether the function has written to the copy. Raises where that cannot be done to the argument: all that share memory would have to see
    /// it, but copies share none.
    pub fn is_written(&self, arguments: &Arguments<'_, 'py>) -> PyResult<bool> {
        let refused =
            |why: &str| Err(PyValueError::new_err(format!("oxytorch: pad_to: {} is padded{why}; pad outside", self.name)));
        let (given, padded) = versions(&self.given, &self.padded)?;
        if given != self.versions.0 {
            return refused(", and its memory is written to under another name");
        }
        if padded == self.versions.1 && !unheard::is_written_since(&self.padded, self.moment)? {
            return Ok(false);
        }
        let memory = memory_of(&self.given)?;
        let mut everything = Vec::new();
        tensors_in(arguments.args.as_any(), &mut everything, 0)?;
        tensors_in(arguments.kwargs.as_any(), &mut everything, 0)?;
        let mut sharing = 0;
        for tensor in &everything {
            sharing += usize::from(memory != 0 && memory_of(tensor)? == memory);
        }
        if sharing > 1 {
            return refused(" and written to, and shares memory with another argument");
        }
        // `t_` counts as a write, and may leave the numbers of the shape as they are.
        if layout_of(&self.padded)? != self.layout {
            return refused(", and the function gives it another shape");
        }
        Ok(true)
    }

    pub fn write_back(&self) -> PyResult<()> {
        let py = self.given.py();
        let part = shape_of(&self.given)?.into_iter().map(|size| PySlice::new(py, 0, size as isize, 1));
        let part = self.padded.get_item(PyTuple::new(py, part)?)?;
        self.given.call_method1(intern!(py, "copy_"), (part,)).map(drop)
    }
}

/// The writes that torch has counted.
fn versions(given: &Bound<'_, PyAny>, padded: &Bound<'_, PyAny>) -> PyResult<(i64, i64)> {
    let py = given.py();
    let version = |tensor: &Bound<'_, PyAny>| tensor.getattr(intern!(py, "_version"))?.extract();
    let uncounted = given.call_method0(intern!(py, "is_inference"))?.is_truthy()?;
    Ok((if uncounted { 0 } else { version(given)? }, version(padded)?))
}

fn layout_of(tensor: &Bound<'_, PyAny>) -> PyResult<Layout> {
    let py = tensor.py();
    let begin = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
    Ok((shape_of(tensor)?, tensor.call_method0(intern!(py, "stride"))?.extract()?, begin))
}

fn memory_of(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = tensor.py();
    let strided = py.import(intern!(py, "torch"))?.getattr(intern!(py, "strided"))?;
    if !tensor.getattr(intern!(py, "layout"))?.is(&strided) {
        return Ok(0);
    }
    tensor.call_method0(intern!(py, "untyped_storage"))?.call_method0(intern!(py, "data_ptr"))?.extract()
}
