//! Golden files: a graph in, its plan with all kernels out. Those that are called after a GPU are for one.

use ox_ir::Graph;
use ox_schedule::{ScheduleOptions, Target, schedule};
use ox_testing::golden::golden;

#[test]
fn scheduled() {
    golden("schedule", |file, input| {
        let target = if file.starts_with("gpu_") { Target::Gpu } else { Target::Cpu };
        let graph = Graph::parse(input).map_err(|e| e.to_string())?;
        graph.verify().map_err(|e| e.to_string())?;
        let plan = schedule(&graph, &ScheduleOptions { target, overwrite_inputs: target == Target::Cpu, ..Default::default() })
            .map_err(|e| e.to_string())?;
        plan.verify().map_err(|e| e.to_string())?;
        Ok::<_, String>(plan.to_string())
    });
}
