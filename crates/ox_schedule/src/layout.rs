//! How values lie in memory, and whether a view of one can be handed on as strides.

use crate::coords::view_coords;
use ox_ir::graph::{Shape, contiguous_strides};
use ox_ir::{Graph, NodeId, Op, Sym, Var};

/// A strided look at the memory of `base`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strided {
    pub base: NodeId,
    pub strides: Shape,
    pub offset: Sym,
}

/// The node whose memory a chain of views looks at.
pub fn view_base(graph: &Graph, mut id: NodeId) -> NodeId {
    while graph.node(id).op.is_view() {
        id = graph.node(id).args[0];
    }
    id
}

/// `id` as strides over its base, which lies with `base_strides`; None if some view in between is not expressible so.
pub fn resolve(graph: &Graph, id: NodeId, base_strides: &dyn Fn(NodeId) -> Shape) -> Option<Strided> {
    let base = view_base(graph, id);
    resolve_from(graph, id, base, &base_strides(base))
}

/// The same over a node that views lead from to it, whatever that is itself.
pub fn resolve_from(graph: &Graph, id: NodeId, base: NodeId, base_strides: &[Sym]) -> Option<Strided> {
    let shape = &graph.ty(id).shape;
    let vars: Vec<Var> = shape.iter().enumerate().map(|(d, n)| Var::axis(d as u32, n.clone())).collect();
    let mut coords: Shape = shape.iter().zip(&vars).map(|(n, v)| if n.is_one() { Sym::ZERO } else { Sym::var(v) }).collect();
    let mut at = id;
    while at != base {
        let arg = graph.node(at).args[0];
        coords = view_coords(graph.node(at), &graph.ty(arg).shape, &coords);
        at = arg;
    }
    let index = address(&coords, base_strides);
    strides_of(&index, &vars, shape).map(|(strides, offset)| Strided { base, strides, offset })
}

pub fn address(coords: &[Sym], strides: &[Sym]) -> Sym {
    coords.iter().zip(strides).fold(Sym::ZERO, |acc, (c, s)| &acc + &(c * s))
}

fn strides_of(index: &Sym, vars: &[Var], shape: &[Sym]) -> Option<(Shape, Sym)> {
    let strides: Shape = vars.iter().map(|v| index.coeff(v)).collect::<Option<_>>()?;
    let mut offset = index.clone();
    for (v, s) in vars.iter().zip(&strides) {
        // torch has no strides that lead backwards.
        if s.any_var(&mut |u| vars.contains(u)) || (-s - 1).is_nonneg() {
            return None;
        }
        offset = &offset - &(s * &Sym::var(v));
    }
    // The stride of a dimension of size 1 is never used; give it the one that torch would.
    let dense = contiguous_strides(shape);
    let strides = strides.into_iter().zip(shape.iter().zip(dense)).map(|(s, (n, d))| if n.is_one() { d } else { s }).collect();
    Some((strides, offset))
}

/// Whether two sets of strides address the same elements (dimensions of size 1 do not matter).
pub fn same_strides(shape: &[Sym], a: &[Sym], b: &[Sym]) -> bool {
    shape.iter().zip(a.iter().zip(b)).all(|(n, (a, b))| n.is_one() || a == b)
}

/// Whether the strides are those of some permutation of a contiguous tensor: every element once, no gaps.
pub fn is_dense(shape: &[Sym], strides: &[Sym]) -> bool {
    let mut dims: Vec<usize> = (0..shape.len()).filter(|d| !shape[*d].is_one()).collect();
    let mut expected = Sym::ONE;
    while !dims.is_empty() {
        let Some(at) = dims.iter().position(|d| strides[*d] == expected) else { return false };
        expected = &expected * &shape[dims.swap_remove(at)];
    }
    true
}

/// Whether the strides put every element in a place of its own, gaps allowed. Where a size may be 0 there is nothing to put, and a stride that
/// is not 0 by itself is at least 1.
pub fn is_spread(shape: &[Sym], strides: &[Sym]) -> bool {
    let dims: Vec<usize> = (0..shape.len()).filter(|d| !shape[*d].is_one()).collect();
    dims.iter().all(|d| !strides[*d].is_zero()) && is_nested(&dims, shape, strides, &Sym::ONE)
}

/// Whether the dimensions can be put in an order in which each steps over all of the one before. `taken` is what was stepped over so far.
fn is_nested(dims: &[usize], shape: &[Sym], strides: &[Sym], taken: &Sym) -> bool {
    let others = |d: usize| -> Vec<usize> { dims.iter().copied().filter(|e| *e != d).collect() };
    // With a size of 0 it does not matter what is stepped over, and strides count such a size as 1. Behind the last step no more is taken than
    // behind the others: with every second row of seven, the next seven begin in what would be the gap behind the seventh.
    let steps_over = |d: usize| {
        let counted = (!shape[d].is_positive()).then(|| &strides[d] * &shape[d].greater(&Sym::ONE));
        [&strides[d] * &shape[d], taken + &(&strides[d] * &(&shape[d] - 1))].into_iter().chain(counted)
    };
    let goes_on =
        |d: usize| is_at_least(&strides[d], taken) && steps_over(d).any(|taken| is_nested(&others(d), shape, strides, &taken));
    dims.is_empty() || dims.iter().any(|d| goes_on(*d))
}

