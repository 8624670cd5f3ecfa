//! Results that are parts of memory that is made as a whole: other results lie in it, too, or elements of one share their places.

use crate::layout::{is_dense, resolve_from, same_strides, view_base};
use crate::prepare::Prepared;
use ox_ir::graph::{Shape, contiguous_strides};
use ox_ir::{Graph, NodeId, Sym};

/// Orders of more dimensions are not looked through.
const MOST_DIMS: usize = 5;

impl Prepared {
    /// The value with these strides as a view of a copy of `whole`, which views lead from to it.
    pub fn push_part(&mut self, value: NodeId, whole: NodeId, strides: &[Sym]) -> Option<NodeId> {
        let order = whole_strides(&self.graph, value, whole, strides)?;
        let mut views = vec![value];
        while views[views.len() - 1] != whole {
            views.push(self.graph.node(views[views.len() - 1]).args[0]);
        }
        views.pop();
        let copy = self.push_copy(whole, order);
        Some(views.into_iter().rev().fold(copy, |made, view| {
            let mut node = self.graph.node(view).clone();
            node.args[0] = made;
            self.push(node, self.strides(view))
        }))
    }

    /// The same, with as little copied as can be.
    pub fn push_least(&mut self, value: NodeId, strides: &[Sym]) -> Option<NodeId> {
        let mut whole = value;
        while self.graph.node(whole).op.is_view() {
            whole = self.graph.node(whole).args[0];
            if let Some(part) = self.push_part(value, whole, strides) {
                return Some(part);
            }
        }
        None
    }
}

/// Strides of `whole`, without gaps, by which `value` has those that are wanted.
pub fn whole_strides(graph: &Graph, value: NodeId, whole: NodeId, wanted: &[Sym]) -> Option<Shape> {
    let (own, shape) = (&graph.ty(value).shape, &graph.ty(whole).shape);
    let fits =
        |strides: &Shape| resolve_from(graph, value, whole, strides).is_some_and(|part| same_strides(own, &part.strides, wanted));
    let long: Vec<usize> = (0..shape.len()).filter(|d| !shape[*d].is_one()).collect();
    let plain = Some(contiguous_strides(shape)).filter(fits);
    plain.or_else(|| orders(&long).into_iter().map(|order| in_order(shape, &order)).find(fits))
}

/// All of them, for a few dimensions.
fn orders(dims: &[usize]) -> Vec<Vec<usize>> {
    if dims.is_empty() {
        return vec![Vec::new()];
    }
    let first = |n: usize| {
        let others: Vec<usize> = dims.iter().copied().filter(|d| *d != dims[n]).collect();
        orders(&others).into_iter().map(move |rest| std::iter::once(dims[n]).chain(rest).collect())
    };
    if dims.len() > MOST_DIMS { Vec::new() } else { (0..dims.len()).flat_map(first).collect() }
}

/// Side by side, the last of `order` innermost.
fn in_order(shape: &[Sym], order: &[usize]) -> Shape {
    let mut strides = contiguous_strides(shape);
    let mut next = Sym::ONE;
    for d in order.iter().rev() {
        strides[*d] = next.clone();
        next = &next * &shape[*d];
    }
    strides
}

/// Whether every element of the memory below is one of the value.
pub fn is_whole(graph: &Graph, value: NodeId, strides: &[Sym]) -> bool {
    let (shape, whole) = (&graph.ty(value).shape, &graph.ty(view_base(graph, value)).shape);
    is_dense(shape, strides) && shape.iter().product::<Sym>() == whole.iter().product::<Sym>()
}
