//! Applies the rewrite rules to every node, and shares equal nodes.

use crate::rewriter::{Fired, Rewriter};
use ox_ir::Graph;

pub fn simplify(graph: Graph) -> (Graph, Fired) {
    Rewriter::simplifying().rebuild(graph, |new, node| new.emit(node))
}
