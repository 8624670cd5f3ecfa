use super::*;
use crate::interpret_graph;
use ox_ir::text::op_name;
use std::collections::BTreeSet;

/// Every random graph is right, can be run, prints and parses back, and all ops come up.
#[test]
fn random_graphs_run() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let config = RandomConfig { symbolic: seed % 2 == 1, ..RandomConfig::default() };
        let graph = random_graph(seed, &config);
        assert_eq!(Graph::parse(&graph.to_string()).as_ref(), Ok(&graph), "{graph}");
        assert_eq!(graph.verify(), Ok(()), "{graph}");
        let sizes = random_sizes(&graph, seed);
        let inputs = random_inputs(&graph, seed, &sizes);
        interpret_graph(&graph, &inputs, &sizes).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph}"));
        seen.extend(graph.nodes.iter().map(|n| op_name(&n.op)));
    }
    let tensor_ops = [
        "pad",
        "cat",
        "slice_scatter",
        "index",
        "index_put",
        "reduce",
        "scan",
        "unfold",
        "diagonal",
        "matmul",
        "conv",
        "attention",
        "sym_value",
        "iota",
    ];
    for op in tensor_ops.into_iter().chain(ox_ir::PointOp::ALL.iter().map(|op| op.name())) {
        assert!(seen.contains(op), "{op} never came up");
    }
}

#[test]
fn a_seed_is_a_graph() {
    let config = RandomConfig::default();
    assert_eq!(random_graph(7, &config), random_graph(7, &config));
    assert_ne!(random_graph(7, &config), random_graph(8, &config));
}
