//! Reductions with too few rows for the threads, cut into two: many partial results, then one over them.

use crate::Target;
use crate::cost::estimate;
use ox_ir::graph::{Dims, Node, Shape};
use ox_ir::{Graph, NodeId, Op, Sym};

/// Below so many elements a second kernel costs more than it saves.
const WORTH_SPLITTING: i64 = 1 << 16;

/// With at least so many rows a reduction keeps the threads busy by itself. A block of a GPU has one row that it reads along, or 32
/// that lie side by side.
fn enough_rows(target: Target, along: bool) -> i64 {
    match (target, along) {
        (Target::Cpu, _) => 16,
        (Target::Gpu, true) => 256,
        (Target::Gpu, false) => 8192,
    }
}

/// Into how many parts a reduction of `rows` rows may be cut.
fn parts(target: Target, enough: i64, rows: i64) -> std::ops::RangeInclusive<i64> {
    match target {
        Target::Cpu => 8..=128,
        Target::Gpu => 2..=(2 * enough / rows.max(1)).clamp(2, 1024),
    }
}

pub fn split_reductions(graph: &Graph, target: Target) -> Graph {
    let mut out = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..graph.clone() };
    let mut renamed: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for id in graph.ids() {
        let mut node = graph.node(id).clone();
        node.args.iter_mut().for_each(|a| *a = renamed[a.index()]);
        let made = match cut(graph, id, target) {
            Some((dim, parts)) => push_split(&mut out, node, dim, parts),
            None => out.push(node),
        };
        renamed.push(made);
    }
    out.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
    out.mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
    out
}

/// The dimension to cut and into how many parts, if the reduction should be cut.
fn cut(graph: &Graph, id: NodeId, target: Target) -> Option<(usize, i64)> {
    let node = graph.node(id);
    let Op::Reduce { op, dims } = &node.op else { return None };
    let shape = &graph.ty(node.args[0]).shape;
    let (rows, all) = (estimate(&node.ty.numel()), estimate(&shape.iter().product()));
    let enough = enough_rows(target, dims.contains(&(shape.len().max(1) - 1)));
    if op.is_arg() || rows >= enough || all < WORTH_SPLITTING {
        return None;
    }
    dims.iter().find_map(|d| Some((*d, divisor(shape[*d].as_const()?, parts(target, enough, rows))?)))
}

/// The largest useful number of equal parts.
fn divisor(n: i64, parts: std::ops::RangeInclusive<i64>) -> Option<i64> {
    parts.rev().find(|k| n % k == 0)
}

fn push_split(graph: &mut Graph, node: Node, dim: usize, parts: i64) -> NodeId {
    let Op::Reduce { op, dims } = &node.op else { unreachable!("only reductions are cut") };
    let given = graph.ty(node.args[0]).clone();
    let mut shape: Shape = given.shape.iter().cloned().collect();
    shape[dim] = Sym::from(parts);
    shape.insert(dim + 1, given.shape[dim].div(&Sym::from(parts)));
    let inner: Dims = dims.iter().map(|d| if *d >= dim { d + 1 } else { *d }).collect();
    let mut partial: Shape = shape.clone();
    inner.iter().for_each(|d| partial[*d] = Sym::ONE);
    let mut single = partial.clone();
    single[dim] = Sym::ONE;
    let location = node.location;
    let mut push =
        |op: Op, arg: NodeId, ty: ox_ir::TensorType| graph.push(Node { op, args: [arg].into_iter().collect(), ty, location });
    let cut = push(Op::Reshape, node.args[0], given.with_shape(shape));
    let first = push(Op::Reduce { op: *op, dims: inner }, cut, node.ty.with_shape(partial));
    let second = push(Op::Reduce { op: *op, dims: Dims::from_iter([dim]) }, first, node.ty.with_shape(single));
    push(Op::Reshape, second, node.ty.clone())
}
