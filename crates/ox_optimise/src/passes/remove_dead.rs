//! Drops nodes that nothing depends on. Library calls with an effect stay, and so does what they need.

use ox_ir::graph::{Graph, NodeId, Op};

pub fn remove_dead(mut graph: Graph) -> Graph {
    let live = live_nodes(&graph);
    if live.iter().all(|l| *l) {
        return graph;
    }
    let mut renamed: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    let mut next = 0;
    for is_live in &live {
        renamed.push(NodeId(next));
        next += *is_live as u32;
    }
    let mut live = live.into_iter();
    graph.nodes.retain(|_| live.next().expect("one flag per node"));
    graph.nodes.iter_mut().flat_map(|n| &mut n.args).for_each(|a| *a = renamed[a.index()]);
    graph.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
    graph.mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
    graph
}

fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live: Vec<bool> = graph.nodes.iter().map(|n| matches!(&n.op, Op::Library(l) if l.effect)).collect();
    graph.roots().for_each(|root| live[root.index()] = true);
    for id in graph.ids().rev().collect::<Vec<_>>() {
        if live[id.index()] {
            graph.node(id).args.iter().for_each(|a| live[a.index()] = true);
        }
    }
    live
}
