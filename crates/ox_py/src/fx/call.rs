//! One call of the FX graph: recorded as Ops where the surface table knows it, otherwise left to torch at run time.

use super::fake::place;
use super::importer::Importer;
use super::names::Name;
use super::refusal::{Import, Refusal};
use crate::error::bugs_are_fatal;
use ox_ir::TensorType;
use ox_ops::surface::{Sharing, by_order, first_argument, lookup};
use ox_ops::{Fact, FrontValue, OpError, Seen, TensorRef, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::rc::Rc;

/// How Python would do it.
#[derive(Clone)]
pub enum Callee<'py> {
    Function(Bound<'py, PyAny>),
    /// A method of the first argument.
    Method(String),
    /// An attribute of the first argument.
    Attribute(String),
}

pub(super) type Keywords = Vec<(String, FrontValue)>;

/// One call node, read.
#[derive(Clone)]
pub(super) struct Request<'py> {
    pub node: Bound<'py, PyAny>,
    pub name: Rc<Name>,
    pub callee: Callee<'py>,
    pub args: Vec<FrontValue>,
    pub kwargs: Keywords,
    /// The result as torch's fake kernels have it.
    pub example: Option<Bound<'py, PyAny>>,
}

impl Request<'_> {
    /// Those among the arguments.
    pub fn tensors(&self) -> Vec<TensorRef> {
        self.args.iter().chain(self.kwargs.iter().map(|(_, v)| v)).flat_map(|v| v.tensors()).collect()
    }
}

impl<'py> Importer<'py> {
    pub(super) fn call(&mut self, request: Request<'py>) -> Import<FrontValue> {
        let (name, given) = (request.name.clone(), request.tensors());
        let (node, example) = (request.node.clone(), request.example.clone());
        let (writes, declared) = (self.recorder.writes(), self.written_args(&request)?);
        let value = self.call_with_gradients(request)?;
        if self.recorder.writes() != writes {
            self.note_heard(if declared.is_empty() { &given } else { &declared });
        }
        let is_opaque = !self.opaque_views.is_empty() && self.is_opaque_view(&node, example.as_ref())?;
        self.note_apart(&name.name, &given, &value, is_opaque);
        Ok(value)
    }

    fn call_with_gradients(&mut self, request: Request<'py>) -> Import<FrontValue> {
        if !self.training {
            return self.call_anyhow(request);
        }
        let written = self.written_args(&request)?;
        let before = self.before_write(&written)?;
        self.ensure_derivative(&request)?;
        self.rely_on_heads(&request)?;
        let asked = request.clone();
        let value = self.call_anyhow(request)?;
        self.keep_histories(before)?;
        self.end_gradients(&asked, &written, value)
    }

    fn call_anyhow(&mut self, mut request: Request<'py>) -> Import<FrontValue> {
        if let Some(value) = self.without_tensors(&request.name, &request.args, request.example.as_ref())? {
            return Ok(value);
        }
        self.convert_as_autocast(&mut request)?;
        self.check_memory_order(&request)?;
        let Request { name, args, kwargs, example, .. } = &request;
        let writes = self.written_args(&request)?;
        if !writes.is_empty() {
            self.check_opaque(&request)?;
        }
        if let Some(value) = self.as_strided(&request)? {
            return Ok(value);
        }
        let seen = self.seen(&request)?;
        let written = self.recorder.writes();
        let reason = match self.recorder.call(&name.namespace, &name.name, args, kwargs, seen) {
            Ok(value) => match self.mismatch(&value, example.as_ref())? {
                None => {
                    self.note_made(&request, &value, example.as_ref())?;
                    self.note_by_layout(&request, &value);
                    return Ok(value);
                }
                Some(_) if self.is_misled(&request, &value)? => {
                    return Err(Refusal::unsupported(format!(
                        "{name}, whose fake kernel foretells another result than torch gives"
                    )));
                }
                Some(problem) if bugs_are_fatal() && !self.has_sizes(&request) => {
                    return Err(Refusal::Bug(format!("{name}: {problem} ({})", self.location)));
                }
                Some(problem) => problem,
            },
            Err(OpError::Bug(problem)) if bugs_are_fatal() && !self.has_sizes(&request) => {
                return Err(Refusal::Bug(format!("{name}: {problem} ({})", self.location)));
            }
            Err(OpError::Undecided(a, b)) => {
                return Err(Refusal::Undecided((Fact::Equal(a, b), self.location.clone())));
            }
            // What eager's own shape rules let pass is not for us to refuse: it will raise at run time if it must.
            Err(error) => error.to_string(),
        };
        self.refuse_sizes(&request, &reason)?;
        if self.recorder.writes() != written {
            return Err(Refusal::unsupported(format!("{name} was recorded in part: {reason}")));
        }
        self.leave_to_torch(request, &writes, reason)
    }

