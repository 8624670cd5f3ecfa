//! Golden files: a graph in, its plan with all kernels out.

use ox_ir::Graph;
use ox_schedule::schedule;
use ox_testing::golden::golden;

#[test]
fn scheduled() {
    golden("schedule", |_, input| {
        let graph = Graph::parse(input).map_err(|e| e.to_string())?;
        graph.verify().map_err(|e| e.to_string())?;
        let plan = schedule(&graph, &Default::default()).map_err(|e| e.to_string())?;
        plan.verify().map_err(|e| e.to_string())?;
        Ok::<_, String>(plan.to_string())
    });
}
