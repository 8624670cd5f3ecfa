//! Facts about sizes as a list of steps over numbers: each expression that several facts share is computed once.

use crate::layout::Layouts;
use ox_ops::{Atom, Fact, Sym};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The place of a number: those of the sizes come first.
type Slot = u32;

enum Step {
    /// The first less the second, and a constant: what most comparisons come to.
    Gap(Slot, Slot, i64),
    /// A constant, and the terms in a range of `Formulas::terms`.
    Sum(i64, std::ops::Range<u32>),
    Product(Slot, Slot),
    Div(Slot, Slot),
    Mod(Slot, Slot),
    Min(Slot, Slot),
    Max(Slot, Slot),
}

enum Test {
    Equal(Slot, Slot),
    Unequal(Slot, Slot),
    AtLeast(Slot, i64),
}

#[derive(Default)]
pub struct Formulas {
    steps: Vec<Step>,
    terms: Vec<(i64, Slot)>,
    tests: Vec<Test>,
    known: FxHashMap<Sym, Slot>,
    products: FxHashMap<(Slot, Slot), Slot>,
}

impl Formulas {
    /// False if it mentions what is not among the sizes.
    pub fn add(&mut self, fact: &Fact, sizes: &Layouts) -> bool {
        if !fact.vars().iter().all(|var| sizes.place(var).is_some()) {
            return false;
        }
        let test = match fact {
            Fact::Equal(a, b) => Test::Equal(self.slot(a, sizes), self.slot(b, sizes)),
            Fact::Unequal(a, b) => Test::Unequal(self.slot(a, sizes), self.slot(b, sizes)),
            Fact::AtLeast(a, least) => Test::AtLeast(self.slot(a, sizes), *least),
        };
        self.tests.push(test);
        true
    }

    fn slot(&mut self, sym: &Sym, sizes: &Layouts) -> Slot {
        if let Some(at) = sym.as_var().and_then(|var| sizes.place(var)) {
            return at;
        }
        if let Some(slot) = self.known.get(sym) {
            return *slot;
        }
        let terms: Vec<(i64, Slot)> =
            sym.terms().iter().map(|(factors, times)| (*times, self.monomial(factors, sizes))).collect();
        let step = match terms[..] {
            [(1, a), (-1, b)] | [(-1, b), (1, a)] => Step::Gap(a, b, sym.constant()),
            _ => self.sum(sym.constant(), &terms),
        };
        let slot = self.step(step, sizes);
        self.known.insert(sym.clone(), slot);
        slot
    }

    fn sum(&mut self, constant: i64, terms: &[(i64, Slot)]) -> Step {
        let first = self.terms.len() as u32;
        self.terms.extend(terms);
        Step::Sum(constant, first..self.terms.len() as u32)
    }

    fn monomial(&mut self, factors: &[Atom], sizes: &Layouts) -> Slot {
        let slots: Vec<Slot> = factors.iter().map(|atom| self.atom(atom, sizes)).collect();
        let mut slots = slots.into_iter();
        let first = slots.next().expect("a term has a factor");
        slots.fold(first, |a, b| match self.products.get(&(a, b)) {
            Some(slot) => *slot,
            None => {
                let slot = self.step(Step::Product(a, b), sizes);
                self.products.insert((a, b), slot);
                slot
            }
        })
    }

    fn atom(&mut self, atom: &Atom, sizes: &Layouts) -> Slot {
        let sym = atom.sym();
        if let Some(slot) = self.known.get(&sym) {
            return *slot;
        }
        let (make, parts): (fn(Slot, Slot) -> Step, _) = match atom {
            Atom::Var(var) => return sizes.place(var).expect("all variables are among the sizes"),
            Atom::Div(parts) => (Step::Div, parts),
            Atom::Mod(parts) => (Step::Mod, parts),
            Atom::Min(parts) => (Step::Min, parts),
            Atom::Max(parts) => (Step::Max, parts),
        };
        let (a, b) = (self.slot(&parts.0, sizes), self.slot(&parts.1, sizes));
        let slot = self.step(make(a, b), sizes);
        self.known.insert(sym, slot);
        slot
    }

    fn step(&mut self, step: Step, sizes: &Layouts) -> Slot {
        self.steps.push(step);
        (sizes.width() + self.steps.len() - 1) as Slot
    }

    /// Whether all facts hold. What cannot be computed does not.
    pub fn hold(&self, sizes: &[i64]) -> bool {
        self.tests.is_empty() || self.compute(sizes).is_some_and(|numbers| self.tests.iter().all(|test| test.holds(&numbers)))
    }

