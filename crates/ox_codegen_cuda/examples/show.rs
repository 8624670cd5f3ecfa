//! The CUDA C++ of a graph: `cargo run --example show < graph.txt`.

use ox_codegen_cuda::{Backend, Options};
use ox_schedule::{ScheduleOptions, Target};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::io::read_to_string(std::io::stdin())?;
    let graph = ox_ir::Graph::parse(&text).map_err(|e| format!("{e:?}"))?;
    let graph = ox_optimise::optimise(graph, &Default::default());
    let plan = ox_schedule::schedule(&graph, &ScheduleOptions { target: Target::Gpu, ..ScheduleOptions::default() })?;
    println!("{plan}");
    for kernel in &plan.kernels {
        println!("{}", Backend::text(kernel, Options { arch: 90, ordered: false, multiprocessors: 132 })?);
    }
    Ok(())
}
