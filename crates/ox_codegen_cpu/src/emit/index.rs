//! Index expressions to addresses.

use super::{Bound, Buffer, Emitter};
use crate::CodegenError;
use crate::emit::convert::memory_elem;
use crate::ir::{Elem, V};
use ox_ir::sym::{Atom, Monomial, Sym, Var};

/// How the elements for the lanes lie.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// All lanes at one address.
    Uniform(V<'a>),
    /// Lane l at element l from here.
    Contiguous(V<'a>),
    /// Lane l at element -l from here.
    Reversed(V<'a>),
    /// Each lane at an address of its own.
    Scattered(V<'a>),
}

/// Which value the lane axis has in an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// That of lane 0.
    Base,
    /// Each lane's own.
    Lanes,
}

/// Vector index arithmetic is done in 32 bits where everything stays below this in magnitude (with room for lanes behind the end).
const NARROW: i64 = 1 << 30;

impl<'a> Emitter<'a> {
    fn bound(&self, var: &Var) -> Result<Bound<'a>, CodegenError> {
        self.vars.get(var).copied().ok_or_else(|| self.malformed(format!("{var} is used where it is not defined")))
    }

    fn is_lane(&self, var: &Var) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.var == *var)
    }

    /// Whether the variable differs from lane to lane.
    pub fn is_wide_var(&self, var: &Var) -> bool {
        self.is_lane(var) || self.vars.get(var).is_some_and(|b| b.value.is_wide())
    }

    fn is_wide(&self, sym: &Sym) -> bool {
        sym.any_var(&mut |v| self.is_wide_var(v))
    }

    pub fn depth_of(&self, mono: &Monomial) -> u32 {
        let depth = |var: &Var| self.vars.get(var).map_or(0, |b| b.depth);
        let atom = |a: &Atom| match a {
            Atom::Var(v) => depth(v),
            Atom::Div(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => {
                p.0.vars().iter().chain(p.1.vars().iter()).map(depth).max().unwrap_or(0)
            }
        };
        mono.iter().map(atom).max().unwrap_or(0)
    }

    /// The value of an expression, as an integer of type `elem`: a scalar unless it differs between lanes.
    pub fn sym(&self, sym: &Sym, at: At, elem: Elem) -> Result<V<'a>, CodegenError> {
        let mut terms: Vec<_> = sym.terms().iter().collect();
        terms.sort_by_key(|(mono, _)| self.depth_of(mono));
        let mut sum: Option<V<'a>> = (sym.constant() != 0 || terms.is_empty()).then(|| self.ir.int(elem, sym.constant()));
        for (mono, factor) in terms {
            let term = self.term(mono, *factor, at, elem)?;
            sum = Some(sum.map_or(term, |s| s.add_index(term)));
        }
        Ok(sum.expect("a constant or a term"))
    }

    fn term(&self, mono: &Monomial, factor: i64, at: At, elem: Elem) -> Result<V<'a>, CodegenError> {
        let mut product: Option<V<'a>> = (factor != 1).then(|| self.ir.int(elem, factor));
        for atom in mono {
            let value = self.atom(atom, at, elem)?;
            product = Some(product.map_or(value, |p| value.mul_index(p)));
        }
        Ok(product.expect("a term has an atom"))
    }

    fn atom(&self, atom: &Atom, at: At, elem: Elem) -> Result<V<'a>, CodegenError> {
        match atom {
            Atom::Var(var) => self.var(var, at, elem),
            Atom::Div(p) => Ok(self.divide(p, at, elem)?.0),
            Atom::Mod(p) => Ok(self.divide(p, at, elem)?.1),
            Atom::Min(p) => {
                let (a, b) = (self.sym(&p.0, at, elem)?, self.sym(&p.1, at, elem)?);
                Ok(a.lt(b).select(a, b))
            }
            Atom::Max(p) => {
                let (a, b) = (self.sym(&p.0, at, elem)?, self.sym(&p.1, at, elem)?);
                Ok(a.lt(b).select(b, a))
            }
        }
    }

    fn var(&self, var: &Var, at: At, elem: Elem) -> Result<V<'a>, CodegenError> {
        let value = self.bound(var)?.value.trunc_to(elem);
        if at == At::Lanes && self.is_lane(var) {
            return Ok(value.add_index(self.ir.iota(elem, self.width)));
        }
        Ok(value)
    }

    /// Floor division and remainder. A divisor of zero (a size, in code that runs for no element) must not trap.
    fn divide(&self, pair: &(Sym, Sym), at: At, elem: Elem) -> Result<(V<'a>, V<'a>), CodegenError> {
        let (a, mut b) = (self.sym(&pair.0, at, elem)?, self.sym(&pair.1, at, elem)?);
        if !pair.1.is_positive() {
            b = b.eq(b.int(0)).select(b.int(1), b);
        }
        if pair.0.is_nonneg() && pair.1.is_nonneg() {
            return Ok((a.udiv(b), a.urem(b)));
        }
        let (q, r) = (a.sdiv(b), a.srem(b));
        let off = r.ne(r.int(0)) & (r ^ b).lt(r.int(0));
        Ok((off.select(q - 1, q), off.select(r + b, r)))
    }

    /// Whether the expression and every part of it is small.
    pub fn is_narrow(&self, sym: &Sym) -> bool {
        let small = |(lo, hi): (i64, i64)| lo > -NARROW && hi < NARROW;
        let atom = |a: &Atom| match a {
            Atom::Var(v) => small((v.lo(), v.hi())),
            Atom::Div(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => self.is_narrow(&p.0) && self.is_narrow(&p.1),
        };
        let term = |(mono, c): &(Monomial, i64)| {
            small((*c, *c)) && mono.len() == 1 && mono.iter().all(atom) && small(monomial(mono, *c).bounds())
        };
        small(sym.bounds()) && small((sym.constant(), sym.constant())) && sym.terms().iter().all(term)
    }

    /// The pointer to element `sym` of a buffer, moved there from the outside in, one loop level at a time.
    pub fn pointer(&self, buffer: &Buffer<'a>, sym: &Sym, scale: i64, at: At) -> Result<V<'a>, CodegenError> {
        let elem = memory_elem(buffer.dtype);
        let hoisted = if scale == 1 && at == At::Base { self.hoisted_pointer(buffer, sym) } else { None };
        let (mut pointer, sym) = hoisted.unwrap_or_else(|| (buffer.pointer, sym.clone()));
        let mut terms: Vec<_> = sym.terms().iter().map(|t| (self.depth_of(&t.0), t)).collect();
        terms.sort_by_key(|(depth, _)| *depth);
        if sym.constant() != 0 {
            pointer = pointer.offset(elem, self.ir.index(sym.constant() * scale));
        }
        for group in terms.chunk_by(|a, b| a.0 == b.0) {
            let mut sum: Option<V<'a>> = None;
            for (_, (mono, factor)) in group {
                let term = self.term(mono, factor * scale, at, Elem::I64)?;
                sum = Some(sum.map_or(term, |s| s.add_index(term)));
            }
            pointer = pointer.offset(elem, sum.expect("a group has a term"));
        }
        Ok(pointer)
    }

    pub fn place(&self, buffer: &Buffer<'a>, index: &Sym) -> Result<Place<'a>, CodegenError> {
        if buffer.per_lane && self.lane.is_some() {
            return self.place_per_lane(buffer, index);
        }
        if self.lane.is_none() {
            return Ok(Place::Uniform(self.pointer(buffer, index, 1, At::Base)?));
        }
        let Some(step) = self.lane_step(index) else { return self.place_scattered(buffer, index) };
        let pointer = self.pointer(buffer, index, 1, At::Base)?;
        Ok(match step.as_const() {
            Some(0) => Place::Uniform(pointer),
            Some(1) => Place::Contiguous(pointer),
            Some(-1) => Place::Reversed(pointer),
            _ => Place::Scattered(pointer.offset(memory_elem(buffer.dtype), self.steps(&step)?)),
        })
    }

    /// How far apart the elements of two neighbouring lanes are, if all are as far.
    pub fn lane_step(&self, index: &Sym) -> Option<Sym> {
        let lane = self.lane.as_ref()?;
        let by_loaded = index.vars().iter().any(|v| *v != lane.var && self.is_wide_var(v));
        if by_loaded { None } else { index.coeff(&lane.var) }
    }

    /// The part of an index that a pointer is moved by; the rest differs between lanes.
    pub fn addressed(&self, index: &Sym) -> Sym {
        let is_whole = self.lane.is_none() || self.lane_step(index).is_some();
        if is_whole { index.clone() } else { &self.terms_of(index, false) + index.constant() }
    }

    /// The terms that differ between lanes, or those that do not.
    pub fn terms_of(&self, index: &Sym, wide: bool) -> Sym {
        let is_wide = |mono: &Monomial| mono.iter().any(|a| self.vars_of(a).iter().any(|v| self.is_wide_var(v)));
        let terms = index.terms().iter().filter(|(mono, _)| is_wide(mono) == wide);
        terms.fold(Sym::ZERO, |sum, (mono, c)| &sum + &monomial(mono, *c))
    }

    /// `step * lane`.
    fn steps(&self, step: &Sym) -> Result<V<'a>, CodegenError> {
        match step.as_const() {
            Some(c) if c.abs() < NARROW / self.width as i64 => Ok(self.ir.iota(Elem::I32, self.width) * c),
            _ => Ok(self.ir.iota(Elem::I64, self.width) * self.sym(step, At::Base, Elem::I64)?),
        }
    }

    fn place_scattered(&self, buffer: &Buffer<'a>, index: &Sym) -> Result<Place<'a>, CodegenError> {
        let (moving, fixed) = (self.terms_of(index, true), self.addressed(index));
        let elem = if self.is_narrow(&moving) { Elem::I32 } else { Elem::I64 };
        let pointer = self.pointer(buffer, &fixed, 1, At::Base)?;
        let offsets = self.sym(&moving, At::Lanes, elem)?;
        Ok(Place::Scattered(pointer.offset(memory_elem(buffer.dtype), offsets)))
    }

    pub fn vars_of(&self, atom: &Atom) -> Vec<Var> {
        match atom {
            Atom::Var(v) => vec![v.clone()],
            Atom::Div(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => p.0.vars().into_iter().chain(p.1.vars()).collect(),
        }
    }

    fn place_per_lane(&self, buffer: &Buffer<'a>, index: &Sym) -> Result<Place<'a>, CodegenError> {
        if !self.is_wide(index) {
            return Ok(Place::Contiguous(self.pointer(buffer, index, self.width as i64, At::Base)?));
        }
        let offsets = self.sym(index, At::Lanes, Elem::I64)? * self.width as i64 + self.ir.iota(Elem::I64, self.width);
        Ok(Place::Scattered(buffer.pointer.offset(memory_elem(buffer.dtype), offsets)))
    }

    /// Whether the loaded indices in an expression index anything at all; None if that is certain.
    pub fn validity(&self, index: &Sym) -> Option<V<'a>> {
        let valid = index.vars().into_iter().filter_map(|v| self.vars.get(&v).and_then(|b| b.valid));
        valid.reduce(|a, b| a & b)
    }
}

pub fn monomial(mono: &Monomial, factor: i64) -> Sym {
    mono.iter().fold(Sym::from(factor), |product, atom| &product * &atom.sym())
}
