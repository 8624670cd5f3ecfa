//! What of a product the library must know.

use super::ALIGNED;
use super::planned::Addresses;
use crate::exec::layout::Layout;
use ox_ir::DType;

/// From so many rows and columns on it counts where the rows of a result begin.
pub const LARGE: i64 = 512;

/// A matrix as the library sees it: columns lie one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Matrix {
    pub rows: i64,
    pub columns: i64,
    /// From column to column, in elements.
    pub step: i64,
    /// From matrix to matrix.
    pub batch_step: i64,
    /// It is read with rows and columns exchanged.
    pub flipped: bool,
}

/// What is computed of the sum before it is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Behind {
    #[default]
    Nothing,
    Relu,
    /// By the formula with tanh.
    Gelu,
}

/// A product that the library can do: our rows are its columns, so our right-hand side is its left-hand one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    pub(super) dtype: DType,
    pub(super) batch: i64,
    pub(super) left: Matrix,
    pub(super) right: Matrix,
    pub(super) out: Matrix,
    pub(super) bias: bool,
    pub(super) behind: Behind,
    /// What the result's address and rows are multiples of, in bytes.
    pub(super) out_aligned: usize,
}

impl Shape {
    /// Of two or three dimensions, the same for all three; a bias is one vector for all rows.
    pub fn of(a: &Layout, b: &Layout, out: &Layout, bias: Option<&Layout>) -> Option<Shape> {
        let dtype = out.dtype;
        let batch = if out.rank() == 3 { out.sizes[0] } else { 1 };
        let is_vector = |bias: &Layout| bias.rank() == 1 && bias.strides[0] == 1;
        if !matches!(dtype, DType::BF16 | DType::F16) || bias.is_some_and(|bias| !is_vector(bias) || batch > 1) {
            return None;
        }
        let out = Matrix::of(out).filter(|out| !out.flipped)?;
        let (left, right, bias) = (Matrix::of(b)?, Matrix::of(a)?, bias.is_some());
        let fits =
            left.is_aligned(dtype) && right.is_aligned(dtype) && (out.is_aligned(dtype) || batch == 1 && out.has_short_rows());
        let out_aligned = ALIGNED.min(1 << (out.step as usize * dtype.size()).trailing_zeros());
        fits.then_some(Shape { dtype, batch, left, right, out, bias, behind: Behind::Nothing, out_aligned })
    }

    /// The last few columns of a linear layer, as many as `columns`, among rows that begin anywhere.
    pub fn of_last_columns(a: &Layout, b: &Layout, out: &Layout, bias: bool, columns: i64) -> Option<Shape> {
        let ([rows, depth], [row_step, 1], [1, b_step]) = (&a.sizes[..], &out.strides[..], &b.strides[..]) else { return None };
        let left = Matrix { rows: *depth, columns, step: *b_step, batch_step: 0, flipped: true };
        let out_matrix = Matrix { rows: columns, columns: *rows, step: *row_step, batch_step: 0, flipped: false };
        let (dtype, right) = (out.dtype, Matrix::of(a)?);
        let fits = *b_step >= *depth && left.is_aligned(dtype) && right.is_aligned(dtype);
        let out_aligned = dtype.size();
        fits.then_some(Shape { dtype, batch: 1, left, right, out: out_matrix, bias, behind: Behind::Nothing, out_aligned })
    }

    pub fn with(self, behind: Behind) -> Shape {
        Shape { behind, ..self }
    }

    /// How many pairs of numbers are multiplied.
    pub(super) fn work(&self) -> i64 {
        let depth = if self.right.flipped { self.right.columns } else { self.right.rows };
        [self.batch, self.out.rows, self.out.columns, depth].into_iter().fold(1, i64::saturating_mul)
    }

    /// The first row of a result there, the middle one of its first matrix and the last of all, in bytes.
    pub(super) fn rows_to_compare(&self, out: *const u8) -> [(*const u8, usize); 3] {
        let Matrix { rows, columns, step, batch_step, .. } = self.out;
        let row = |first: i64| (out.wrapping_add(first as usize * self.dtype.size()), rows as usize * self.dtype.size());
        [0, columns / 2 * step, (self.batch - 1) * batch_step + (columns - 1) * step].map(row)
    }

    /// Whether a product of this shape can be done there.
    pub fn fits(&self, at: &Addresses) -> bool {
        let bias = at.bias.map_or(0, |bias| bias as usize);
        (at.a as usize | at.b as usize | bias).is_multiple_of(ALIGNED) && (at.out as usize).is_multiple_of(self.out_aligned)
    }
}

