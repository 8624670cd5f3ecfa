//! Random graphs through all stages: the machine code computes what the graph means.

mod common;

use common::{difference, generate, seeds};
use ox_testing::{RandomConfig, random_graph, random_inputs, random_sizes};

#[test]
fn random_graphs() {
    let mut wrong = String::new();
    for seed in seeds(0..80) {
        let config = RandomConfig { symbolic: seed % 2 == 1, ..RandomConfig::default() };
        let graph = random_graph(seed, &config);
        let optimised = if seed % 4 < 2 { graph.clone() } else { ox_optimise::optimise(graph.clone(), &Default::default()) };
        assert_eq!(optimised.verify(), Ok(()), "seed {seed}");
        let plan =
            ox_schedule::schedule(&optimised, &Default::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{optimised}"));
        assert_eq!(plan.verify(), Ok(()), "seed {seed}");
        let sizes = random_sizes(&graph, seed);
        let inputs = random_inputs(&graph, seed, &sizes);
        let kernels = generate(&plan).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph}\n{plan}"));
        if let Some(difference) = difference(&graph, &plan, &kernels, &inputs, &sizes) {
            wrong += &format!("seed {seed}: {difference}\nsizes {sizes:?}\n{graph}\n{plan}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
