//! Random graphs in f64: the derivative along a random direction against the difference of two runs.

mod common;

use common::{all_wanted, simplified};
use ox_autodiff::{Part, Source, Split, joint, part, partition};
use ox_ir::graph::{Combine, Op};
use ox_ir::{DType, Graph, Scalar};
use ox_testing::random::Rng;
use ox_testing::{RandomConfig, TensorData, interpret_graph, random_graph, random_inputs, random_sizes};

const STEP: f64 = 1e-6;

fn noise(rng: &mut Rng) -> f64 {
    rng.int(-1_000_000, 1_000_000) as f64 / 1e6
}

fn is_float(data: &TensorData) -> bool {
    data.dtype == DType::F64
}

/// Away from where quarters meet: no ties, no kinks.
fn moved(inputs: &[TensorData], rng: &mut Rng) -> Vec<TensorData> {
    let mut shift = |x: &TensorData| match is_float(x) {
        true => TensorData::new(x.dtype, &x.shape, x.data.iter().map(|e| Scalar::Float(e.as_f64() + noise(rng) / 16.0))),
        false => x.clone(),
    };
    inputs.iter().map(&mut shift).collect()
}

fn direction(inputs: &[TensorData], rng: &mut Rng) -> Vec<Vec<f64>> {
    inputs.iter().map(|x| x.data.iter().map(|_| if is_float(x) { noise(rng) } else { 0.0 }).collect()).collect()
}

fn along(inputs: &[TensorData], direction: &[Vec<f64>], by: f64) -> Vec<TensorData> {
    let one = |(x, d): (&TensorData, &Vec<f64>)| match is_float(x) {
        true => {
            let data = x.data.iter().zip(d).map(|(e, d)| Scalar::Float(e.as_f64() + by * d));
            TensorData::new(x.dtype, &x.shape, data)
        }
        false => x.clone(),
    };
    inputs.iter().zip(direction).map(one).collect()
}

fn dot(a: &TensorData, b: &TensorData) -> f64 {
    a.data.iter().zip(&b.data).map(|(x, y)| x.as_f64() * y.as_f64()).sum()
}

/// The results, each weighed by a random tensor.
fn weighed(graph: &Graph, weights: &[TensorData], inputs: &[TensorData], sizes: &[i64]) -> Option<f64> {
    let results = interpret_graph(graph, inputs, sizes).ok()?.outputs;
    let sum = results.iter().zip(weights).filter(|(r, _)| is_float(r)).map(|(r, w)| dot(r, w)).sum::<f64>();
    sum.is_finite().then_some(sum)
}

/// What the backward graph is called with.
fn given(split: &Split, weights: &[TensorData], inputs: &[TensorData], sizes: &[i64]) -> Vec<TensorData> {
    let made = interpret_graph(&split.forward, inputs, sizes).expect("the forward graph runs").outputs;
    let of = |source: &Source| match *source {
        Source::Saved(n) => made[split.outputs + n as usize].clone(),
        Source::Input(n) => inputs[n as usize].clone(),
        Source::Output(n) => made[n as usize].clone(),
        Source::Gradient(n) => weights[n as usize].clone(),
    };
    split.sources.iter().map(of).collect()
}

/// The gradients of one result after the other add up to those of all.
fn parts_add_up(seed: u64, split: &Split, given: &[TensorData], all: &[TensorData], sizes: &[i64]) {
    let mut sums: Vec<Vec<f64>> = all.iter().map(|grad| vec![0.0; grad.data.len()]).collect();
    for result in 0..split.outputs {
        let present: Vec<bool> = (0..split.outputs).map(|n| n == result).collect();
        let Part { graph, inputs } = part(&split.backward, &split.sources, &present, &vec![true; all.len()]);
        graph.verify().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph}"));
        let used: Vec<TensorData> = given.iter().zip(&inputs).filter(|(_, used)| **used).map(|(x, _)| x.clone()).collect();
        let grads = interpret_graph(&graph, &used, sizes).expect("a part runs").outputs;
        for (sum, grad) in sums.iter_mut().zip(&grads) {
            sum.iter_mut().zip(&grad.data).for_each(|(sum, x)| *sum += x.as_f64());
        }
    }
    for (sum, grad) in sums.iter().zip(all) {
        for (got, want) in sum.iter().zip(grad.data.iter().map(|x| x.as_f64())).filter(|(_, want)| want.is_finite()) {
            assert!((got - want).abs() <= 1e-9 * (1.0 + want.abs()), "seed {seed}: {got} instead of {want}\n{split}");
        }
    }
}

