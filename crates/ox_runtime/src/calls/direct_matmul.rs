//! Products that a GPU's library does without torch in between: to ask torch for one takes longer than many a product runs.

use crate::cuda::blas::{Addresses, Behind, LARGE, Planned, Shape, When};
use crate::cuda::{Rows, driver};
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::layout::Layout;
use crate::exec::prepare::Operand;
use crate::exec::rows::Hears;
use crate::tensor::Tensor;
use ox_ir::Device;
use std::sync::{Mutex, PoisonError};

/// The layouts of a product with two or three dimensions; a bias is one vector for all rows. And what is computed of the sum on the way.
#[derive(Clone, Copy)]
pub struct Layouts<'a> {
    pub a: &'a Layout,
    pub b: &'a Layout,
    pub out: &'a Layout,
    pub bias: Option<&'a Layout>,
    pub behind: Behind,
}

pub enum DirectProduct {
    Whole(Part),
    Ragged(Box<Ragged>),
}

impl DirectProduct {
    pub fn of(layouts: Layouts<'_>, alpha: f64) -> Option<DirectProduct> {
        match Part::of(layouts, alpha) {
            Some(part) => Some(DirectProduct::Whole(part)),
            None => Ragged::of(layouts, alpha).map(|ragged| DirectProduct::Ragged(Box::new(ragged))),
        }
    }

    /// Whether it is done; torch does what the library refuses, and what lies at odd addresses.
    pub fn run(&self, run: &Run<'_>, a: Operand, b: Operand, out: Operand, bias: Option<Operand>) -> Result<bool, RunError> {
        let at = addresses(run, a, b, out, bias);
        match self {
            DirectProduct::Whole(part) => part.run(run, at),
            DirectProduct::Ragged(ragged) => ragged.run(run, at),
        }
    }

    /// Whether `hears` has heard of all that it puts on the stream.
    pub fn tell(
        &self,
        run: &Run<'_>,
        a: Operand,
        b: Operand,
        out: Operand,
        bias: Option<Operand>,
        hears: &mut Hears<'_>,
    ) -> Result<bool, RunError> {
        match self {
            DirectProduct::Whole(part) => part.tell(run, addresses(run, a, b, out, bias), hears),
            DirectProduct::Ragged(_) => Ok(false),
        }
    }
}

fn addresses(run: &Run<'_>, a: Operand, b: Operand, out: Operand, bias: Option<Operand>) -> Addresses {
    let bias = bias.map(|bias| run.address_of(bias).cast_const());
    Addresses { a: run.address_of(a), b: run.address_of(b), out: run.address_of(out), bias }
}

/// One call of the library.
pub struct Part {
    shape: Shape,
    alpha: f32,
    /// Done several times in a call: which of the library's ways is the fastest is not looked for, since it would be in the first call.
    is_piece: bool,
    state: Mutex<State>,
}

enum State {
    /// Nobody has asked the library yet: that takes a GPU.
    New,
    Planned(Box<Planned>),
    /// It knows no way.
    Refused,
}

impl Part {
    fn of(layouts: Layouts<'_>, alpha: f64) -> Option<Part> {
        Some(Part::shaped(Shape::of(layouts.a, layouts.b, layouts.out, layouts.bias)?.with(layouts.behind), alpha))
    }

    fn shaped(shape: Shape, alpha: f64) -> Part {
        Part { shape, alpha: alpha as f32, is_piece: false, state: Mutex::new(State::New) }
    }

    fn into_piece(self) -> Part {
        Part { is_piece: true, ..self }
    }

    /// What the library has done once or twice is known (see `Planned`).
    fn tell(&self, run: &Run<'_>, at: Addresses, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        let Some(stream) = run.stream.filter(|_| self.shape.fits(&at)) else { return Ok(false) };
        match &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Planned(planned) => planned.tell(at, stream, run.device, hears),
            State::New | State::Refused => Ok(false),
        }
    }

    fn run(&self, run: &Run<'_>, at: Addresses) -> Result<bool, RunError> {
        let (Device::Cuda(device), Some(stream)) = (run.device, run.stream) else { return Ok(false) };
        if !self.shape.fits(&at) {
            return Ok(false);
        }
        // A descriptor is used by one thread at a time.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::New = *state {
            *state = Planned::new(&self.shape, device).map_or(State::Refused, |planned| State::Planned(Box::new(planned)));
        }
        let State::Planned(planned) = &mut *state else { return Ok(false) };
        let when = match run.recorded_later {
            _ if self.is_piece => When::Never,
            true => When::AtOnce,
            false => When::Later,
        };
        // SAFETY: the operands have these layouts, and live until the run is over; what follows on the stream runs behind it.
        let taken = unsafe { planned.run(at, self.alpha, stream, run.device, when)? };
        if !taken {
            *state = State::Refused;
        }
        Ok(taken)
    }
}

/// Rows of an odd length (a vocabulary of 50257): all columns but the last few are computed in pieces, into a buffer in which rows begin where the
/// matrix units like it, and copied; the last few are a small product of their own. Written where they belong all of them would take eight
/// times as long; all at once they would need their memory twice.
pub struct Ragged {
    /// For all pieces but the last, if that is smaller.
    piece: Part,
    last: Option<Part>,
    rows: usize,
    piece_rows: usize,
    last_columns: Part,
    /// The buffer for a piece.
    buffer: Layout,
    bytes: RaggedBytes,
}

/// In bytes.
#[derive(PartialEq, Eq, Debug)]
struct RaggedBytes {
    /// From row to row of the left-hand side, and of the result.
    a_row: usize,
    out_row: usize,
    /// Of a row without its last columns.
    even_row: usize,
    /// From the weights of the first column to those of the last ones.
    b_last: usize,
}

