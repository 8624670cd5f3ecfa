//! Results that are parts of memory that is made as a whole: other results lie in it, too, or elements of one share their places.

use crate::layout::{is_dense, resolve_from, same_strides, view_base};
use crate::prepare::Prepared;
use ox_ir::graph::{Alias, GraphOutput, Memory, Shape, contiguous_strides};
use ox_ir::{Graph, NodeId, Sym};

/// Orders of more dimensions are not looked through.
const MOST_DIMS: usize = 5;

impl Prepared {
    /// The output as a view of a copy of `whole`, which views lead from to its value. `tenants` lie in it, too.
    pub fn push_part(&mut self, output: &GraphOutput, whole: NodeId, tenants: &[Tenant]) -> Option<NodeId> {
        let (value, order) = (output.value, whole_strides(&self.graph, output, whole, tenants)?);
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
    pub fn push_least(&mut self, output: &GraphOutput) -> Option<NodeId> {
        let mut whole = output.value;
        while self.graph.node(whole).op.is_view() {
            whole = self.graph.node(whole).args[0];
            if let Some(part) = self.push_part(output, whole, &[]) {
                return Some(part);
            }
        }
        None
    }
}

/// A result that lies in the memory of another one.
pub struct Tenant {
    value: NodeId,
    strides: Shape,
    /// From the first element of that one.
    offset: Sym,
}

/// Those of output number `holder`.
pub fn tenants(graph: &Graph, holder: usize) -> Vec<Tenant> {
    let of_holder = graph.outputs.iter().filter_map(|output| match &output.alias {
        Some(Alias::Output(of, offset)) if *of as usize == holder => {
            Some(Tenant { value: output.value, strides: output.strides.clone(), offset: offset.clone() })
        }
        _ => None,
    });
    of_holder.collect()
}

/// Strides of `whole`, without gaps, by which the output has its own, and all others lie where they should: one element, or a single row, would fit many
/// orders. If it can be had, one by which the output begins where eager's does.
pub fn whole_strides(graph: &Graph, output: &GraphOutput, whole: NodeId, tenants: &[Tenant]) -> Option<Shape> {
    let shape = &graph.ty(whole).shape;
    let fits = |strides: &Shape| suits(graph, output.value, whole, strides, &output.strides, tenants);
    let found = |accept: &dyn Fn(&Shape) -> bool| {
        let long: Vec<usize> = (0..shape.len()).filter(|d| !shape[*d].is_one()).collect();
        let plain = Some(contiguous_strides(shape)).filter(accept);
        plain.or_else(|| orders(&long).into_iter().map(|order| in_order(shape, &order)).find(accept))
    };
    found(&|strides| begins(graph, output, whole, strides) && fits(strides)).or_else(|| found(&fits))
}

/// Whether an output that is a part begins where eager's does, if `whole` has these strides.
pub fn begins(graph: &Graph, output: &GraphOutput, whole: NodeId, strides: &[Sym]) -> bool {
    let Memory::Whole(offset) = &output.memory else { return true };
    resolve_from(graph, output.value, whole, strides).is_some_and(|part| part.offset == *offset)
}

/// Whether `value` and its tenants lie as they should where `whole` has these strides. Tenants that no views lead to from there are not known.
pub fn suits(graph: &Graph, value: NodeId, whole: NodeId, strides: &[Sym], wanted: &[Sym], tenants: &[Tenant]) -> bool {
    let lies = |id: NodeId, wanted: &[Sym]| {
        resolve_from(graph, id, whole, strides).filter(|part| same_strides(&graph.ty(id).shape, &part.strides, wanted))
    };
    let Some(own) = lies(value, wanted) else { return false };
    let is_seen =
        |tenant: &&Tenant| view_base(graph, tenant.value) == view_base(graph, whole) && leads(graph, whole, tenant.value);
    tenants
        .iter()
        .filter(is_seen)
        .all(|tenant| lies(tenant.value, &tenant.strides).is_some_and(|part| part.offset - own.offset.clone() == tenant.offset))
}

/// Whether views lead from one to the other.
fn leads(graph: &Graph, from: NodeId, mut to: NodeId) -> bool {
    while to != from && graph.node(to).op.is_view() {
        to = graph.node(to).args[0];
    }
    to == from
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
