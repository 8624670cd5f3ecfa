//! `x[...]` and `x[...] = value` with every form of Python index.

use super::view::{select, slice};
use super::{Bound, Surface, assign, create, fresh, maybe};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::functional::{chain_between, write_through};
use crate::infer::{index_shape, same_shape};
use crate::promote::torch_name;
use crate::value::{Value, ValueOf};
use ox_ir::graph::{Bounds, Combine, NodeId, ReduceOp};
use ox_ir::{DType, PointOp, Sym};

pub const ROWS: &[Surface] = &[
    maybe(&["getitem"], "input, index", |b, a| {
        let subscript = Subscript::new(b, a.tensor("input")?, a.value("index"))?;
        Ok(subscript.read(b)?.into())
    }),
    assign(&["setitem"], "input, index, value", setitem),
    fresh(&["aten.index"], "input, indices", |b, a| {
        let subscript = by_tensors(b, a)?;
        Ok(subscript.read(b)?.into())
    }),
    fresh(&["index_put", "_unsafe_index_put"], "input, indices, values, accumulate=False", index_put),
];

/// An index split into what views do and what is gathered.
struct Subscript {
    /// The tensor after ints, slices, None and Ellipsis.
    viewed: NodeId,
    /// Dimensions of `viewed` that tensors index, ascending.
    gathered: Vec<(usize, NodeId)>,
}

impl Subscript {
    fn new(b: &mut Builder, x: NodeId, index: &Value) -> OpResult<Subscript> {
        let items: Vec<Value> = match index {
            ValueOf::Tuple(items) => items.clone(),
            other => vec![other.clone()],
        };
        let taken: usize = items.iter().map(|item| dims_taken(b, item)).sum();
        if taken > b.rank(x) {
            return Err(OpError::index(format!("too many indices for tensor of dimension {}", b.rank(x))));
        }
        let mut open = Some(b.rank(x) - taken);
        let mut subscript = Subscript { viewed: x, gathered: Vec::new() };
        let mut dim = 0;
        for item in &items {
            if let ValueOf::Ellipsis = item {
                let span = open.take().ok_or_else(|| OpError::index("an index can only have a single ellipsis ('...')"))?;
                dim += span;
                continue;
            }
            dim = subscript.apply(b, dim, item)?;
        }
        Ok(subscript)
    }

    /// Applies one item at `dim`; gives the dimension that the next one is for.
    fn apply(&mut self, b: &mut Builder, dim: usize, item: &Value) -> OpResult<usize> {
        match item {
            ValueOf::Int(at) => {
                self.viewed = select(b, self.viewed, dim, at)?;
                Ok(dim)
            }
            ValueOf::None => {
                self.viewed = b.unsqueeze(self.viewed, dim)?;
                Ok(dim + 1)
            }
            ValueOf::Slice(parts) => {
                let [start, end, step] = [&parts[0], &parts[1], &parts[2]].map(slice_part);
                let step = step?.unwrap_or(Sym::ONE);
                self.viewed = slice(b, self.viewed, dim, start?, end?, &step)?;
                Ok(dim + 1)
            }
            ValueOf::Tensor(index) => self.gather(b, dim, *index),
            ValueOf::List(_) => {
                let index = create::literal(b, item, None)?;
                let index = if b.ty(index).numel().is_zero() { b.cast(index, DType::I64) } else { index };
                self.gather(b, dim, index)
            }
            other => Err(OpError::unsupported(format!("an index of type {}", other.kind()))),
        }
    }

    fn gather(&mut self, b: &mut Builder, dim: usize, index: NodeId) -> OpResult<usize> {
        match b.dtype(index) {
            DType::I64 | DType::I32 | DType::I16 | DType::I8 => self.gathered.push((dim, index)),
            DType::Bool => {
                self.gathered.push((dim, index));
                return Ok(dim + b.rank(index));
            }
            DType::U8 => return Err(OpError::unsupported("a byte tensor as a mask")),
            _ => return Err(OpError::index("tensors used as indices must be long, int, byte or bool tensors")),
        }
        Ok(dim + 1)
    }

