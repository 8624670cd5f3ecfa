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
        if let (Some(a), Some(b)) = (self.as_const(), by.as_const())
            && b != 0
        {
            return Sym::from(floor_div(a, b));
        }
        let (q, r) = self.split_by(by);
        if r.lies_below(by) {
            return q;
        }
        if let Some((u, b)) = r.drop_low_part(by) {
            return &q + &u.div(&b);
        }
        if let (Some((inner, b1)), Some(b2)) = (r.as_single_div(), by.as_const())
            && b2 > 0
        {
            return &q + &inner.div(&(b1 * b2));
        }
        &q + &Sym::from_atom(Atom::Div(Arc::new((r, by.clone()))))
    }

    /// `self - by * floor(self / by)`.
    pub fn rem(&self, by: &Sym) -> Sym {
        if by.is_one() {
            return Sym::ZERO;
        }
        if let (Some(a), Some(b)) = (self.as_const(), by.as_const())
            && b != 0
        {
            return Sym::from(a - b * floor_div(a, b));
        }
        let (_, r) = self.split_by(by);
        if r.lies_below(by) {
            return r;
        }
        if let Some((g, u, v)) = r.split_low_part(by) {
            let b = Sym::from(by.constant() / g);
            return &(&u.rem(&b) * g) + &v;
        }
        if let Some(inner) = r.as_rem_by_multiple_of(by) {
            return inner.rem(by);
        }
        Sym::from_atom(Atom::Mod(Arc::new((r, by.clone()))))
    }

    /// `(q, r)` with `self == by*q + r`; `q` takes every term that `by` divides exactly.
    fn split_by(&self, by: &Sym) -> (Sym, Sym) {
        let (bm, bc) = match (by.as_const(), by.terms()) {
            (Some(c), _) if c != 0 => (Monomial::new(), c),
            (None, [(mono, c)]) if by.constant() == 0 => (mono.clone(), *c),
            _ => return if self == by { (Sym::ONE, Sym::ZERO) } else { (Sym::ZERO, self.clone()) },
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

    /// For `self = g*u + v` with `g | by` and `0 <= v < g`: `(u, by/g)`, since `self // by == u // (by/g)`.
    fn drop_low_part(&self, by: &Sym) -> Option<(Sym, Sym)> {
        let (g, u, _) = self.split_low_part(by)?;
        Some((u, Sym::from(by.constant() / g)))
    }

    fn split_low_part(&self, by: &Sym) -> Option<(i64, Sym, Sym)> {
        let b = by.as_const().filter(|b| *b > 1)?;
        let mut candidates: Vec<i64> = self.terms().iter().map(|(_, c)| gcd(*c, b)).filter(|g| *g > 1 && *g < b).collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates.into_iter().rev().find_map(|g| {
            let (u, v) = self.split_by(&Sym::from(g));
            (!u.terms().is_empty() && v.lies_below(&Sym::from(g))).then_some((g, u, v))
        })
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

    /// `x` if self is `x % c` and `by` divides `c`.
    fn as_rem_by_multiple_of(&self, by: &Sym) -> Option<&Sym> {
        match self.terms() {
            [(mono, 1)] if self.constant() == 0 => match mono.as_slice() {
                [Atom::Mod(p)] if p.1.split_by(by).1.is_zero() => Some(&p.0),
                _ => None,
            },
            _ => None,
        }
    }
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
