//! Floor division and remainder, simplified as far as the facts allow.
//!
//! Everything rests on one split: `a = b*q + r`, where `q` takes the terms that `b` divides. Then `a // b = q + r // b` and
//! `a % b = r % b`, whatever `r` is; and where `0 <= r < b` is proved nothing is left of the division.

use super::atom::{Atom, floor_div};
use super::{Monomial, Sym};
use std::sync::Arc;

impl Sym {
    /// `floor(self / by)`.
    pub fn div(&self, by: &Sym) -> Sym {
        if by.is_one() {
            return self.clone();
        }
        let (q, r) = self.split_by(by);
        if let (Some(a), Some(b)) = (r.as_const(), by.as_const())
            && b != 0
        {
            return &q + floor_div(a, b);
        }
        if r.is_zero() || r.lies_below(by) {
            return q;
        }
        if let Some(low) = r.split_low_part(by) {
            return &q + &low.high.div(&low.by);
        }
        if let Some((exact, rest)) = r.split_known_multiples(by) {
            return &(&q + &exact.div(by)) + &rest.div(by);
        }
        if let (Some((inner, b1)), Some(b2)) = (r.as_single_div(), by.as_const())
            && b2 > 0
        {
            return &q + &inner.div(&(b1 * b2));
        }
        if let Some(parts) = r.exact_parts(by) {
            return &q + &parts;
        }
        if let Some((whole, parts)) = by.as_exact_part() {
            return &q + &(&r * parts).div(&whole);
        }
        if let Some((mirrored, _)) = r.mirrored(by) {
            return &q - &mirrored.div(by);
        }
        &q + &Sym::from_atom(Atom::Div(Arc::new((r, by.clone()))))
    }

    /// A variable that is a multiple of more than `by`, divided: `s // 2` is `4 * (s // 8)` where s is a multiple of 8, so that all its exact
    /// quotients are multiples of one.
    fn exact_parts(&self, by: &Sym) -> Option<Sym> {
        let (divisor, by) = (self.as_var()?.divisor(), by.as_const().filter(|by| *by > 0)?);
        let is_exact = divisor > by && divisor % by == 0;
        let parts = || Sym::from_atom(Atom::Div(Arc::new((self.clone(), Sym::from(divisor)))));
        is_exact.then(|| &parts() * (divisor / by))
    }

    /// `3 * (s // 4)` as `3 * s` and 4, where s is a multiple of 4.
    fn as_exact_part(&self) -> Option<(Sym, i64)> {
        let [(mono, times)] = self.terms() else { return None };
        let [Atom::Div(part)] = mono.as_slice() else { return None };
        let (var, by) = (part.0.as_var()?, part.1.as_const().filter(|by| *by > 0)?);
        let is_exact = self.constant() == 0 && var.divisor() % by == 0;
        is_exact.then(|| (&part.0 * *times, by))
    }

    /// `self - by * floor(self / by)`.
    pub fn rem(&self, by: &Sym) -> Sym {
        if by.is_one() {
            return Sym::ZERO;
        }
        let (_, r) = self.split_by(by);
        if let (Some(a), Some(b)) = (r.as_const(), by.as_const())
            && b != 0
        {
            return Sym::from(a - b * floor_div(a, b));
        }
        if r.is_zero() || r.lies_below(by) {
            return r;
        }
        if let Some(low) = r.split_low_part(by) {
            return &(&low.high.rem(&low.by) * &low.unit) + &low.rest;
        }
        if by.as_const().is_some_and(|b| b != 0 && r.is_multiple_of(b)) {
            return Sym::ZERO;
        }
        if let Some((_, rest)) = r.split_known_multiples(by) {
            return rest.rem(by);
        }
        if let Some(plain) = r.without_inner_rem(by) {
            return plain.rem(by);
        }
        if let Some((mirrored, most)) = r.mirrored(by) {
            return &Sym::from(most) - &mirrored.rem(by);
        }
        if let Some((whole, parts)) = by.as_exact_part()
            && (&r * parts).rem(&whole).is_zero()
        {
            return Sym::ZERO;
        }
        Sym::from_atom(Atom::Mod(Arc::new((r, by.clone()))))
    }

    /// `(q, r)` with `self == by*q + r`; `q` takes every term that `by` divides exactly.
    fn split_by(&self, by: &Sym) -> (Sym, Sym) {
        let (bm, bc) = match (by.as_const(), by.terms()) {
            (Some(0), _) => return (Sym::ZERO, self.clone()),
            (Some(c), _) => (Monomial::new(), c),
            (None, [(mono, c)]) if by.constant() == 0 => (mono.clone(), *c),
            _ => return self.split_by_sum(by).unwrap_or_else(|| (Sym::ZERO, self.clone())),
        };
        let (mut q, mut r) = (Vec::new(), Vec::new());
        let (mut qc, mut rc) = (0, self.constant());
        if bm.is_empty() {
            qc = floor_div(self.constant(), bc);
            rc = self.constant() - qc * bc;
        }
        for (mono, c) in self.terms() {
            match remove_factors(mono, &bm) {
                Some(rest) if c % bc == 0 && rest.is_empty() => qc += c / bc,
                Some(rest) if c % bc == 0 => q.push((rest, c / bc)),
                _ => r.push((mono.clone(), *c)),
            }
        }
        (Sym::from_terms(q, qc), Sym::from_terms(r, rc))
    }

