//! Plans of random graphs mean what the graphs mean, bit for bit: fusion, recomputation, layouts and memory change no number.

use ox_ir::Graph;
use ox_schedule::schedule;
use ox_testing::{RandomConfig, interpret_graph, interpret_plan, random_graph, random_inputs, random_sizes};

fn check(seed: u64, config: &RandomConfig) -> Result<(), String> {
    let graph: Graph = random_graph(seed, config);
    let sizes = random_sizes(&graph, seed);
    let inputs = random_inputs(&graph, seed, &sizes);
    let plan = schedule(&graph, &Default::default()).map_err(|e| format!("seed {seed}: {e}\n{graph}"))?;
    plan.verify().map_err(|e| format!("seed {seed}: {e}\n{graph}\n{plan}"))?;
    match (interpret_graph(&graph, &inputs, &sizes), interpret_plan(&plan, &inputs, &sizes)) {
        (Ok(expected), Ok(got)) => {
            let written = expected.mutations.iter().map(|(k, value)| (&got.inputs[*k as usize], value));
            for (got, expected) in got.outputs.iter().zip(&expected.outputs).chain(written) {
                if let Some(difference) = ox_testing::compare::difference(got, expected) {
                    return Err(format!("seed {seed}: {difference}\n{graph}\n{plan}"));
                }
            }
            Ok(())
        }
        // Both report; where several elements are bad, kernels may meet another one first.
        (Err(_), Err(_)) => Ok(()),
        (expected, got) => Err(format!("seed {seed}: {:?}, then {:?}\n{graph}\n{plan}", expected.err(), got.err())),
    }
}

#[test]
fn plans_mean_what_graphs_mean() {
    let mut failed = Vec::new();
    for seed in 0..2000 {
        let config = RandomConfig { nodes: 5 + seed as usize % 25, symbolic: seed % 2 == 1, ..RandomConfig::default() };
        failed.extend(check(seed, &config).err());
    }
    assert!(
        failed.is_empty(),
        "{} of 2000 graphs are wrong; the shortest:\n{}",
        failed.len(),
        failed.iter().min_by_key(|f| f.len()).unwrap()
    );
}