/// Whether the graph could be compared.
fn check(seed: u64, config: &RandomConfig) -> bool {
    let mut graph = random_graph(seed, config);
    graph.mutations.clear();
    // Of several writes to one place the last wins, but eager gives all of them its gradient.
    if graph.nodes.iter().any(|n| matches!(n.op, Op::IndexPut { combine: Combine::Set, .. })) {
        return false;
    }
    let Ok(made) = joint(&graph, &all_wanted(&graph)) else { return false };
    made.graph.verify().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", made.graph));
    let mut held = all_wanted(&graph).held;
    let is_held = |n: usize| !(seed >> 1).wrapping_add(n as u64).is_multiple_of(2);
    held.inputs.iter_mut().chain(&mut held.outputs).chain(&mut held.written).enumerate().for_each(|(n, held)| *held = is_held(n));
    let split = partition(&simplified(made), &held, if seed.is_multiple_of(3) { 0.0 } else { 1.0 });
    if split.backward.nodes.iter().chain(&split.forward.nodes).any(|n| matches!(n.op, Op::Library(_))) {
        return false;
    }
    split.forward.verify().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{split}"));
    split.backward.verify().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{split}"));
    let sizes = random_sizes(&graph, seed);
    let mut rng = Rng::new(seed ^ 0xd1ff);
    let inputs = moved(&random_inputs(&graph, seed, &sizes), &mut rng);
    let Ok(results) = interpret_graph(&graph, &inputs, &sizes) else { return false };
    let weights: Vec<TensorData> = results
        .outputs
        .iter()
        .map(|r| TensorData::new(r.dtype, &r.shape, r.data.iter().map(|_| Scalar::Float(noise(&mut rng)))))
        .collect();
    let way = direction(&inputs, &mut rng);
    let run = |by: f64| weighed(&graph, &weights, &along(&inputs, &way, by), &sizes);
    let (Some(a), Some(b), Some(a2), Some(b2)) = (run(STEP), run(-STEP), run(2.0 * STEP), run(-2.0 * STEP)) else { return false };
    let (expected, wider) = ((a - b) / (2.0 * STEP), (a2 - b2) / (4.0 * STEP));
    let tolerance = 1e-4 * (1.0 + expected.abs()) + 1e-9 * a.abs() / STEP;
    // Too near to a jump or a kink, or too steep, to be told by differences.
    if (expected - wider).abs() > tolerance {
        return false;
    }
    let given = given(&split, &weights, &inputs, &sizes);
    let grads = interpret_graph(&split.backward, &given, &sizes).expect("the backward graph runs").outputs;
    parts_add_up(seed, &split, &given, &grads, &sizes);
    let slope = |n: usize, g: u32| grads[g as usize].data.iter().zip(&way[n]).map(|(g, d)| g.as_f64() * d).sum::<f64>();
    let got: f64 = split.gradients.iter().enumerate().filter_map(|(n, g)| g.map(|g| slope(n, g))).sum();
    // Eager has NaN there too: a slope that is infinite, times a gradient of zero.
    if got.is_nan() {
        return false;
    }
    assert!((got - expected).abs() <= tolerance, "seed {seed}: {got} instead of {expected}\n{graph}\n{split}");
    true
}

#[test]
fn derivatives_are_differences() {
    let mut compared = 0;
    for seed in 0..800 {
        let dtypes = vec![DType::F64, DType::F64, DType::F64, DType::I64, DType::Bool];
        let config = RandomConfig { nodes: 10, symbolic: seed % 2 == 1, dtypes, ..RandomConfig::default() };
        compared += usize::from(check(seed, &config));
    }
    assert!(compared > 300, "only {compared} of 800 could be compared");
}
