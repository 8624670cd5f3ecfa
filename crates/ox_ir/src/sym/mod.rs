//! `Sym`: an integer expression over sizes and loop indices, kept in one canonical form.
//!
//! A Sym is a polynomial with integer coefficients whose indeterminates ("atoms") are variables, or floor divisions,
//! remainders, minima and maxima of Syms. Because the form is canonical, equal polynomials are equal values, and questions like
//! "is this index linear in that axis" are look-ups. Every variable carries what is known of it (an interval, a
//! divisor, for a loop axis its extent), so that simplification needs no context.
//!
//! `/` and `%` are floor division and the remainder of the divisor's sign, as in Python.

mod atom;
mod divide;
mod prove;
mod rejoin;
mod terms;
mod text;

use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

pub use atom::{Atom, Var, VarKind};
use terms::Terms;
pub use text::parse_sym;
pub(crate) use text::parse_sym_at;

/// A product of atoms, sorted. Empty only inside arithmetic, never in a stored term.
pub type Monomial = SmallVec<[Atom; 2]>;

/// `constant`, and what is added to it; equal sums share what they are made of where one was made from the other.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sym {
    terms: Option<Arc<Terms>>,
    constant: i64,
}

impl Sym {
    pub const ZERO: Sym = Sym { terms: None, constant: 0 };
    pub const ONE: Sym = Sym { terms: None, constant: 1 };

    pub fn var(var: &Var) -> Sym {
        Sym::from_atom(Atom::Var(var.clone()))
    }

    fn from_atom(atom: Atom) -> Sym {
        Sym::from_term(Monomial::from_iter([atom]), 1)
    }

    /// A product; of no atoms it is the factor.
    fn from_term(mono: Monomial, factor: i64) -> Sym {
        if mono.is_empty() { Sym::from(factor) } else { Sym::from_canonical(vec![(mono, factor)], 0) }
    }

    fn from_terms(mut terms: Vec<(Monomial, i64)>, constant: i64) -> Sym {
        terms.sort_by(|a, b| a.0.cmp(&b.0));
        let mut merged: Vec<(Monomial, i64)> = Vec::with_capacity(terms.len());
        for (mono, coeff) in terms {
            match merged.last_mut() {
                Some((last, sum)) if *last == mono => *sum = sum.saturating_add(coeff),
                _ => merged.push((mono, coeff)),
            }
        }
        Sym::from_canonical(merged, constant)
    }

    /// Of terms in order, no two of the same atoms.
    fn from_canonical(mut terms: Vec<(Monomial, i64)>, constant: i64) -> Sym {
        terms.retain(|(_, coeff)| *coeff != 0);
        Sym { terms: (!terms.is_empty()).then(|| Arc::new(Terms::new(terms))), constant }
    }

    pub fn as_const(&self) -> Option<i64> {
        self.terms.is_none().then_some(self.constant)
    }

    pub fn is_const(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }

    pub fn is_zero(&self) -> bool {
        self.is_const(0)
    }

    pub fn is_one(&self) -> bool {
        self.is_const(1)
    }

    /// The terms that are not constant, each a monomial with its coefficient.
    pub fn terms(&self) -> &[(Monomial, i64)] {
        self.terms.as_ref().map_or(&[], |terms| terms.as_slice())
    }

    /// The constant term.
    pub fn constant(&self) -> i64 {
        self.constant
    }

    /// The variable that this expression is, if it is nothing but one.
    pub fn as_var(&self) -> Option<&Var> {
        match self.terms() {
            [(mono, 1)] if self.constant() == 0 => match mono.as_slice() {
                [Atom::Var(v)] => Some(v),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn lesser(&self, other: &Sym) -> Sym {
        if (other - self).is_nonneg() {
            return self.clone();
        }
        if (self - other).is_nonneg() {
            return other.clone();
        }
        let (a, b) = sorted(self, other);
        Sym::from_atom(Atom::Min(Arc::new((a, b))))
    }

    pub fn greater(&self, other: &Sym) -> Sym {
        if (other - self).is_nonneg() {
            return other.clone();
        }
        if (self - other).is_nonneg() {
            return self.clone();
        }
        let (a, b) = sorted(self, other);
        Sym::from_atom(Atom::Max(Arc::new((a, b))))
    }

    /// Ceiling division.
    pub fn div_ceil(&self, by: &Sym) -> Sym {
        -&(-self).div(by)
    }

    /// All variables, in order, without repetition.
    pub fn vars(&self) -> BTreeSet<Var> {
        let mut out = BTreeSet::new();
        self.any_var(&mut |var| {
            out.insert(var.clone());
            false
        });
        out
    }

    /// Whether something is true of one of its variables. They are asked until it is.
    pub fn any_var(&self, f: &mut dyn FnMut(&Var) -> bool) -> bool {
        self.terms().iter().flat_map(|(mono, _)| mono).any(|atom| atom.any_var(f))
    }

    pub fn contains(&self, var: &Var) -> bool {
        self.any_var(&mut |other| other == var)
    }

    /// The factor of `var` if the expression is linear in it (zero if it does not occur), else None.
    pub fn coeff(&self, var: &Var) -> Option<Sym> {
        let mut factor = Vec::new();
        let mut constant = 0i64;
        for (mono, c) in self.terms() {
            let hits = mono.iter().filter(|a| matches!(a, Atom::Var(v) if v == var)).count();
            let rest: Monomial = mono.iter().filter(|a| !matches!(a, Atom::Var(v) if v == var)).cloned().collect();
            if rest.iter().any(|a| a.mentions(var)) || hits > 1 {
                return None;
            }
            match (hits, rest.is_empty()) {
                (0, _) => {}
                (_, true) => constant = *c,
                (_, false) => factor.push((rest, *c)),
            }
        }
        Some(Sym::from_terms(factor, constant))
    }

    /// Replaces variables, simplifying on the way.
    pub fn subst(&self, f: &dyn Fn(&Var) -> Option<Sym>) -> Sym {
        let mut out = Sym::from(self.constant());
        for (mono, c) in self.terms() {
            let mut term = Sym::from(*c);
            for atom in mono {
                term = &term * &atom.subst(f);
            }
            out = &out + &term;
        }
        out
    }

    /// The value under an assignment; None if a variable has none or a divisor is zero.
    pub fn eval(&self, f: &dyn Fn(&Var) -> Option<i64>) -> Option<i64> {
        let mut out = self.constant();
        for (mono, c) in self.terms() {
            let mut term = *c;
            for atom in mono {
                term = term.checked_mul(atom.eval(f)?)?;
            }
            out = out.checked_add(term)?;
        }
        Some(out)
    }
}

fn sorted(a: &Sym, b: &Sym) -> (Sym, Sym) {
    if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) }
}

impl From<i64> for Sym {
    fn from(constant: i64) -> Sym {
        Sym { terms: None, constant }
    }
}

impl From<usize> for Sym {
    fn from(value: usize) -> Sym {
        Sym::from(value as i64)
    }
}

impl<'a> Add<&'a Sym> for &'a Sym {
    type Output = Sym;
    fn add(self, other: &Sym) -> Sym {
        let constant = self.constant.saturating_add(other.constant);
        // What stands apart from the constant does not depend on it: there is nothing to simplify.
        match (&self.terms, &other.terms) {
            (None, terms) | (terms, None) => Sym { terms: terms.clone(), constant },
            (Some(a), Some(b)) => Sym::from_canonical(a.merged(b), constant).rejoined(),
        }
    }
}

