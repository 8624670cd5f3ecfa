//! Where a tensor's elements lie in memory, followed through the views that lead to it.

use super::{Recorder, TensorRef};
use crate::decide::{are_different, differ_here, is_one};
use crate::functional::ViewStep;
use ox_ir::Sym;
use ox_ir::graph::{Op, Shape};

/// Strides, and the place of the first element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    pub strides: Shape,
    pub offset: Sym,
}

impl Recorder {
    /// A number for the memory that the tensor lies in, the shape of what was made there first, and whether the tensor is that.
    pub fn memory(&self, tensor: TensorRef) -> (usize, Shape, bool) {
        let data = &self.refs[tensor.0 as usize];
        (data.base, self.builder.shape(self.bases[data.base].value), data.chain.is_empty())
    }

    /// The strides of the input whose memory the tensor lies in.
    pub fn input_strides(&self, tensor: TensorRef) -> Option<Shape> {
        let input = self.bases[self.refs[tensor.0 as usize].base].input?;
        Some(self.builder.graph().inputs[input as usize].strides.clone())
    }

    /// Where the tensor lies if what was made first in its memory has these strides. None for views that have no strides by them.
    pub fn layout(&self, tensor: TensorRef, strides: &[Sym]) -> Option<Layout> {
        let data = &self.refs[tensor.0 as usize];
        let mut shape = self.builder.shape(self.bases[data.base].value);
        let mut layout = Layout { strides: strides.iter().cloned().collect(), offset: Sym::ZERO };
        for step in &data.chain {
            layout = layout.through(&shape, step)?;
            shape = step.ty.shape.clone();
        }
        Some(layout)
    }
}

impl Layout {
    /// Whether a tensor of this shape that lies so needs no copy to get another shape. What decides it is relied on.
    pub fn takes(&self, shape: &[Sym], new: &[Sym]) -> bool {
        // Whatever the sizes are, 1 among them.
        if self.is_row_major(shape) {
            return true;
        }
        let long: Vec<usize> = (0..shape.len()).filter(|d| !is_one(&shape[*d])).collect();
        long.windows(2).all(|pair| {
            let &[outer, inner] = pair else { return true };
            let end: Sym = shape[..inner].iter().product();
            let divided = || (0..=new.len()).any(|n| is_same(&new[..n].iter().product(), &end));
            is_same(&self.strides[outer], &(&shape[inner] * &self.strides[inner])) || divided()
        })
    }

    /// Whether each stride is that of a tensor whose elements lie side by side in their order.
    pub fn is_row_major(&self, shape: &[Sym]) -> bool {
        (0..shape.len()).all(|d| self.strides[d] == shape[d + 1..].iter().product())
    }

    /// Whether the elements of a tensor of this shape lie side by side, with its dimensions in this order, whatever the sizes are, 1 among them.
    pub fn is_always_dense_in(&self, shape: &[Sym], order: &[usize]) -> bool {
        let behind = |n: usize| -> Sym { order[n + 1..].iter().map(|d| &shape[*d]).product() };
        (0..order.len()).all(|n| self.strides[order[n]] == behind(n))
    }

    /// The same at the hints. What decides it is relied on.
    pub fn is_dense_in(&self, shape: &[Sym], order: &[usize]) -> bool {
        if self.is_always_dense_in(shape, order) {
            return true;
        }
        let mut next = Sym::ONE;
        order.iter().rev().filter(|d| !is_one(&shape[**d])).all(|d| {
            let here = is_same(&self.strides[*d], &next);
            next = &next * &shape[*d];
            here
        })
    }

