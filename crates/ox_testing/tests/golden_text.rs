//! Text in, text out: parsed, verified, printed.

use ox_ir::{Graph, Kernel};

#[test]
fn text() {
    ox_testing::golden("text", |file, input| -> Result<String, String> {
        let printed = match file {
            "graph" => {
                let graph = Graph::parse(input).map_err(|e| e.to_string())?;
                graph.verify().map_err(|e| e.to_string())?;
                graph.to_string()
            }
            "kernel" => {
                let kernel = Kernel::parse(input).map_err(|e| e.to_string())?;
                kernel.verify().map_err(|e| e.to_string())?;
                kernel.to_string()
            }
            other => panic!("no reader for {other}.txt"),
        };
        Ok(printed)
    });
}
