//! Reductions and running reductions.

use super::{Eval, Result};
use crate::scalar::{apply, convert};
use crate::tensor::{TensorData, indices};
use ox_ir::graph::ReduceOp;
use ox_ir::{DType, PointOp, Scalar};

/// A reduction under way. Floats are summed in f64 and rounded to the type when the result is taken.
#[derive(Clone)]
pub(crate) struct Accumulator {
    op: ReduceOp,
    dtype: DType,
    value: Scalar,
    /// Of the extremum, for ArgMax and ArgMin; None before the first element.
    position: Option<i64>,
}

impl Accumulator {
    /// For elements of type `dtype`. Without any element, the result is the operation's neutral value (for positions: 0).
    pub fn new(op: ReduceOp, dtype: DType) -> Accumulator {
        Accumulator { op, dtype, value: convert(op.neutral(dtype), dtype), position: None }
    }

    pub fn push(&mut self, element: Scalar, position: i64) {
        if self.op.is_arg() {
            if self.position.is_none() || self.is_better(element) {
                self.value = element;
                self.position = Some(position);
            }
            return;
        }
        self.value = Accumulator::combine(self.op, accumulate_dtype(self.dtype), self.value, element);
    }

    /// What a sum has so far, multiplied.
    pub fn decay(&mut self, by: Scalar) {
        self.value = apply(PointOp::Mul, accumulate_dtype(self.dtype), &[by, self.value]).expect("no division");
    }

    /// The first extremum counts, and a NaN is beyond all numbers.
    fn is_better(&self, element: Scalar) -> bool {
        match (self.value, element) {
            (Scalar::Float(best), _) if best.is_nan() => false,
            (_, Scalar::Float(x)) if x.is_nan() => true,
            (Scalar::Float(best), Scalar::Float(x)) if self.op == ReduceOp::ArgMax => x > best,
            (Scalar::Float(best), Scalar::Float(x)) => x < best,
            (best, x) if self.op == ReduceOp::ArgMax => x.as_i64() > best.as_i64(),
            (best, x) => x.as_i64() < best.as_i64(),
        }
    }

    pub fn result(&self) -> Scalar {
        match self.op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => Scalar::Int(self.position.unwrap_or(0)),
            ReduceOp::Any | ReduceOp::All => Scalar::Bool(self.value.as_bool()),
            _ => convert(self.value, self.dtype),
        }
    }

    /// One step: both values and the result are of type `dtype`.
    pub fn combine(op: ReduceOp, dtype: DType, a: Scalar, b: Scalar) -> Scalar {
        let point = match (op, dtype) {
            (ReduceOp::Any, _) => return Scalar::Bool(a.as_bool() || b.as_bool()),
            (ReduceOp::All, _) => return Scalar::Bool(a.as_bool() && b.as_bool()),
            (ReduceOp::Sum, DType::Bool) => PointOp::Or,
            (ReduceOp::Prod, DType::Bool) => PointOp::And,
            (ReduceOp::Sum, _) => PointOp::Add,
            (ReduceOp::Prod, _) => PointOp::Mul,
            (ReduceOp::Max, _) => PointOp::Maximum,
            (ReduceOp::Min, _) => PointOp::Minimum,
            (ReduceOp::ArgMax | ReduceOp::ArgMin, _) => unreachable!("positions are not combined in one step"),
        };
        apply(point, dtype, &[a, b]).expect("no division")
    }
}

fn accumulate_dtype(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

impl Eval<'_> {
    pub(super) fn reduce(&self, op: ReduceOp, dims: &[usize]) -> Result<TensorData> {
        let x = self.arg(0)?;
        let shape: Vec<usize> = x.shape.iter().enumerate().map(|(d, n)| if dims.contains(&d) { 1 } else { *n }).collect();
        let inner: Vec<usize> = x.shape.iter().enumerate().map(|(d, n)| if dims.contains(&d) { *n } else { 1 }).collect();
        Ok(TensorData::from_fn(self.dtype, &shape, |outer| {
            let mut acc = Accumulator::new(op, x.dtype);
            for (position, inner) in indices(&inner).enumerate() {
                let index: Vec<usize> = outer.iter().zip(&inner).map(|(a, b)| a + b).collect();
                acc.push(x.get(&index), position as i64);
            }
            acc.result()
        }))
    }

    pub(super) fn scan(&self, op: ReduceOp, dim: usize) -> Result<TensorData> {
        let x = self.arg(0)?;
        let decay = self.arg(1).ok();
        Ok(TensorData::from_fn(self.dtype, &x.shape, |index| {
            let mut acc = Accumulator::new(op, x.dtype);
            let mut source = index.to_vec();
            for at in 0..=index[dim] {
                source[dim] = at;
                decay.iter().for_each(|decay| acc.decay(decay.get(&source)));
                acc.push(x.get(&source), at as i64);
            }
            acc.result()
        }))
    }
}
