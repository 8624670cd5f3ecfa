//! Random graphs mean the same before and after.

mod common;

use common::{Agree, results};
use ox_ir::Graph;
use ox_optimise::{FusePostOps, OptimiseOptions, PackWeights, PostOps, optimise};
use ox_testing::{RandomConfig, interpret_graph, random_graph, random_inputs, random_sizes};

fn check(seed: u64, config: &RandomConfig, options: &OptimiseOptions, agree: Agree) {
    let before: Graph = random_graph(seed, config);
    let after = optimise(before.clone(), options);
    let sizes = random_sizes(&before, seed);
    let inputs = random_inputs(&before, seed, &sizes);
    let run = |graph: &Graph| interpret_graph(graph, &inputs, &sizes);
    match (run(&before), run(&after)) {
        (Err(expected), Err(got)) => assert_eq!(got.to_string(), expected.to_string(), "seed {seed}\n{before}\n{after}"),
        (Ok(expected), Ok(got)) => {
            for (n, (got, expected)) in results(got).iter().zip(&results(expected)).enumerate() {
                let difference = agree.difference(got, expected);
                assert!(difference.is_none(), "seed {seed}, result {n}: {}\n{before}\n{after}", difference.unwrap_or_default());
            }
        }
        (expected, got) => panic!("seed {seed}: {expected:?}, then {got:?}\n{before}\n{after}"),
    }
}

#[test]
fn rules_are_exact() {
    for seed in 0..1500 {
        let config = RandomConfig { nodes: 20, symbolic: seed % 2 == 1, calls: false, ..RandomConfig::default() };
        check(seed, &config, &OptimiseOptions::default(), Agree::Exactly);
    }
}

#[test]
fn fusions_are_close() {
    let usual = OptimiseOptions { freezing: true, pack_weights: PackWeights::ALL, ..OptimiseOptions::default() };
    let fuse_post_ops = FusePostOps { conv: PostOps::ALL, matmul: PostOps::ALL, ..usual.fuse_post_ops };
    let options = OptimiseOptions { fuse_post_ops, ..usual };
    for seed in 0..1000 {
        let config = RandomConfig { nodes: 20, symbolic: seed % 2 == 1, ..RandomConfig::default() };
        check(seed, &config, &options, Agree::Closely);
    }
}
