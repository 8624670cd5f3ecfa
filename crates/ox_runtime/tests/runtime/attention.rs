//! Attention, against a naive one.

use crate::build::*;
use ox_ir::graph::AttentionAttrs;
use ox_ir::plan::Call;
use ox_ir::{DType, Scalar};
use ox_runtime::Tensor;

const B: i64 = 2;
const T: i64 = 5;
const S: i64 = 7;
const D: i64 = 8;

/// Over `B` independent heads. `bias(t, s)` is added to the scores.
fn naive(q: &[f32], k: &[f32], v: &[f32], scale: f32, bias: impl Fn(i64, i64) -> f32) -> Vec<f32> {
    let mut out = Vec::new();
    let at = |x: &[f32], rows: i64, b: i64, r: i64, c: i64| x[((b * rows + r) * D + c) as usize];
    for (b, t) in (0..B * T).map(|f| (f / T, f % T)) {
        let score = |s: i64| (0..D).map(|d| at(q, T, b, t, d) * at(k, S, b, s, d)).sum::<f32>() * scale + bias(t, s);
        let weights: Vec<f32> = (0..S).map(|s| score(s).exp()).collect();
        let total: f32 = weights.iter().sum();
        out.extend((0..D).map(|d| (0..S).map(|s| weights[s as usize] / total * at(v, S, b, s, d)).sum::<f32>()));
    }
    out
}

struct Case<'a> {
    attrs: AttentionAttrs,
    /// Leading sizes of q, k and v, whose product is B.
    front: &'a [i64],
    mask: Option<(DType, Tensor)>,
}

fn attend(case: Case<'_>) -> Vec<f32> {
    let with = |rows: i64| -> Vec<i64> { case.front.iter().copied().chain([rows, D]).collect() };
    let mut b = Builder::default();
    let (q, k, v) = (b.input(&with(T)), b.input(&with(S)), b.input(&with(S)));
    let mut ins = vec![b.whole(q), b.whole(k), b.whole(v)];
    if let Some((dtype, _)) = &case.mask {
        let mask = b.typed_input(*dtype, &[T, S], None);
        ins.push(b.whole(mask));
    }
    let y = b.output(&with(T));
    b.call(Call::Attention(case.attrs), ins, &[y]);
    let inputs = [tensor(&with(T), &sample(B * T * D)), tensor(&with(S), &keys()), tensor(&with(S), &sample(B * S * D))];
    let inputs: Vec<&Tensor> = inputs.iter().chain(case.mask.as_ref().map(|(_, t)| t)).collect();
    let got = run(&b.build(), &inputs);
    assert_eq!(got[0].as_ref().sizes().unwrap(), with(T));
    floats(&got[0])
}

fn keys() -> Vec<f32> {
    sample(B * S * D).iter().rev().map(|v| v * 0.75).collect()
}

fn want(scale: f32, bias: impl Fn(i64, i64) -> f32) -> Vec<f32> {
    naive(&sample(B * T * D), &keys(), &sample(B * S * D), scale, bias)
}

fn attrs(causal: bool, scale: Option<f64>, mask: bool) -> AttentionAttrs {
    AttentionAttrs { causal, scale: scale.map(Scalar::Float), mask }
}

#[test]
fn all_ranks() {
    if !torch() {
        return;
    }
    let usual = 1.0 / (D as f32).sqrt();
    for front in [&[B, 1][..], &[1, B], &[B], &[1, 1, B], &[B, 1, 1]] {
        assert_close(&attend(Case { attrs: attrs(false, None, false), front, mask: None }), &want(usual, |_, _| 0.0));
    }
}

#[test]
fn causal_and_scale() {
    if !torch() {
        return;
    }
    let hide = |t: i64, s: i64| if s > t { f32::NEG_INFINITY } else { 0.0 };
    assert_close(&attend(Case { attrs: attrs(true, Some(0.3), false), front: &[1, B], mask: None }), &want(0.3, hide));
    assert_close(&attend(Case { attrs: attrs(true, Some(0.3), false), front: &[B], mask: None }), &want(0.3, hide));
}

#[test]
fn masks_of_floats_and_of_bools() {
    if !torch() {
        return;
    }
    let usual = 1.0 / (D as f32).sqrt();
    for front in [&[1, B][..], &[B], &[1, 1, B]] {
        let floats: Vec<f32> = (0..T * S).map(|i| (i % 4) as f32 / 2.0 - 1.0).collect();
        let mask = Some((DType::F32, tensor(&[T, S], &floats)));
        let bias = |t: i64, s: i64| ((t * S + s) % 4) as f32 / 2.0 - 1.0;
        assert_close(&attend(Case { attrs: attrs(false, None, true), front, mask }), &want(usual, bias));
        let bools: Vec<u8> = (0..T * S).map(|i| (i % 3 != 0) as u8).collect();
        let mask = Some((DType::Bool, of_type(DType::Bool, &[T, S], &[S, 1], &bools)));
        let bias = |t: i64, s: i64| if (t * S + s) % 3 != 0 { 0.0 } else { f32::NEG_INFINITY };
        assert_close(&attend(Case { attrs: attrs(false, None, true), front, mask }), &want(usual, bias));
    }
}

#[test]
fn no_queries() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (q, k, v, y) = (b.input(&[1, 2, 0, D]), b.input(&[1, 2, S, D]), b.input(&[1, 2, S, D]), b.output(&[1, 2, 0, D]));
    let ins = vec![b.whole(q), b.whole(k), b.whole(v)];
    b.call(Call::Attention(attrs(false, None, false)), ins, &[y]);
    let kv = tensor(&[1, 2, S, D], &sample(2 * S * D));
    let got = run(&b.build(), &[&tensor(&[1, 2, 0, D], &[]), &kv, &kv]);
    assert_eq!(got[0].as_ref().sizes().unwrap(), [1, 2, 0, D]);
}
