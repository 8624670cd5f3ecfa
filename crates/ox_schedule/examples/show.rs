//! Prints the Plan of a graph: `cargo run -p ox_schedule --example show < graph.txt`.
use std::io::Read;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("text on standard input");
    let graph = ox_ir::Graph::parse(&text).expect("a graph");
    match ox_schedule::schedule(&graph, &Default::default()) {
        Ok(plan) => {
            println!("{plan}");
            plan.kernels.iter().for_each(|k| println!("{k}"));
        }
        Err(e) => println!("{e}"),
    }
}
