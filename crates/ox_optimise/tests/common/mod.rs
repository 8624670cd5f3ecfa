//! Runs graphs before and after, on inputs chosen to show differences.
#![allow(dead_code)]

use ox_ir::{DType, Graph, Scalar};
use ox_testing::{GraphResult, TensorData, compare::difference, interpret_graph};

/// A small generator of numbers: tests must not depend on chance.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Mostly ordinary numbers, with zeros of both signs, infinities and NaN among them if `wild`.
pub fn element(dtype: DType, random: &mut Random, wild: bool) -> Scalar {
    const SPECIAL: [f64; 6] = [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    match dtype {
        DType::Bool => Scalar::Bool(random.below(2) == 0),
        // Also good as indices into what the tests index.
        d if d.is_int() => Scalar::Int(random.below(3) as i64),
        _ if wild && random.below(3) == 0 => Scalar::Float(SPECIAL[random.below(6)]),
        _ => Scalar::Float(random.below(4000) as f64 / 1000.0 - 2.0),
    }
}

pub fn inputs(graph: &Graph, sizes: &[i64], random: &mut Random, wild: bool) -> Vec<TensorData> {
    let value = |v: &ox_ir::Var| graph.sizes.iter().position(|s| s == v).map(|n| sizes[n]);
    let shape = |g: &ox_ir::graph::GraphInput| -> Vec<usize> {
        g.ty.shape.iter().map(|s| s.eval(&value).expect("a size of the graph") as usize).collect()
    };
    graph.inputs.iter().map(|g| TensorData::from_fn(g.ty.dtype, &shape(g), |_| element(g.ty.dtype, random, wild))).collect()
}

pub fn results(result: GraphResult) -> Vec<TensorData> {
    result.outputs.into_iter().chain(result.mutations.into_iter().map(|m| m.1)).collect()
}

fn same_bits(a: &TensorData, b: &TensorData) -> bool {
    let same = |(x, y): (&Scalar, &Scalar)| x == y || (x.as_f64().is_nan() && y.as_f64().is_nan());
    a.dtype == b.dtype && a.shape == b.shape && a.data.iter().zip(&b.data).all(same)
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// Half types, fused: fewer roundings, so that small sums of large terms differ by the rounding of the terms.
fn near(got: &TensorData, expected: &TensorData) -> bool {
    let largest = expected.data.iter().fold(0.0f64, |m, x| m.max(x.as_f64().abs()));
    let close = |(a, b): (&Scalar, &Scalar)| (a.as_f64() - b.as_f64()).abs() <= 1.6e-2 * largest;
    got.shape == expected.shape && got.data.iter().zip(&expected.data).all(close)
}

#[derive(Clone, Copy, PartialEq)]
pub enum Agree {
    /// Bit for bit, but for NaN.
    Exactly,
    /// To the rounding of the type, on ordinary numbers.
    Closely,
}

impl Agree {
    pub fn difference(self, got: &TensorData, expected: &TensorData) -> Option<String> {
        match self {
            Agree::Exactly => (!same_bits(got, expected)).then(|| format!("{got:?}, not {expected:?}")),
            Agree::Closely if is_half(got.dtype) && near(got, expected) => None,
            Agree::Closely => difference(got, expected),
        }
    }
}

#[track_caller]
pub fn assert_agree(before: &Graph, after: &Graph, agree: Agree, seed: u64) {
    let mut random = Random(seed);
    let sizes: Vec<i64> = before.sizes.iter().map(|v| (v.lo().max(3) + v.divisor() - 1) / v.divisor() * v.divisor()).collect();
    for round in 0..4 {
        let inputs = inputs(before, &sizes, &mut random, agree == Agree::Exactly && round % 2 == 1);
        let expected = interpret_graph(before, &inputs, &sizes);
        let got = interpret_graph(after, &inputs, &sizes);
        if let (Err(expected), Err(got)) = (&expected, &got) {
            assert_eq!(got.to_string(), expected.to_string());
            continue;
        }
        let expected = results(expected.unwrap_or_else(|e| panic!("{e}\n{before}")));
        let got = results(got.unwrap_or_else(|e| panic!("{e}\n{after}")));
        for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let difference = agree.difference(got, expected);
            assert!(difference.is_none(), "result {n}: {}\nbefore\n{before}\nafter\n{after}", difference.unwrap_or_default());
        }
    }
}
