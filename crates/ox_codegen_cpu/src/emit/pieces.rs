//! Rows in pieces, in each of which what is asked about the place in the row has one answer: inside of a pad or outside of it, in one part of a
//! concatenation or in the next.
//!
//! Vectors that lie in a piece as a whole are done by code that knows the answers, so that nothing is asked, masked or read for nothing. The few others
//! ask.

use super::Emitter;
use crate::CodegenError;
use crate::ir::V;
use ox_ir::kernel::{Axis, Inst, Val};
use ox_ir::{DType, PointOp, Sym};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The body exists once for each.
const MOST_PIECES: usize = 3;
const MOST_INSTS: usize = 64;
/// Shorter pieces are not worth code of their own.
const LEAST_VECTORS: i64 = 4;

/// The answers, by who asks.
pub type Known = FxHashMap<Val, bool>;

pub struct Piece {
    at: Range<i64>,
    known: Known,
}

impl<'a> Emitter<'a> {
    /// The pieces of a row along `axis`, if there are any that are worth it.
    pub fn pieces(&self, axis: &Axis) -> Vec<Piece> {
        let (kernel, width) = (self.kernel, self.width as i64);
        let is_plain = kernel.insts.len() <= MOST_INSTS && kernel.passes.iter().all(|pass| pass.axes.is_empty());
        let (Some(length), true) = (axis.extent.as_const(), is_plain) else { return Vec::new() };
        let asked: Vec<(Val, PointOp, i64)> = (0..kernel.insts.len() as u32).filter_map(|n| self.asks(Val(n), axis)).collect();
        let mut ends: Vec<i64> = asked.iter().map(|(.., bound)| *bound).filter(|bound| (1..length).contains(bound)).collect();
        ends.extend([0, length]);
        ends.sort_unstable();
        ends.dedup();
        let inside = ends.windows(2).map(|pair| (pair[0] as u64).next_multiple_of(width as u64) as i64..pair[1]);
        let long = inside.filter(|at| at.end - at.start >= LEAST_VECTORS * width);
        let known =
            |at: &Range<i64>| asked.iter().map(|(val, op, bound)| (*val, (at.start < *bound) == (*op == PointOp::Lt))).collect();
        let pieces: Vec<Piece> = long.map(|at| Piece { known: known(&at), at }).collect();
        if ends.len() > 2 && pieces.len() <= MOST_PIECES { pieces } else { Vec::new() }
    }

    /// Whether an instruction asks on which side of a place the lanes are, and of which place.
    fn asks(&self, val: Val, axis: &Axis) -> Option<(Val, PointOp, i64)> {
        let Inst::Point(op @ (PointOp::Lt | PointOp::Ge), args) = &self.kernel.inst(val).inst else { return None };
        let index = |val: Val| match &self.kernel.inst(val).inst {
            Inst::Index(sym) if self.dtype(val) == DType::I64 => Some(sym.clone()),
            Inst::Const(scalar) if self.dtype(val).is_int() => Some(Sym::from(scalar.as_i64())),
            _ => None,
        };
        let (place, bound) = (index(args[0])?, index(args[1])?.as_const()?);
        let from = (&place - &Sym::var(&axis.var)).as_const()?;
        Some((val, *op, bound - from))
    }

    /// The points `from..to` of a row with pieces.
    pub fn row_in_pieces(&mut self, axis: &'a Axis, pieces: Vec<Piece>, from: V<'a>, to: V<'a>) -> Result<(), CodegenError> {
        let (ir, width) = (self.ir, self.width as i64);
        ir.when(from.lt(to), vec![], |none| {
            ir.repeat(vec![from], |at| {
                let mut at = at[0];
                for piece in &pieces {
                    at = self.piece(axis, piece, at, to)?;
                }
                // Where the next piece begins, a vector that asks ends.
                let next = |end: V<'a>, piece: &Piece| {
                    let start = ir.index(piece.at.start);
                    (at.lt(start) & start.lt(end)).select(start, end)
                };
                let end = pieces.iter().rev().fold(to, next);
                let left = end - at;
                at = ir.when(left.gt(ir.index(0)), vec![at], |_| {
                    self.at_lanes(axis, at, Some(ir.lanes_below(left, self.width)))?;
                    let step = left.lt(ir.index(width)).select(left, ir.index(width));
                    Ok::<_, CodegenError>(vec![at.add_index(step)])
                })?[0];
                Ok::<_, CodegenError>((vec![at], at.lt(to)))
            })?;
            Ok(none)
        })?;
        Ok(())
    }

    /// The whole vectors of a piece, if `at` lies in it; gives where they end.
    fn piece(&mut self, axis: &'a Axis, piece: &Piece, at: V<'a>, to: V<'a>) -> Result<V<'a>, CodegenError> {
        let (ir, width) = (self.ir, self.width as i64);
        let (start, end) = (ir.index(piece.at.start), ir.index(piece.at.end));
        let end = to.lt(end).select(to, end);
        let is_inside = at.ge(start) & at.lt(end);
        let full = at.add_index((end - at) & -width);
        let after = ir.when(is_inside, vec![at], |_| {
            self.known = piece.known.clone();
            self.full_vectors(axis, at, full)?;
            self.known.clear();
            Ok::<_, CodegenError>(vec![full])
        })?;
        Ok(after[0])
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