    fn mask(&self, b: &Builder) -> Option<(usize, NodeId)> {
        self.gathered.iter().copied().find(|(_, index)| b.dtype(*index) == DType::Bool)
    }

    /// The indices brought to one shape, their dimensions, and where the result has them: in place if they are neighbours.
    fn gather_parts(&self, b: &mut Builder) -> OpResult<(Vec<NodeId>, Vec<usize>, usize)> {
        let dims: Vec<usize> = self.gathered.iter().map(|(d, _)| *d).collect();
        let nodes: Vec<NodeId> = self.gathered.iter().map(|(_, index)| b.cast(*index, DType::I64)).collect();
        let indices = b.broadcast(&nodes).map_err(|error| match error {
            OpError::User { .. } => OpError::index("shape mismatch: indexing tensors could not be broadcast together"),
            other => other,
        })?;
        let neighbours = dims.windows(2).all(|w| w[1] == w[0] + 1);
        let at = if neighbours { dims[0] } else { 0 };
        Ok((indices, dims, at))
    }

    fn read(&self, b: &mut Builder) -> OpResult<NodeId> {
        if self.gathered.is_empty() {
            return Ok(self.viewed);
        }
        if self.mask(b).is_some() {
            return Err(OpError::unsupported("indexing by a mask: the size of the result depends on data"));
        }
        let (indices, dims, at) = self.gather_parts(b)?;
        b.index(self.viewed, &indices, &dims, at, Bounds::Wrap)
    }

    /// What the viewed tensor becomes when `value` is put where the subscript points.
    fn put(&self, b: &mut Builder, value: NodeId, combine: Combine) -> OpResult<NodeId> {
        let value = b.cast(value, b.dtype(self.viewed));
        if self.gathered.is_empty() {
            let shape = b.shape(self.viewed);
            let value = fit(b, value, &shape)?;
            return b.broadcast_to(value, &shape);
        }
        if let Some((dim, mask)) = self.mask(b) {
            return self.put_mask(b, dim, mask, value, combine);
        }
        let (indices, dims, at) = self.gather_parts(b)?;
        // Nothing would be written, and nobody would look at the indices.
        if dims.iter().any(|dim| b.shape(self.viewed)[*dim].is_zero()) && !b.ty(indices[0]).numel().is_zero() {
            return Err(OpError::index("index is out of bounds for dimension with size 0"));
        }
        let shape = index_shape(b.ty(self.viewed), &b.shape(indices[0]), &dims, at);
        let value = fit(b, value, &shape)?;
        let value = b.broadcast_to(value, &shape)?;
        b.index_put(self.viewed, &indices, value, (&dims, at, Bounds::Wrap), combine)
    }

    /// A value that is the same for all chosen places needs no count of them.
    fn put_mask(&self, b: &mut Builder, dim: usize, mask: NodeId, value: NodeId, combine: Combine) -> OpResult<NodeId> {
        let behind = b.rank(self.viewed) - dim - b.rank(mask);
        if self.gathered.len() > 1 || combine != Combine::Set || b.rank(value) > behind {
            return Err(OpError::unsupported("writing by a mask: the number of places depends on data"));
        }
        let shape = b.shape(self.viewed);
        if !same_shape(&b.shape(mask), &shape[dim..dim + b.rank(mask)])? {
            return Err(OpError::index("The shape of the mask does not match the shape of the indexed tensor"));
        }
        let mut wide = b.shape(mask);
        wide.extend(vec![Sym::ONE; behind]);
        let mask = b.reshape(mask, &wide)?;
        let mask = b.broadcast_to(mask, &shape)?;
        let value = b.broadcast_to(value, &shape)?;
        b.point(PointOp::Where, &[mask, value, self.viewed])
    }
}

