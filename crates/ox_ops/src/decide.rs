//! Decisions about sizes that are not known.
//!
//! A front end that has seen a program run knows what each size was then: its hint. Where a rule asks whether two sizes are equal, and that
//! does not follow from what is known of them, the answer is taken at the hints and noted as a fact: the graph is right for all sizes for
//! which the facts hold. Without hints (`at_hints` is not running on this thread) nothing is decided.

use crate::error::OpError;
pub use crate::infer::are_different;
use ox_ir::sym::Atom;
use ox_ir::{Sym, Var};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fmt;

/// What must hold of sizes for a recorded graph to be right.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Fact {
    Equal(Sym, Sym),
    Unequal(Sym, Sym),
    AtLeast(Sym, i64),
}

impl Fact {
    /// Whether it holds under an assignment. What cannot be computed does not.
    pub fn holds(&self, value: &dyn Fn(&Var) -> Option<i64>) -> bool {
        match self {
            Fact::Equal(a, b) => a.eval(value).is_some_and(|a| b.eval(value) == Some(a)),
            Fact::Unequal(a, b) => a.eval(value).is_some_and(|a| b.eval(value).is_some_and(|b| a != b)),
            Fact::AtLeast(a, least) => a.eval(value).is_some_and(|a| a >= *least),
        }
    }

    /// What must be 0 for an equation to hold, without what all of its terms have in common.
    fn gap(&self) -> Option<Sym> {
        let Fact::Equal(a, b) = self else { return None };
        Some(without_common_sizes(&without_common_number(a - b)))
    }

    /// The variable that an equation decides, and what it is then.
    pub fn solved(&self) -> Option<(Var, Sym)> {
        let gap = self.gap()?;
        // The youngest variable goes: it is defined by older ones.
        gap.vars().into_iter().rev().find_map(|var| {
            let rest = |sign: i64| &(&gap - &(&Sym::var(&var) * sign)) * -sign;
            match gap.coeff(&var)?.as_const()? {
                factor @ (1 | -1) => Some((var.clone(), rest(factor))),
                factor => {
                    let rest = &gap - &(&Sym::var(&var) * factor);
                    let value = rest.as_const().filter(|c| c % factor == 0)?;
                    Some((var.clone(), Sym::from(-value / factor)))
                }
            }
        })
    }

    /// The variable of which it is said how large it is at least, and nothing else, as it is known then.
    pub fn least(&self) -> Option<Var> {
        let Fact::AtLeast(sum, least) = self else { return None };
        let var = sum.vars().into_iter().next()?;
        let rest = (sum - &Sym::var(&var)).as_const()?;
        Some(Var::size(var.id(), var.lo().max(least - rest), var.hi(), var.divisor()))
    }

    /// The variable of which it is said how large it is at most, and nothing else, as it is known then.
    pub fn most(&self) -> Option<Var> {
        let Fact::AtLeast(sum, least) = self else { return None };
        let var = sum.vars().into_iter().next()?;
        let rest = (sum + &Sym::var(&var)).as_const()?;
        Some(Var::size(var.id(), var.lo(), var.hi().min(rest.saturating_sub(*least)), var.divisor()))
    }

    /// Which of a size and a number is the lesser, as it is now, where an equation cannot be solved for a minimum or maximum of them.
    pub fn order(&self, hints: &Hints) -> Option<Fact> {
        let gap = self.gap()?;
        let pairs = gap.terms().iter().flat_map(|(factors, _)| factors).filter_map(|atom| match atom {
            Atom::Min(pair) | Atom::Max(pair) => Some(pair),
            _ => None,
        });
        let order = |pair: &std::sync::Arc<(Sym, Sym)>| {
            let gap = &pair.1 - &pair.0;
            let ordered = if gap.eval(&|var| hints.get(var).copied())? >= 0 { gap } else { -&gap };
            Some(Fact::AtLeast(ordered, 0)).filter(|fact| fact.least().or_else(|| fact.most()).is_some())
        };
        pairs.into_iter().find_map(order)
    }

