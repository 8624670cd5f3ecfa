//! A tensor as plain data: a shape and the elements in row-major order.

use crate::scalar::convert;
use ox_ir::{DType, Scalar};

/// One element. Floats are f64 that the tensor's type can hold exactly; integers lie in its range.
pub type Elem = Scalar;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorData {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub data: Vec<Elem>,
}

impl TensorData {
    /// The elements are converted to `dtype`.
    pub fn new(dtype: DType, shape: &[usize], data: impl IntoIterator<Item = Elem>) -> TensorData {
        let data: Vec<Elem> = data.into_iter().map(|x| convert(x, dtype)).collect();
        assert_eq!(data.len(), shape.iter().product(), "as many elements as the shape {shape:?} has");
        TensorData { dtype, shape: shape.to_vec(), data }
    }

    pub fn floats(dtype: DType, shape: &[usize], data: &[f64]) -> TensorData {
        TensorData::new(dtype, shape, data.iter().map(|x| Scalar::Float(*x)))
    }

    pub fn ints(dtype: DType, shape: &[usize], data: &[i64]) -> TensorData {
        TensorData::new(dtype, shape, data.iter().map(|x| Scalar::Int(*x)))
    }

    pub fn bools(shape: &[usize], data: &[bool]) -> TensorData {
        TensorData::new(DType::Bool, shape, data.iter().map(|x| Scalar::Bool(*x)))
    }

    /// Each element from its position.
    pub fn from_fn(dtype: DType, shape: &[usize], mut f: impl FnMut(&[usize]) -> Elem) -> TensorData {
        TensorData::new(dtype, shape, indices(shape).map(|index| f(&index)))
    }

    pub fn try_from_fn<E>(
        dtype: DType,
        shape: &[usize],
        mut f: impl FnMut(&[usize]) -> Result<Elem, E>,
    ) -> Result<TensorData, E> {
        let data = indices(shape).map(|index| f(&index)).collect::<Result<Vec<_>, E>>()?;
        Ok(TensorData::new(dtype, shape, data))
    }

    pub fn numel(&self) -> usize {
        self.data.len()
    }

    pub fn get(&self, index: &[usize]) -> Elem {
        self.data[flat(&self.shape, index)]
    }

    pub fn set(&mut self, index: &[usize], value: Elem) {
        self.data[flat(&self.shape, index)] = convert(value, self.dtype);
    }

    /// The element that broadcasting shows at `index` of a larger shape, aligned at the last dimension.
    pub fn get_broadcast(&self, index: &[usize]) -> Elem {
        let own = &index[index.len() - self.shape.len()..];
        let clipped: Vec<usize> = own.iter().zip(&self.shape).map(|(i, n)| if *n == 1 { 0 } else { *i }).collect();
        self.get(&clipped)
    }
}

/// The place of an element in row-major order.
pub fn flat(shape: &[usize], index: &[usize]) -> usize {
    assert_eq!(shape.len(), index.len());
    shape.iter().zip(index).fold(0, |acc, (n, i)| {
        assert!(i < n, "{index:?} lies outside of {shape:?}");
        acc * n + i
    })
}

/// The position of the `at`-th element in row-major order.
pub fn unflat(shape: &[usize], mut at: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for d in (0..shape.len()).rev() {
        index[d] = at % shape[d];
        at /= shape[d];
    }
    index
}

/// All positions of a shape in row-major order.
pub fn indices(shape: &[usize]) -> impl DoubleEndedIterator<Item = Vec<usize>> + use<> {
    let shape = shape.to_vec();
    (0..shape.iter().product()).map(move |at| unflat(&shape, at))
}