    /// Calls whose result holds no tensor: sizes, numbers and types are known from the example; so are the items of tuples.
    fn without_tensors(
        &mut self,
        name: &Name,
        args: &[FrontValue],
        example: Option<&Bound<'py, PyAny>>,
    ) -> Import<Option<FrontValue>> {
        if name.namespace == "operator"
            && name.name == "getitem"
            && let [sequence, ValueOf::Int(index)] = args
            && let (Some(items), Some(index)) = (sequence.items(), index.as_const())
        {
            let place = if index < 0 { index + items.len() as i64 } else { index };
            return Ok(items.get(place as usize).cloned());
        }
        // A call that returns nothing is made for what it does.
        let Some(example) = example.filter(|e| !e.is_none()) else { return Ok(None) };
        if self.holds_tensor(example)? {
            return Ok(None);
        }
        self.value(example).map(Some)
    }

    fn holds_tensor(&self, example: &Bound<'py, PyAny>) -> Import<bool> {
        if example.is_instance(self.torch.tensor.bind(self.py))? {
            return Ok(true);
        }
        if example.is_instance_of::<PyTuple>() || example.is_instance_of::<PyList>() {
            for item in example.try_iter()? {
                if self.holds_tensor(&item?)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What the examples tell of memory, where that decides what comes out.
    fn seen(&self, request: &Request<'py>) -> Import<Seen> {
        let Some(row) = lookup(&request.name.namespace, &request.name.name) else { return Ok(Seen::default()) };
        let (shares, by_order) = (row.sharing == Sharing::Maybe, by_order(row));
        let first = if shares || by_order { self.first_example(request)? } else { None };
        let Some(first) = first else { return Ok(Seen::default()) };
        let storages = match &request.example {
            Some(example) if shares => self.storage(&first)?.zip(self.storage(example)?),
            _ => None,
        };
        let strides = if by_order { Some(self.describe(&first)?.strides) } else { None };
        Ok(Seen { shares: storages.map(|(a, b)| a == b), strides })
    }

    /// The example of the first argument.
    fn first_example(&self, request: &Request<'py>) -> Import<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let args = request.node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
        let named = request.node.getattr(intern!(py, "kwargs"))?.cast_into::<PyDict>()?;
        match first_argument(args.get_item(0).ok(), |name| named.get_item(name).ok().flatten()) {
            Some(first) if first.is_instance(self.torch.fx_node.bind(py))? => self.meta(&first),
            _ => Ok(None),
        }
    }

    /// The identity of a tensor's storage; of a tuple's, the first tensor's.
    pub(super) fn storage(&self, example: &Bound<'py, PyAny>) -> Import<Option<usize>> {
        if example.is_instance(self.torch.tensor.bind(self.py))? {
            return Ok(place(&self.symbols, example)?.map(|p| p.storage));
        }
        match example.try_iter() {
            Ok(mut items) => items.next().transpose()?.map_or(Ok(None), |first| self.storage(&first)),
            Err(_) => Ok(None),
        }
    }

    /// What is wrong with a recorded result by the word of torch's fake kernels.
    fn mismatch(&self, value: &FrontValue, example: Option<&Bound<'py, PyAny>>) -> Import<Option<String>> {
        let Some(example) = example else { return Ok(None) };
        match value {
            ValueOf::Tensor(tensor) => self.tensor_mismatch(*tensor, example),
            ValueOf::Tuple(items) | ValueOf::List(items) => {
                let examples: Vec<Bound<'py, PyAny>> = match example.try_iter() {
                    Ok(found) => found.collect::<PyResult<_>>()?,
                    Err(_) => return Ok(Some(format!("{} results instead of one", items.len()))),
                };
                if examples.len() != items.len() {
                    return Ok(Some(format!("{} results instead of {}", items.len(), examples.len())));
                }
                for (item, example) in items.iter().zip(&examples) {
                    if let Some(problem) = self.mismatch(item, Some(example))? {
                        return Ok(Some(problem));
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn tensor_mismatch(&self, tensor: TensorRef, example: &Bound<'py, PyAny>) -> Import<Option<String>> {
        if !example.is_instance(self.torch.tensor.bind(self.py))? {
            return Ok(Some("a tensor where eager has none".into()));
        }
        if self.stale.contains(example) {
            return Ok(None);
        }
        let fake = self.describe(example)?;
        let got = self.recorder.ty(tensor);
        if self.same_type(got, &fake.ty, example)? {
            return Ok(None);
        }
        Ok(Some(format!("recorded as {} but eager has {}", describe_type(got), describe_type(&fake.ty))))
    }

    fn same_type(&self, ours: &TensorType, theirs: &TensorType, example: &Bound<'py, PyAny>) -> Import<bool> {
        if ours.dtype != theirs.dtype || ours.device != theirs.device || ours.rank() != theirs.rank() {
            return Ok(false);
        }
        if ours.shape == theirs.shape {
            return Ok(true);
        }
        let sizes = example.getattr(intern!(self.py, "shape"))?.cast_into::<PyTuple>()?;
        for (size, theirs) in ours.shape.iter().zip(sizes.iter()) {
            let is_hint = self.known.hint(size).is_some_and(|hint| theirs.extract::<i64>().is_ok_and(|n| n == hint));
            if !is_hint && !self.symbols.is_equal(size, &theirs)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn describe_type(ty: &TensorType) -> String {
    let sizes: Vec<String> = ty.shape.iter().map(|s| s.to_string()).collect();
    format!("{}[{}]", ty.dtype, sizes.join(", "))
}
