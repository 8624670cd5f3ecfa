//! Results, cut where their sizes are padded ones.

use super::bucket::Bucket;
use super::{check_depth, fields_of, is_record, is_tensor, shape_of};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustc_hash::FxHashMap;

/// How the sizes of one tensor are made of padded ones: each of which, and how (`size_relation`).
type Relations = Vec<Vec<(usize, i64)>>;

/// The size is that one.
const SAME: i64 = 1;
/// That one is a part of it.
const PART: i64 = 2;
const UNKNOWN: i64 = 3;

pub struct Cutting<'a, 'py> {
    /// Of the tensors of the result, in their order.
    relations: std::vec::IntoIter<Relations>,
    here: &'a [&'a Bucket],
    lost: &'a [i64],
    /// What tensors have become, by their addresses; with what keeps those.
    known: FxHashMap<usize, (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
}

impl<'a, 'py> Cutting<'a, 'py> {
    pub fn new(relations: Vec<Relations>, here: &'a [&'a Bucket], lost: &'a [i64]) -> Cutting<'a, 'py> {
        Cutting { relations: relations.into_iter(), here, lost, known: FxHashMap::default() }
    }

    /// A container that is met twice holds the cut tensor the second time.
    pub fn know(&mut self, tensor: &Bound<'py, PyAny>, cut: &Bound<'py, PyAny>) {
        self.known.insert(tensor.as_ptr() as usize, (tensor.clone(), cut.clone()));
        self.known.insert(cut.as_ptr() as usize, (cut.clone(), cut.clone()));
    }

    pub fn cut(&mut self, result: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        check_depth(depth)?;
        if is_tensor(result)? {
            return self.cut_once(result);
        }
        if let Ok(dict) = result.cast::<PyDict>() {
            return self.cut_dict(dict, depth);
        }
        if let Ok(list) = result.cast::<PyList>() {
            for (n, item) in list.iter().enumerate() {
                list.set_item(n, self.cut(&item, depth + 1)?)?;
            }
            return Ok(result.clone());
        }
        if let Ok(tuple) = result.cast::<PyTuple>() {
            let items = tuple.iter().map(|item| self.cut(&item, depth + 1)).collect::<PyResult<Vec<_>>>()?;
            let class = result.get_type();
            return match class.getattr_opt(intern!(result.py(), "_make"))? {
                Some(make) => make.call1((items,)),
                None => class.call1((items,)),
            };
        }
        if is_record(result)? {
            return self.cut_record(result, depth);
        }
        match is_plain(result)? {
            true => Ok(result.clone()),
            false => {
                let class = result.get_type();
                Err(not_looked_into(&format!("of type {}.{}", class.module()?, class.qualname()?)))
            }
        }
    }

    fn cut_once(&mut self, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let relations = self.relations.next().unwrap_or_default();
        if !self.known.contains_key(&(tensor.as_ptr() as usize)) {
            let cut = self.cut_tensor(tensor, &relations)?;
            self.know(tensor, &cut);
        }
        Ok(self.known[&(tensor.as_ptr() as usize)].1.clone())
    }

    /// By its own methods: it may be of a class that keeps its items in two places.
    fn cut_dict(&mut self, dict: &Bound<'py, PyDict>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        for key in dict.keys().iter() {
            if is_tensor(&key)? {
                return Err(not_looked_into("a dict with tensors as keys"));
            }
        }
        let entries = dict.call_method0(intern!(dict.py(), "items"))?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        for entry in entries {
            let (key, item): (Bound<'py, PyAny>, Bound<'py, PyAny>) = entry.extract()?;
            let cut = self.cut(&item, depth + 1)?;
            if !cut.is(&item) {
                dict.as_any().set_item(key, cut)?;
            }
        }
        Ok(dict.clone().into_any())
    }

    fn cut_record(&mut self, record: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = record.py();
        let object = py.import(intern!(py, "builtins"))?.getattr(intern!(py, "object"))?;
        for (name, item) in fields_of(record)? {
            let cut = self.cut(&item, depth + 1)?;
            if !cut.is(&item) {
                // Frozen ones as well: the function has just made it.
                object.call_method1(intern!(py, "__setattr__"), (record, name, cut))?;
            }
        }
        Ok(record.clone())
    }

    fn cut_tensor(&self, tensor: &Bound<'py, PyAny>, relations: &Relations) -> PyResult<Bound<'py, PyAny>> {
        let mut tensor = tensor.clone();
        let sizes = relations.iter().enumerate().flat_map(|(dim, size)| size.iter().map(move |(place, how)| (dim, *place, *how)));
        // What is made of several sizes is as it should be only if none of them is padded.
        for (dim, place, how) in sizes.filter(|(_, place, _)| self.lost[*place] != 0) {
            let (Bucket { name, dim: of, .. }, lost) = (self.here[place], self.lost[place]);
            let size = shape_of(&tensor)?[dim];
            match how {
                UNKNOWN => {
                    return Err(PyValueError::new_err(format!(
                        "oxytorch: pad_to: which dimensions of the results are dimension {of} of {name} cannot be told, since the \
                         function is no single graph; oxytorch.explain shows where it breaks"
                    )));
                }
                PART => {
                    return Err(PyValueError::new_err(format!(
                        "oxytorch: pad_to: dimension {dim} of a result, {size}, is made of dimension {of} of {name}, which is padded, \
                         in a way that cannot be cut back; pad outside, or return it in another shape"
                    )));
                }
                SAME => tensor = tensor.call_method1(intern!(tensor.py(), "narrow"), (dim, 0, size - lost))?,
                _ => {}
            }
        }
        Ok(tensor)
    }
}

/// What holds no tensor.
fn is_plain(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyString};
    let is_number = object.is_instance_of::<PyBool>()
        || object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyComplex>();
    if object.is_none() || is_number || object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
        return Ok(true);
    }
    let torch = object.py().import("torch")?;
    Ok(object.is_instance(&torch.getattr("dtype")?)? || object.is_instance(&torch.getattr("device")?)?)
}

fn not_looked_into(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "oxytorch: pad_to: a result is {what}, in which padded tensors are not looked for; return them in tuples, lists, dicts or dataclasses"
    ))
}
