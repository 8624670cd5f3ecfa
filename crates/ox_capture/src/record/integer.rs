//! Whole numbers that change from call to call: variables as sizes are, so that they may index, slice, shape and be compared.

use super::{Recording, Val};
use crate::guard::{Check, whole};
use crate::obj::Obj;
use crate::source::{Source, SourceId};
use ox_ops::{Sym, Var};

/// Beyond, sums and products of two would not fit.
const MOST: i64 = 1 << 30;

impl Recording {
    /// A number from outside that was seen to change, an argument where all sizes vary, or one that is computed of such and of sizes in a way that is no expression: `int(n * 0.3)`.
    pub(super) fn varying_integer(&mut self, number: &Obj, source: SourceId) -> Option<Val> {
        let value = whole(number).filter(|value| (-MOST..=MOST).contains(value))?;
        let varies = self.varies(source) || self.is_declared(value, source);
        if self.sizing.dynamic == Some(false) || !varies || self.is_of_optimizer(source) {
            return None;
        }
        let var = match self.sizing.integers.get(&source) {
            Some(var) => var.clone(),
            None => self.new_integer(value, source),
        };
        let free = Some(self.source(Source::Expr(Sym::var(&var))));
        Some(Val { obj: number.clone(), free })
    }

    /// With `dynamic=True` an argument is a variable from the first call on. 0 and 1 are constants until they change, as sizes are.
    fn is_declared(&self, value: i64, source: SourceId) -> bool {
        let is_argument = || matches!(self.tree.sources.read().get(source), Source::Arg(_) | Source::Kwarg(_));
        self.sizing.dynamic == Some(true) && !(0..=1).contains(&value) && is_argument()
    }

    /// Whether a variable stands in an expression, or a whole number does that is computed of it.
    pub fn is_made_of(&self, sym: &Sym, var: &Var) -> bool {
        let is_computed = |number: &Var| {
            let mut sources = self.sizing.integers.iter().filter(|(_, known)| *known == number);
            sources.any(|(source, _)| self.is_computed_of(*source, var))
        };
        sym.vars().iter().any(|part| part == var || is_computed(part))
    }

    fn is_computed_of(&self, source: SourceId, var: &Var) -> bool {
        let sources = self.tree.sources.read();
        let is_made = |id: SourceId| matches!(sources.get(id), Source::Expr(sym) if self.is_made_of(sym, var));
        sources.operands(source).into_iter().any(|(id, _)| is_made(id))
    }

    /// Whether an expression fits in 64 bits whatever its whole numbers are. Sizes alone always do: their tensors are there.
    pub(super) fn fits(&self, sym: &Sym) -> bool {
        let has_integers = sym.vars().iter().any(|var| var.lo() < 0);
        let size = |factors: usize, times: i64| (MOST as f64).powi(factors as i32) * times.unsigned_abs() as f64;
        let most: f64 = sym.terms().iter().map(|(factors, times)| size(factors.len(), *times)).sum();
        !has_integers || most + sym.constant().unsigned_abs() as f64 <= (1i64 << 62) as f64
    }

    fn new_integer(&mut self, value: i64, source: SourceId) -> Var {
        let place = self.tree.sources.read().show(source);
        let var = Var::size(self.tree.next_variable(), -MOST, MOST, 1);
        self.sizing.hints.insert(var.clone(), value);
        self.sizing.integers.insert(source, var.clone());
        self.tree.sources.change(|sources| sources.name_variable(var.id(), place));
        self.checks.push(Check::Integer(source, var.clone()));
        var
    }
}