    fn through(self, shape: &[Sym], step: &ViewStep) -> Option<Layout> {
        let Layout { mut strides, mut offset } = self;
        match &step.op {
            Op::Reshape => strides = reshaped(shape, &strides, &step.ty.shape)?,
            Op::Permute(perm) => strides = perm.iter().map(|d| strides[*d].clone()).collect(),
            Op::Expand => {
                let repeated = |d: usize| shape[d].is_one() && !step.ty.shape[d].is_one();
                (0..shape.len()).filter(|d| repeated(*d)).for_each(|d| strides[d] = Sym::ZERO);
            }
            Op::Slice(dims) => {
                for (stride, dim) in strides.iter_mut().zip(dims) {
                    offset = &offset + &(&*stride * &dim.start);
                    *stride = &*stride * dim.step;
                }
            }
            Op::Diagonal { offset: shift, dim1, dim2 } => {
                let along = &strides[*dim1] + &strides[*dim2];
                offset = &offset + &(&strides[if *shift >= 0 { *dim2 } else { *dim1 }] * shift.abs());
                let kept = (0..strides.len()).filter(|d| d != dim1 && d != dim2).map(|d| strides[d].clone());
                strides = kept.chain([along]).collect();
            }
            Op::Unfold { dim, step, dilation } => {
                let own = strides[*dim].clone();
                strides[*dim] = &own * *step;
                strides.push(&own * *dilation);
            }
            Op::Detach => {}
            _ => return None,
        }
        Some(Layout { strides, offset })
    }
}

/// Whether two sizes are equal: certainly, or at the hints. Either answer is relied on.
fn is_same(a: &Sym, b: &Sym) -> bool {
    a == b || (!are_different(a, b) && differ_here(a, b) == Some(false))
}

/// Strides of another shape on the same elements: each run of dimensions that lies densely is divided anew.
fn reshaped(shape: &[Sym], strides: &[Sym], new: &[Sym]) -> Option<Shape> {
    let mut out: Shape = smallvec::smallvec![Sym::ZERO; new.len()];
    let mut left = new.len();
    let mut end = shape.len();
    while end > 0 {
        let unit = strides[end - 1].clone();
        let (mut count, mut start) = (shape[end - 1].clone(), end - 1);
        while start > 0 && (shape[start - 1].is_one() || strides[start - 1] == &count * &unit) {
            start -= 1;
            count = &count * &shape[start];
        }
        let mut taken = Sym::ONE;
        while left > 0 && (taken != count || new[left - 1].is_one()) {
            left -= 1;
            out[left] = &taken * &unit;
            taken = &taken * &new[left];
        }
        if taken != count {
            return None;
        }
        end = start;
    }
    (0..left).for_each(|d| out[d] = Sym::ONE);
    (0..left).all(|d| new[d].is_one()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::Var;

    fn shape(sizes: &[&Sym]) -> Shape {
        sizes.iter().map(|s| (*s).clone()).collect()
    }

    #[test]
    fn dense_runs_are_divided_anew() {
        let (b, s) = (Sym::var(&Var::size(0, 2, 99, 1)), Sym::var(&Var::size(1, 2, 99, 1)));
        let (four, six, one) = (Sym::from(4i64), Sym::from(6i64), Sym::ONE);
        let row = &six * 4;
        let plain = shape(&[&(&s * &row), &row, &one]);
        let heads = reshaped(&[b.clone(), s.clone(), row.clone()], &plain, &[b.clone(), s.clone(), four.clone(), six.clone()]);
        assert_eq!(heads, Some(shape(&[&(&s * &row), &row, &six, &one])));
        let turned = shape(&[&(&s * &row), &six, &row, &one]);
        let joined = [b.clone(), &four * &s, six.clone()];
        assert_eq!(reshaped(&[b.clone(), four, s, six], &turned, &joined), None);
    }

    #[test]
    fn sizes_1_may_come_and_go() {
        let s = Sym::var(&Var::size(0, 2, 99, 1));
        let (one, two) = (Sym::ONE, Sym::from(2i64));
        let with =
            reshaped(&[s.clone(), two.clone()], &[two.clone(), one.clone()], &[one.clone(), s.clone(), one.clone(), two.clone()]);
        assert_eq!(with, Some(shape(&[&(&s * 2), &two, &two, &one])));
        let without = reshaped(&[one.clone(), s.clone()], &[s.clone(), one.clone()], &[s]);
        assert_eq!(without, Some(shape(&[&one])));
    }
}