impl<'a> Sub<&'a Sym> for &'a Sym {
    type Output = Sym;
    fn sub(self, other: &Sym) -> Sym {
        self + &-other
    }
}

impl Neg for &Sym {
    type Output = Sym;
    fn neg(self) -> Sym {
        self.scaled(-1)
    }
}

impl<'a> Mul<&'a Sym> for &'a Sym {
    type Output = Sym;
    fn mul(self, other: &Sym) -> Sym {
        let (ca, cb) = (self.constant, other.constant);
        let (a, b) = match (&self.terms, &other.terms) {
            (None, None) => return Sym::from(ca.saturating_mul(cb)),
            (None, Some(_)) => return other.times(ca),
            (Some(_), None) => return self.times(cb),
            (Some(a), Some(b)) => (a.as_slice(), b.as_slice()),
        };
        if let ([(ma, a)], [(mb, b)], 0, 0) = (a, b, ca, cb) {
            return Sym::from_canonical(vec![(product(ma, mb), a.saturating_mul(*b))], 0).rejoined();
        }
        let mut terms = Vec::with_capacity((a.len() + 1) * (b.len() + 1));
        for (ma, a) in a {
            terms.push((ma.clone(), a.saturating_mul(cb)));
            terms.extend(b.iter().map(|(mb, b)| (product(ma, mb), a.saturating_mul(*b))));
        }
        terms.extend(b.iter().map(|(mb, b)| (mb.clone(), b.saturating_mul(ca))));
        Sym::from_terms(terms, ca.saturating_mul(cb)).rejoined()
    }
}

impl Sym {
    fn times(&self, factor: i64) -> Sym {
        match factor {
            0 => Sym::ZERO,
            1 => self.clone(),
            // Of a multiple, a division may be exact that was not.
            _ => self.scaled(factor).rejoined(),
        }
    }

    /// By a factor that is not zero.
    fn scaled(&self, factor: i64) -> Sym {
        let constant = self.constant.saturating_mul(factor);
        let scaled = |terms: &Arc<Terms>| Arc::new(Terms::new(terms.scaled(factor)));
        Sym { terms: self.terms.as_ref().map(scaled), constant }
    }
}

/// All atoms of two monomials, in order.
fn product(a: &Monomial, b: &Monomial) -> Monomial {
    let mut atoms: Monomial = a.iter().chain(b).cloned().collect();
    atoms.sort();
    atoms
}

macro_rules! owned_operators {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Sym {
            type Output = Sym;
            fn $method(self, other: Sym) -> Sym { (&self).$method(&other) }
        }
        impl $trait<&Sym> for Sym {
            type Output = Sym;
            fn $method(self, other: &Sym) -> Sym { (&self).$method(other) }
        }
        impl $trait<i64> for &Sym {
            type Output = Sym;
            fn $method(self, other: i64) -> Sym { self.$method(&Sym::from(other)) }
        }
        impl $trait<i64> for Sym {
            type Output = Sym;
            fn $method(self, other: i64) -> Sym { (&self).$method(&Sym::from(other)) }
        }
    )*};
}
owned_operators!(Add add, Sub sub, Mul mul);

impl<'a> std::iter::Sum<&'a Sym> for Sym {
    fn sum<I: Iterator<Item = &'a Sym>>(iter: I) -> Sym {
        iter.fold(Sym::ZERO, |a, b| &a + b)
    }
}

impl<'a> std::iter::Product<&'a Sym> for Sym {
    fn product<I: Iterator<Item = &'a Sym>>(iter: I) -> Sym {
        iter.fold(Sym::ONE, |a, b| &a * b)
    }
}
