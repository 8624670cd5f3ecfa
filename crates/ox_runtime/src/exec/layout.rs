//! Sizes and strides as numbers, and the view algebra that calls need.

use crate::error::RunError;
use ox_ir::{DType, Sym, Var};
use smallvec::SmallVec;

pub type Dims = SmallVec<[i64; 5]>;

/// What a tensor looks like, without where it lies.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
}

impl Layout {
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// The elements from the first to behind the last; 0 for an empty tensor.
    pub fn span(&self) -> i64 {
        if self.numel() == 0 {
            return 0;
        }
        1 + self.sizes.iter().zip(&self.strides).map(|(n, s)| (n - 1) * s).sum::<i64>()
    }

    /// Those of the span.
    pub fn bytes(&self) -> usize {
        self.span() as usize * self.dtype.size()
    }

    /// One element behind the other, the last dimension the fastest.
    pub fn is_dense(&self) -> bool {
        let mut dense: Dims = self.sizes.iter().rev().scan(1, |stride, n| Some(std::mem::replace(stride, *stride * n))).collect();
        dense.reverse();
        same_strides(&self.sizes, &self.strides, &dense)
    }

    /// The same elements at the same places: strides of dimensions with one element do not count.
    pub fn is_like(&self, sizes: &[i64], strides: &[i64]) -> bool {
        self.sizes.as_slice() == sizes && (self.numel() == 0 || same_strides(sizes, &self.strides, strides))
    }

    /// The first `count` dimensions as one, if a single stride reaches all of their elements.
    pub fn merge_front(&self, count: usize) -> Option<Layout> {
        let mut size = 1;
        let mut stride = 0;
        for d in (0..count).rev() {
            let (n, s) = (self.sizes[d], self.strides[d]);
            if n == 1 {
                continue;
            }
            if size == 1 {
                stride = s;
            } else if s != stride * size {
                return None;
            }
            size *= n;
        }
        let rest = count..self.rank();
        Some(Layout {
            dtype: self.dtype,
            sizes: std::iter::once(size).chain(self.sizes[rest.clone()].iter().copied()).collect(),
            strides: std::iter::once(stride).chain(self.strides[rest].iter().copied()).collect(),
        })
    }

    /// With dimensions of size 1 in front, up to `rank`.
    pub fn pad_front(&self, rank: usize) -> Layout {
        let more = rank.saturating_sub(self.rank());
        let front = |value: i64, rest: &Dims| std::iter::repeat_n(value, more).chain(rest.iter().copied()).collect();
        Layout { dtype: self.dtype, sizes: front(1, &self.sizes), strides: front(0, &self.strides) }
    }

    /// Repeated (stride 0) to `sizes`, aligned at the last dimension.
    pub fn expand(&self, sizes: &[i64]) -> Option<Layout> {
        let mut wide = self.pad_front(sizes.len());
        if wide.rank() != sizes.len() {
            return None;
        }
        for (d, &size) in sizes.iter().enumerate() {
            if wide.sizes[d] == size {
                continue;
            }
            if wide.sizes[d] != 1 {
                return None;
            }
            wide.sizes[d] = size;
            wide.strides[d] = 0;
        }
        Some(wide)
    }
}

/// Strides agree wherever there is more than one element.
pub fn same_strides(sizes: &[i64], a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && sizes.iter().zip(a.iter().zip(b)).all(|(n, (a, b))| a == b || *n == 1)
}

/// The values of the sizes in one run.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub vars: &'a [Var],
    pub values: &'a [i64],
}

