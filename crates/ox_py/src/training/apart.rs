//! Whether parts of one memory have elements in common.

use ox_ir::Sym;
use rustc_hash::FxHashSet;

/// Parts with more elements, besides dimensions that they share, are not looked at one by one.
const LARGEST: i64 = 1 << 22;

/// Elements at an offset, by dimensions from the outermost to the innermost: how many, and how far apart.
#[derive(Clone)]
pub struct Part {
    dims: Vec<(Sym, Sym)>,
    offset: Sym,
}

impl Part {
    pub fn new(shape: &[Sym], strides: &[Sym], offset: Sym) -> Part {
        let dims = shape.iter().cloned().zip(strides.iter().cloned()).filter(|(size, _)| !size.is_one()).collect();
        Part { dims, offset }
    }

    /// Behind its last element.
    pub fn end(&self) -> Sym {
        let span = |(size, stride): &(Sym, Sym)| (size - &Sym::from(1i64)) * stride.clone();
        self.dims.iter().map(span).fold(&self.offset + &Sym::from(1i64), |end, span| end + span)
    }

    /// One of the elements of its outermost dimension.
    fn inner(&self) -> Part {
        Part { dims: self.dims[1..].to_vec(), offset: self.offset.clone() }
    }

    /// The places of all elements, if they are few and known.
    fn places(&self) -> Option<Vec<i64>> {
        let known = |(size, stride): &(Sym, Sym)| Some((size.as_const()?, stride.as_const()?));
        let dims = self.dims.iter().map(known).collect::<Option<Vec<(i64, i64)>>>()?;
        if dims.iter().map(|(size, _)| size).product::<i64>() > LARGEST {
            return None;
        }
        let mut places = vec![self.offset.as_const()?];
        for (size, stride) in dims {
            places = places.iter().flat_map(|place| (0..size).map(move |n| place + n * stride)).collect();
        }
        Some(places)
    }

    /// Whether each element has a place of its own.
    fn is_plain(&self) -> bool {
        let Some((_, stride)) = self.dims.first() else { return true };
        if fits(&(self.inner().end() - self.offset.clone()), stride) {
            return self.inner().is_plain();
        }
        let mut seen = FxHashSet::default();
        self.places().is_some_and(|places| places.into_iter().all(|place| seen.insert(place)))
    }
}

fn fits(width: &Sym, stride: &Sym) -> bool {
    (stride - width).is_nonneg()
}

/// Whether no two elements have one place.
pub fn are_apart(parts: &[Part]) -> bool {
    let pairs = |n: usize| parts[n + 1..].iter().all(|other| is_apart(&parts[n], other));
    parts.iter().all(Part::is_plain) && (0..parts.len()).all(pairs)
}

fn is_apart(a: &Part, b: &Part) -> bool {
    if fits(&a.end(), &b.offset) || fits(&b.end(), &a.offset) {
        return true;
    }
    // Columns of one table: what is inside of a row stays inside of it.
    if let (Some(outer), Some(other)) = (a.dims.first(), b.dims.first())
        && outer == other
    {
        let (a, b) = (a.inner(), b.inner());
        let begins = [&a.offset, &b.offset];
        let is_row = |end: &Sym| begins.iter().all(|begin| fits(&(end.clone() - (*begin).clone()), &outer.1));
        if is_row(&a.end()) && is_row(&b.end()) {
            return is_apart(&a, &b);
        }
    }
    let (Some(a), Some(b)) = (a.places(), b.places()) else { return false };
    let a: FxHashSet<i64> = a.into_iter().collect();
    b.iter().all(|place| !a.contains(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::Var;

    fn part(shape: &[Sym], strides: &[Sym], offset: Sym) -> Part {
        Part::new(shape, strides, offset)
    }

    fn s(n: i64) -> Sym {
        Sym::from(n)
    }

    #[test]
    fn columns_of_any_number_of_rows_are_apart() {
        let n = Sym::var(&Var::size(0, 2, 1 << 30, 1));
        let column = |at: i64, width: i64| part(&[n.clone(), s(width)], &[s(4), s(1)], s(at));
        assert!(are_apart(&[column(0, 2), column(2, 2)]));
        assert!(!are_apart(&[column(0, 3), column(2, 2)]));
        assert!(!are_apart(&[column(0, 2), column(3, 2)]), "the last of a row is the first of the next");
    }

    #[test]
    fn what_lies_behind_is_apart() {
        let n = Sym::var(&Var::size(0, 2, 1 << 30, 1));
        let layer = |at: Sym| part(&[n.clone(), s(4)], &[s(4), s(1)], at);
        assert!(are_apart(&[layer(s(0)), layer(n.clone() * s(4))]));
        assert!(!are_apart(&[layer(s(0)), layer(n.clone() * s(2))]));
    }

    #[test]
    fn what_overlaps_itself_is_not() {
        assert!(!are_apart(&[part(&[s(3), s(3)], &[s(1), s(1)], s(0)), part(&[s(1)], &[s(1)], s(9))]));
        assert!(are_apart(&[part(&[s(2), s(3)], &[s(1), s(2)], s(0)), part(&[s(2)], &[s(1)], s(6))]));
    }
}
