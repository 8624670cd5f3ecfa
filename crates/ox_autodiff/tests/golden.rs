//! Golden files: a graph in, its joint graph or its two halves out. All float inputs and outputs are asked for.

mod common;

use common::{all_wanted, simplified};
use ox_autodiff::{Held, joint, partition};
use ox_ir::Graph;
use ox_testing::golden::golden;

/// Eager holds all inputs and results, in one file the results only.
fn held(file: &str, graph: &Graph) -> Held {
    let all = vec![true; graph.outputs.len()];
    Held { inputs: vec![file != "results_held"; graph.inputs.len()], written: all.clone(), outputs: all }
}

#[test]
fn differentiated() {
    golden("autodiff", |file, input| {
        let graph = Graph::parse(input).map_err(|e| e.to_string())?;
        graph.verify().map_err(|e| e.to_string())?;
        let made = joint(&graph, &all_wanted(&graph)).map_err(|e| e.to_string())?;
        made.graph.verify().map_err(|e| format!("{e}\n{}", made.graph))?;
        let made = simplified(made);
        if file == "joint" {
            return Ok::<_, String>(made.to_string());
        }
        let budget = if file == "least_memory" { 0.0 } else { 1.0 };
        let split = partition(&made, &held(file, &graph), budget);
        split.forward.verify().map_err(|e| e.to_string())?;
        split.backward.verify().map_err(|e| format!("{e}\n{}", split.backward))?;
        Ok(split.to_string())
    });
}