impl Env<'_> {
    pub fn value(&self, var: &Var) -> Option<i64> {
        let at = self.vars.iter().position(|v| v == var)?;
        self.values.get(at).copied()
    }

    pub fn eval(&self, sym: &Sym) -> Result<i64, RunError> {
        // A number that the user gave made it overflow: eager has words for that.
        let failed = || match sym.vars().iter().all(|var| self.value(var).is_some()) {
            true => RunError::torch(format!("the size {sym} is too large")),
            false => RunError::bug(format!("the size {sym} has no value")),
        };
        match sym.as_const() {
            Some(value) => Ok(value),
            None => sym.eval(&|var| self.value(var)).ok_or_else(failed),
        }
    }

    pub fn eval_all(&self, syms: &[Sym]) -> Result<Dims, RunError> {
        syms.iter().map(|s| self.eval(s)).collect()
    }

    /// Checks that no size is negative and that the bytes can be counted, so that later arithmetic cannot overflow.
    pub fn layout(&self, dtype: DType, shape: &[Sym], strides: &[Sym]) -> Result<Layout, RunError> {
        let layout = Layout { dtype, sizes: self.eval_all(shape)?, strides: self.eval_all(strides)? };
        let too_large = || RunError::torch(format!("a tensor of shape {:?} is too large", layout.sizes));
        if layout.sizes.len() != layout.strides.len() || layout.sizes.iter().chain(&layout.strides).any(|&n| n < 0) {
            return Err(RunError::torch(format!("bad shape {:?} or strides {:?}", layout.sizes, layout.strides)));
        }
        let mut bytes = dtype.size() as i64;
        for (&n, &s) in layout.sizes.iter().zip(&layout.strides) {
            let reach = n.saturating_sub(1).max(0).checked_mul(s).and_then(|r| r.checked_mul(dtype.size() as i64));
            bytes = bytes.checked_add(reach.ok_or_else(too_large)?).ok_or_else(too_large)?;
        }
        layout.sizes.iter().try_fold(dtype.size() as i64, |all, n| all.checked_mul(*n)).ok_or_else(too_large)?;
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn layout(sizes: &[i64], strides: &[i64]) -> Layout {
        Layout { dtype: DType::F32, sizes: sizes.into(), strides: strides.into() }
    }

    #[test]
    fn merging_needs_one_stride() {
        let merged = layout(&[2, 3, 4], &[12, 4, 1]).merge_front(2).unwrap();
        assert_eq!(merged, layout(&[6, 4], &[4, 1]));
        assert_eq!(layout(&[2, 3, 4], &[4, 8, 1]).merge_front(2), None);
        assert_eq!(layout(&[1, 3, 4], &[99, 8, 1]).merge_front(2).unwrap(), layout(&[3, 4], &[8, 1]));
        assert_eq!(layout(&[2, 3, 4], &[0, 0, 1]).merge_front(2).unwrap(), layout(&[6, 4], &[0, 1]));
    }

    #[test]
    fn expanding_aligns_at_the_end() {
        let wide = layout(&[4], &[1]).expand(&[2, 3, 4]).unwrap();
        assert_eq!(wide, layout(&[2, 3, 4], &[0, 0, 1]));
        assert_eq!(layout(&[2], &[1]).expand(&[3]), None);
        assert_eq!(layout(&[2, 2], &[2, 1]).expand(&[2]), None);
    }

    #[test]
    fn span_and_likeness() {
        assert_eq!(layout(&[2, 3], &[5, 1]).span(), 8);
        assert_eq!(layout(&[2, 0], &[5, 1]).span(), 0);
        assert!(layout(&[1, 3], &[5, 1]).is_like(&[1, 3], &[3, 1]));
        assert!(!layout(&[2, 3], &[5, 1]).is_like(&[2, 3], &[3, 1]));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let n = Var::size(0, 0, i64::MAX, 1);
        let env = Env { vars: std::slice::from_ref(&n), values: &[i64::MAX / 2] };
        let shape: SmallVec<[Sym; 5]> = smallvec![Sym::var(&n)];
        assert!(env.layout(DType::F32, &shape, &[Sym::ONE]).is_err());
        assert!(env.layout(DType::U8, &shape, &[Sym::ONE]).is_ok());
    }
}
