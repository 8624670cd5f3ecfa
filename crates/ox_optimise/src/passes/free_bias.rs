//! The inverse of `fuse_bias` where that is faster: a call whose users are all fused kernels leaves its bias to them, which saves the
//! library a pass over memory. Where the library makes that pass in any case the bias is a kernel's, whoever reads the result: it does more on its way.

use crate::FreeBias;
use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Graph, Node, NodeId, Op, Post, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub fn free_bias(graph: Graph, whose: FreeBias) -> (Graph, Fired) {
    let computed = only_computed_with(&graph);
    let mut place = 0;
    Rewriter::new().rebuild(graph, |new, node| {
        let free = (computed[place] || is_added_apart(&node, whose)) && has_plain_bias(&node, whose);
        place += 1;
        if free { split(new, node) } else { new.emit(node) }
    })
}

fn has_plain_bias(node: &Node, whose: FreeBias) -> bool {
    match (&node.op, whose) {
        (Op::Matmul { bias: true, add: false, beta, post: Post::None, .. }, FreeBias::OfProducts) => {
            beta.as_f64() == 1.0 && matches!(node.ty.dtype, DType::F32 | DType::F64)
        }
        (Op::Conv(attrs), FreeBias::OfConvolutions) => attrs.bias && !attrs.add && attrs.post == Post::None,
        _ => false,
    }
}

/// Whether the library adds it by a kernel of its own. That for convolutions of single channels adds it before it rounds.
fn is_added_apart(node: &Node, whose: FreeBias) -> bool {
    whose == FreeBias::OfConvolutions && matches!(&node.op, Op::Conv(attrs) if attrs.groups.is_one())
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
    let bias = node.args.pop().expect("a call with a bias has three arguments");
    // The dimension that the bias lies along: of a product the last, of a convolution the channels'.
    let mut along = node.ty.shape.len() - 1;
    match &mut node.op {
        Op::Matmul { bias, beta, .. } => {
            *bias = false;
            *beta = Scalar::Float(1.0);
        }
        Op::Conv(attrs) => {
            attrs.bias = false;
            along = 1;
        }
        _ => unreachable!("only products and convolutions have a bias"),
    }
    let ty = node.ty.clone();
    let product = new.emit(node);
    let mut ones: Shape = ty.shape.iter().map(|_| Sym::ONE).collect();
    let given = new.ty(bias).shape.clone();
    let from = along + 1 - given.len();
    ones[from..=along].clone_from_slice(&given);
    let row = new.reshape(bias, ones);
    let spread = new.make(Op::Expand, [row], new.ty(row).with_shape(ty.shape.clone()));
    let sum = new.make(Op::Point(PointOp::Add), [product, spread], ty);
    new.fire("free-bias", sum)
}
