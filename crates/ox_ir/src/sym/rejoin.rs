//! `n*(x // n) + x % n` is `x`: what a split and a join of one dimension leave behind. So is `n*(x // n)` alone, where `x` is
//! known to be a multiple of `n`. And of two of the three the third is made: `x - x % n`, to which a program cuts, is `n*(x // n)`,
//! a multiple of `n`, as is `x + -x % n`, to which it pads; `x - n*(x // n)` is `x % n`, which lies in `0..n`.

use super::divide::split_at;
use super::{Atom, Monomial, Sym};

impl Sym {
    /// Puts split positions together again, wherever both halves stand in the sum with fitting factors.
    pub(super) fn rejoined(self) -> Sym {
        let is_part = |a: &Atom| matches!(a, Atom::Mod(_) | Atom::Div(_));
        if !self.terms().iter().any(|(mono, _)| mono.iter().any(is_part)) {
            return self;
        }
        // Halves are two terms at least.
        let has_halves = self.terms().len() > 1;
        let joined = |(mono, c): &(Monomial, i64)| {
            let whole = has_halves.then(|| self.rejoin_term(mono, *c)).flatten();
            let whole = whole.or_else(|| self.undo_exact_division(mono, *c));
            let whole = whole.or_else(|| has_halves.then(|| self.counted_in_parts(mono, *c)).flatten());
            whole.or_else(|| has_halves.then(|| self.third_of(mono, *c)).flatten())
        };
        match self.terms().iter().find_map(joined) {
            Some(joined) => joined,
            None => self,
        }
    }

    /// The sum with the term `c * n * rest * (x // n)` replaced by `c * rest * x`, where `n` divides `x`.
    fn undo_exact_division(&self, mono: &Monomial, c: i64) -> Option<Sym> {
        let exact = |a: &Atom| match a {
            Atom::Div(p) => p.1.as_const().is_some_and(|n| n != 0 && c % n == 0 && p.0.is_multiple_of(n)),
            _ => false,
        };
        let at = mono.iter().position(exact)?;
        let Atom::Div(p) = &mono[at] else { return None };
        let rest = mono.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, a)| Sym::from_atom(a.clone()));
        let term = rest.fold(&p.0 * (c / p.1.constant()), |acc, atom| &acc * &atom);
        let others = self.terms().iter().filter(|(m, _)| m != mono).cloned().collect();
        Some(&Sym::from_terms(others, self.constant()) + &term)
    }

    /// The sum with `a * rest * x + c * rest * (x // n)` replaced by `(a * n + c) * rest * (x // n)`, where `n` divides the variable x: half of it and
    /// what is left without that half are the same.
    fn counted_in_parts(&self, mono: &Monomial, c: i64) -> Option<Sym> {
        let exact = |a: &Atom| matches!(a, Atom::Div(p) if p.1.as_const().is_some_and(|n| n > 1 && p.0.is_multiple_of(n)));
        let at = mono.iter().position(exact)?;
        let Atom::Div(p) = &mono[at] else { return None };
        let mut whole = mono.clone();
        whole[at] = Atom::Var(p.0.as_var()?.clone());
        whole.sort();
        let (_, a) = self.terms().iter().find(|(m, _)| *m == whole)?;
        let times = a.checked_mul(p.1.constant())?.checked_add(c)?;
        let others = self.terms().iter().filter(|(m, _)| m != mono && *m != whole).cloned().collect();
        Some(&Sym::from_terms(others, self.constant()) + &Sym::from_terms(vec![(mono.clone(), times)], 0))
    }

    /// The sum with the term `c * rest * (x % n)` and its other half `c * rest * n * (x // n)` replaced by `c * rest * x`.
    fn rejoin_term(&self, mono: &Monomial, c: i64) -> Option<Sym> {
        let (rest, Atom::Mod(p)) = split_at(mono, c, |atom| matches!(atom, Atom::Mod(_)))? else { return None };
        let (x, n) = (&p.0, &p.1);
        let quotient = &(&rest * n) * &x.div(n);
        let [(half, factor)] = quotient.terms() else { return None };
        let present = self.terms().iter().any(|(m, f)| m == half && f == factor) && quotient.constant() == 0;
        present.then(|| {
            let others = self.terms().iter().filter(|(m, _)| m != half && m != mono).cloned().collect();
            &Sym::from_terms(others, self.constant()) + &(&rest * x)
        })
    }

    /// The sum with `rest * (x % n) - rest * x` replaced by `-rest * n * (x // n)`, or with `rest * n * (x // n) - rest * x` by
    /// `-rest * (x % n)`, for a constant n; all terms of `rest * x` must be there. Each leaves fewer terms.
    fn third_of(&self, mono: &Monomial, c: i64) -> Option<Sym> {
        let is_part = |atom: &Atom| matches!(atom, Atom::Mod(p) | Atom::Div(p) if p.1.as_const().is_some_and(|n| n > 1));
        let (rest, atom) = split_at(mono, c, is_part)?;
        let (rest, x, n) = match atom {
            Atom::Div(p) if c % p.1.constant() == 0 => (split_at(mono, c / p.1.constant(), is_part)?.0, &p.0, &p.1),
            Atom::Mod(p) => (rest, &p.0, &p.1),
            _ => return None,
        };
        let whole = &rest * x;
        let cancels = |(m, f): &(Monomial, i64)| self.terms().iter().any(|(own, c)| own == m && *c == f.saturating_neg());
        if !whole.terms().iter().all(cancels) {
            return None;
        }
        let third = if matches!(atom, Atom::Mod(_)) { &(&rest * n) * &x.div(n) } else { &rest * &x.rem(n) };
        let others = || self - &Sym::from_term(mono.clone(), c);
        (third.terms().len() == 1).then(|| &(&others() + &whole) - &third)
    }
}