/// How many dimensions of the tensor an item stands for.
fn dims_taken(b: &Builder, item: &Value) -> usize {
    match item {
        ValueOf::None | ValueOf::Ellipsis => 0,
        ValueOf::Tensor(index) if b.dtype(*index) == DType::Bool => b.rank(*index),
        _ => 1,
    }
}

fn slice_part(part: &Value) -> OpResult<Option<Sym>> {
    match part {
        ValueOf::None => Ok(None),
        ValueOf::Int(at) => Ok(Some(at.clone())),
        other => Err(OpError::unsupported(format!("a slice bound of type {}", other.kind()))),
    }
}

/// Leading dimensions of size 1 that the target does not have are dropped, as eager does when it assigns.
fn fit(b: &mut Builder, value: NodeId, target: &[Sym]) -> OpResult<NodeId> {
    let own = b.shape(value);
    let extra = own.len().saturating_sub(target.len());
    if extra > 0 && own[..extra].iter().all(|s| s.is_one()) {
        return b.reshape(value, &own[extra..]);
    }
    Ok(value)
}

/// The view of `input` that an assignment to a subscript of it writes, and whether only parts of it, chosen by tensors.
pub(crate) fn assigned(b: &mut Builder, a: &Bound) -> OpResult<(NodeId, bool)> {
    let subscript = Subscript::new(b, a.tensor("input")?, a.value("index"))?;
    Ok((subscript.viewed, !subscript.gathered.is_empty()))
}

fn setitem(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, value) = (a.tensor("input")?, a.operand("value")?);
    let subscript = Subscript::new(b, x, a.value("index"))?;
    let gathers = !subscript.gathered.is_empty() && subscript.mask(b).is_none();
    if gathers && let Some(tensor) = value.tensor() {
        same_dtype(b, x, tensor)?;
    }
    let value = b.materialise(&value, b.dtype(x));
    let written = subscript.put(b, value, Combine::Set)?;
    let chain = chain_between(b.graph(), x, subscript.viewed).ok_or_else(|| OpError::bug("a subscript that is not a view"))?;
    Ok(write_through(b, x, &chain, written)?.into())
}

/// ATen's list of indices: tensors, with None for whole dimensions.
fn by_tensors(b: &mut Builder, a: &Bound) -> OpResult<Subscript> {
    let x = a.tensor("input")?;
    let items = a.value("indices").items().ok_or_else(|| OpError::unsupported("indices that are not a list"))?;
    let mut subscript = Subscript { viewed: x, gathered: Vec::new() };
    let mut dim = 0;
    for item in items {
        dim = match item {
            ValueOf::None => dim + 1,
            ValueOf::Tensor(index) => subscript.gather(b, dim, *index)?,
            other => return Err(OpError::unsupported(format!("an index of type {}", other.kind()))),
        };
    }
    if dim > b.rank(x) {
        return Err(OpError::index(format!("too many indices for tensor of dimension {}", b.rank(x))));
    }
    Ok(subscript)
}

fn same_dtype(b: &Builder, x: NodeId, values: NodeId) -> OpResult<()> {
    if b.dtype(x) == b.dtype(values) {
        return Ok(());
    }
    let (to, from) = (torch_name(b.dtype(x)), torch_name(b.dtype(values)));
    Err(OpError::runtime(format!(
        "Index put requires the source and destination dtypes match, got {to} for the destination and {from} for the source."
    )))
}

fn index_put(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let subscript = by_tensors(b, a)?;
    let values = a.tensor("values")?;
    same_dtype(b, subscript.viewed, values)?;
    let combine = if a.boolean("accumulate")? { Combine::With(ReduceOp::Sum) } else { Combine::Set };
    if combine != Combine::Set && b.dtype(values) == DType::Bool {
        return Err(OpError::unsupported("accumulating bools"));
    }
    Ok(subscript.put(b, values, combine)?.into())
}
