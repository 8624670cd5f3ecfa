//! What the last two outer axes of a kernel have to do with each other: whether rows of the last one are best done together, and in how many pieces.

use crate::graph::Combine;
use crate::kernel::{Axis, BufRole, Inst, Kernel, Lanes, Val};
use crate::sym::Sym;

/// Neighbouring lanes that are nearer than this share a line of the cache.
const LINE: i64 = 64;
const MOST_WOVEN: i64 = 4;
/// A row has at most so many long pieces: the code for it exists twice for each of them, and once for what lies between two.
pub const MOST_PIECES: usize = 3;
/// As many rows as the highest tile of a code generator has.
const TILE: i64 = 32;

impl Kernel {
    /// The axis of rows and that of lanes, in a kernel whose points may be visited in any order.
    pub fn rows_of_lanes(&self) -> Option<(&Axis, &Axis)> {
        let is_plain = self.parallel && self.lanes == Lanes::Outer && self.passes.iter().all(|pass| pass.axes.is_empty());
        match self.axes.as_slice() {
            [.., rows, lanes] if is_plain => Some((rows, lanes)),
            _ => None,
        }
    }

    /// Whether what is loaded lies side by side from row to row, and far apart from lane to lane.
    pub fn is_read_across(&self, val: Val) -> bool {
        let Inst::Load { buf, index, mask: None } = &self.inst(val).inst else { return false };
        let (Some((rows, lanes)), param) = (self.rows_of_lanes(), &self.bufs[*buf as usize]) else { return false };
        let is_far = |step: Sym| step.as_const().is_none_or(|n| n.saturating_mul(param.dtype.size() as i64).abs() >= LINE);
        param.role == BufRole::In
            && index.coeff(&rows.var).is_some_and(|step| step.is_one())
            && index.coeff(&lanes.var).is_some_and(is_far)
    }

    /// How many rows there are, if they lie woven in all that the kernel writes: an element of each, then the next element of each.
    pub fn woven_rows(&self) -> Option<i64> {
        let (rows, lanes) = self.rows_of_lanes()?;
        let count = rows.extent.as_const().filter(|n| (2..=MOST_WOVEN).contains(n))?;
        let is_woven = |inst: &Inst| match inst {
            Inst::Store { index, combine: Combine::Set, mask: None, .. } => {
                index.coeff(&lanes.var).is_some_and(|step| step.is_const(count))
                    && index.coeff(&rows.var).is_some_and(|step| step.is_one())
            }
            Inst::Store { .. } => false,
            _ => true,
        };
        self.insts.iter().all(|typed| is_woven(&typed.inst)).then_some(count)
    }

    /// Threads should not part so many rows.
    pub fn rows_together(&self) -> i64 {
        let across = || (0..self.insts.len() as u32).any(|n| self.is_read_across(Val(n)));
        self.woven_rows().unwrap_or_else(|| if across() { TILE } else { 1 })
    }
}
