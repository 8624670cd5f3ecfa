//! Matrix products in all forms, against a naive loop.

use crate::build::*;
use ox_ir::graph::Post;
use ox_ir::plan::{Call, Step, View};
use ox_ir::{DType, Scalar};
use ox_runtime::Tensor;

fn matmul(bias: bool, add: bool, alpha: f64, beta: f64, post: Post) -> Call {
    Call::Matmul { bias, add, alpha: Scalar::Float(alpha), beta: Scalar::Float(beta), post }
}

fn plain() -> Call {
    matmul(false, false, 1.0, 1.0, Post::None)
}

#[test]
fn two_dimensions_and_transposed_weights() {
    if !torch() {
        return;
    }
    let (m, k, n) = (5, 7, 3);
    let mut b = Builder::default();
    let (x, w, y) = (b.input(&[m, k]), b.input(&[n, k]), b.output(&[m, n]));
    let ins = vec![b.whole(x), b.view(w, &[k, n], &[1, k], 0)];
    b.call(plain(), ins, &[y]);
    let (x, w) = (sample(m * k), sample(n * k));
    let results = run(&b.build(), &[&tensor(&[m, k], &x), &tensor(&[n, k], &w)]);
    let transposed: Vec<f32> = (0..k * n).map(|i| w[(i % n * k + i / n) as usize]).collect();
    assert_close(&floats(&results[0]), &naive_product(&x, &transposed, m, k, n));
}

#[test]
fn bias_alpha_beta_add_and_post() {
    if !torch() {
        return;
    }
    let (m, k, n) = (4, 6, 5);
    let (xs, ws, bs, rs) = (sample(m * k), sample(k * n), sample(n), sample(m * n));
    let product = naive_product(&xs, &ws, m, k, n);
    for (bias, add, alpha, beta, relu) in [
        (true, false, 1.0, 1.0, false),
        (true, false, 0.5, 2.0, true),
        (false, false, 0.5, 1.0, false),
        (false, true, 1.0, 1.0, false),
        (true, true, 2.0, 0.5, true),
    ] {
        let mut b = Builder::default();
        let (x, w, bi, r) = (b.input(&[m, k]), b.input(&[k, n]), b.input(&[n]), b.input(&[m, n]));
        let (t, y) = (b.arena(DType::F32, &[m, n]), b.output(&[m, n]));
        let mut ins = vec![b.whole(x), b.whole(w)];
        ins.extend(bias.then(|| b.whole(bi)));
        ins.extend(add.then(|| b.whole(r)));
        let post = if relu { Post::Relu } else { Post::None };
        b.call(matmul(bias, add, alpha, beta, post), ins, &[t]);
        let (from, to) = (b.whole(t), b.whole(y));
        b.plan.steps.push(Step::Copy { from, to });
        let inputs = [tensor(&[m, k], &xs), tensor(&[k, n], &ws), tensor(&[n], &bs), tensor(&[m, n], &rs)];
        let got = floats(&run(&b.build(), &inputs.iter().collect::<Vec<_>>())[0]);
        let at = |i: usize| {
            let mut v = alpha as f32 * product[i];
            v += if bias { beta as f32 * bs[i % n as usize] } else { 0.0 };
            v += if add { rs[i] } else { 0.0 };
            if relu { v.max(0.0) } else { v }
        };
        assert_close(&got, &(0..got.len()).map(at).collect::<Vec<_>>());
    }
}

fn with_post(post: Post, f: impl Fn(f32) -> f32) {
    let (m, k, n) = (3, 4, 8);
    let mut b = Builder::default();
    let (x, w, y) = (b.input(&[m, k]), b.input(&[k, n]), b.output(&[m, n]));
    let ins = vec![b.whole(x), b.whole(w)];
    b.call(matmul(false, false, 1.0, 1.0, post), ins, &[y]);
    let (x, w) = (sample(m * k), sample(k * n));
    let got = run(&b.build(), &[&tensor(&[m, k], &x), &tensor(&[k, n], &w)]);
    assert_close(&floats(&got[0]), &naive_product(&x, &w, m, k, n).into_iter().map(f).collect::<Vec<_>>());
}

