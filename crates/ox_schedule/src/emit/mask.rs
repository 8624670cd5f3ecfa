//! Conditions on coordinates, as boolean values.

use super::{Emitter, PassId};
use ox_ir::kernel::{Inst, Val};
use ox_ir::{DType, PointOp, Sym};

/// What is known of a condition before the kernel runs.
pub(super) enum Condition {
    Always,
    Never,
    Test(Val),
}

impl Emitter<'_> {
    /// The pass in which a condition on these expressions is computed.
    fn pass_of(&self, exprs: &[Sym]) -> PassId {
        let inner = exprs.iter().any(|e| e.any_var(&mut |v| self.inner_vars.contains(v)));
        let level = if inner { self.current } else { self.loaded_level(exprs) };
        PassId { level, full: inner }
    }

    /// The level from which on all the loaded indices in these expressions exist.
    pub(super) fn loaded_level(&self, exprs: &[Sym]) -> usize {
        let levels = exprs.iter().flat_map(|e| e.vars()).filter_map(|v| self.loaded.get(&v).copied());
        levels.max().unwrap_or(0)
    }

    /// `0 <= e < n`.
    pub(super) fn in_range(&mut self, e: &Sym, n: &Sym) -> Condition {
        if (&-e - 1).is_nonneg() || (e - n).is_nonneg() {
            return Condition::Never;
        }
        let pass = self.pass_of(&[e.clone(), n.clone()]);
        let low = (!e.is_nonneg()).then(|| self.compare(PointOp::Ge, e, &Sym::ZERO, pass));
        let high = (!(&(n - e) - 1).is_nonneg()).then(|| self.compare(PointOp::Lt, e, n, pass));
        match (low, high) {
            (None, None) => Condition::Always,
            (Some(c), None) | (None, Some(c)) => Condition::Test(c),
            (Some(a), Some(b)) => Condition::Test(self.apply(PointOp::And, &[a, b], pass)),
        }
    }

    /// `e % n == 0`.
    pub(super) fn is_multiple(&mut self, e: &Sym, n: i64) -> Condition {
        if n.abs() == 1 {
            return Condition::Always;
        }
        let rest = e.rem(&Sym::from(n.abs()));
        let pass = self.pass_of(std::slice::from_ref(e));
        match rest.as_const() {
            Some(0) => Condition::Always,
            Some(_) => Condition::Never,
            None => Condition::Test(self.compare(PointOp::Eq, &rest, &Sym::ZERO, pass)),
        }
    }

    fn compare(&mut self, op: PointOp, a: &Sym, b: &Sym, pass: PassId) -> Val {
        let a = self.push_pure(pass, Inst::Index(a.clone()), DType::I64);
        let b = self.push_pure(pass, Inst::Index(b.clone()), DType::I64);
        self.push_pure(pass, Inst::Point(op, [a, b].into_iter().collect()), DType::Bool)
    }

    pub(super) fn all_of(&mut self, conditions: Vec<Condition>) -> Condition {
        let mut acc: Option<Val> = None;
        for condition in conditions {
            match condition {
                Condition::Never => return Condition::Never,
                Condition::Always => {}
                Condition::Test(c) => acc = Some(self.and(acc, c)),
            }
        }
        acc.map_or(Condition::Always, Condition::Test)
    }

    /// Both conditions, in the later of their two passes.
    pub(super) fn and(&mut self, a: Option<Val>, b: Val) -> Val {
        let Some(a) = a else { return b };
        if a == b {
            return a;
        }
        let (pa, pb) = (self.home[a.index()], self.home[b.index()]);
        let pass = if (pa.full, pa.level) >= (pb.full, pb.level) { pa } else { pb };
        self.apply(PointOp::And, &[a, b], pass)
    }
}
