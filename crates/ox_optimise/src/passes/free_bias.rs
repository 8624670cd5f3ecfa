//! The inverse of `fuse_bias` where that is faster: a product whose users are all fused kernels leaves its bias to them.
//!
//! torch's `addmm` first copies the bias into every row of the result, a pass over memory that a kernel which reads the
//! product anyway saves. Only for f32 and f64: in a half type the sum would be rounded twice.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Graph, Node, NodeId, Op, Post, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub fn free_bias(graph: Graph) -> (Graph, Fired) {
    let computed = only_computed_with(&graph);
    let mut place = 0;
    Rewriter::new().rebuild(graph, |new, node| {
        let free = computed[place] && has_plain_bias(&node);
        place += 1;
        if free { split(new, node) } else { new.emit(node) }
    })
}

fn has_plain_bias(node: &Node) -> bool {
    let plain = matches!(&node.op, Op::Matmul { bias: true, add: false, beta, post: Post::None, .. } if beta.as_f64() == 1.0);
    plain && matches!(node.ty.dtype, DType::F32 | DType::F64)
}

/// For each node: whether all that happens to it, seen through views, is done by kernels.
fn only_computed_with(graph: &Graph) -> Vec<bool> {
    let mut only = vec![true; graph.nodes.len()];
    graph.roots().for_each(|id| only[id.index()] = false);
    for id in graph.ids().rev() {
        let node = graph.node(id);
        let stays = if node.op.is_view() { only[id.index()] } else { !node.op.is_call() };
        if !stays {
            node.args.iter().for_each(|a| only[a.index()] = false);
        }
    }
    only
}

fn split(new: &mut Rewriter, mut node: Node) -> NodeId {
    let bias = node.args.pop().expect("a product with a bias has three arguments");
    if let Op::Matmul { bias, beta, .. } = &mut node.op {
        *bias = false;
        *beta = Scalar::Float(1.0);
    }
    let ty = node.ty.clone();
    let product = new.emit(node);
    let mut ones: Shape = ty.shape.iter().map(|_| Sym::ONE).collect();
    let given = new.ty(bias).shape.clone();
    let from = ones.len() - given.len();
    ones[from..].clone_from_slice(&given);
    let row = new.reshape(bias, ones);
    let spread = new.make(Op::Expand, [row], new.ty(row).with_shape(ty.shape.clone()));
    let sum = new.make(Op::Point(PointOp::Add), [product, spread], ty);
    new.fire("free-bias", sum)
}
