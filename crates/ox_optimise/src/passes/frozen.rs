//! Which values depend on frozen inputs and constants only.

use crate::rewriter::Rewriter;
use ox_ir::graph::{Graph, GraphInput, Node, NodeId, Op};

/// How often a value can change. A value is as changeable as the most changeable of its arguments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Changes {
    /// Known at compile time: kernels compute it on the fly.
    Never,
    /// Depends on frozen inputs.
    IfThawed,
    EveryRun,
}

pub struct Frozen {
    inputs: Vec<Changes>,
    /// For the first nodes of the graph that is being built.
    nodes: Vec<Changes>,
}

impl Frozen {
    pub fn new(graph: &Graph) -> Frozen {
        let is_written = |n: usize| graph.mutations.iter().any(|m| m.input as usize == n);
        let changes = |(n, input): (usize, &GraphInput)| match input.frozen && !is_written(n) {
            true if input.strides.iter().all(|s| s.as_const().is_some()) => Changes::IfThawed,
            _ => Changes::EveryRun,
        };
        Frozen { inputs: graph.inputs.iter().enumerate().map(changes).collect(), nodes: Vec::new() }
    }

    /// For all nodes of a finished graph.
    pub fn of_graph(graph: &Graph) -> Vec<Changes> {
        let mut frozen = Frozen::new(graph);
        graph.nodes.iter().for_each(|node| frozen.add(node));
        frozen.nodes
    }

    /// Whether the value is the same in all runs.
    pub fn is(&mut self, graph: &Rewriter, id: NodeId) -> bool {
        self.changes(graph, id) < Changes::EveryRun
    }

    pub fn changes(&mut self, graph: &Rewriter, id: NodeId) -> Changes {
        for n in self.nodes.len()..=id.index() {
            self.add(graph.node(NodeId(n as u32)));
        }
        self.nodes[id.index()]
    }

    /// Sizes that are not constants, in the shape or among the attributes, may change from run to run.
    fn add(&mut self, node: &Node) {
        let changes = match node.op {
            _ if node.ty.shape.iter().any(|s| s.as_const().is_none()) || node.op.varies_with_sizes() => Changes::EveryRun,
            Op::Input(n) => self.inputs[n as usize],
            Op::Library(_) | Op::Project(_) => Changes::EveryRun,
            _ => node.args.iter().map(|a| self.nodes[a.index()]).max().unwrap_or(Changes::Never),
        };
        self.nodes.push(changes);
    }
}
