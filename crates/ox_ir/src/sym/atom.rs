//! The indeterminates of a Sym, and what is known of a variable.

use super::Sym;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum VarKind {
    /// A size that is only known at run time: `s3`.
    Size,
    /// A loop index of a kernel: `i3`. It runs from 0 to its extent, exclusive.
    Axis,
    /// An index that a kernel loaded from memory and checked: `j3`. It lies in 0..extent.
    Loaded,
}

/// A variable with its facts. Identity is (kind, id) alone; the facts travel along.
#[derive(Clone)]
pub struct Var(Arc<VarData>);

struct VarData {
    kind: VarKind,
    id: u32,
    lo: i64,
    hi: i64,
    divisor: i64,
    extent: Option<Sym>,
}

impl Var {
    /// A size in `lo..=hi` that is a multiple of `divisor`. Its bounds are multiples, too: from 1 on, by 4, means from 4 on, and a quarter
    /// of that is at least 1.
    pub fn size(id: u32, lo: i64, hi: i64, divisor: i64) -> Var {
        let (lo, hi) = (first_multiple(lo, divisor), last_multiple(hi, divisor));
        Var(Arc::new(VarData { kind: VarKind::Size, id, lo, hi, divisor, extent: None }))
    }

    pub fn axis(id: u32, extent: Sym) -> Var {
        Var::bounded(VarKind::Axis, id, extent)
    }

    pub fn loaded(id: u32, extent: Sym) -> Var {
        Var::bounded(VarKind::Loaded, id, extent)
    }

    fn bounded(kind: VarKind, id: u32, extent: Sym) -> Var {
        let hi = extent.bounds().1.saturating_sub(1).max(0);
        Var(Arc::new(VarData { kind, id, lo: 0, hi, divisor: 1, extent: Some(extent) }))
    }

    pub fn kind(&self) -> VarKind {
        self.0.kind
    }
    #[inline]
    pub fn id(&self) -> u32 {
        self.0.id
    }
    #[inline]
    pub fn lo(&self) -> i64 {
        self.0.lo
    }
    #[inline]
    pub fn hi(&self) -> i64 {
        self.0.hi
    }
    pub fn divisor(&self) -> i64 {
        self.0.divisor
    }
    /// The exclusive upper end of an axis or a loaded index.
    pub fn extent(&self) -> Option<&Sym> {
        self.0.extent.as_ref()
    }

    fn key(&self) -> (VarKind, u32) {
        (self.0.kind, self.0.id)
    }
}

impl PartialEq for Var {
    fn eq(&self, other: &Var) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Var {}
impl PartialOrd for Var {
    fn partial_cmp(&self, other: &Var) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Var {
    fn cmp(&self, other: &Var) -> Ordering {
        self.key().cmp(&other.key())
    }
}
impl Hash for Var {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state)
    }
}

/// From `lo` on; i64::MIN stands for "not known".
fn first_multiple(lo: i64, of: i64) -> i64 {
    if of > 1 && lo != i64::MIN { lo.saturating_add(lo.saturating_neg().rem_euclid(of)) } else { lo }
}

/// Up to `hi`; i64::MAX stands for "not known".
fn last_multiple(hi: i64, of: i64) -> i64 {
    if of > 1 && hi != i64::MAX { hi.saturating_sub(hi.rem_euclid(of)) } else { hi }
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    Var(Var),
    Div(Arc<(Sym, Sym)>),
    Mod(Arc<(Sym, Sym)>),
    Min(Arc<(Sym, Sym)>),
    Max(Arc<(Sym, Sym)>),
}

impl Atom {
    /// See `Sym::any_var`.
    pub fn any_var(&self, f: &mut dyn FnMut(&Var) -> bool) -> bool {
        match self {
            Atom::Var(v) => f(v),
            Atom::Div(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => p.0.any_var(f) || p.1.any_var(f),
        }
    }

    pub fn mentions(&self, var: &Var) -> bool {
        self.any_var(&mut |other| other == var)
    }

    /// The expression that is this atom.
    pub fn sym(&self) -> Sym {
        Sym::from_atom(self.clone())
    }

    pub(super) fn subst(&self, f: &dyn Fn(&Var) -> Option<Sym>) -> Sym {
        match self {
            Atom::Var(v) => f(v).unwrap_or_else(|| Sym::var(v)),
            Atom::Div(p) => p.0.subst(f).div(&p.1.subst(f)),
            Atom::Mod(p) => p.0.subst(f).rem(&p.1.subst(f)),
            Atom::Min(p) => p.0.subst(f).lesser(&p.1.subst(f)),
            Atom::Max(p) => p.0.subst(f).greater(&p.1.subst(f)),
        }
    }

    pub(super) fn eval(&self, f: &dyn Fn(&Var) -> Option<i64>) -> Option<i64> {
        let both = |p: &(Sym, Sym)| Some((p.0.eval(f)?, p.1.eval(f)?));
        match self {
            Atom::Var(v) => f(v),
            Atom::Div(p) => both(p).filter(|p| p.1 != 0).map(|(a, b)| floor_div(a, b)),
            Atom::Mod(p) => both(p).filter(|p| p.1 != 0).map(|(a, b)| a - b * floor_div(a, b)),
            Atom::Min(p) => both(p).map(|(a, b)| a.min(b)),
            Atom::Max(p) => both(p).map(|(a, b)| a.max(b)),
        }
    }
}

pub(super) fn floor_div(a: i64, b: i64) -> i64 {
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}