    /// What sizes must be multiples of for an equation to hold, where that is all that it says: `2 * (n // 2) == n`. Each size comes back as it
    /// is known then.
    pub fn multiples(&self, hints: &Hints) -> Option<Vec<Var>> {
        let Fact::Equal(a, b) = self else { return None };
        let (gap, knots) = (a - b, self.knots(hints));
        let alone = knots.iter().map(|var| vec![var.clone()]);
        let groups: Vec<Vec<Var>> = alone.chain([knots.iter().cloned().collect()]).collect();
        FACTORS.iter().find_map(|factor| groups.iter().find_map(|group| multiples_of(*factor, group, &gap, hints)))
    }

    /// The sizes to be fixed where an equation says neither what one is nor what one is a multiple of: those that stand inside of divisions,
    /// remainders, minima and maxima; if there are none, the fewest that leave nothing of it.
    pub fn knots(&self, hints: &Hints) -> std::collections::BTreeSet<Var> {
        let Some(gap) = self.gap() else { return self.vars() };
        let atoms = gap.terms().iter().flat_map(|(factors, _)| factors);
        let inside = |atom: &Atom| match atom {
            Atom::Var(_) => Vec::new(),
            Atom::Div(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => p.0.vars().into_iter().chain(p.1.vars()).collect(),
        };
        let knots: std::collections::BTreeSet<Var> = atoms.flat_map(inside).collect();
        if knots.is_empty() { fewest(&gap, hints) } else { knots }
    }

    pub fn vars(&self) -> std::collections::BTreeSet<Var> {
        match self {
            Fact::Equal(a, b) | Fact::Unequal(a, b) => a.vars().into_iter().chain(b.vars()).collect(),
            Fact::AtLeast(a, _) => a.vars(),
        }
    }
}

/// The gap of an equation without the number that all of its terms are multiples of.
fn without_common_number(gap: Sym) -> Sym {
    let least = gap.terms().iter().map(|(_, times)| times.saturating_abs()).min().unwrap_or(1);
    let rest = gap.div(&Sym::from(least));
    if &rest * least == gap { rest } else { gap }
}

/// The sizes that an equation holds for as they are now, whatever the others are: `b * n * (n + 1) == 2 * n * (n + 1)` asks for b alone.
fn fewest(gap: &Sym, hints: &Hints) -> std::collections::BTreeSet<Var> {
    // More are rarely in one equation, and there are too many choices then.
    const FEW: usize = 8;
    let vars: Vec<Var> = gap.vars().into_iter().collect();
    if vars.len() > FEW {
        return vars.into_iter().collect();
    }
    let chosen = |bits: u32| vars.iter().enumerate().filter(move |(n, _)| bits >> n & 1 == 1).map(|(_, var)| var.clone());
    let fits = |bits: u32| {
        let fixed: Vec<Var> = chosen(bits).collect();
        gap.subst(&|var| fixed.contains(var).then(|| hints.get(var).map(|hint| Sym::from(*hint))).flatten()).is_zero()
    };
    let choices = (0..1u32 << vars.len()).filter(|bits| fits(*bits));
    chosen(choices.min_by_key(|bits| bits.count_ones()).unwrap_or(u32::MAX)).collect()
}

/// The gap of an equation without the sizes that all of its terms have as factors, none of which can be 0: `24 * b == 3 * b * n` says that n
/// is 8.
fn without_common_sizes(gap: &Sym) -> Sym {
    let Some(((first, _), others)) = gap.terms().split_first().filter(|_| gap.constant() == 0) else { return gap.clone() };
    let is_common = |atom: &&Atom| atom.sym().is_positive() && others.iter().all(|(mono, _)| mono.contains(atom));
    let without = |common: &Atom| Some(gap.div(&common.sym())).filter(|rest| &(rest * &common.sym()) == gap);
    match first.iter().find(is_common).and_then(without) {
        Some(rest) => without_common_sizes(&rest),
        None => gap.clone(),
    }
}

/// By what models divide sizes: patches, strides, blocks.
const FACTORS: [i64; 16] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 64, 128];

