//! A product in 16 bits whose rows do not begin at multiples of 16 bytes (a vocabulary of 50257) is computed by a GPU in small pieces. With a few
//! columns of zeros in the weight, all rows are aligned; nobody looks at the columns that they give. To write them and to copy the weight costs
//! less, if there are enough rows. A result of the graph has eager's rows: it would be there twice, and is left to the runtime, which copies it bit by
//! bit.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Args, Graph, Node, NodeId, Op, Shape, SliceDim};
use ox_ir::{Scalar, Sym};

/// Elements of 16 bits in 16 bytes.
const STEP: i64 = 8;

/// With fewer than `least` columns, or rows, it is not worth a copy of the weight.
pub fn align_products(graph: Graph, least: i64) -> (Graph, Fired) {
    let returned = returned(&graph);
    let mut place = 0;
    Rewriter::new().rebuild(graph, |graph, node| {
        place += 1;
        let wide = if returned[place - 1] { None } else { align(graph, &node, least) };
        let better = wide.or_else(|| align_depth(graph, &node, least)).or_else(|| align_rows(graph, &node, least));
        match better {
            Some(id) => graph.fire("align-products", id),
            None => graph.emit(node),
        }
    })
}

/// Which nodes are results of the graph, as they are or in other dimensions.
fn returned(graph: &Graph) -> Vec<bool> {
    let mut returned = vec![false; graph.nodes.len()];
    for output in &graph.outputs {
        let mut at = output.value;
        returned[at.index()] = true;
        while let Op::Reshape | Op::Detach = graph.node(at).op {
            at = graph.node(at).args[0];
            returned[at.index()] = true;
        }
    }
    returned
}

/// Gradients are copied whole, not only a weight: so many times as many columns must be there.
const OF_GRADIENTS: i64 = 8;

/// The next multiple of what is aligned, if a size is large and no such multiple itself.
fn aligned(size: &Sym, least: i64) -> Option<Sym> {
    let size = size.as_const().filter(|n| *n >= OF_GRADIENTS * least && n % STEP != 0)?;
    Some(Sym::from((size + STEP - 1) / STEP * STEP))
}

/// Gradients of logits times the weight: what is summed over lies side by side in the gradients. Zeros add nothing.
fn align_depth(graph: &mut Rewriter, node: &Node, least: i64) -> Option<NodeId> {
    let (Op::Matmul { .. }, 2, 2) = (&node.op, node.ty.rank(), node.ty.dtype.size()) else { return None };
    let [x, y] = [node.args[0], node.args[1]];
    if is_flipped(graph, x) || is_flipped(graph, y) || node.ty.shape[0].as_const()? < least {
        return None;
    }
    let depth = aligned(&graph.ty(x).shape[1], least)?;
    let mut args = node.args.clone();
    (args[0], args[1]) = (pad(graph, x, 1, &depth), pad(graph, y, 0, &depth));
    Some(graph.make(node.op.clone(), args, node.ty.clone()))
}

/// Gradients of logits, turned, times what the weight was multiplied with: nobody looks at the rows that zeros give.
fn align_rows(graph: &mut Rewriter, node: &Node, least: i64) -> Option<NodeId> {
    let (Op::Matmul { add: false, bias, .. }, 2, 2) = (&node.op, node.ty.rank(), node.ty.dtype.size()) else { return None };
    let x = node.args[0];
    // A bias that has rows of its own would have to be padded too.
    if *bias && graph.ty(node.args[2]).rank() != 1 {
        return None;
    }
    if !is_flipped(graph, x) || graph.ty(x).shape[1].as_const()? < least {
        return None;
    }
    let rows = aligned(&node.ty.shape[0], least)?;
    let source = graph.arg(x);
    let source = pad(graph, source, 1, &rows);
    let mut args = node.args.clone();
    args[0] = graph.permute(source, [1, 0].into_iter().collect());
    let ty = node.ty.with_shape(Shape::from_iter([rows, node.ty.shape[1].clone()]));
    let product = graph.make(node.op.clone(), args, ty);
    let whole = SliceDim { start: Sym::ZERO, step: 1 };
    Some(graph.slice(product, vec![whole.clone(), whole], node.ty.shape.clone()))
}

fn is_flipped(graph: &Rewriter, x: NodeId) -> bool {
    matches!(graph.op(x), Op::Permute(_))
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
    let weight = pad(graph, weight, 0, &padded);
    let mut args = Args::from_iter([node.args[0], graph.permute(weight, [1, 0].into_iter().collect())]);
    if bias {
        if graph.ty(node.args[2]).rank() != 1 {
            return None;
        }
        args.push(pad(graph, node.args[2], 0, &padded));
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

/// With zeros behind a dimension.
fn pad(graph: &mut Rewriter, x: NodeId, dim: usize, size: &Sym) -> NodeId {
    let mut ty = graph.ty(x).clone();
    ty.shape[dim] = size.clone();
    let low = ty.shape.iter().map(|_| Sym::ZERO).collect();
    graph.make(Op::Pad { low, value: Scalar::Float(0.0) }, [x], ty)
}
