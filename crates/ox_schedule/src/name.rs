//! Names of kernels, for people: the ops inside, the telling ones first.

use ox_ir::{Graph, NodeId, Op};

const LONGEST: usize = 5;

pub fn kernel_name(graph: &Graph, members: &[NodeId], is_root: &[bool]) -> String {
    let mut words: Vec<&'static str> = Vec::new();
    let mut stack: Vec<(NodeId, bool)> = members.iter().rev().map(|m| (*m, true)).collect();
    let mut budget = 200;
    while let Some((id, first)) = stack.pop() {
        budget -= 1;
        if budget == 0 || words.len() == LONGEST {
            break;
        }
        if is_root[id.index()] && !first {
            continue;
        }
        let node = graph.node(id);
        if let Some(word) = word(&node.op)
            && !words.contains(&word)
        {
            words.push(word);
        }
        stack.extend(node.args.iter().map(|a| (*a, false)));
    }
    if words.is_empty() { "copy".to_string() } else { words.join("_") }
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
