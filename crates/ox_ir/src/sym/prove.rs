//! What can be proved of a Sym: bounds, sign, divisibility.

use super::atom::Atom;
use super::divide::gcd;
use super::{Monomial, Sym, Var};

impl Sym {
    /// An interval that holds the value; i64::MIN / i64::MAX stand for "not known".
    pub fn bounds(&self) -> (i64, i64) {
        let (lo, hi) = self.terms.as_ref().map_or((0, 0), |terms| terms.range(range_of));
        let constant = self.constant() as i128;
        (clamp(lo.saturating_add(constant)), clamp(hi.saturating_add(constant)))
    }

    /// True only if `self >= 0` for every value of its variables.
    pub fn is_nonneg(&self) -> bool {
        if self.bounds().0 >= 0 {
            return true;
        }
        self.innermost().and_then(|var| self.at_minimum_over(&var)).is_some_and(|s| s.is_nonneg())
    }

    /// The last of the variables that run up to an extent.
    fn innermost(&self) -> Option<Var> {
        let mut last: Option<Var> = None;
        self.any_var(&mut |var| {
            if var.extent().is_some() && last.as_ref().is_none_or(|last| last < var) {
                last = Some(var.clone());
            }
            false
        });
        last
    }

    pub fn is_positive(&self) -> bool {
        (self - 1).is_nonneg()
    }

    /// The same number, with multiples of quotients as what is divided without its rest: `2 * (n / 2)` as `n - n % 2`. Terms cancel that
    /// do not otherwise, and the sign may be seen.
    pub fn by_rests(&self) -> Sym {
        let written = |(mono, factor): &(Monomial, i64)| {
            mono.iter().fold((Sym::ONE, *factor), |(product, factor), atom| match atom {
                Atom::Div(parts) if parts.1.as_const().is_some_and(|by| by > 1 && factor % by == 0) => {
                    let by = parts.1.as_const().unwrap_or(1);
                    (&product * &(&parts.0 - &parts.0.rem(&parts.1)), factor / by)
                }
                other => (&product * &Sym::from_atom(other.clone()), factor),
            })
        };
        self.terms().iter().map(written).fold(Sym::from(self.constant()), |sum, (product, factor)| &sum + &(&product * factor))
    }

    /// The least value over one bounded variable, where the expression never falls or never rises with it.
    fn at_minimum_over(&self, var: &Var) -> Option<Sym> {
        let last = var.extent()? - 1;
        let Some(factor) = self.coeff(var) else {
            let at = if self.direction(var)? == Direction::Rising { Sym::ZERO } else { last };
            return Some(self.subst(&|other| (other == var).then(|| at.clone())));
        };
        let rest = self - &(&factor * &Sym::var(var));
        if factor.bounds().0 >= 0 {
            return Some(rest);
        }
        (factor.bounds().1 <= 0).then(|| &rest + &(&factor * &last))
    }