/// These sizes as multiples, if they are now and nothing is left of the gap then.
fn multiples_of(factor: i64, sizes: &[Var], gap: &Sym, hints: &Hints) -> Option<Vec<Var>> {
    let multiple = |var: &Var| {
        let fits = hints.get(var).is_some_and(|hint| hint % factor == 0) && factor % var.divisor() == 0;
        fits.then(|| Var::size(var.id(), var.lo(), var.hi(), factor))
    };
    let known: Vec<Var> = sizes.iter().map(multiple).collect::<Option<_>>()?;
    let rest = gap.subst(&|var| known.iter().find(|other| *other == var).map(Sym::var));
    rest.is_zero().then_some(known)
}

/// `a >= least` with what is taken away on the other side, and the number beside what is not: `4 - n >= 0` as `4` and `n`.
fn apart(a: &Sym, least: i64) -> (Sym, Sym) {
    let atoms = |factors: &[Atom]| factors.iter().fold(Sym::ONE, |all, factor| &all * &factor.sym());
    let (mut larger, mut smaller) = (Sym::ZERO, Sym::ZERO);
    for (factors, times) in a.terms() {
        match *times > 0 {
            true => larger = &larger + &(&atoms(factors) * *times),
            false => smaller = &smaller + &(&atoms(factors) * times.saturating_neg()),
        }
    }
    let rest = least.saturating_sub(a.constant());
    match larger.is_zero() {
        true => (Sym::from(rest.saturating_neg()), smaller),
        false => (larger, &smaller + rest),
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Equal(a, b) => write!(f, "{a} == {b}"),
            Fact::Unequal(a, b) => write!(f, "{a} != {b}"),
            Fact::AtLeast(a, least) => {
                let (larger, smaller) = apart(a, *least);
                match larger.as_const() {
                    Some(most) => write!(f, "{smaller} <= {most}"),
                    None => write!(f, "{larger} >= {smaller}"),
                }
            }
        }
    }
}

/// A fact, and the user's line where it was relied on ("" if that is not known).
pub type Noted = (Fact, String);

/// What sizes were when the program ran.
pub type Hints = FxHashMap<Var, i64>;

struct Deciding {
    hints: Hints,
    facts: Vec<Noted>,
    location: String,
}

impl Deciding {
    fn hint(&self, sym: &Sym) -> Option<i64> {
        sym.eval(&|var| self.hints.get(var).copied())
    }

    fn note(&mut self, fact: Fact) {
        if !self.facts.iter().any(|(known, _)| *known == fact) {
            self.facts.push((fact, self.location.clone()));
        }
    }
}

thread_local! {
    static DECIDING: RefCell<Option<Deciding>> = const { RefCell::new(None) };
}

/// Puts back what was there, also if the work panics.
struct Restore(Option<Deciding>);

impl Drop for Restore {
    fn drop(&mut self) {
        DECIDING.with(|now| *now.borrow_mut() = self.0.take());
    }
}

/// Runs `f` with these hints; its value, and what was relied on.
pub fn at_hints<T>(hints: Hints, f: impl FnOnce() -> T) -> (T, Vec<Noted>) {
    let deciding = Deciding { hints, facts: Vec::new(), location: String::new() };
    let _restore = Restore(DECIDING.with(|now| now.borrow_mut().replace(deciding)));
    let value = f();
    let facts = DECIDING.with(|now| now.borrow_mut().as_mut().map(|deciding| std::mem::take(&mut deciding.facts)));
    (value, facts.unwrap_or_default())
}

fn decide<T>(f: impl FnOnce(&mut Deciding) -> Option<T>) -> Option<T> {
    DECIDING.with(|now| now.borrow_mut().as_mut().and_then(f))
}

/// The user's line of the facts that follow.
pub fn stand_at(location: &str) {
    decide(|deciding| {
        deciding.location = location.to_string();
        Some(())
    });
}

/// Whether two sizes differ, by their hints. None without hints.
pub(crate) fn differ_here(a: &Sym, b: &Sym) -> Option<bool> {
    decide(|deciding| {
        let same = deciding.hint(a)? == deciding.hint(b)?;
        let (a, b) = (a.clone(), b.clone());
        deciding.note(if same { Fact::Equal(a, b) } else { Fact::Unequal(a, b) });
        Some(!same)
    })
}

/// True if `sym >= 0` is certain, or is so at the hints, which is relied on then.
pub fn assured(sym: &Sym) -> bool {
    sym.is_nonneg()
        || decide(|deciding| {
            let holds = deciding.hint(sym)? >= 0;
            holds.then(|| deciding.note(Fact::AtLeast(sym.clone(), 0)))
        })
        .is_some()
}