#[test]
fn every_post_op() {
    if !torch() {
        return;
    }
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    with_post(Post::Relu, |x| x.max(0.0));
    with_post(Post::Silu, |x| x * sigmoid(x));
    with_post(Post::Sigmoid, sigmoid);
    with_post(Post::Tanh, f32::tanh);
    with_post(Post::Hardswish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0);
    with_post(Post::Hardtanh(Scalar::Float(-0.5), Scalar::Float(1.5)), |x| x.clamp(-0.5, 1.5));
    with_post(Post::LeakyRelu(Scalar::Float(0.1)), |x| if x > 0.0 { x } else { 0.1 * x });
    with_post(Post::Gelu(true), |x| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh()));
}

/// Runs `a @ b` with these windows on contiguous inputs and an output of `sizes`.
fn batched(a: (&[i64], View2), b: (&[i64], View2), sizes: &[i64], strides: Option<&[i64]>, xs: [&[f32]; 2]) -> Vec<f32> {
    let mut builder = Builder::default();
    let (x, w) = (builder.input(a.0), builder.input(b.0));
    let y = builder.typed_output(DType::F32, sizes, strides);
    let view = |buf, (sizes, strides): View2| -> View { builder.view(buf, sizes, strides, 0) };
    let ins = vec![view(x, a.1), view(w, b.1)];
    builder.call(plain(), ins, &[y]);
    floats(&run(&builder.build(), &[&tensor(a.0, xs[0]), &tensor(b.0, xs[1])])[0])
}

type View2<'a> = (&'a [i64], &'a [i64]);

fn naive_batched(x: &[f32], w: &[f32], batch: i64, shared: bool, m: i64, k: i64, n: i64) -> Vec<f32> {
    let one = |at: i64| {
        let right = if shared { 0 } else { at * k * n } as usize;
        naive_product(&x[(at * m * k) as usize..], &w[right..], m, k, n)
    };
    (0..batch).flat_map(one).collect()
}

#[test]
fn batches() {
    if !torch() {
        return;
    }
    let (b, m, k, n) = (6, 3, 4, 5);
    let (x, w) = (sample(b * m * k), sample(b * k * n));
    let own = naive_batched(&x, &w, b, false, m, k, n);
    let shared = naive_batched(&x, &w, b, true, m, k, n);
    let (xs, ws) = ([b, m, k], [b, k, n]);
    let dense_x: View2 = (&[6, 3, 4], &[12, 4, 1]);
    let dense_w: View2 = (&[6, 4, 5], &[20, 5, 1]);
    assert_close(&batched((&xs, dense_x), (&ws, dense_w), &[b, m, n], None, [&x, &w]), &own);
    // One right-hand side for the whole batch: two dimensions.
    let one_w: View2 = (&[6, 4, 5], &[0, 5, 1]);
    assert_close(&batched((&xs, dense_x), (&[k, n], one_w), &[b, m, n], None, [&x, &w[..20]]), &shared);
    // Four dimensions whose batch is one stride.
    let four_x: View2 = (&[2, 3, 3, 4], &[36, 12, 4, 1]);
    let four_w: View2 = (&[2, 3, 4, 5], &[60, 20, 5, 1]);
    assert_close(&batched((&xs, four_x), (&ws, four_w), &[2, 3, m, n], None, [&x, &w]), &own);
    // An output whose batch is not: several products.
    let mixed = Some([15, 30, 5, 1].as_slice());
    assert_close(&batched((&xs, four_x), (&ws, four_w), &[2, 3, m, n], mixed, [&x, &w]), &own);
}

