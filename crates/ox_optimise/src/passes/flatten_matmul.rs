//! A batched product whose second factor is one matrix for the whole batch becomes one product on the flattened rows: one large
//! call instead of many small ones, and no copies of the matrix.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::Sym;
use ox_ir::graph::{Args, Graph, Node, NodeId, Op, Shape};

pub fn flatten_matmul(graph: Graph) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("flatten-matmul", graph, flatten)
}

fn flatten(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Matmul { bias, .. } = node.op else { return None };
    let rank = node.ty.rank();
    let matrix = one_matrix(graph, node.args[1])?;
    if bias && !is_per_column(&graph.ty(node.args[2]).shape) {
        return None;
    }
    let rows: Sym = node.ty.shape[..rank - 1].iter().product();
    let flat = |graph: &mut Rewriter, x: NodeId| {
        let last = graph.ty(x).shape[rank - 1].clone();
        graph.reshape(x, Shape::from_iter([rows.clone(), last]))
    };
    let mut args = Args::from_iter([flat(graph, node.args[0]), matrix]);
    for (n, arg) in node.args.iter().enumerate().skip(2) {
        let is_bias = bias && n == 2;
        let arg = if is_bias { vector(graph, *arg) } else { flat(graph, *arg) };
        args.push(arg);
    }
    let ty = node.ty.with_shape(Shape::from_iter([rows.clone(), node.ty.shape[rank - 1].clone()]));
    let product = graph.make(node.op.clone(), args, ty);
    Some(graph.reshape(product, node.ty.shape.clone()))
}

/// The one matrix that is repeated over all batch dimensions.
fn one_matrix(graph: &mut Rewriter, x: NodeId) -> Option<NodeId> {
    let rank = graph.ty(x).rank();
    if *graph.op(x) != Op::Expand || rank < 3 {
        return None;
    }
    let source = graph.arg(x);
    let (small, large) = (&graph.ty(source).shape, &graph.ty(x).shape);
    let matrix: Shape = small[rank - 2..].iter().cloned().collect();
    let repeated = small[..rank - 2].iter().all(Sym::is_one) && matrix[..] == large[rank - 2..];
    repeated.then(|| graph.reshape(source, matrix))
}

fn is_per_column(bias: &[Sym]) -> bool {
    bias[..bias.len() - 1].iter().all(Sym::is_one)
}

fn vector(graph: &mut Rewriter, bias: NodeId) -> NodeId {
    let last = graph.ty(bias).shape.last().expect("a bias has a dimension").clone();
    graph.reshape(bias, Shape::from_iter([last]))
}
