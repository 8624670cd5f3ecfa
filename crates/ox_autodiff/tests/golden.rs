//! Golden files: a graph in, its joint graph or its two halves out. All float inputs and outputs are asked for.

mod common;

use common::{all_wanted, simplified};
use ox_autodiff::{Writes, joint, partition, reads_what_is_written};
use ox_ir::Graph;
use ox_testing::golden::golden;

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
        let budget = if file == "split" { 1.0 } else { 0.0 };
        let writes = if file == "written_again" { Writes::Again } else { Writes::Once };
        if writes == Writes::Again && reads_what_is_written(&made) {
            return Ok("reads what is written\n".to_string());
        }
        let split = partition(&made, budget, writes);
        split.forward.verify().map_err(|e| e.to_string())?;
        split.backward.verify().map_err(|e| format!("{e}\n{}", split.backward))?;
        Ok(split.to_string())
    });
}