    fn compute(&self, sizes: &[i64]) -> Option<SmallVec<[i64; 32]>> {
        let mut numbers: SmallVec<[i64; 32]> = SmallVec::from_elem(0, sizes.len() + self.steps.len());
        numbers[..sizes.len()].copy_from_slice(sizes);
        for (at, step) in (sizes.len()..).zip(&self.steps) {
            numbers[at] = self.value(step, &numbers)?;
        }
        Some(numbers)
    }

    fn value(&self, step: &Step, numbers: &[i64]) -> Option<i64> {
        let of = |slot: &Slot| numbers[*slot as usize];
        match step {
            Step::Gap(a, b, constant) => of(a).checked_sub(of(b))?.checked_add(*constant),
            Step::Sum(constant, terms) => {
                let terms = &self.terms[terms.start as usize..terms.end as usize];
                terms.iter().try_fold(*constant, |sum, (times, slot)| sum.checked_add(of(slot).checked_mul(*times)?))
            }
            Step::Product(a, b) => of(a).checked_mul(of(b)),
            Step::Div(a, b) => floor_div(of(a), of(b)),
            Step::Mod(a, b) => of(a).checked_sub(of(b).checked_mul(floor_div(of(a), of(b))?)?),
            Step::Min(a, b) => Some(of(a).min(of(b))),
            Step::Max(a, b) => Some(of(a).max(of(b))),
        }
    }
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

impl Test {
    fn holds(&self, numbers: &[i64]) -> bool {
        let of = |slot: &Slot| numbers[*slot as usize];
        match self {
            Test::Equal(a, b) => of(a) == of(b),
            Test::Unequal(a, b) => of(a) != of(b),
            Test::AtLeast(a, least) => of(a) >= *least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::TensorSpec;
    use crate::sizes::{Size, SizedSpec};
    use ox_ops::Var;

    fn layouts(vars: &[Var]) -> Layouts {
        let mut layouts = Layouts::default();
        let count = vars.len();
        let (sizes, strides) = (vec![2; count], vec![0; count]);
        let tensor = TensorSpec { class: 0, keys: 0, dtype: 0, number: 0, dtype_name: String::new(), sizes, strides };
        layouts.add(&SizedSpec::new(tensor, vars.iter().cloned().map(Size::Bind).collect())).expect("all are bound");
        layouts
    }

    #[test]
    fn facts_mean_what_they_mean_one_by_one() {
        let vars: Vec<Var> = (0..3).map(|id| Var::size(id, 0, i64::MAX, 1)).collect();
        let [x, y, z] = [0, 1, 2].map(|n| Sym::var(&vars[n]));
        let layouts = layouts(&vars);
        let expressions = [
            &(&x * 3) - &(&y * 2),
            &(&x * &y) + 5,
            (&x + 1).div(&Sym::from(4i64)),
            (&x * &y).rem(&(&z + 1)),
            x.lesser(&(&y + 2)),
            &z.greater(&x.div(&y)) * &y,
        ];
        let facts: Vec<Fact> = expressions
            .iter()
            .zip(expressions.iter().cycle().skip(1))
            .flat_map(|(a, b)| {
                [Fact::Equal(a.clone(), b.clone()), Fact::Unequal(a.clone(), b.clone()), Fact::AtLeast(a.clone(), 3)]
            })
            .collect();
        let single: Vec<Formulas> = facts
            .iter()
            .map(|fact| {
                let mut formulas = Formulas::default();
                assert!(formulas.add(fact, &layouts));
                formulas
            })
            .collect();
        for sizes in [[0, 0, 0], [1, 2, 3], [5, 0, 2], [9, 4, 0], [i64::MAX, 2, 1], [7, 7, 7]] {
            for (fact, formulas) in facts.iter().zip(&single) {
                let wanted = fact.holds(&|var| Some(sizes[var.id() as usize]));
                assert_eq!(formulas.hold(&sizes), wanted, "{fact} at {sizes:?}");
            }
        }
    }

    #[test]
    fn what_facts_share_is_computed_once() {
        let vars: Vec<Var> = (0..2).map(|id| Var::size(id, 0, i64::MAX, 1)).collect();
        let (layouts, mut formulas) = (layouts(&vars), Formulas::default());
        let half = &Sym::var(&vars[0]).div(&Sym::from(2i64)) * &Sym::var(&vars[1]);
        for least in 0..5 {
            assert!(formulas.add(&Fact::AtLeast(half.clone(), least), &layouts));
        }
        assert!(formulas.steps.len() <= 4, "{}", formulas.steps.len());
        assert!(formulas.hold(&[9, 1]) && !formulas.hold(&[9, 0]));
    }

    #[test]
    fn what_is_not_among_the_sizes_is_left() {
        let (here, other) = (Var::size(0, 0, 9, 1), Var::size(7, 0, 9, 1));
        let fact = Fact::AtLeast(Sym::var(&other), 1);
        assert!(!Formulas::default().add(&fact, &layouts(&[here])));
    }
}