impl Matrix {
    /// Ours of rows and columns is the library's of columns and rows, unless it lies across.
    fn of(layout: &Layout) -> Option<Matrix> {
        let r = layout.rank();
        let (rows, columns) = (layout.sizes[r - 2], layout.sizes[r - 1]);
        let batch_step = if r == 3 { layout.strides[0] } else { 0 };
        // Of a dimension of one element the stride says nothing: that is left to torch.
        if rows < 2 || columns < 2 || r > 3 {
            return None;
        }
        let fits = |step: i64, length: i64| step >= length;
        match (layout.strides[r - 2], layout.strides[r - 1]) {
            (step, 1) if fits(step, columns) => Some(Matrix { rows: columns, columns: rows, step, batch_step, flipped: false }),
            (1, step) if fits(step, rows) => Some(Matrix { rows, columns, step, batch_step, flipped: true }),
            _ => None,
        }
    }

    /// Whether rows of a result are so short that they may begin anywhere (the scores of a few classes): the kernels for those are slow, which longer ones feel.
    fn has_short_rows(&self) -> bool {
        self.rows < LARGE
    }

    fn is_aligned(&self, dtype: DType) -> bool {
        let whole = |elements: i64| (elements as usize * dtype.size()).is_multiple_of(ALIGNED);
        self.batch_step >= 0 && whole(self.step) && whole(self.batch_step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dtype: DType, sizes: &[i64], strides: &[i64]) -> Layout {
        Layout { dtype, sizes: sizes.into(), strides: strides.into() }
    }

    fn half(sizes: &[i64], strides: &[i64]) -> Layout {
        layout(DType::BF16, sizes, strides)
    }

    #[test]
    fn a_linear_layer_is_our_weight_across_times_our_rows() {
        let (a, weight, out) = (half(&[32, 64], &[64, 1]), half(&[64, 48], &[1, 64]), half(&[32, 48], &[48, 1]));
        let shape = Shape::of(&a, &weight, &out, Some(&half(&[48], &[1]))).unwrap_or_else(|| panic!("it can be done"));
        assert_eq!(shape.left, Matrix { rows: 64, columns: 48, step: 64, batch_step: 0, flipped: true });
        assert_eq!(shape.right, Matrix { rows: 64, columns: 32, step: 64, batch_step: 0, flipped: false });
        assert_eq!(shape.out, Matrix { rows: 48, columns: 32, step: 48, batch_step: 0, flipped: false });
        assert!(shape.bias && shape.batch == 1);
    }

    #[test]
    fn a_batch_has_its_steps() {
        let (a, b, out) = (half(&[4, 16, 8], &[128, 8, 1]), half(&[4, 8, 24], &[192, 24, 1]), half(&[4, 16, 24], &[384, 24, 1]));
        let shape = Shape::of(&a, &b, &out, None).unwrap_or_else(|| panic!("it can be done"));
        assert_eq!((shape.batch, shape.left.batch_step, shape.right.batch_step, shape.out.batch_step), (4, 192, 128, 384));
        assert!(!shape.left.flipped && !shape.right.flipped);
    }

    #[test]
    fn scores_of_a_few_classes_begin_anywhere() {
        let shape = |classes: i64| {
            let (a, weight, out) =
                (half(&[32, 64], &[64, 1]), half(&[64, classes], &[1, 64]), half(&[32, classes], &[classes, 1]));
            Shape::of(&a, &weight, &out, Some(&half(&[classes], &[1]))).map(|shape| shape.out_aligned)
        };
        assert_eq!([2, 3, 12, 1000].map(shape), [Some(4), Some(2), Some(8), Some(16)]);
    }

    #[test]
    fn what_the_library_is_not_asked_for() {
        let (a, b, out) = (half(&[32, 64], &[64, 1]), half(&[64, 48], &[48, 1]), half(&[32, 48], &[48, 1]));
        assert!(Shape::of(&a, &b, &out, None).is_some());
        // Rows that begin anywhere; overlapping ones; a single row; a result that lies across; a bias with gaps; f32, which has modes.
        assert!(Shape::of(&half(&[32, 64], &[65, 1]), &b, &out, None).is_none());
        assert!(Shape::of(&half(&[32, 64], &[8, 1]), &b, &out, None).is_none());
        assert!(Shape::of(&half(&[1, 64], &[64, 1]), &b, &half(&[1, 48], &[48, 1]), None).is_none());
        assert!(Shape::of(&a, &b, &half(&[32, 48], &[1, 32]), None).is_none());
        assert!(Shape::of(&a, &b, &out, Some(&half(&[48], &[2]))).is_none());
        assert!(Shape::of(&a, &b, &out, Some(&half(&[32, 48], &[48, 1]))).is_none());
        // A large result whose rows begin anywhere.
        assert!(
            Shape::of(&half(&[512, 64], &[64, 1]), &half(&[64, 513], &[1, 64]), &half(&[512, 513], &[513, 1]), None).is_none()
        );
        let wide = |l: &Layout| layout(DType::F32, &l.sizes, &l.strides);
        assert!(Shape::of(&wide(&a), &wide(&b), &wide(&out), None).is_none());
    }
}
