//! Which nodes get memory of their own ("roots"), and which are computed where they are used.
//!
//! A root that ends up in one kernel with all its users is never written; being a root only means that it may be.

use crate::cost::{bytes, estimate, numel, op_cost};
use crate::emit::is_in_pieces;
use crate::layout::{is_memory, view_base};
use ox_ir::graph::Node;
use ox_ir::{Device, Graph, NodeId, Op};

/// A value whose computation costs more than this many cycles per vector is not repeated for a second user.
const CHEAP: i64 = 8;
/// An expression is cut when it grows beyond this.
const MOST_INLINED: i64 = 200;
/// Lanes of the widest vector. Where two parts of a row meet, one is computed for both.
const LANES: i64 = 16;
/// So many elements in all, at most one more is computed twice.
const ONCE: i64 = 8;
/// More are not asked of where the whole is used.
pub const MOST_CAT_PARTS: usize = 4;

/// Of fewer a kernel of their own takes longer than their functions one by one.
const LEAST_SCATTERED: i64 = 1024;

pub struct Roots {
    pub is_root: Vec<bool>,
    /// Roots that are needed in memory whatever is fused: outputs, write-backs, arguments of library calls.
    pub required: Vec<bool>,
}

/// How an inlined expression adds up.
#[derive(Clone, Copy, Default)]
struct Inline {
    cost: i64,
    /// Bytes read from memory that is as large as the result.
    read: i64,
}

pub fn choose_roots(graph: &Graph) -> Roots {
    let required = required(graph);
    let uses = count_uses(graph);
    let mut is_root = vec![false; graph.nodes.len()];
    let mut inline = vec![Inline::default(); graph.nodes.len()];
    for id in graph.ids() {
        let op = &graph.node(id).op;
        let sum = inlined(graph, id, &is_root, &inline);
        inline[id.index()] = sum;
        is_root[id.index()] = required[id.index()]
            || is_memory(op)
            || needs_own_loop(op)
            || (is_computed(op) && worth_keeping(graph, id, sum, uses[id.index()]));
    }
    Roots { is_root, required }
}

/// Done by a kernel of its own kind: its value exists only after a whole loop.
pub fn needs_own_loop(op: &Op) -> bool {
    matches!(op, Op::Reduce { .. } | Op::Scan { .. } | Op::IndexPut { .. })
}

fn is_computed(op: &Op) -> bool {
    matches!(op, Op::Point(_) | Op::Cast | Op::Pad { .. } | Op::Cat { .. } | Op::SliceScatter(_) | Op::Index { .. })
}

fn required(graph: &Graph) -> Vec<bool> {
    let mut required = vec![false; graph.nodes.len()];
    let outputs = graph.outputs.iter().filter(|o| o.alias.is_none()).map(|o| o.value);
    let written = graph.mutations.iter().map(|m| m.value);
    let calls = graph.nodes.iter().filter(|n| n.op.is_call()).flat_map(|n| n.args.iter().copied());
    for id in outputs.chain(written).chain(calls) {
        required[view_base(graph, id).index()] = true;
    }
    required
}

#[derive(Clone, Copy, Default)]
struct Uses {
    count: usize,
    /// The most elements that one user computes from one element of this node.
    spread: i64,
    /// Whether a loop that goes one by one reads it.
    one_by_one: bool,
    /// Whether parts of it are used as one, where some elements are computed for each of them.
    overlaps: bool,
}

/// Users of each node, seen through views.
fn count_uses(graph: &Graph) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); graph.nodes.len()];
    for id in graph.ids().filter(|id| !graph.node(*id).op.is_view()) {
        let node = graph.node(id);
        let work = node.args.iter().map(|a| numel(graph.ty(*a))).max().unwrap_or(1);
        for (n, arg) in node.args.iter().enumerate() {
            let base = view_base(graph, *arg);
            let u = &mut uses[base.index()];
            if is_part_of_one_use(graph, node, n, base) {
                u.overlaps |= !are_apart(graph, node, base);
                continue;
            }
            u.count += 1;
            u.one_by_one |= n + 1 == node.args.len() && scatters_one_by_one(graph, node);
            // A gather takes only what it needs of its source.
            let gathered = matches!(node.op, Op::Index { .. }) && *arg == node.args[0];
            let work = if gathered { numel(&node.ty) } else { work };
            u.spread = u.spread.max(work / numel(graph.ty(base)));
        }
    }
    uses
}

/// Whether nothing of what it writes lies side by side, on a CPU: the loop has no lanes, and the functions in it would have none.
fn scatters_one_by_one(graph: &Graph, node: &Node) -> bool {
    let is_last = |dim: &usize| dim + 1 == node.ty.rank();
    let Op::IndexPut { dims, .. } = &node.op else { return false };
    let values = node.args.last().map_or(0, |values| numel(graph.ty(*values)));
    node.ty.device == Device::Cpu && dims.iter().any(is_last) && values >= LEAST_SCATTERED
}

/// Where the code generator knows in which part of a concatenation it is, each part takes only its own elements: several parts of one value that are
/// about as large as that together use it once.
fn is_part_of_one_use(graph: &Graph, node: &Node, n: usize, base: NodeId) -> bool {
    if !is_in_pieces(node) || node.ty.device != Device::Cpu {
        return false;
    }
    node.args[..n].iter().any(|arg| view_base(graph, *arg) == base) && taken(graph, node, base) <= numel(graph.ty(base)) / 2 * 3
}

/// Elements that the parts of a concatenation take of a value.
fn taken(graph: &Graph, node: &Node, base: NodeId) -> i64 {
    let parts = node.args.iter().filter(|arg| view_base(graph, **arg) == base);
    parts.map(|arg| numel(graph.ty(*arg))).sum()
}

/// Whether nearly every element is computed once: nearly all vectors of a row lie in one part, and the parts have few elements in common.
fn are_apart(graph: &Graph, node: &Node, base: NodeId) -> bool {
    let (row, whole) = (node.ty.shape.last().map_or(1, estimate), numel(graph.ty(base)));
    let seams = node.args.len() as i64 - 1;
    row >= seams * LANES * ONCE && taken(graph, node, base) <= whole + whole / ONCE
}

fn inlined(graph: &Graph, id: NodeId, is_root: &[bool], inline: &[Inline]) -> Inline {
    let mut sum = Inline { cost: op_cost(graph, id), read: 0 };
    let size = numel(graph.ty(id));
    for arg in &graph.node(id).args {
        if is_root[arg.index()] || matches!(graph.node(*arg).op, Op::Input(_)) {
            sum.cost += 1;
            if numel(graph.ty(*arg)) >= size / 2 {
                sum.read = sum.read.saturating_add(bytes(graph.ty(*arg)));
            }
        } else {
            sum.cost += inline[arg.index()].cost;
            sum.read = sum.read.saturating_add(inline[arg.index()].read);
        }
    }
    sum
}

/// Storing costs a write and a read of the value; not storing costs computing it again for every further user, and reading what it is made of.
fn worth_keeping(graph: &Graph, id: NodeId, sum: Inline, uses: Uses) -> bool {
    let node = graph.node(id);
    if matches!(&node.op, Op::Cat { .. }) && node.args.len() > MOST_CAT_PARTS || sum.cost > MOST_INLINED {
        return true;
    }
    let repeated = uses.count > 1 || uses.spread >= 4 || uses.overlaps;
    let reads_more = uses.count > 1 && sum.read > bytes(&node.ty);
    repeated && (sum.cost > CHEAP || reads_more) || uses.one_by_one && sum.cost > CHEAP
}
