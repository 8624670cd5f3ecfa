//! Heads of keys and values that are repeated for groups of queries: torch's flash attention on a CPU reads each of them as often as it is
//! needed, so nothing is repeated in memory (a token behind a cache: the whole cache, in every layer).

use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{Graph, Node, NodeId, Op, Shape};

pub fn grouped_attention(graph: Graph) -> (Graph, Fired) {
    Rewriter::new().rebuild_with("grouped-attention", graph, group)
}

fn group(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Attention(_) = &node.op else { return None };
    let (keys, values) = (Repeated::of(graph, node.args[1])?, Repeated::of(graph, node.args[2])?);
    let heads = |repeated: &Repeated| repeated.shape[repeated.shape.len() - 3].clone();
    if heads(&keys) != heads(&values) {
        return None;
    }
    let mut args = node.args.clone();
    args[1] = graph.reshape(keys.of, keys.shape);
    args[2] = graph.reshape(values.of, values.shape);
    Some(graph.make(node.op.clone(), args, node.ty.clone()))
}

/// A tensor each of whose heads was there several times, one behind the other.
struct Repeated {
    of: NodeId,
    /// With each head once.
    shape: Shape,
}

impl Repeated {
    fn of(graph: &Rewriter, id: NodeId) -> Option<Repeated> {
        let joined = &graph.ty(id).shape;
        let wide = (*graph.op(id) == Op::Reshape && joined.len() >= 3).then(|| graph.arg(id))?;
        let of = (*graph.op(wide) == Op::Expand).then(|| graph.arg(wide))?;
        let (single, several) = (&graph.ty(of).shape, &graph.ty(wide).shape);
        // Behind the heads.
        let times = joined.len() - 2;
        let is_repeated = several.len() == joined.len() + 1
            && (0..several.len()).all(|d| if d == times { single[d].is_one() } else { single[d] == several[d] });
        if !is_repeated {
            return None;
        }
        let heads = &several[times - 1] * &several[times];
        let same =
            joined[..times - 1] == several[..times - 1] && joined[times - 1] == heads && joined[times..] == several[times + 1..];
        let shape = single.iter().enumerate().filter(|(d, _)| *d != times).map(|(_, size)| size.clone());
        same.then(|| Repeated { of, shape: shape.collect() })
    }
}