/// Of two that are 1 or more.
fn is_at_least(a: &Sym, b: &Sym) -> bool {
    b.is_one() || (a - b).is_nonneg() || (a - b).by_rests().is_nonneg() || &a.div(b) * b == *a
}

/// Whether two elements surely share a place: one dimension steps over a part of another.
pub fn is_folded(shape: &[Sym], strides: &[Sym]) -> bool {
    let dims: Vec<usize> = (0..shape.len()).filter(|d| !shape[*d].is_one()).collect();
    let steps_into = |d: usize, e: usize| {
        let last = &strides[d] * &(&shape[d] - 1);
        d != e && (&strides[e] - &strides[d]).is_nonneg() && (&last - &strides[e]).is_nonneg()
    };
    dims.iter().any(|d| strides[*d].is_zero() && shape[*d].is_positive() || dims.iter().any(|e| steps_into(*d, *e)))
}

/// Strides of the same memory order as channels-last for rank 4, or None for other ranks.
pub fn channels_last(shape: &[Sym]) -> Option<Shape> {
    let [_, c, h, w] = shape else { return None };
    let row = w * c;
    Some(Shape::from_iter([h * &row, Sym::ONE, row, c.clone()]))
}

/// Whether reading this node needs no computation of ours: its elements are in memory before any kernel runs or a call puts them there.
pub fn is_memory(op: &Op) -> bool {
    matches!(op, Op::Input(_) | Op::Project(_) | Op::Matmul { .. } | Op::Conv(_) | Op::Pack(_) | Op::Attention(_))
}

/// Whether memory is in channels-last order and not, because of sizes of 1, in the usual order as well.
pub fn is_channels_last(shape: &[Sym], strides: &[Sym]) -> bool {
    let last = channels_last(shape).is_some_and(|last| same_strides(shape, strides, &last));
    last && !same_strides(shape, strides, &contiguous_strides(shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> [Sym; 3] {
        [0, 1, 2].map(|id| Sym::var(&Var::size(id, 1, i64::MAX, 1)))
    }

    #[test]
    fn parts_of_what_lies_in_another_order_are_spread() {
        let [a, b, c] = sizes();
        let one = Sym::ONE;
        assert!(is_spread(&[&a - 1, c.clone(), b.clone()], &[&b * &c, one.clone(), c.clone()]));
        assert!(is_spread(&[a.clone(), b.clone(), &c - 1], &[&b * &c, c.clone(), one.clone()]));
        assert!(is_spread(&[a.clone(), c.clone()], &[&c * 2, one.clone()]));
        assert!(is_spread(std::slice::from_ref(&a), &[c.div(&Sym::from(2i64))]));
        let maybe_none = &a - 1;
        let counted = maybe_none.greater(&one);
        assert!(is_spread(&[b.clone(), c.clone(), maybe_none], &[counted.clone(), &b * &counted, one.clone()]));
    }

    #[test]
    fn every_second_row_of_an_odd_number_is_spread() {
        let whole = |numbers: [i64; 3]| numbers.map(Sym::from);
        assert!(is_spread(&whole([2, 4, 4]), &whole([28, 8, 1])) && !is_folded(&whole([2, 4, 4]), &whole([28, 8, 1])));
        assert!(!is_spread(&whole([2, 4, 4]), &whole([24, 8, 1])) && is_folded(&whole([2, 4, 4]), &whole([24, 8, 1])));
        let [a, b, c] = sizes();
        let half = (&b + 1).div(&Sym::from(2i64));
        assert!(is_spread(&[a, half, c.clone()], &[&b * &c, &c * 2, Sym::ONE]));
    }

    #[test]
    fn what_shares_places_is_not() {
        let [a, b, c] = sizes();
        let (one, three) = (Sym::ONE, Sym::from(3i64));
        assert!(!is_spread(&[a.clone(), three.clone()], &[one.clone(), one.clone()]));
        assert!(is_folded(&[a.clone(), three.clone()], &[one.clone(), one.clone()]));
        assert!(
            !is_spread(&[a.clone(), b.clone()], &[Sym::ZERO, one.clone()])
                && is_folded(&[a.clone(), b], &[Sym::ZERO, one.clone()])
        );
        // Whether three are more than two rows of c is not known.
        assert!(!is_spread(&[a.clone(), three.clone()], &[&c * 2, one.clone()]) && !is_folded(&[a, three], &[&c * 2, one]));
    }
}