    /// How it changes with a variable that is in it, if that is known.
    fn direction(&self, var: &Var) -> Option<Direction> {
        let moving = self.terms().iter().filter(|(mono, _)| mono.iter().any(|atom| atom.mentions(var)));
        one_direction(moving.map(|(mono, c)| {
            let at = mono.iter().position(|atom| atom.mentions(var))?;
            let others: Monomial = mono.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, atom)| atom.clone()).collect();
            if others.iter().any(|atom| atom.mentions(var)) {
                return None;
            }
            mono[at].direction(var)?.times(Sym::from_term(others, *c).bounds())
        }))
    }

    /// The largest known integer that divides every value (0 for the constant 0).
    pub fn known_divisor(&self) -> i64 {
        self.terms().iter().fold(self.constant().abs(), |acc, (mono, c)| {
            let term = mono.iter().fold(c.abs(), |m, a| m.saturating_mul(a.divisor()));
            gcd(acc, term)
        })
    }

    pub fn is_multiple_of(&self, n: i64) -> bool {
        let d = self.known_divisor();
        d == 0 || (n != 0 && d % n == 0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Rising,
    Falling,
}

impl Direction {
    /// Of a product with a factor in an interval.
    fn times(self, (lo, hi): (i64, i64)) -> Option<Direction> {
        match self {
            _ if lo >= 0 => Some(self),
            Direction::Rising if hi <= 0 => Some(Direction::Falling),
            Direction::Falling if hi <= 0 => Some(Direction::Rising),
            _ => None,
        }
    }
}

/// That of a sum, if all of its parts agree.
fn one_direction(mut parts: impl Iterator<Item = Option<Direction>>) -> Option<Direction> {
    let first = parts.next()??;
    parts.all(|part| part == Some(first)).then_some(first)
}

impl Atom {
    /// How it changes with a variable that is in it, if that is known.
    fn direction(&self, var: &Var) -> Option<Direction> {
        match self {
            Atom::Var(_) => Some(Direction::Rising),
            Atom::Div(p) if !p.1.contains(var) && p.1.bounds().0 > 0 => p.0.direction(var),
            Atom::Min(p) | Atom::Max(p) => {
                one_direction([&p.0, &p.1].into_iter().filter(|s| s.contains(var)).map(|s| s.direction(var)))
            }
            Atom::Div(_) | Atom::Mod(_) => None,
        }
    }

    fn divisor(&self) -> i64 {
        match self {
            Atom::Var(v) => v.divisor().max(1),
            Atom::Min(p) | Atom::Max(p) => gcd(p.0.known_divisor(), p.1.known_divisor()).max(1),
            Atom::Div(_) | Atom::Mod(_) => 1,
        }
    }

    fn range(&self) -> (i128, i128) {
        let of = |s: &Sym| {
            let (lo, hi) = s.bounds();
            (lo as i128, hi as i128)
        };
        match self {
            Atom::Var(v) => (v.lo() as i128, v.hi() as i128),
            Atom::Min(p) => (of(&p.0).0.min(of(&p.1).0), of(&p.0).1.min(of(&p.1).1)),
            Atom::Max(p) => (of(&p.0).0.max(of(&p.1).0), of(&p.0).1.max(of(&p.1).1)),
            Atom::Div(p) => match (of(&p.0), of(&p.1)) {
                ((lo, hi), (b0, b1)) if b0 > 0 => {
                    let least = lo.div_euclid(if lo < 0 { b0 } else { b1 });
                    let most = hi.div_euclid(if hi < 0 { b1 } else { b0 });
                    (least, most)
                }
                _ => (i64::MIN as i128, i64::MAX as i128),
            },
            Atom::Mod(p) => match (of(&p.0), of(&p.1)) {
                ((lo, hi), (b0, b1)) if b0 > 0 && lo >= 0 => (0, hi.min(b1 - 1)),
                (_, (b0, b1)) if b0 > 0 => (0, b1 - 1),
                _ => (i64::MIN as i128, i64::MAX as i128),
            },
        }
    }
}

fn range_of(terms: &[(Monomial, i64)]) -> (i128, i128) {
    terms.iter().fold((0, 0), |(lo, hi), (mono, c)| {
        let product = mono.iter().fold((1, 1), |acc, atom| mul_range(acc, atom.range()));
        let (a, b) = mul_range(product, (*c as i128, *c as i128));
        (lo.saturating_add(a), hi.saturating_add(b))
    })
}

/// Products of interval ends, treating the i64 limits as infinities.
fn mul_range(a: (i128, i128), b: (i128, i128)) -> (i128, i128) {
    let ends = [ext_mul(a.0, b.0), ext_mul(a.0, b.1), ext_mul(a.1, b.0), ext_mul(a.1, b.1)];
    (ends.into_iter().min().unwrap(), ends.into_iter().max().unwrap())
}

fn ext_mul(a: i128, b: i128) -> i128 {
    const INF: i128 = i64::MAX as i128;
    if a == 0 || b == 0 {
        return 0;
    }
    let sign = a.signum() * b.signum();
    if a.abs() >= INF || b.abs() >= INF { sign * (1 << 100) } else { a * b }
}

fn clamp(x: i128) -> i64 {
    x.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}
