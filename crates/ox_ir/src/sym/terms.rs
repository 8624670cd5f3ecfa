//! The part of a Sym that is not constant: a sum of products, compared as a value, with its interval kept once it was asked for.

use super::Monomial;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

/// Sorted by monomial, without zero coefficients, and not empty.
pub(super) struct Terms {
    list: Vec<(Monomial, i64)>,
    range: OnceLock<(i128, i128)>,
}

impl Terms {
    pub(super) fn new(list: Vec<(Monomial, i64)>) -> Terms {
        debug_assert!(!list.is_empty() && list.is_sorted_by(|a, b| a.0 < b.0));
        Terms { list, range: OnceLock::new() }
    }

    pub(super) fn as_slice(&self) -> &[(Monomial, i64)] {
        &self.list
    }

    /// An interval that holds the sum, reckoned by `f` the first time.
    pub(super) fn range(&self, f: impl FnOnce(&[(Monomial, i64)]) -> (i128, i128)) -> (i128, i128) {
        *self.range.get_or_init(|| f(&self.list))
    }

    /// The terms of both, those of the same atoms added up: a coefficient may be zero.
    pub(super) fn merged(&self, other: &Terms) -> Vec<(Monomial, i64)> {
        let (mut a, mut b) = (self.list.iter().peekable(), other.list.iter().peekable());
        let mut out = Vec::with_capacity(self.list.len() + other.list.len());
        while let (Some((ma, ca)), Some((mb, cb))) = (a.peek(), b.peek()) {
            let order = ma.cmp(mb);
            out.push(match order {
                Ordering::Less => (ma.clone(), *ca),
                Ordering::Equal => (ma.clone(), ca.saturating_add(*cb)),
                Ordering::Greater => (mb.clone(), *cb),
            });
            a.next_if(|_| order.is_le());
            b.next_if(|_| order.is_ge());
        }
        out.extend(a.chain(b).cloned());
        out
    }

    pub(super) fn scaled(&self, factor: i64) -> Vec<(Monomial, i64)> {
        self.list.iter().map(|(mono, c)| (mono.clone(), c.saturating_mul(factor))).collect()
    }
}

impl PartialEq for Terms {
    fn eq(&self, other: &Terms) -> bool {
        std::ptr::eq(self, other) || self.list == other.list
    }
}
impl Eq for Terms {}
impl PartialOrd for Terms {
    fn partial_cmp(&self, other: &Terms) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Terms {
    fn cmp(&self, other: &Terms) -> Ordering {
        if std::ptr::eq(self, other) { Ordering::Equal } else { self.list.cmp(&other.list) }
    }
}
impl Hash for Terms {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state)
    }
}