#[test]
fn sizes_of_zero() {
    if !torch() {
        return;
    }
    for (m, k, n) in [(0, 4, 3), (2, 0, 3), (2, 4, 0)] {
        let mut b = Builder::default();
        let (x, w, bias, y) = (b.input(&[m, k]), b.input(&[k, n]), b.input(&[n]), b.output(&[m, n]));
        let ins = vec![b.whole(x), b.whole(w), b.whole(bias)];
        b.call(matmul(true, false, 1.0, 1.0, Post::Relu), ins, &[y]);
        let inputs = [tensor(&[m, k], &sample(m * k)), tensor(&[k, n], &sample(k * n)), tensor(&[n], &vec![2.0; n as usize])];
        let got = run(&b.build(), &inputs.iter().collect::<Vec<_>>());
        assert_eq!(floats(&got[0]), vec![2.0; (m * n) as usize]);
    }
}

#[test]
fn integers_and_halves() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, w) = (b.typed_input(DType::I64, &[2, 2], None), b.typed_input(DType::I64, &[2, 2], None));
    let (bias, y) = (b.typed_input(DType::I64, &[2], None), b.typed_output(DType::I64, &[2, 2], None));
    let ins = vec![b.whole(x), b.whole(w), b.whole(bias)];
    b.call(matmul(true, false, 1.0, 2.0, Post::None), ins, &[y]);
    let ints = |sizes: &[i64], strides: &[i64], v: &[i64]| -> Tensor { of_type(DType::I64, sizes, strides, v) };
    let inputs = [ints(&[2, 2], &[2, 1], &[1, 2, 3, 4]), ints(&[2, 2], &[2, 1], &[5, 6, 7, 8]), ints(&[2], &[1], &[10, 20])];
    assert_eq!(values::<i64>(&run(&b.build(), &inputs.iter().collect::<Vec<_>>())[0]), [39, 62, 63, 90]);

    // bf16: 1.0 is 0x3F80, 2.0 is 0x4000, 3.0 is 0x4040. [1 2] @ [1 2]' + 3 (add) = 8.0 = 0x4100
    let mut b = Builder::default();
    let half = |b: &mut Builder, sizes: &[i64]| b.typed_input(DType::BF16, sizes, None);
    let (x, w, r) = (half(&mut b, &[1, 2]), half(&mut b, &[2, 1]), half(&mut b, &[1, 1]));
    let y = b.typed_output(DType::BF16, &[1, 1], None);
    let ins = vec![b.whole(x), b.whole(w), b.whole(r)];
    b.call(matmul(false, true, 1.0, 1.0, Post::Relu), ins, &[y]);
    let halves = |sizes: &[i64], v: &[u16]| of_type(DType::BF16, sizes, &[sizes[1], 1], v);
    let inputs = [halves(&[1, 2], &[0x3F80, 0x4000]), halves(&[2, 1], &[0x3F80, 0x4000]), halves(&[1, 1], &[0x4040])];
    assert_eq!(values::<u16>(&run(&b.build(), &inputs.iter().collect::<Vec<_>>())[0]), [0x4100]);
}

/// A product of f16 with one column, which is computed as the transposed one.
#[test]
fn a_column_of_f16() {
    if !torch() {
        return;
    }
    let (m, k) = (3, 4);
    let mut b = Builder::default();
    let (x, w) = (b.typed_input(DType::F16, &[m, k], None), b.typed_input(DType::F16, &[k, 1], None));
    let y = b.typed_output(DType::F16, &[m, 1], None);
    let ins = vec![b.whole(x), b.whole(w)];
    b.call(plain(), ins, &[y]);
    // 1.0 is 0x3C00, 2.0 is 0x4000, 3.0 is 0x4200.
    let (o, one, two, three) = (0, 0x3C00, 0x4000, 0x4200);
    let halves = |sizes: &[i64], v: &[u16]| of_type(DType::F16, sizes, &[sizes[1], 1], v);
    let inputs = [halves(&[m, k], &[one, o, o, o, o, two, o, o, one, o, o, one]), halves(&[k, 1], &[one, one, one, two])];
    assert_eq!(values::<u16>(&run(&b.build(), &inputs.iter().collect::<Vec<_>>())[0]), [one, two, three]);
}