    /// The split by a sum such as `s0 + 1`: polynomial division by its term of highest degree. Only a remainder that is zero or
    /// lies in `0..by` is worth having; any other would only hide what was there.
    fn split_by_sum(&self, by: &Sym) -> Option<(Sym, Sym)> {
        let (lead, lead_coeff) = by.terms().iter().max_by_key(|(mono, _)| mono.len())?;
        let (mut q, mut r) = (Sym::ZERO, self.clone());
        // Each step removes one term of a finite polynomial by terms of no higher degree; the bound is against going in circles.
        for _ in 0..16 {
            if r.is_zero() || r.lies_below(by) {
                return Some((q, r));
            }
            let above = &r + by;
            if above.lies_below(by) {
                return Some((&q - 1, above));
            }
            let step = r.terms().iter().find_map(|(mono, c)| {
                let rest = remove_factors(mono, lead).filter(|_| c % lead_coeff == 0)?;
                let factor = c / lead_coeff;
                Some(Sym::from_term(rest, factor))
            })?;
            r = &r - &(&step * by);
            q = &q + &step;
        }
        None
    }

    /// For a single-term `by = unit * by'` and `self = unit * high + rest` with `0 <= rest < unit`, so that
    /// `self // by == high // by'` and `self % by == unit * (high % by') + rest`. Not where `by'` may be negative: there a rest rounds the
    /// other way.
    fn split_low_part(&self, by: &Sym) -> Option<LowPart> {
        let (bm, bc) = match (by.as_const(), by.terms()) {
            (Some(c), _) if c > 1 => (Monomial::new(), c),
            (None, [(mono, c)]) if by.constant() == 0 => (mono.clone(), *c),
            _ => return None,
        };
        let mut units: Vec<(Monomial, i64)> = self.terms().iter().map(|(mono, c)| (common(mono, &bm), gcd(*c, bc))).collect();
        units.sort_by(|a, b| (b.0.len(), b.1, &b.0).cmp(&(a.0.len(), a.1, &a.0)));
        units.dedup();
        units.into_iter().find_map(|(mono, c)| {
            let unit = Sym::from_term(mono, c);
            if unit.is_one() || unit == *by {
                return None;
            }
            let (high, rest) = self.split_by(&unit);
            let by = by.split_by(&unit).0;
            (by.is_nonneg() && rest.lies_below(&unit)).then_some(LowPart { unit, high, rest, by })
        })
    }

    /// `(e, r)` with `self == e + r`, neither zero, where each term of `e` is known to be a multiple of the constant `by`.
    fn split_known_multiples(&self, by: &Sym) -> Option<(Sym, Sym)> {
        let b = by.as_const().filter(|b| *b != 0)?;
        let term = |(mono, c): &(Monomial, i64)| Sym::from_term(mono.clone(), *c);
        let exact: Sym = self.terms().iter().map(term).find(|t| t.is_multiple_of(b))?;
        let rest = self - &exact;
        (!rest.is_zero()).then_some((exact, rest))
    }

    /// Proves `0 <= self < by`.
    fn lies_below(&self, by: &Sym) -> bool {
        self.is_nonneg() && (&(by - self) - 1).is_nonneg()
    }

    fn as_single_div(&self) -> Option<(&Sym, &Sym)> {
        match self.terms() {
            [(mono, 1)] if self.constant() == 0 => match mono.as_slice() {
                [Atom::Div(p)] if p.1.as_const().is_some_and(|c| c > 0) => Some((&p.0, &p.1)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The sum with a term `c * (x % m)` as `c * x`, where `by` divides `c * m`: the remainder by `by` is the same.
    fn without_inner_rem(&self, by: &Sym) -> Option<Sym> {
        self.terms().iter().find_map(|(mono, c)| {
            let (rest, atom) = split_at(mono, *c, |atom| matches!(atom, Atom::Mod(_)))?;
            let Atom::Mod(p) = atom else { return None };
            let others = || self - &Sym::from_term(mono.clone(), *c);
            (&rest * &p.1).split_by(by).1.is_zero().then(|| &others() + &(&rest * &p.0))
        })
    }

    /// `(m, n - 1)` where `m = n - 1 - self`, for sizes that a constant n divides and that begin with a minus: `self // n` is `-(m // n)` and
    /// `self % n` is `n - 1 - m % n`. So `-(-s // 4)` and `(s + 3) // 4` are one. The indices of kernels stay as they were written.
    fn mirrored(&self, by: &Sym) -> Option<(Sym, i64)> {
        let most = by.as_const().filter(|by| *by > 1)? - 1;
        let begins_negative = self.terms().first().is_some_and(|(_, c)| *c < 0);
        let is_of_sizes = begins_negative && !self.any_var(&mut |var| var.extent().is_some());
        is_of_sizes.then(|| (&Sym::from(most) - self, most))
    }
}

/// What `split_low_part` finds.
struct LowPart {
    unit: Sym,
    high: Sym,
    rest: Sym,
    by: Sym,
}

/// The atoms that two monomials have in common.
fn common(a: &Monomial, b: &Monomial) -> Monomial {
    let mut rest = b.clone();
    let taken = a.iter().filter(|atom| {
        let at = rest.iter().position(|other| other == *atom);
        at.map(|at| rest.remove(at)).is_some()
    });
    taken.cloned().collect()
}

/// A term without its first factor of a kind, and that factor.
pub(super) fn split_at(mono: &Monomial, c: i64, kind: impl Fn(&Atom) -> bool) -> Option<(Sym, &Atom)> {
    let at = mono.iter().position(kind)?;
    let others: Monomial = mono.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, atom)| atom.clone()).collect();
    Some((Sym::from_term(others, c), &mono[at]))
}

/// The monomial without `factors`, if it has them all.
fn remove_factors(mono: &Monomial, factors: &Monomial) -> Option<Monomial> {
    let mut rest = mono.clone();
    for f in factors {
        let at = rest.iter().position(|a| a == f)?;
        rest.remove(at);
    }
    Some(rest)
}

pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.unsigned_abs() as i64 } else { gcd(b, a % b) }
}
