//! Sizes that are expressions of variables with random facts.

use super::build::Gen;
use super::rng::Rng;
use ox_ir::graph::SliceDim;
use ox_ir::{Sym, Var};

/// One to four variables, each in a small range, some of them multiples of something. Few may be 0.
pub(super) fn variables(rng: &mut Rng) -> Vec<Var> {
    let count = 1 + rng.below(4) as u32;
    let mut variable = |id: u32| {
        let divisor = *rng.pick(&[1, 1, 1, 2, 4]);
        let least = divisor * *rng.pick(&[0, 1, 1, 1, 1, 2, 3]);
        Var::size(id, least, least + divisor * rng.int(1, 4), divisor)
    };
    (0..count).map(&mut variable).collect()
}

impl Gen<'_> {
    /// Never negative.
    pub fn expression(&mut self) -> Sym {
        let a = Sym::var(self.rng.pick(&self.graph.sizes));
        let b = Sym::var(self.rng.pick(&self.graph.sizes));
        let (small, unit) = (Sym::from(self.rng.int(2, 3)), self.rng.int(0, 1));
        match self.rng.below(12) {
            0 => &a + (unit + 1),
            1 => &a * &small,
            2 => &a.div(&small) + unit,
            3 => &a.rem(&small) + unit,
            4 => &a + &b,
            5 => a.lesser(&b),
            6 => a.greater(&b),
            7 if (&a - 1).is_nonneg() => &a - 1,
            _ => a,
        }
    }

    /// A half of a dimension, or every second of its elements.
    pub fn symbolic_slice(&mut self, n: &Sym) -> (SliceDim, Sym) {
        let half = n.div(&Sym::from(2i64));
        match self.rng.below(3) {
            0 => (SliceDim { start: Sym::ZERO, step: 1 }, half),
            1 => (SliceDim { start: half.clone(), step: 1 }, n - &half),
            _ => (SliceDim { start: Sym::ZERO, step: 2 }, n - &half),
        }
    }
}
