//! Rows in pieces, in each of which what is asked about the place in the row has one answer: inside of a pad or outside of it, in one part of a
//! concatenation or in the next.
//!
//! Long pieces are done by code that knows the answers, so that nothing is asked, masked or read for nothing, and what is left of them by the same under
//! a mask. What lies between them asks what has more than one answer there.

use super::Emitter;
use crate::CodegenError;
use crate::ir::V;
use ox_ir::kernel::{Axis, Inst, Val};
use ox_ir::rows::MOST_PIECES;
use ox_ir::{DType, PointOp, Sym};
use rustc_hash::FxHashMap;
use std::ops::Range;

const MOST_INSTS: usize = 64;
/// A piece with so many vectors is long.
const LEAST_VECTORS: i64 = 2;
/// In a row with so many, vectors that may be aligned stay so.
const LEAST_ALIGNED: i64 = 16;

/// The answers, by who asks.
pub type Known = FxHashMap<Val, bool>;

pub struct Piece {
    at: Range<i64>,
    known: Known,
    is_long: bool,
}

/// What asks on which side of a place the lanes are.
struct Question {
    val: Val,
    op: PointOp,
    bound: i64,
}

impl Question {
    fn answer(&self, at: &Range<i64>) -> Option<bool> {
        let is_below = at.end <= self.bound;
        (is_below || at.start >= self.bound).then_some(is_below == (self.op == PointOp::Lt))
    }
}

impl<'a> Emitter<'a> {
    /// The pieces of a row along `axis`, if there are any that are worth it.
    pub fn pieces(&self, axis: &Axis) -> Vec<Piece> {
        let (kernel, width) = (self.kernel, self.width as i64);
        let is_plain = kernel.insts.len() <= MOST_INSTS && kernel.passes.iter().all(|pass| pass.axes.is_empty());
        let (Some(length), true) = (axis.extent.as_const(), is_plain) else { return Vec::new() };
        let asked: Vec<Question> = (0..kernel.insts.len() as u32).filter_map(|n| self.asks(Val(n), axis)).collect();
        let mut ends: Vec<i64> = asked.iter().map(|asked| asked.bound).filter(|bound| (1..length).contains(bound)).collect();
        ends.extend([0, length]);
        ends.sort_unstable();
        ends.dedup();
        let unit = if length % width == 0 && length >= LEAST_ALIGNED * width { width } else { 1 };
        let inside = ends.windows(2).map(|pair| (pair[0] as u64).next_multiple_of(unit as u64) as i64..pair[1] / unit * unit);
        let long: Vec<Range<i64>> = inside.filter(|at| at.end - at.start >= LEAST_VECTORS * width).collect();
        if ends.len() == 2 || !(1..=MOST_PIECES).contains(&long.len()) {
            return Vec::new();
        }
        let known = |at: &Range<i64>| asked.iter().filter_map(|asked| Some((asked.val, asked.answer(at)?))).collect();
        let pieces = with_gaps(long, length).into_iter();
        pieces.map(|(at, is_long)| Piece { known: known(&at), at, is_long }).collect()
    }

    fn asks(&self, val: Val, axis: &Axis) -> Option<Question> {
        let Inst::Point(op @ (PointOp::Lt | PointOp::Ge), args) = &self.kernel.inst(val).inst else { return None };
        let index = |val: Val| match &self.kernel.inst(val).inst {
            Inst::Index(sym) if self.dtype(val) == DType::I64 => Some(sym.clone()),
            Inst::Const(scalar) if self.dtype(val).is_int() => Some(Sym::from(scalar.as_i64())),
            _ => None,
        };
        let (place, bound) = (index(args[0])?, index(args[1])?.as_const()?);
        let from = (&place - &Sym::var(&axis.var)).as_const()?;
        Some(Question { val, op: *op, bound: bound - from })
    }

    /// The points `from..to` of one piece, as far as they lie in it.
    pub fn piece(&mut self, axis: &'a Axis, piece: Piece, from: V<'a>, to: V<'a>) -> Result<(), CodegenError> {
        let (ir, width) = (self.ir, self.width as i64);
        let (start, end) = (ir.index(piece.at.start), ir.index(piece.at.end));
        let from = from.lt(start).select(start, from);
        let to = to.lt(end).select(to, end);
        self.known = piece.known;
        ir.when(from.lt(to), vec![], |none| {
            let full = if piece.is_long { from.add_index((to - from) & -width) } else { from };
            if piece.is_long {
                self.full_vectors(axis, from, full)?;
            }
            ir.for_loop(full, to, width, none, |x, none| {
                self.at_lanes(axis, x, Some(ir.lanes_below(to - x, self.width)))?;
                Ok::<_, CodegenError>(none)
            })
        })?;
        self.known.clear();
        Ok(())
    }

    /// What an instruction gives where answers are known, without doing it.
    pub fn without_asking(&mut self, val: Val) -> Result<Option<V<'a>>, CodegenError> {
        if self.known.is_empty() {
            return Ok(None);
        }
        if let Some(answer) = self.known.get(&val) {
            return Ok(Some(self.ir.bool(*answer)));
        }
        let known = |val: Val| self.known.get(&val).copied();
        match &self.kernel.inst(val).inst {
            Inst::Point(PointOp::And, args) => {
                let answer = match (known(args[0]), known(args[1])) {
                    (Some(true), None) => return self.value(args[1]).map(Some),
                    (None, Some(true)) => return self.value(args[0]).map(Some),
                    (None, None) => return Ok(None),
                    answers => answers == (Some(true), Some(true)),
                };
                self.known.insert(val, answer);
                Ok(Some(self.ir.bool(answer)))
            }
            Inst::Point(PointOp::Where, args) => {
                let chosen = known(args[0]).map(|answer| args[if answer { 1 } else { 2 }]);
                chosen.map(|chosen| self.value(chosen)).transpose()
            }
            Inst::Load { mask: Some((mask, other)), .. } if known(*mask) == Some(false) => {
                Ok(Some(self.constant(*other, self.dtype(val))))
            }
            Inst::Load { buf, index, mask: Some((mask, _)) } if known(*mask) == Some(true) => {
                self.load(*buf, index, None, self.dtype(val)).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// All of a row: what is long, and what lies between.
fn with_gaps(long: Vec<Range<i64>>, length: i64) -> Vec<(Range<i64>, bool)> {
    let (mut all, mut done) = (Vec::new(), 0);
    for at in long {
        let end = at.end;
        all.extend([(done..at.start, false), (at, true)]);
        done = end;
    }
    all.push((done..length, false));
    all.retain(|(at, _)| !at.is_empty());
    all
}