/// Elements of 16 bits in 16 bytes.
const STEP: i64 = 8;
/// Rows of a piece are a multiple of this: so many a block of the library's kernels computes.
const BLOCK: i64 = 256;
/// About so large is the buffer, in bytes: it stays in the cache of a large GPU until it is copied.
const BUFFER: i64 = 26 << 20;

impl Ragged {
    fn of(layouts: Layouts<'_>, alpha: f64) -> Option<Ragged> {
        let Layouts { a, b, out, bias, behind } = layouts;
        let ([rows, columns], [row_step, 1]) = (&out.sizes[..], &out.strides[..]) else { return None };
        if *rows < LARGE || *columns < LARGE || row_step != columns || columns % STEP == 0 {
            return None;
        }
        let (even, size) = (columns / STEP * STEP, out.dtype.size());
        let piece_rows = piece_rows(even * size as i64).min(*rows);
        let cut = |layout: &Layout, sizes: &[i64]| Layout { sizes: sizes.into(), ..layout.clone() };
        let (even_b, even_bias) = (cut(b, &[b.sizes[0], even]), bias.map(|bias| cut(bias, &[even])));
        let buffer = |rows: i64| Layout { strides: [even, 1].as_slice().into(), ..cut(out, &[rows, even]) };
        let part = |rows: i64| {
            let (a, out) = (cut(a, &[rows, a.sizes[1]]), buffer(rows));
            Part::of(Layouts { a: &a, b: &even_b, out: &out, bias: even_bias.as_ref(), behind }, alpha).map(Part::into_piece)
        };
        let last = match rows % piece_rows {
            0 => None,
            rest => Some(part(rest)?),
        };
        let last_columns = Shape::of_last_columns(a, b, out, bias.is_some(), columns - even)?.with(behind);
        Some(Ragged {
            piece: part(piece_rows)?,
            last,
            rows: *rows as usize,
            piece_rows: piece_rows as usize,
            last_columns: Part::shaped(last_columns, alpha),
            buffer: buffer(piece_rows),
            bytes: RaggedBytes {
                a_row: a.strides[0] as usize * size,
                out_row: *columns as usize * size,
                even_row: even as usize * size,
                b_last: (even * b.strides[1]) as usize * size,
            },
        })
    }

    fn run(&self, run: &Run<'_>, at: Addresses) -> Result<bool, RunError> {
        let Some(stream) = run.stream else { return Ok(false) };
        let RaggedBytes { a_row, out_row, even_row, b_last } = self.bytes;
        let (b, out) = (at.b.wrapping_add(b_last), at.out.wrapping_add(even_row));
        let bias = at.bias.map(|bias| bias.wrapping_add(even_row));
        if !self.last_columns.run(run, Addresses { b, out, bias, ..at })? {
            return Ok(false);
        }
        let Layout { dtype, sizes, strides } = &self.buffer;
        let buffer = Tensor::empty_strided(sizes, strides, *dtype, run.device)?;
        let start = buffer.as_ref().data_ptr()?;
        for first in (0..self.rows).step_by(self.piece_rows) {
            let rows = self.piece_rows.min(self.rows - first);
            let part = self.last.as_ref().filter(|_| rows < self.piece_rows).unwrap_or(&self.piece);
            if !part.run(run, Addresses { a: at.a.wrapping_add(first * a_row), out: start, ..at })? {
                return Ok(false);
            }
            let to = Rows { start: at.out.wrapping_add(first * out_row), pitch: out_row };
            // SAFETY: rows of the result, and of a buffer that torch gives to what comes later on this stream only.
            unsafe { driver()?.copy_rows(to, Rows { start, pitch: even_row }, even_row, rows, stream)? };
        }
        Ok(true)
    }
}

fn piece_rows(row_bytes: i64) -> i64 {
    (BUFFER / row_bytes / BLOCK).max(1) * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::DType;

    fn half(sizes: &[i64], strides: &[i64]) -> Layout {
        Layout { dtype: DType::BF16, sizes: sizes.into(), strides: strides.into() }
    }

    fn logits(rows: i64, columns: i64) -> Option<DirectProduct> {
        let (a, b, out) =
            (half(&[rows, 768], &[768, 1]), half(&[768, columns], &[1, 768]), half(&[rows, columns], &[columns, 1]));
        DirectProduct::of(Layouts { a: &a, b: &b, out: &out, bias: None, behind: Behind::Nothing }, 1.0)
    }

    #[test]
    fn rows_of_an_odd_length_are_done_in_pieces() {
        let Some(DirectProduct::Ragged(ragged)) = logits(2048 + 100, 50257) else { panic!("it is ragged") };
        assert_eq!((ragged.rows, ragged.piece_rows, ragged.last.is_some()), (2148, 256, true));
        assert_eq!((&ragged.buffer.sizes[..], &ragged.buffer.strides[..]), (&[256, 50256][..], &[50256, 1][..]));
        let bytes = RaggedBytes { a_row: 1536, out_row: 2 * 50257, even_row: 2 * 50256, b_last: 2 * 50256 * 768 };
        assert_eq!(ragged.bytes, bytes);
        let Some(DirectProduct::Ragged(small)) = logits(600, 1003) else { panic!("it is ragged") };
        assert_eq!((small.piece_rows, small.last.is_none(), &small.buffer.sizes[..]), (600, true, &[600, 1000][..]));
    }

    #[test]
    fn even_rows_are_done_at_once_and_small_ones_are_left_to_torch() {
        assert!(matches!(logits(2048, 50264), Some(DirectProduct::Whole(_))));
        assert!(logits(256, 50257).is_none());
    }
}
