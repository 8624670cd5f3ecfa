//! Operations that fail for some values, where nobody needs all that they give.
//!
//! Whatever is computed lazily is checked as far as it is asked for: of `table[index][0]` only the first index would be looked at, and of what is overwritten
//! none. Eager looks at all of them. So a graph has results beside those that the program sees, which ask for the rest.

use crate::builder::Builder;
use ox_ir::graph::{Combine, Dims, GraphOutput, Memory, Node, NodeId, Op, contiguous_strides};
use ox_ir::{DType, Device, Graph, PointOp, Scalar, Sym};

/// How much of a value is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Need {
    None,
    Part,
    Whole,
}

/// The graph with a result more for each operation of which nobody would see that it fails. A GPU tells of such things late, or not at all: there it stays as it is.
pub fn with_unseen(graph: Graph) -> Graph {
    let may_fail = |id: &NodeId| can_fail(&graph, graph.node(*id));
    if !graph.ids().any(|id| may_fail(&id)) {
        return graph;
    }
    let needs = needs(&graph);
    let enough = |id: &NodeId| match graph.node(*id).op {
        // What is written is written as a whole.
        Op::IndexPut { .. } => Need::Part,
        _ => Need::Whole,
    };
    let is_unseen = |id: &NodeId| may_fail(id) && needs[id.index()] < enough(id);
    let unseen: Vec<NodeId> = graph.ids().filter(is_unseen).collect();
    unseen.into_iter().fold(graph, ask_for)
}

fn can_fail(graph: &Graph, node: &Node) -> bool {
    node.ty.device == Device::Cpu
        && match &node.op {
            Op::Index { .. } | Op::IndexPut { .. } => true,
            Op::Point(op) => op.is_division() && !node.ty.dtype.is_float() && !is_nonzero(graph, node.args[1]),
            _ => false,
        }
}

/// Whether it is a number, and not 0.
fn is_nonzero(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    match &node.op {
        Op::Full(value) => value.as_i64() != 0,
        Op::Expand | Op::Reshape => is_nonzero(graph, node.args[0]),
        _ => false,
    }
}

fn is_constant(graph: &Graph, id: NodeId) -> bool {
    match &graph.node(id).op {
        Op::Full(_) => true,
        Op::Expand | Op::Reshape | Op::Cast => is_constant(graph, graph.node(id).args[0]),
        _ => false,
    }
}

fn needs(graph: &Graph) -> Vec<Need> {
    let mut needs = vec![Need::None; graph.nodes.len()];
    graph.roots().for_each(|root| needs[root.index()] = Need::Whole);
    for id in graph.ids().rev() {
        let node = graph.node(id);
        if matches!(&node.op, Op::Library(library) if library.effect) {
            needs[id.index()] = Need::Whole;
        }
        if needs[id.index()] == Need::None {
            continue;
        }
        for (k, arg) in node.args.iter().enumerate() {
            let asked = asked(graph, node, k, needs[id.index()]);
            needs[arg.index()] = needs[arg.index()].max(asked);
        }
    }
    needs
}

/// How much of its `k`-th argument a node needs of which so much is needed.
fn asked(graph: &Graph, node: &Node, k: usize, need: Need) -> Need {
    let ty = graph.ty(node.args[k]);
    match &node.op {
        Op::Slice(_) | Op::Diagonal { .. } | Op::Unfold { .. } if ty.numel() != node.ty.numel() => Need::Part,
        Op::Pad { low, .. } if !(0..low.len()).all(|d| surrounds(&low[d], &ty.shape[d], &node.ty.shape[d])) => Need::Part,
        Op::SliceScatter(_) | Op::Index { .. } if k == 0 => Need::Part,
        Op::IndexPut { combine: Combine::Set, .. } if k == 0 => Need::Part,
        Op::Point(PointOp::Where) if k > 0 && is_constant(graph, node.args[0]) => Need::Part,
        Op::IndexPut { .. } if k == 0 => need,
        // These are never computed in part.
        Op::IndexPut { .. }
        | Op::Matmul { .. }
        | Op::Conv(_)
        | Op::Attention(_)
        | Op::Pack(_)
        | Op::Library(_)
        | Op::Project(_) => Need::Whole,
        // Among them the path that a gradient takes, which goes by the indices of the value beside it.
        _ => need,
    }
}

/// Whether nothing of a dimension is cut off by a pad.
fn surrounds(low: &Sym, size: &Sym, padded: &Sym) -> bool {
    low.is_nonneg() && (padded - &(low + size)).is_nonneg()
}

/// A result more: the operation itself where it divides, and of those that go by indices what asks for these alone.
fn ask_for(graph: Graph, id: NodeId) -> Graph {
    let (node, outputs, mutations) = (graph.node(id).clone(), graph.outputs.clone(), graph.mutations.clone());
    let mut b = Builder::resume(graph, node.ty.device);
    b.stand_at(node.location);
    let value = match &node.op {
        Op::Index { dims, bounds, .. } | Op::IndexPut { dims, bounds, .. } => {
            let rows = rows(&b.ty(node.args[0]).shape, dims);
            let nothing = b.full(Scalar::Bool(false), DType::Bool, &rows);
            let at = Dims::from_iter(0..dims.len());
            b.index(nothing, &node.args[1..=dims.len()], &at, 0, *bounds).ok()
        }
        _ => Some(id),
    };
    let strides = value.map(|value| contiguous_strides(&b.ty(value).shape));
    let result = value.zip(strides).map(|(value, strides)| GraphOutput { value, strides, alias: None, memory: Memory::Any });
    b.finish(outputs.into_iter().chain(result).collect(), mutations)
}

/// The sizes of the indexed dimensions, in the order of their indices.
fn rows(shape: &[Sym], dims: &[usize]) -> Vec<Sym> {
    dims.iter().map(|d| shape[*d].clone()).collect()
}
