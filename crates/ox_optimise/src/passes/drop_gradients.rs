//! Takes out what only derivatives look at: whoever wanted them has taken them by now.

use ox_ir::graph::{Graph, NodeId, Op};

pub fn drop_gradients(mut graph: Graph) -> Graph {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::Detach | Op::Graft)) {
        return graph;
    }
    let mut stands_for: Vec<NodeId> = graph.ids().collect();
    for id in graph.ids() {
        let node = &mut graph.nodes[id.index()];
        node.args.iter_mut().for_each(|arg| *arg = stands_for[arg.index()]);
        if matches!(node.op, Op::Detach | Op::Graft) {
            stands_for[id.index()] = node.args[0];
        }
    }
    graph.outputs.iter_mut().for_each(|output| output.value = stands_for[output.value.index()]);
    graph.mutations.iter_mut().for_each(|mutation| mutation.value = stands_for[mutation.value.index()]);
    graph
}
