//! Tensors without elements: nothing is computed for them, and a reduction over nothing is its neutral element.

use ox_ir::graph::ReduceOp;
use ox_ir::{DType, Graph, Op, Scalar, TensorType};

fn is_empty(ty: &TensorType) -> bool {
    ty.shape.iter().any(|n| n.is_zero())
}

/// The graph with every empty value, and every reduction over one, as a constant.
pub fn replace_empty(graph: &Graph) -> Graph {
    let mut out = graph.clone();
    for id in graph.ids() {
        let node = graph.node(id);
        if matches!(node.op, Op::Input(_) | Op::Library(_) | Op::Project(_)) {
            continue;
        }
        let constant = match &node.op {
            _ if is_empty(&node.ty) => Some(Scalar::Int(0)),
            Op::Reduce { op, .. } if is_empty(graph.ty(node.args[0])) => of_nothing(*op, node.ty.dtype),
            Op::Matmul { bias: false, add: false, .. } if is_empty(graph.ty(node.args[0])) => Some(Scalar::Int(0)),
            _ => None,
        };
        if let Some(value) = constant {
            let node = &mut out.nodes[id.index()];
            node.op = Op::Full(value);
            node.args.clear();
        } else if matches!(node.op, Op::Cat { .. }) {
            out.nodes[id.index()].args.retain(|a| !is_empty(graph.ty(*a)));
        }
    }
    out
}

/// What a reduction over no elements gives, where torch defines it.
fn of_nothing(op: ReduceOp, dtype: DType) -> Option<Scalar> {
    let undefined = op.is_arg() || (matches!(op, ReduceOp::Max | ReduceOp::Min) && !dtype.is_float());
    (!undefined).then(|| op.neutral(dtype))
}
