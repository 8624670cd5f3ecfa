//! How the dimensions of a reshape's argument and result belong together.

use ox_ir::Sym;
use ox_ir::graph::Shape;
use std::ops::Range;

/// Dimensions `from` of the argument hold the same elements as dimensions `to` of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub from: Range<usize>,
    pub to: Range<usize>,
}

/// The finest grouping that can be proved, in order. Sizes 1 stand alone, in groups whose other side is empty.
/// None if a size may be zero: then any grouping would do, and none is useful.
pub fn groups(from: &[Sym], to: &[Sym]) -> Option<Vec<Group>> {
    if from.iter().chain(to).any(|s| s.is_zero()) {
        return None;
    }
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        if i < from.len() && from[i].is_one() {
            out.push(Group { from: i..i + 1, to: j..j });
            i += 1;
        } else if j < to.len() && to[j].is_one() {
            out.push(Group { from: i..i, to: j..j + 1 });
            j += 1;
        } else {
            let (i_end, j_end) = next_cut(from, to, i, j);
            out.push(Group { from: i..i_end, to: j..j_end });
            (i, j) = (i_end, j_end);
        }
    }
    Some(out)
}

/// Where the products of both sides, taken from `i` and `j`, first agree; the ends if that cannot be decided.
fn next_cut(from: &[Sym], to: &[Sym], i: usize, j: usize) -> (usize, usize) {
    if i == from.len() || j == to.len() {
        return (from.len(), to.len());
    }
    let (mut a, mut b) = (from[i].clone(), to[j].clone());
    let (mut i, mut j) = (i + 1, j + 1);
    while a != b {
        if i < from.len() && (&b - &a).is_positive() {
            a = &a * &from[i];
            i += 1;
        } else if j < to.len() && (&a - &b).is_positive() {
            b = &b * &to[j];
            j += 1;
        } else {
            return (from.len(), to.len());
        }
    }
    (i, j)
}

/// Whether two shapes differ in sizes 1 only.
pub fn same_but_units(a: &[Sym], b: &[Sym]) -> bool {
    a.iter().filter(|s| !s.is_one()).eq(b.iter().filter(|s| !s.is_one()))
}

/// The dimensions whose size is not 1.
pub fn proper_dims(shape: &[Sym]) -> impl Iterator<Item = usize> + '_ {
    (0..shape.len()).filter(|d| !shape[*d].is_one())
}

pub fn ones(rank: usize) -> Shape {
    smallvec::smallvec![Sym::ONE; rank]
}