/// Whether `a > b`: certainly, or at the hints. Either answer is relied on.
pub(crate) fn exceeds(a: &Sym, b: &Sym) -> bool {
    let gap = a - b;
    if gap.is_positive() || (-&gap).is_nonneg() {
        return gap.is_positive();
    }
    decide(|deciding| {
        let more = deciding.hint(&gap)? > 0;
        deciding.note(if more { Fact::AtLeast(gap.clone(), 1) } else { Fact::AtLeast(-&gap, 0) });
        Some(more)
    })
    .unwrap_or(false)
}

/// Whether a size is 1: certainly, or at the hints. Either answer is relied on.
pub fn is_one(size: &Sym) -> bool {
    match size.as_const() {
        Some(known) => known == 1,
        None => !(size - 1).is_positive() && differ_here(size, &Sym::ONE) == Some(false),
    }
}

/// What a size is at the hints, which is relied on. None without hints.
pub(crate) fn fixed(size: &Sym) -> Option<i64> {
    decide(|deciding| {
        let value = deciding.hint(size)?;
        deciding.note(Fact::Equal(size.clone(), Sym::from(value)));
        Some(value)
    })
}

/// How many steps of a size make up another, the last of them maybe shorter: by the hints, which is relied on as long as it is as many. None without
/// hints.
pub(crate) fn count(total: &Sym, step: &Sym) -> Option<i64> {
    let (all, each) =
        decide(|deciding| deciding.hint(total).zip(deciding.hint(step))).filter(|(all, each)| *all > 0 && *each > 0)?;
    let count = (all + each - 1) / each;
    let rest = total - &(step * (count - 1));
    (assured(&(&rest - 1)) && assured(&(step - &rest))).then_some(count)
}

/// What is left of a size where another one divides it. That is no quotient that one can write where both are several sizes: the factor that it is at the
/// hints then, or the number, so that the rest of the equation says what one of the sizes is.
pub(crate) fn left_of(total: &Sym, part: &Sym) -> Sym {
    let quotient = total.div(part);
    let exact = Fact::Equal(&quotient * part, total.clone());
    let now = |deciding: &mut Deciding| {
        let (all, each) = deciding.hint(total).zip(deciding.hint(part)).filter(|(all, each)| *all > 0 && *each > 0)?;
        let is_known = part.as_const().is_some() || exact.solved().is_some() || exact.multiples(&deciding.hints).is_some();
        if is_known || all % each != 0 {
            return None;
        }
        let factors = if let [(factors, _)] = total.terms() { factors.as_slice() } else { &[] };
        let left = Sym::from(all / each);
        Some(factors.iter().rev().map(Atom::sym).find(|factor| deciding.hint(factor) == left.as_const()).unwrap_or(left))
    };
    if &quotient * part == *total { quotient } else { decide(now).unwrap_or(quotient) }
}

/// The lesser of two sizes: the one that is so at the hints, where there are some.
pub(crate) fn lesser(a: &Sym, b: &Sym) -> Sym {
    let known = a.lesser(b);
    if known == *a || known == *b {
        return known;
    }
    // The second is not asked for where they are equal: one answer is enough.
    if assured(&(b - a)) {
        a.clone()
    } else if assured(&(a - b)) {
        b.clone()
    } else {
        known
    }
}

/// A shape that a tensor gets: none of its sizes is negative, and none is 0 that was not when the program ran.
pub fn rely_on_shape(shape: &[Sym]) {
    for size in shape.iter().filter(|size| !size.is_positive()) {
        decide(|deciding| {
            match deciding.hint(size)? {
                0 if size.is_zero() => {}
                0 => deciding.note(Fact::Equal(size.clone(), Sym::ZERO)),
                _ => deciding.note(Fact::AtLeast(size.clone(), 1)),
            }
            Some(())
        });
    }
}

