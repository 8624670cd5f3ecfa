//! Views, and what reads or writes at places of its argument.

use super::graph::Checked;
use super::{Check, differ, ensure, less, may_lie_inside, same_shape, same_type};
use crate::graph::{Op, Shape, SliceDim};
use crate::sym::Sym;

impl Checked<'_> {
    pub(super) fn view(&self) -> Check {
        match &self.node.op {
            Op::Reshape => {
                self.one_of_same_dtype()?;
                let (a, b) = (self.arg(0).numel(), self.ty.numel());
                ensure(!differ(&a, &b), || format!("{a} elements become {b}"))
            }
            Op::Permute(perm) => {
                self.one_of_same_dtype()?;
                let x = self.arg(0);
                self.distinct_dims(perm, x.rank())?;
                ensure(perm.len() == x.rank(), || "not a permutation".into())?;
                self.has_shape(&perm.iter().map(|d| x.shape[*d].clone()).collect::<Vec<_>>())
            }
            Op::Expand => self.expand(),
            Op::Slice(dims) => {
                self.one_of_same_dtype()?;
                self.slice(dims, &self.arg(0).shape, &self.ty.shape)
            }
            Op::Unfold { dim, step, dilation } => self.unfold(*dim, *step, *dilation),
            Op::Diagonal { offset, dim1, dim2 } => self.diagonal(*offset, *dim1, *dim2),
            Op::Detach => {
                self.arity(1)?;
                same_type(self.ty, self.arg(0))
            }
            Op::Graft => {
                self.arity(2)?;
                same_type(self.ty, self.arg(0))?;
                same_type(self.ty, self.arg(1))
            }
            Op::Pad { low, .. } => {
                self.one_of_same_dtype()?;
                self.known_sizes(low)?;
                let rank = self.arg(0).rank();
                ensure(low.len() == rank && self.ty.rank() == rank, || "another rank".into())
            }
            Op::SliceScatter(dims) => {
                self.arity(2)?;
                self.same_dtype()?;
                same_type(self.ty, self.arg(0))?;
                self.slice(dims, &self.ty.shape, &self.arg(1).shape)
            }
            Op::Index { dims, at, .. } => self.index(dims, *at, self.node.args.len(), &self.ty.shape),
            Op::IndexPut { dims, at, .. } => {
                ensure(!self.node.args.is_empty(), || "no arguments".into())?;
                same_type(self.ty, self.arg(0))?;
                let values = self.arg(self.node.args.len() - 1);
                ensure(values.dtype == self.ty.dtype, || "values of another element type".into())?;
                self.index(dims, *at, self.node.args.len() - 1, &values.shape)
            }
            other => unreachable!("{other:?} is checked elsewhere"),
        }
    }

    fn one_of_same_dtype(&self) -> Check {
        self.arity(1)?;
        self.same_dtype()
    }

    fn expand(&self) -> Check {
        self.one_of_same_dtype()?;
        let x = self.arg(0);
        ensure(x.rank() == self.ty.rank(), || "another rank".into())?;
        let fits = x.shape.iter().zip(&self.ty.shape).all(|(a, b)| a.is_one() || !differ(a, b));
        ensure(fits, || format!("{x} cannot be expanded so"))
    }

    /// A part of the shape `whole` that has the shape `part`.
    fn slice(&self, dims: &[SliceDim], whole: &[Sym], part: &[Sym]) -> Check {
        ensure(dims.len() == whole.len() && part.len() == whole.len(), || "another rank".into())?;
        self.known_sizes(dims.iter().map(|d| &d.start))?;
        for ((dim, n), len) in dims.iter().zip(whole).zip(part) {
            ensure(dim.step != 0, || "a step of 0".into())?;
            if !len.is_positive() {
                continue;
            }
            let last = &dim.start + &(&(len - 1) * dim.step);
            let inside = may_lie_inside(&dim.start, n) && may_lie_inside(&last, n);
            ensure(inside, || format!("{} to {last} lies outside of 0..{n}", dim.start))?;
        }
        Ok(())
    }

    fn unfold(&self, dim: usize, step: i64, dilation: i64) -> Check {
        self.one_of_same_dtype()?;
        let x = self.arg(0);
        self.dim(dim, x.rank())?;
        ensure(step > 0 && dilation > 0, || "steps are positive".into())?;
        ensure(self.ty.rank() == x.rank() + 1, || "the window is a new dimension".into())?;
        let (window, windows) = (&self.ty.shape[x.rank()], &self.ty.shape[dim]);
        let others = (0..x.rank()).filter(|d| *d != dim).all(|d| !differ(&x.shape[d], &self.ty.shape[d]));
        ensure(others, || "the other dimensions stay".into())?;
        let last = &(&(windows - 1) * step) + &(&(window - 1) * dilation);
        let reads = windows.is_positive() && window.is_positive();
        ensure(!reads || may_lie_inside(&last, &x.shape[dim]), || format!("the last window ends at {last}"))
    }

    fn diagonal(&self, offset: i64, dim1: usize, dim2: usize) -> Check {
        self.one_of_same_dtype()?;
        let x = self.arg(0);
        self.distinct_dims(&[dim1, dim2], x.rank())?;
        ensure(self.ty.rank() + 1 == x.rank(), || "two dimensions become one".into())?;
        let mut shape: Shape = (0..x.rank()).filter(|d| *d != dim1 && *d != dim2).map(|d| x.shape[d].clone()).collect();
        let len = self.ty.shape[self.ty.rank() - 1].clone();
        let ends = [(dim1, (-offset).max(0)), (dim2, offset.max(0))];
        let fits = ends.iter().all(|(d, skip)| !less(&(&x.shape[*d] - *skip), &len)) || !len.is_positive();
        ensure(fits, || format!("a diagonal of {len} elements"))?;
        shape.push(len);
        self.has_shape(&shape)
    }

    /// The indices are the arguments from 1 to `end`; what is read has the shape `read`.
    fn index(&self, dims: &[usize], at: usize, end: usize, read: &[Sym]) -> Check {
        ensure(!dims.is_empty() && end == 1 + dims.len(), || {
            format!("{} indices for {} dimensions", end.max(1) - 1, dims.len())
        })?;
        let x = self.arg(0);
        self.distinct_dims(dims, x.rank())?;
        ensure(x.dtype == self.ty.dtype, || "the elements keep their type".into())?;
        let common = &self.arg(1).shape;
        for n in 1..end {
            ensure(self.arg(n).dtype.is_int(), || format!("index {n} is {}", self.arg(n).dtype))?;
            ensure(same_shape(&self.arg(n).shape, common), || "the indices have one shape".into())?;
        }
        let mut shape: Shape = (0..x.rank()).filter(|d| !dims.contains(d)).map(|d| x.shape[d].clone()).collect();
        ensure(at <= shape.len(), || format!("the indexed dimensions cannot stand at {at}"))?;
        shape.insert_many(at, common.iter().cloned());
        ensure(same_shape(&shape, read), || format!("the indices read {shape:?}"))
    }
}
