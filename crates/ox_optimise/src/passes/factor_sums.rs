//! What is the same for all terms of a sum is multiplied once, behind it: `sum(x * c)` is `c * sum(x)`. The gradients of a normalisation
//! are then made of the two sums that they have in common, and products of all elements need not be kept for a third and a fourth.
//!
//! Other roundings than those of the terms: it is for gradients, whose terms are nobody's but ours.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Dims, Graph, Node, NodeId, Op, ReduceOp};
use ox_ir::{DType, PointOp};

/// A product of more factors is left as it is.
const MOST_FACTORS: usize = 8;

/// For the nodes that `is_ours` says.
pub fn factor_sums(graph: Graph, is_ours: impl Fn(NodeId) -> bool) -> (Graph, Fired) {
    let mut place = 0..;
    Rewriter::new().rebuild(graph, |new, node| {
        let ours = place.next().is_some_and(|n| is_ours(NodeId(n)));
        match if ours { factored(new, &node) } else { None } {
            Some(id) => new.fire("factor-sums", id),
            None => new.emit(node),
        }
    })
}

struct Product {
    /// The same along the dimensions that are summed over.
    steady: Vec<NodeId>,
    varying: Vec<NodeId>,
    negative: bool,
}

fn factored(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Reduce { op: ReduceOp::Sum, dims } = &node.op else { return None };
    if !matches!(node.ty.dtype, DType::F32 | DType::F64) {
        return None;
    }
    let Product { steady, mut varying, negative } = product(graph, node.args[0], dims, node.ty.dtype)?;
    if varying.is_empty() || (steady.is_empty() && !negative) {
        return None;
    }
    // One order, so that equal products are one node.
    varying.sort_unstable();
    let first = varying[0];
    let terms = varying[1..].iter().fold(first, |product, factor| graph.point(PointOp::Mul, &[product, *factor]));
    let mut total = graph.make(node.op.clone(), [terms], node.ty.clone());
    for factor in steady {
        let factor = match graph.constant(factor) {
            Some(value) => graph.full(value, node.ty.clone()),
            None => {
                let source = graph.arg(factor);
                graph.expand(source, node.ty.shape.clone())
            }
        };
        total = graph.point(PointOp::Mul, &[total, factor]);
    }
    Some(if negative { graph.point(PointOp::Neg, &[total]) } else { total })
}

/// What `x` is a product of, in the type that it has.
fn product(graph: &Rewriter, x: NodeId, dims: &Dims, dtype: DType) -> Option<Product> {
    let mut found = Product { steady: Vec::new(), varying: Vec::new(), negative: false };
    let mut stack = vec![x];
    while let Some(id) = stack.pop() {
        let node = graph.node(id);
        match &node.op {
            _ if node.ty.dtype != dtype => return None,
            Op::Point(PointOp::Mul) => stack.extend(node.args.iter().copied()),
            Op::Point(PointOp::Neg) => {
                found.negative = !found.negative;
                stack.extend(node.args.iter().copied());
            }
            _ if is_steady(graph, id, dims) => found.steady.push(id),
            _ => found.varying.push(id),
        }
        if found.steady.len() + found.varying.len() + stack.len() > MOST_FACTORS {
            return None;
        }
    }
    Some(found)
}

fn is_steady(graph: &Rewriter, id: NodeId, dims: &Dims) -> bool {
    match graph.op(id) {
        Op::Full(_) => true,
        Op::Expand => {
            let (small, large) = (&graph.ty(graph.arg(id)).shape, &graph.ty(id).shape);
            small.len() == large.len() && dims.iter().all(|d| small[*d].is_one())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_terms_share_comes_behind_the_sum() {
        let text = "graph(%0: f32[8, 4] \"g\", %1: f32[4] \"w\") {
          %2 = reshape(%1) : f32[1, 4]
          %3 = expand(%2) : f32[8, 4]
          %4 = mul(%0, %3) : f32[8, 4]
          %5 = neg(%4) : f32[8, 4]
          %6 = reduce(%5, op=sum, dims=[0]) : f32[1, 4]
          %7 = reduce(%0, op=sum, dims=[0]) : f32[1, 4]
          return %6, %7
        }";
        let (graph, fired) = factor_sums(Graph::parse(text).unwrap(), |_| true);
        assert_eq!(fired["factor-sums"], 1);
        // Both results are made of one sum of the gradient itself.
        let sums: Vec<&Node> = graph.nodes.iter().filter(|node| matches!(node.op, Op::Reduce { .. })).collect();
        assert_eq!(sums.len(), 1);
        assert_eq!(sums[0].args[0], NodeId(0));
    }
}
