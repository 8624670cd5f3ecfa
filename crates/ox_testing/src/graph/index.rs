//! Reading and writing at indices that are data.

use super::{Accumulator, Eval, Result};
use crate::error::InterpretError;
use crate::tensor::{TensorData, indices};
use ox_ir::graph::{Bounds, Combine};

impl Eval<'_> {
    pub(super) fn index(&self, dims: &[usize], at: usize, bounds: Bounds) -> Result<TensorData> {
        let x = self.arg(0)?;
        let places = Places { x_shape: &x.shape, dims, at, bounds, indices: &self.args[1..] };
        TensorData::try_from_fn(x.dtype, &self.shape, |index| Ok(x.get(&places.source(index)?)))
    }

    pub(super) fn index_put(&self, dims: &[usize], at: usize, bounds: Bounds, combine: Combine) -> Result<TensorData> {
        let mut result = self.arg(0)?.clone();
        let (values, places) = self.args[1..].split_last().ok_or_else(|| InterpretError::invalid("index_put without values"))?;
        let x_shape = result.shape.clone();
        let places = Places { x_shape: &x_shape, dims, at, bounds, indices: places };
        for index in indices(&values.shape) {
            let target = places.source(&index)?;
            let value = match combine {
                Combine::Set => values.get(&index),
                Combine::With(op) => Accumulator::combine(op, result.dtype, result.get(&target), values.get(&index)),
            };
            result.set(&target, value);
        }
        Ok(result)
    }
}

/// Where `Op::Index` reads.
struct Places<'a> {
    x_shape: &'a [usize],
    dims: &'a [usize],
    at: usize,
    bounds: Bounds,
    indices: &'a [&'a TensorData],
}

impl Places<'_> {
    /// The element of x that stands at `index` of the result. The common shape of the indices lies at `at`; what is around it
    /// are the dimensions that are not indexed.
    fn source(&self, index: &[usize]) -> Result<Vec<usize>> {
        let rank = self.indices.first().map_or(0, |i| i.shape.len());
        let looked_up = &index[self.at..self.at + rank];
        let mut others = index[..self.at].iter().chain(&index[self.at + rank..]);
        let mut source = Vec::new();
        for (d, extent) in self.x_shape.iter().enumerate() {
            match self.dims.iter().position(|indexed| *indexed == d) {
                Some(k) => source.push(self.checked(self.indices[k].get(looked_up).as_i64(), *extent as i64)?),
                None => source.push(*others.next().ok_or_else(|| InterpretError::invalid("an index of too low rank"))?),
            }
        }
        Ok(source)
    }

    fn checked(&self, value: i64, extent: i64) -> Result<usize> {
        let at = if value < 0 && self.bounds == Bounds::Wrap { value + extent } else { value };
        if (0..extent).contains(&at) {
            return Ok(at as usize);
        }
        Err(match self.bounds {
            Bounds::Wrap | Bounds::IndexError => InterpretError::IndexError { value, extent },
            Bounds::RuntimeError => InterpretError::RuntimeError { value, extent },
        })
    }
}
