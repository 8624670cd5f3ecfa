//! Random graphs whose sizes are random expressions of variables: compiled once, right at every size.

mod common;

use common::{difference, generate, seeds};
use ox_ir::{Graph, Plan};
use ox_testing::{RandomConfig, interpret_graph, interpret_plan, random_graph, random_inputs, random_sizes, result_difference};

fn compile(seed: u64) -> (Graph, Plan) {
    let config = RandomConfig { nodes: 4 + seed as usize % 15, symbolic: true, expressions: true, ..RandomConfig::default() };
    let graph = random_graph(seed, &config);
    let optimised =
        if seed.is_multiple_of(4) { graph.clone() } else { ox_optimise::optimise(graph.clone(), &Default::default()) };
    assert_eq!(optimised.verify(), Ok(()), "seed {seed}\n{graph}");
    let plan = ox_schedule::schedule(&optimised, &Default::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{optimised}"));
    assert_eq!(plan.verify(), Ok(()), "seed {seed}");
    (graph, plan)
}

/// The least that the sizes may be, the most, and two between.
fn several_sizes(graph: &Graph, seed: u64) -> Vec<Vec<i64>> {
    let (least, most) = (|v: &ox_ir::Var| v.lo(), |v: &ox_ir::Var| v.hi());
    let ends = [graph.sizes.iter().map(least).collect(), graph.sizes.iter().map(most).collect()];
    let between = (0..2).map(|n| random_sizes(graph, seed * 2 + n));
    let mut all: Vec<Vec<i64>> = ends.into_iter().chain(between).collect();
    all.sort();
    all.dedup();
    all
}

fn told(wrong: Vec<String>) {
    let shortest = wrong.iter().min_by_key(|text| text.len());
    assert!(wrong.is_empty(), "{} graphs are wrong; the shortest:\n{}", wrong.len(), shortest.unwrap());
}

#[test]
fn plans_are_right_at_every_size() {
    let mut wrong = Vec::new();
    for seed in seeds(0..2000) {
        let (graph, plan) = compile(seed);
        for sizes in several_sizes(&graph, seed) {
            let inputs = random_inputs(&graph, seed, &sizes);
            let (want, got) = (interpret_graph(&graph, &inputs, &sizes), interpret_plan(&plan, &inputs, &sizes));
            let found = result_difference(&want, &got, &inputs);
            wrong.extend(found.map(|text| format!("seed {seed}: {text}\nsizes {sizes:?}\n{graph}\n{plan}")));
        }
    }
    told(wrong);
}

#[test]
fn code_is_right_at_every_size() {
    let mut wrong = Vec::new();
    for seed in seeds(0..100) {
        let (graph, plan) = compile(seed);
        let kernels = generate(&plan).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph}\n{plan}"));
        for sizes in several_sizes(&graph, seed) {
            let inputs = random_inputs(&graph, seed, &sizes);
            let found = difference(&graph, &plan, &kernels, &inputs, &sizes);
            wrong.extend(found.map(|text| format!("seed {seed}: {text}\nsizes {sizes:?}\n{graph}\n{plan}")));
        }
    }
    told(wrong);
}
