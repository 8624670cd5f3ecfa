//! Scaled dot product attention.

use super::Result;
use crate::error::InterpretError;
use crate::tensor::TensorData;
use ox_ir::graph::AttentionAttrs;
use ox_ir::{DType, Scalar};

/// `softmax(scale * q @ k^T + mask) @ v`. A row in which nothing may be seen is zero.
pub(crate) fn attention(attrs: &AttentionAttrs, args: &[&TensorData], dtype: DType) -> Result<TensorData> {
    if args.len() != 3 + usize::from(attrs.mask) || args[..3].iter().any(|a| a.shape.len() < 2) {
        return Err(InterpretError::invalid("attention of wrong arguments"));
    }
    let (q, k, v) = (args[0], args[1], args[2]);
    let rank = q.shape.len();
    let times = |x: &TensorData| if rank < 3 { 1 } else { q.shape[rank - 3] / x.shape[rank - 3].max(1) };
    let (d, keys) = (q.shape[rank - 1], k.shape[rank - 2]);
    let scale = attrs.scale.map_or(1.0 / (d as f64).sqrt(), |s| s.as_f64());
    let mask = attrs.mask.then(|| args[3]);
    let mut shape = q.shape.clone();
    shape[rank - 1] = v.shape[rank - 1];

    let score = |row: &[usize], key: usize| {
        let dot: f64 = (0..d).map(|c| with_tail(q, row, c) * with_tail(k, &at_row(row, key, times(k)), c)).sum();
        let at: Vec<usize> = [row, &[key]].concat();
        let seen = !attrs.causal || key <= row[rank - 2];
        match mask.map(|m| m.get_broadcast(&at)) {
            _ if !seen => f64::NEG_INFINITY,
            Some(Scalar::Bool(false)) => f64::NEG_INFINITY,
            Some(Scalar::Float(bias)) => dot * scale + bias,
            _ => dot * scale,
        }
    };
    Ok(TensorData::from_fn(dtype, &shape, |index| {
        let row = &index[..rank - 1];
        let scores: Vec<f64> = (0..keys).map(|key| score(row, key)).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most == f64::NEG_INFINITY {
            return Scalar::Float(0.0);
        }
        let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mixed: f64 =
            weights.iter().enumerate().map(|(key, w)| w * with_tail(v, &at_row(row, key, times(v)), index[rank - 1])).sum();
        Scalar::Float(mixed / total)
    }))
}

/// The same batch, another row. Each head serves as many heads of the query.
fn at_row(row: &[usize], key: usize, times: usize) -> Vec<usize> {
    let mut at = [&row[..row.len() - 1], &[key]].concat();
    if let [.., head, _] = &mut at[..] {
        *head /= times.max(1);
    }
    at
}

fn with_tail(x: &TensorData, row: &[usize], last: usize) -> f64 {
    x.get(&[row, &[last]].concat()).as_f64()
}