/// Two sizes must be one for an operation to have a type.
pub(crate) fn undecided(a: &Sym, b: &Sym, what: impl Into<String>) -> OpError {
    match decide(|deciding| Some(deciding.hint(a)? == deciding.hint(b)?)) {
        Some(true) => OpError::Undecided(a.clone(), b.clone()),
        _ => OpError::unsupported(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> (Var, Var) {
        (Var::size(0, 2, i64::MAX, 1), Var::size(1, 2, i64::MAX, 1))
    }

    #[test]
    fn what_follows_is_no_fact() {
        let (a, _) = sizes();
        let (answer, facts) = at_hints(Hints::from_iter([(a.clone(), 5)]), || exceeds(&Sym::var(&a), &Sym::ONE));
        assert!(answer && facts.is_empty());
    }

    #[test]
    fn what_does_not_follow_is_decided_once() {
        let (a, b) = sizes();
        let hints = Hints::from_iter([(a.clone(), 5), (b.clone(), 7)]);
        let (a, b) = (Sym::var(&a), Sym::var(&b));
        let (answers, facts) = at_hints(hints, || [differ_here(&a, &b), differ_here(&a, &b), differ_here(&a, &Sym::from(5i64))]);
        assert_eq!(answers, [Some(true), Some(true), Some(false)]);
        let facts: Vec<Fact> = facts.into_iter().map(|(fact, _)| fact).collect();
        assert_eq!(facts, [Fact::Unequal(a.clone(), b.clone()), Fact::Equal(a.clone(), Sym::from(5i64))]);
        assert_eq!(differ_here(&a, &b), None);
    }

    #[test]
    fn equations_that_ask_for_multiples() {
        let (a, b) = sizes();
        let (x, y, two) = (Sym::var(&a), Sym::var(&b), Sym::from(2i64));
        let halves = Fact::Equal(&x.div(&two) * 2, x.clone());
        let hints = |x: i64, y: i64| Hints::from_iter([(a.clone(), x), (b.clone(), y)]);
        let found =
            |fact: &Fact, hints: &Hints| fact.multiples(hints).map(|vars| vars.iter().map(Var::divisor).collect::<Vec<_>>());
        assert_eq!(found(&halves, &hints(6, 3)), Some(vec![2]));
        assert_eq!(found(&halves, &hints(7, 3)), None);
        // A convolution with stride 2, twice, and its inverse.
        let half = |size: &Sym| &(size - 1).div(&two) + 1;
        assert_eq!(found(&Fact::Equal(&half(&half(&x)) * 2, half(&x)), &hints(8, 3)), Some(vec![4]));
        let area = Fact::Equal(&(&x.div(&two) * &y.div(&two)) * 4, &x * &y);
        assert_eq!(found(&area, &hints(4, 6)), Some(vec![2, 2]));
        assert_eq!(found(&Fact::Equal(x.div(&two), y), &hints(6, 3)), None);
    }

    #[test]
    fn how_large_one_variable_is_at_least() {
        let (a, b) = sizes();
        let (x, y) = (Sym::var(&a), Sym::var(&b));
        let least = |sum: Sym, least: i64| Fact::AtLeast(sum, least).least().map(|var| (var.id(), var.lo()));
        assert_eq!(least(x.clone(), 3), Some((a.id(), 3)));
        assert_eq!(least(&y - 4, 1), Some((b.id(), 5)));
        assert_eq!(least(&y + 4, 1), Some((b.id(), 2)));
        assert_eq!(least(&x + &y, 3), None);
        assert_eq!(least(&x * 2, 3), None);
        assert_eq!(Fact::Unequal(x, Sym::ONE).least(), None);
    }

    #[test]
    fn how_large_sizes_are_is_told_without_signs() {
        let (a, b) = sizes();
        let (x, y) = (Sym::var(&a), Sym::var(&b));
        let told = |sum: Sym, least: i64| Fact::AtLeast(sum, least).to_string();
        assert_eq!(told(&-&x + 4, 0), "s0 <= 4");
        assert_eq!(told(&x - 4, 1), "s0 >= 5");
        assert_eq!(told(&(&y * 2) - &x, 1), "2*s1 >= s0 + 1");
        assert_eq!(told(&-&(&x * &y) + 9, 2), "s0*s1 <= 7");
    }

    #[test]
    fn what_is_left_of_a_size() {
        let (a, b) = sizes();
        let (c, d) = (Var::size(2, 2, i64::MAX, 1), Var::size(3, 2, i64::MAX, 1));
        let [x, y, rows, width] = [&a, &b, &c, &d].map(Sym::var);
        let hints = Hints::from_iter([(a, 4), (b, 5), (c, 20), (d, 8)]);
        let left = |total: &Sym, part: &Sym| at_hints(hints.clone(), || left_of(total, part)).0;
        assert_eq!(left(&(&rows * 3), &(&x * &y)), Sym::from(3i64));
        assert_eq!(left(&(&rows * &width), &(&x * &y)), width);
        assert_eq!(left(&(&rows * &width), &rows), width);
        assert_eq!(left(&rows, &Sym::from(2i64)), rows.div(&Sym::from(2i64)));
        assert_eq!(left(&(&rows + 1), &(&x * &y)), (&rows + 1).div(&(&x * &y)));
    }

    #[test]
    fn a_minimum_is_one_of_two() {
        let (a, _) = sizes();
        let (x, eight) = (Sym::var(&a), Sym::from(8i64));
        let order = |fact: Fact, now: i64| fact.order(&Hints::from_iter([(a.clone(), now)])).map(|order| order.to_string());
        assert_eq!(order(Fact::Equal(x.lesser(&eight), x.clone()), 5).as_deref(), Some("s0 <= 8"));
        assert_eq!(order(Fact::Equal(&(&x - 3).greater(&eight) * 2, &x * 2), 20).as_deref(), Some("s0 >= 11"));
        assert_eq!(order(Fact::Equal(&x * 2, eight.clone()), 4), None);
        assert_eq!(Fact::AtLeast(&-&x + 8, 0).most().map(|var| (var.lo(), var.hi())), Some((2, 8)));
        assert_eq!(Fact::AtLeast(&x - 8, 0).most(), None);
    }

    #[test]
    fn equations_are_solved_for_one_variable() {
        let (a, b) = sizes();
        let (x, y) = (Sym::var(&a), Sym::var(&b));
        assert_eq!(Fact::Equal(x.clone(), y.clone()).solved(), Some((b.clone(), x.clone())));
        assert_eq!(Fact::Equal(&x * 4, Sym::from(64i64)).solved(), Some((a.clone(), Sym::from(16i64))));
        assert_eq!(Fact::Equal(&x * 2, &y * 3).solved(), None);
        assert_eq!(Fact::Equal(&x * 24, &(&x * &y) * 3).solved(), Some((b.clone(), Sym::from(8i64))));
        assert_eq!(Fact::Equal(&x * &x, &x * &y).solved(), Some((b.clone(), x.clone())));
        assert_eq!(Fact::Equal(&x + 1, &y * 3).solved(), Some((a.clone(), &(&y * 3) - 1)));
        assert_eq!(Fact::Unequal(x.clone(), y.clone()).solved(), None);
        let batch = Sym::var(&Var::size(2, 1, i64::MAX, 1));
        assert_eq!(Fact::Equal(&batch * &x, &(&batch * &y) * &y).solved(), Some((a.clone(), &y * &y)));
        assert_eq!(Fact::Equal(&x * 3, &(&y * &y) * 3).solved(), Some((a.clone(), &y * &y)));
        // Blocks of 4, as many as there are.
        let blocks = (&y + 3).div(&Sym::from(4i64));
        assert_eq!(Fact::Equal(&(&blocks * &x) * 4, &blocks * 32).solved(), Some((a, Sym::from(8i64))));
    }

    #[test]
    fn as_few_sizes_are_fixed_as_an_equation_needs() {
        let (a, b) = sizes();
        let batch = Var::size(2, 1, i64::MAX, 1);
        let (x, y, z) = (Sym::var(&a), Sym::var(&b), Sym::var(&batch));
        let hints = Hints::from_iter([(a.clone(), 9), (b.clone(), 8), (batch.clone(), 2)]);
        let knots = |left: Sym, right: Sym| Fact::Equal(left, right).knots(&hints).into_iter().collect::<Vec<_>>();
        let area = &x * &(&x + 1);
        assert_eq!(knots(&z * &area, &area * 2), std::slice::from_ref(&batch));
        assert_eq!(knots(&(&z * &x) * &y, &x * 16), [b, batch]);
    }
}
