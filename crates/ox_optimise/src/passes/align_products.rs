//! A product in 16 bits whose rows do not begin at multiples of 16 bytes (a vocabulary of 50257) is computed by a GPU in small pieces. With a few
//! columns of zeros in the weight, all rows are aligned; nobody looks at the columns that they give. To write them and to copy the weight costs
//! less, if there are enough rows.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Args, Graph, Node, NodeId, Op, Shape, SliceDim};
use ox_ir::{Scalar, Sym};

/// Elements of 16 bits in 16 bytes.
const STEP: i64 = 8;

/// With fewer than `least` columns, or rows, it is not worth a copy of the weight.
pub fn align_products(graph: Graph, least: i64) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("align-products", graph, |graph, node| align(graph, node, least))
}

fn align(graph: &mut Rewriter, node: &Node, least: i64) -> Option<NodeId> {
    let Op::Matmul { bias, add: false, .. } = node.op else { return None };
    let [rows, columns] = &node.ty.shape[..] else { return None };
    let (rows, columns) = (rows.as_const()?, columns.as_const()?);
    let (weight, depth) = linear_weight(graph, node.args[1])?;
    if node.ty.dtype.size() != 2 || rows < least || columns < least || columns % STEP == 0 || depth % STEP != 0 {
        return None;
    }
    let padded = Sym::from((columns + STEP - 1) / STEP * STEP);
    let weight = pad(graph, weight, &padded);
    let mut args = Args::from_iter([node.args[0], graph.permute(weight, [1, 0].into_iter().collect())]);
    if bias {
        if graph.ty(node.args[2]).rank() != 1 {
            return None;
        }
        args.push(pad(graph, node.args[2], &padded));
    }
    let ty = node.ty.with_shape(Shape::from_iter([node.ty.shape[0].clone(), padded]));
    let product = graph.make(node.op.clone(), args, ty);
    let whole = SliceDim { start: Sym::ZERO, step: 1 };
    Some(graph.slice(product, vec![whole.clone(), whole], node.ty.shape.clone()))
}

/// The weight of `linear`, [columns, depth], and its depth.
fn linear_weight(graph: &Rewriter, x: NodeId) -> Option<(NodeId, i64)> {
    match graph.op(x) {
        Op::Permute(perm) if perm[..] == [1, 0] => {
            let weight = graph.arg(x);
            Some((weight, graph.ty(weight).shape[1].as_const()?))
        }
        _ => None,
    }
}

/// With zeros behind the first dimension.
fn pad(graph: &mut Rewriter, x: NodeId, first: &Sym) -> NodeId {
    let mut ty = graph.ty(x).clone();
    ty.shape[0] = first.clone();
    let low = ty.shape.iter().map(|_| Sym::ZERO).collect();
    graph.make(Op::Pad { low, value: Scalar::Float(0.0) }, [x], ty)
}
