//! Drops nodes that nothing depends on. Library calls with an effect stay, and so does what they need. Inputs stay too: they
//! cost nothing, and a graph reads better with all of them at its head.

use ox_ir::graph::{Graph, NodeId, Op};

pub fn remove_dead(graph: Graph) -> Graph {
    let stays = |op: &Op| match op {
        Op::Input(_) => true,
        Op::Library(library) => library.effect,
        _ => false,
    };
    let live = graph.nodes.iter().map(|n| stays(&n.op)).collect();
    retain(graph, live)
}

/// Keeps what the results need, and nothing else: neither effects nor inputs.
pub fn keep_results(graph: Graph) -> Graph {
    let none = vec![false; graph.nodes.len()];
    retain(graph, none)
}

/// Keeps the nodes in `live`, the results, and what they need.
fn retain(mut graph: Graph, mut live: Vec<bool>) -> Graph {
    mark(&graph, &mut live);
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

fn mark(graph: &Graph, live: &mut [bool]) {
    graph.roots().for_each(|root| live[root.index()] = true);
    for id in graph.ids().rev() {
        if live[id.index()] {
            graph.node(id).args.iter().for_each(|a| live[a.index()] = true);
        }
    }
}
