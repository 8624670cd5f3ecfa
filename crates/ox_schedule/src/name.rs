//! Names of kernels, for people: the ops inside, the telling ones first.

use ox_ir::{Graph, NodeId, Op};

const LONGEST: usize = 5;
/// So many nodes of a kernel are looked at.
const BUDGET: usize = 200;
/// A kernel comes from so many lines at most, as far as is told.
const MOST_LINES: usize = 8;

pub fn kernel_name(graph: &Graph, members: &[NodeId], is_root: &[bool]) -> String {
    let mut words: Vec<&'static str> = Vec::new();
    for id in inside(graph, members, is_root) {
        if let Some(word) = word(&graph.node(id).op)
            && !words.contains(&word)
        {
            words.push(word);
        }
        if words.len() == LONGEST {
            break;
        }
    }
    if words.is_empty() { "copy".to_string() } else { words.join("_") }
}

/// Where the user's program has what the kernel computes, in the order of the program.
pub fn kernel_lines(graph: &Graph, members: &[NodeId], is_root: &[bool]) -> Vec<u32> {
    let mut nodes: Vec<NodeId> = inside(graph, members, is_root).collect();
    nodes.sort_unstable();
    let mut lines: Vec<u32> = Vec::new();
    for id in nodes {
        let line = graph.node(id).location;
        if lines.len() < MOST_LINES && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The nodes that a kernel computes, from its results on. One that is asked for twice comes twice.
fn inside<'a>(graph: &'a Graph, members: &[NodeId], is_root: &'a [bool]) -> impl Iterator<Item = NodeId> + 'a {
    let mut stack: Vec<(NodeId, bool)> = members.iter().rev().map(|m| (*m, true)).collect();
    let next = move || {
        loop {
            let (id, first) = stack.pop()?;
            if first || !is_root[id.index()] {
                stack.extend(graph.node(id).args.iter().map(|a| (*a, false)));
                return Some(id);
            }
        }
    };
    std::iter::from_fn(next).take(BUDGET)
}

fn word(op: &Op) -> Option<&'static str> {
    match op {
        Op::Point(op) => Some(op.name()),
        Op::Reduce { op, .. } | Op::Scan { op, .. } => Some(op.name()),
        Op::Cat { .. } => Some("cat"),
        Op::Pad { .. } => Some("pad"),
        Op::Index { .. } => Some("index"),
        Op::IndexPut { .. } => Some("scatter"),
        Op::SliceScatter(_) => Some("setslice"),
        _ => None,
    }
}
