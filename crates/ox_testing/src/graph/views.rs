//! Views: where each element of the result lies in the argument.

use super::{Eval, Result};
use crate::error::InterpretError;
use crate::tensor::{TensorData, flat, indices};
use ox_ir::graph::{Op, SliceDim};

/// From a position in the result to the one in the argument.
type Source<'a> = dyn Fn(&[usize]) -> Vec<i64> + 'a;

impl Eval<'_> {
    pub(super) fn view(&self, op: &Op) -> Result<TensorData> {
        let x = self.arg(0)?;
        let numel: usize = self.shape.iter().product();
        let at: Box<Source<'_>> = match op {
            Op::Reshape if numel == x.numel() => return Ok(TensorData::new(x.dtype, &self.shape, x.data.iter().copied())),
            Op::Reshape => return Err(InterpretError::invalid(format!("{:?} cannot become {:?}", x.shape, self.shape))),
            Op::Permute(perm) => Box::new(|index| {
                let mut source = vec![0; index.len()];
                perm.iter().zip(index).for_each(|(from, i)| source[*from] = *i as i64);
                source
            }),
            Op::Expand => {
                Box::new(|index| index.iter().zip(&x.shape).map(|(i, n)| if *n == 1 { 0 } else { *i as i64 }).collect())
            }
            Op::Slice(dims) => Box::new(self.slice_source(dims)?),
            Op::Unfold { dim, step, dilation } => Box::new(move |index| {
                let (window, outer) = index.split_last().expect("a window dimension");
                let place =
                    |(d, i): (usize, &usize)| if d == *dim { *i as i64 * step + *window as i64 * dilation } else { *i as i64 };
                outer.iter().enumerate().map(place).collect()
            }),
            Op::Diagonal { offset, dim1, dim2 } => Box::new(move |index| {
                let (along, others) = index.split_last().expect("a diagonal dimension");
                let rank = index.len() + 1;
                let mut others = others.iter().map(|i| *i as i64);
                let place = |d| match d {
                    d if d == *dim1 => *along as i64 + (-offset).max(0),
                    d if d == *dim2 => *along as i64 + offset.max(&0),
                    _ => others.next().expect("one index for each other dimension"),
                };
                (0..rank).map(place).collect()
            }),
            _ => unreachable!("not a view"),
        };
        TensorData::try_from_fn(x.dtype, &self.shape, |index| Ok(x.get(&checked(x, &at(index))?)))
    }

    fn slice_source(&self, dims: &[SliceDim]) -> Result<impl Fn(&[usize]) -> Vec<i64> + use<>> {
        let starts = dims.iter().map(|d| Ok((self.env.eval(&d.start)?, d.step))).collect::<Result<Vec<_>>>()?;
        Ok(move |index: &[usize]| index.iter().zip(&starts).map(|(i, (start, step))| start + *i as i64 * step).collect())
    }

    pub(super) fn slice_scatter(&self, dims: &[SliceDim]) -> Result<TensorData> {
        let (mut result, source) = (self.arg(0)?.clone(), self.arg(1)?);
        let place = self.slice_source(dims)?;
        for index in indices(&source.shape) {
            let at = checked(&result, &place(&index))?;
            let at = flat(&result.shape, &at);
            result.data[at] = source.get(&index);
        }
        Ok(result)
    }
}

fn checked(x: &TensorData, at: &[i64]) -> Result<Vec<usize>> {
    let inside = at.len() == x.shape.len() && at.iter().zip(&x.shape).all(|(i, n)| (0..*n as i64).contains(i));
    if !inside {
        return Err(InterpretError::invalid(format!("a view reads {at:?} of {:?}", x.shape)));
    }
    Ok(at.iter().map(|i| *i as usize).collect())
}