#[cfg(test)]
mod tests {
    use crate::sym::{Sym, Var};

    fn axis(id: u32, extent: i64) -> Sym {
        Sym::var(&Var::axis(id, Sym::from(extent)))
    }

    #[test]
    fn a_split_dimension_is_whole_again() {
        let x = axis(0, 96);
        let n = Sym::from(8i64);
        assert_eq!(&(&x.div(&n) * 24) + &(&x.rem(&n) * 3), &x * 3);
    }

    #[test]
    fn a_dimension_split_in_three_is_whole_again() {
        let x = axis(0, 96);
        let (outer, inner) = (x.div(&Sym::from(8i64)), x.rem(&Sym::from(8i64)));
        let (a, b) = (outer.div(&Sym::from(4i64)), outer.rem(&Sym::from(4i64)));
        assert_eq!(&(&(&a * 32) + &(&b * 8)) + &inner, x);
    }

    #[test]
    fn symbolic_splits_too() {
        let s = Sym::var(&Var::size(0, 2, i64::MAX, 1));
        let x = Sym::var(&Var::axis(0, &s * 4));
        assert_eq!(&(&s * &x.div(&s)) + &x.rem(&s), x);
    }

    #[test]
    fn what_is_left_without_a_part_is_counted_in_parts() {
        let (n, b) = (Sym::var(&Var::size(0, 1, 1000, 6)), Sym::var(&Var::size(1, 1, 1000, 1)));
        let third = n.div(&Sym::from(3i64));
        assert_eq!(&n - &third, &third * 2);
        assert_eq!(&(&n - &third) + &third, n);
        assert_eq!(&(&n * 2) - &third, &third * 5);
        assert_eq!(&(&b * &n) - &(&b * &third), &(&b * &third) * 2);
        assert_eq!(&(&n - &third) - &third, third);
        // Of another it is not known.
        assert_ne!(&b - &b.div(&Sym::from(2i64)), b.div(&Sym::from(2i64)));
    }

    #[test]
    fn exact_divisions_are_undone() {
        let s = Sym::var(&Var::size(0, 8, i64::MAX, 8));
        assert_eq!(&s.div(&Sym::from(8i64)) * 8, s);
        assert_eq!(&s.div(&Sym::from(4i64)) * 8, &s * 2);
        assert_ne!(&s.div(&Sym::from(16i64)) * 16, s);
    }

    #[test]
    fn what_is_cut_or_padded_is_a_multiple() {
        let s = Sym::var(&Var::size(0, 1, i64::MAX, 1));
        let n = Sym::from(4i64);
        let (cut, padded) = (&s - &s.rem(&n), &s + &(-&s).rem(&n));
        assert_eq!(cut, &s.div(&n) * 4);
        assert_eq!(padded, &s.div_ceil(&n) * 4);
        assert_eq!(padded, &(&s + 3).div(&n) * 4);
        assert_eq!((&n - &s.rem(&n)).rem(&n), (-&s).rem(&n));
        assert!(padded.is_multiple_of(4) && padded.is_positive() && (&padded - &s).is_nonneg() && (&s - &cut).is_nonneg());
        assert_eq!((&s - &cut).bounds(), (0, 3));
        assert_eq!(&(&s + &n) - &s.rem(&n), &(&s.div(&n) * 4) + 4);
        assert!((&(&(&s * 2) - &s.rem(&n)) - &(&s + &cut)).is_zero());
    }

    #[test]
    fn other_factors_stay() {
        let x = axis(0, 96);
        let n = Sym::from(8i64);
        let e = &(&x.div(&n) * 25) + &(&x.rem(&n) * 3);
        assert_ne!(e, &x * 3);
    }
}
