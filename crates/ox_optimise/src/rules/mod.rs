//! The rewrite rules, grouped by subject. A rule looks at one node whose arguments are already in their simplest form, and gives
//! an equal node or nothing. Rules are exact: the replacement has the same value, bit for bit, for every input (the
//! payload of a NaN excepted).
//!
//! What a rule makes is emitted through the Rewriter and so is simplified again. Rules must therefore move towards one
//! form. For views that form is `expand(permute(reshape(slice(x))))`, with what is trivial left out.

mod arithmetic;
mod assembly;
mod casts;
mod choices;
mod constants;
mod gather;
mod logic;
pub mod pattern;
#[cfg(test)]
mod pattern_tests;
mod positions;
mod power;
mod reductions;
mod slices;
pub mod views;

use crate::rewriter::Rewriter;
use ox_ir::graph::{Node, NodeId, Op};

/// A rule that needs more than a pattern of scalar operations.
pub struct Rule {
    pub name: &'static str,
    pub apply: fn(&mut Rewriter, &Node) -> Option<NodeId>,
}

/// The first rule that applies, and what it makes of the node.
pub fn apply(graph: &mut Rewriter, node: &Node) -> Option<(&'static str, NodeId)> {
    if let Op::Point(op) = node.op
        && let Some(hit) = pattern::apply(graph, node, op)
    {
        return Some(hit);
    }
    rules_for(&node.op).iter().find_map(|rule| (rule.apply)(graph, node).map(|id| (rule.name, id)))
}

fn rules_for(op: &Op) -> &'static [Rule] {
    match op {
        Op::Point(_) => constants::POINT,
        Op::Cast => casts::CAST,
        Op::SymValue(_) => constants::SYM_VALUE,
        Op::Iota { .. } => views::IOTA,
        Op::Reshape => views::RESHAPE,
        Op::Permute(_) => views::PERMUTE,
        Op::Expand => views::EXPAND,
        Op::Slice(_) => slices::SLICE,
        Op::Pad { .. } => assembly::PAD,
        Op::Cat { .. } => assembly::CAT,
        Op::SliceScatter(_) => assembly::SLICE_SCATTER,
        Op::Index { .. } => gather::INDEX,
        Op::Reduce { .. } => reductions::REDUCE,
        Op::Scan { .. } => reductions::SCAN,
        _ => &[],
    }
}
