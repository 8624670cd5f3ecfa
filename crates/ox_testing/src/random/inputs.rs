//! Inputs for a graph.

use super::rng::Rng;
use crate::tensor::TensorData;
use ox_ir::graph::Graph;
use ox_ir::{DType, Scalar, Var};
use rustc_hash::FxHashMap;

/// Values for the sizes of a graph that respect what is known of them.
pub fn random_sizes(graph: &Graph, seed: u64) -> Vec<i64> {
    let mut rng = Rng::new(seed);
    let mut size = |v: &Var| {
        let first = v.lo() + (-v.lo()).rem_euclid(v.divisor());
        let last = v.hi().min(first + 8 * v.divisor());
        first + rng.int(0, (last - first) / v.divisor()) * v.divisor()
    };
    graph.sizes.iter().map(&mut size).collect()
}

/// Inputs for a graph: small numbers, floats in quarters. Elements that share memory are equal.
pub fn random_inputs(graph: &Graph, seed: u64, sizes: &[i64]) -> Vec<TensorData> {
    let env = |v: &Var| graph.sizes.iter().position(|s| s == v).map(|k| sizes[k]);
    let mut rng = Rng::new(seed ^ 0x5eed);
    let inputs = graph.inputs.iter().map(|input| {
        let shape: Vec<usize> = input.ty.shape.iter().map(|s| s.eval(&env).expect("a size") as usize).collect();
        let strides: Vec<i64> = input.strides.iter().map(|s| s.eval(&env).expect("a stride")).collect();
        let mut written = FxHashMap::default();
        TensorData::from_fn(input.ty.dtype, &shape, |index| {
            let address: i64 = index.iter().zip(&strides).map(|(i, s)| *i as i64 * s).sum();
            *written.entry(address).or_insert_with(|| element(&mut rng, input.ty.dtype))
        })
    });
    inputs.collect()
}

fn element(rng: &mut Rng, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(rng.percent(50)),
        DType::U8 => Scalar::Int(rng.int(0, 4)),
        d if d.is_float() => Scalar::Float(rng.int(-16, 16) as f64 / 4.0),
        _ => Scalar::Int(rng.int(-4, 4)),
    }
}
