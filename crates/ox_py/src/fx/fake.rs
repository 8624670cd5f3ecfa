//! What torch's fake tensors say of a value: type, strides, and which storage it lies in.

use super::symint::Symbols;
use crate::torch::{Torch, device_of};
use ox_ir::TensorType;
use ox_ir::graph::Shape;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Why a tensor cannot be an operand of a Graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foreign {
    DType(String),
    Layout(String),
    Size(String),
    Lazy(&'static str),
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Foreign::DType(name) => write!(f, "a tensor of type {name}"),
            Foreign::Layout(name) => write!(f, "a tensor with layout {name}"),
            Foreign::Size(text) => write!(f, "a size that is only known while running: {text}"),
            Foreign::Lazy(bit) => write!(f, "a tensor with the {bit} bit"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Fake {
    pub ty: TensorType,
    pub strides: Shape,
    pub requires_grad: bool,
}

/// Where a tensor lies: its storage's identity, and the offset of its first element inside it.
#[derive(Clone, Debug)]
pub struct Place {
    pub storage: usize,
    pub offset: ox_ir::Sym,
}

/// Reads a tensor, real or fake.
pub fn describe(torch: &Torch, symbols: &Symbols, tensor: &Bound<'_, PyAny>) -> PyResult<Result<Fake, Foreign>> {
    let py = tensor.py();
    let layout = tensor.getattr(intern!(py, "layout"))?;
    if torch.enum_number(&layout) != Some((crate::torch::EnumKind::Layout, 0)) {
        return Ok(Err(Foreign::Layout(layout.to_string())));
    }
    let dtype = tensor.getattr(intern!(py, "dtype"))?;
    let Some(dtype) = torch.dtype_of(&dtype) else { return Ok(Err(Foreign::DType(dtype.to_string()))) };
    let device = device_of(&tensor.getattr(intern!(py, "device"))?)?;
    let shape = tensor.getattr(intern!(py, "shape"))?;
    let Some(shape) = dims(symbols, &shape)? else { return Ok(Err(Foreign::Size(shape.to_string()))) };
    let strides = tensor.call_method0(intern!(py, "stride"))?;
    let Some(strides) = dims(symbols, &strides)? else { return Ok(Err(Foreign::Size(strides.to_string()))) };
    let requires_grad = tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
    Ok(Ok(Fake { ty: TensorType { dtype, device, shape }, strides, requires_grad }))
}

/// `None` where the offset is not a size expression that we know.
pub fn place(symbols: &Symbols, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Place>> {
    let py = tensor.py();
    let offset = tensor.call_method0(intern!(py, "storage_offset"))?;
    let Some(offset) = symbols.to_sym(&offset)? else { return Ok(None) };
    let Some(moved) = tensor.getattr_opt(intern!(py, MOVED))? else {
        return Ok(Some(Place { storage: storage(tensor)?, offset }));
    };
    let below = place(symbols, &moved)?;
    Ok(below.map(|below| Place { storage: below.storage, offset: &below.offset + &offset }))
}

fn storage(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = tensor.py();
    tensor.call_method0(intern!(py, "untyped_storage"))?.getattr(intern!(py, "_cdata"))?.extract()
}

/// Those of the tensors of an example; none of what tells no place in memory.
pub fn storages(example: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    if example.is_instance_of::<PyTuple>() || example.is_instance_of::<PyList>() {
        let items = example.try_iter()?.map(|item| storages(&item?));
        return Ok(items.collect::<PyResult<Vec<_>>>()?.concat());
    }
    if let Some(moved) = example.getattr_opt(intern!(example.py(), MOVED))? {
        return storages(&moved);
    }
    Ok(storage(example).into_iter().collect())
}

/// The attribute of an example that says of which tensor's memory its own is.
const MOVED: &str = "_oxytorch_lies_in";

/// Those of the examples that lie in the memory of a copy, which eager does not make, lie in that of `own`.
pub fn move_examples<'py>(
    examples: impl Iterator<Item = Bound<'py, PyAny>>,
    copy: &Bound<'py, PyAny>,
    own: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let (py, memory) = (copy.py(), storage(copy)?);
    for example in examples {
        if example.is_instance_of::<PyTuple>() || example.is_instance_of::<PyList>() {
            let items = example.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            move_examples(items.into_iter(), copy, own)?;
        } else if example.hasattr(intern!(py, "untyped_storage"))? && storage(&example)? == memory {
            example.setattr(intern!(py, MOVED), own)?;
        }
    }
    Ok(())
}

/// Conjugation and negation that torch has only noted: the memory does not hold the values. In what a library call returns they are
/// resolved when it has run.
pub fn lazy_bit(tensor: &Bound<'_, PyAny>) -> PyResult<Option<Foreign>> {
    let py = tensor.py();
    if tensor.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
        return Ok(Some(Foreign::Lazy("neg")));
    }
    Ok(tensor.call_method0(intern!(py, "is_conj"))?.is_truthy()?.then_some(Foreign::Lazy("conj")))
}

fn dims(symbols: &Symbols, sizes: &Bound<'_, PyAny>) -> PyResult<Option<Shape>> {
    let mut out = Shape::new();
    for size in sizes.cast::<PyTuple>()?.iter() {
        let Some(sym) = symbols.to_sym(&size)? else { return Ok(None) };
        out.push(sym);
    }
    Ok(Some(out))
}
