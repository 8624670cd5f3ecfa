//! Whole numbers that change from call to call: variables as sizes are, so that they may index, slice, shape and be compared.

use super::{Recording, Val};
use crate::guard::{Check, whole};
use crate::obj::Obj;
use crate::source::{Source, SourceId};
use ox_ops::{Sym, Var};

/// Beyond, sums and products of two would not fit.
const MOST: i64 = 1 << 30;

impl Recording {
    /// A number from outside that was seen to change.
    pub(super) fn varying_integer(&mut self, number: &Obj, source: SourceId) -> Option<Val> {
        let value = whole(number).filter(|value| (-MOST..=MOST).contains(value))?;
        let place = self.tree.sources.read().show(source);
        let varies = self.sizing.dynamic != Some(false) && self.tree.varying.read().contains(&place);
        if !varies || self.is_of_optimizer(source) {
            return None;
        }
        let var = match self.sizing.integers.get(&source) {
            Some(var) => var.clone(),
            None => self.new_integer(value, source, place),
        };
        let free = Some(self.source(Source::Expr(Sym::var(&var))));
        Some(Val { obj: number.clone(), free })
    }

    /// Whether an expression fits in 64 bits whatever its whole numbers are. Sizes alone always do: their tensors are there.
    pub(super) fn fits(&self, sym: &Sym) -> bool {
        let has_integers = sym.vars().iter().any(|var| var.lo() < 0);
        let size = |factors: usize, times: i64| (MOST as f64).powi(factors as i32) * times.unsigned_abs() as f64;
        let most: f64 = sym.terms().iter().map(|(factors, times)| size(factors.len(), *times)).sum();
        !has_integers || most + sym.constant().unsigned_abs() as f64 <= (1i64 << 62) as f64
    }

    fn new_integer(&mut self, value: i64, source: SourceId, place: String) -> Var {
        let var = Var::size(self.tree.next_variable(), -MOST, MOST, 1);
        self.sizing.hints.insert(var.clone(), value);
        self.sizing.integers.insert(source, var.clone());
        self.tree.sources.change(|sources| sources.name_variable(var.id(), place));
        self.checks.push(Check::Integer(source, var.clone()));
        var
    }
}
