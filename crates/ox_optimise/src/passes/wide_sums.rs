//! Sums that are scattered are taken in f32 on a GPU, and rounded once: rows of an embedding that come up often are added in an order that varies,
//! and each addition in 16 bits would round.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::DType;
use ox_ir::graph::{Combine, Graph, Node, NodeId, Op, ReduceOp};

pub fn wide_sums(graph: Graph) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("wide-sums", graph, |graph, node| {
        let sums = matches!(node.op, Op::IndexPut { combine: Combine::With(ReduceOp::Sum), .. });
        (sums && matches!(node.ty.dtype, DType::F16 | DType::BF16)).then(|| widen(graph, node))
    })
}

fn widen(graph: &mut Rewriter, node: &Node) -> NodeId {
    let mut args = node.args.clone();
    let last = args.len() - 1;
    for at in [0, last] {
        args[at] = graph.cast(args[at], DType::F32);
    }
    let wide = graph.make(node.op.clone(), args, node.ty.with_dtype(DType::F32));
    graph.cast(wide, node.ty.dtype)
}
