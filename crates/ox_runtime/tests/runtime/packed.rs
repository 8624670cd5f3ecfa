//! Packed weights: the same numbers as with plain ones.

use crate::build::*;
use ox_ir::graph::{ConvAttrs, Packing, Post};
use ox_ir::plan::{BufId, Call, PlanOutput, View};
use ox_ir::{Scalar, Sym};
use ox_runtime::{RunError, packable};
use smallvec::{SmallVec, smallvec};

fn for_product(rows: i64, k: i64) -> Call {
    let none = SmallVec::new;
    let packing = Packing { x: shape(&[rows, k]), stride: none(), padding: none(), dilation: none(), groups: Sym::ONE };
    Call::Pack(Box::new(packing))
}

fn product(bias: bool, post: Post) -> Call {
    Call::Matmul { bias, add: false, alpha: Scalar::Float(1.0), beta: Scalar::Float(1.0), post }
}

fn turned(values: &[f32], rows: i64, columns: i64) -> Vec<f32> {
    (0..rows * columns).map(|i| values[(i % rows * columns + i / rows) as usize]).collect()
}

#[test]
fn a_product_with_bias_and_relu() {
    if !torch() || !packable().matmul_f32 {
        return;
    }
    let (m, k, n) = (9, 20, 33);
    let (xs, ws, bs) = (sample(m * k), sample(n * k), sample(n));
    let plain = naive_product(&xs, &turned(&ws, n, k), m, k, n);
    for (bias, post) in [(false, Post::None), (true, Post::None), (true, Post::Relu)] {
        let mut b = Builder::default();
        let (x, w, bi) = (b.input(&[m, k]), b.input(&[n, k]), b.input(&[n]));
        let (packed, y) = (b.packed(&[k, n]), b.output(&[m, n]));
        let weight = b.view(w, &[k, n], &[1, k], 0);
        b.call(for_product(m, k), vec![weight], &[packed]);
        let mut ins = vec![b.whole(x), b.whole(packed)];
        ins.extend(bias.then(|| b.whole(bi)));
        b.call(product(bias, post.clone()), ins, &[y]);
        let got = run(&b.build(), &[&tensor(&[m, k], &xs), &tensor(&[n, k], &ws), &tensor(&[n], &bs)]);
        let sum = |at: usize| plain[at] + if bias { bs[at % n as usize] } else { 0.0 };
        let want: Vec<f32> = (0..plain.len()).map(|at| if post == Post::Relu { sum(at).max(0.0) } else { sum(at) }).collect();
        assert_close(&floats(&got[0]), &want);
    }
}

/// Rows with gaps, rows that overlap, columns; and a result in columns.
#[test]
fn factors_and_results_in_any_strides() {
    if !torch() || !packable().matmul_f32 {
        return;
    }
    let (m, k, n) = (8, 6, 5);
    let ws = sample(k * n);
    for (strides, span) in [([k + 3, 1], 85), ([1, 1], 13), ([1, m], 48), ([2 * k, 2], 95), ([0, 1], 6)] {
        for out_strides in [[n, 1], [1, m]] {
            let mut b = Builder::default();
            let (x, w) = (b.input(&[span]), b.input(&[k, n]));
            let (packed, y) = (b.packed(&[k, n]), b.typed_output(ox_ir::DType::F32, &[m, n], Some(&out_strides)));
            let weight = b.whole(w);
            b.call(for_product(m, k), vec![weight], &[packed]);
            let ins = vec![b.view(x, &[m, k], &strides, 0), b.whole(packed)];
            b.call(product(false, Post::None), ins, &[y]);
            let xs = sample(span);
            let got = run(&b.build(), &[&tensor(&[span], &xs), &tensor(&[k, n], &ws)]);
            let rows: Vec<f32> = (0..m * k).map(|i| xs[(i / k * strides[0] + i % k * strides[1]) as usize]).collect();
            assert_close(&floats(&got[0]), &naive_product(&rows, &ws, m, k, n));
        }
    }
}

/// One plan packs and returns, the other gets it as an input and runs twice.
#[test]
fn a_packed_weight_goes_from_plan_to_plan() {
    if !torch() || !packable().matmul_f32 {
        return;
    }
    let (m, k, n) = (8, 16, 24);
    let (xs, ws) = (sample(m * k), sample(k * n));
    let mut b = Builder::default();
    let (w, packed) = (b.input(&[k, n]), b.packed(&[k, n]));
    let weight = b.whole(w);
    b.call(for_product(m, k), vec![weight], &[packed]);
    b.plan.outputs.push(PlanOutput::Buffer(packed));
    let made = run(&b.build(), &[&tensor(&[k, n], &ws)]);
    let mut b = Builder::default();
    let (x, packed, y) = (b.input(&[m, k]), b.packed_input(&[k, n]), b.output(&[m, n]));
    let ins = vec![b.whole(x), b.whole(packed)];
    b.call(product(false, Post::None), ins, &[y]);
    let executable = b.build();
    for _ in 0..2 {
        let got = run(&executable, &[&tensor(&[m, k], &xs), &made[0]]);
        assert_close(&floats(&got[0]), &naive_product(&xs, &ws, m, k, n));
    }
}

#[test]
fn what_a_packed_product_cannot_do_is_a_bug() {
    if !torch() || !packable().matmul_f32 {
        return;
    }
    let mut b = Builder::default();
    let (x, packed, y) = (b.input(&[8, 6]), b.packed_input(&[6, 5]), b.output(&[8, 5]));
    let ins = vec![b.whole(x), b.whole(packed)];
    let half = Scalar::Float(0.5);
    b.call(Call::Matmul { bias: false, add: false, alpha: half, beta: half, post: Post::None }, ins, &[y]);
    assert!(matches!(b.build_with(std::sync::Arc::new(ox_runtime::NoHost)), Err(RunError::Bug(_))));
}

const HEIGHT: i64 = 6;

struct Case {
    x: [i64; 4],
    weight: [i64; 4],
    groups: i64,
    bias: bool,
    post: Post,
}

/// The convolution of `case`, packed or not.
fn convolve(case: &Case, pack: bool) -> Vec<f32> {
    let two = |n: i64| smallvec![Sym::from(n), Sym::from(n)];
    let (padding, groups) = (case.weight[2] / 2, Sym::from(case.groups));
    let attrs = ConvAttrs {
        stride: two(1),
        padding: two(padding),
        dilation: two(1),
        transposed: false,
        output_padding: two(0),
        groups: groups.clone(),
        bias: case.bias,
        add: false,
        post: case.post.clone(),
    };
    let packing = Packing { x: shape(&case.x), stride: two(1), padding: two(padding), dilation: two(1), groups };
    let outs = [case.x[0], case.weight[0], HEIGHT, HEIGHT];
    let mut b = Builder::default();
    let (x, w, bias) = (b.input(&case.x), b.input(&case.weight), b.input(&[case.weight[0]]));
    let weight = if pack { packed_weight(&mut b, w, &case.weight, packing) } else { b.whole(w) };
    let y = b.output(&outs);
    let mut ins = vec![b.whole(x), weight];
    ins.extend(case.bias.then(|| b.whole(bias)));
    b.call(Call::Conv(Box::new(attrs)), ins, &[y]);
    let given = |sizes: &[i64]| tensor(sizes, &sample(sizes.iter().product()));
    floats(&run(&b.build(), &[&given(&case.x), &given(&case.weight), &given(&[case.weight[0]])])[0])
}

fn packed_weight(b: &mut Builder, weight: BufId, sizes: &[i64], packing: Packing) -> View {
    let packed = b.packed(sizes);
    let view = b.whole(weight);
    b.call(Call::Pack(Box::new(packing)), vec![view], &[packed]);
    b.whole(packed)
}

#[test]
fn convolutions_of_all_kinds() {
    if !torch() || !packable().conv_f32 {
        return;
    }
    let x = [2, 16, HEIGHT, HEIGHT];
    for (weight, groups) in [([32, 16, 3, 3], 1), ([5, 16, 1, 1], 1), ([16, 1, 3, 3], 16), ([8, 4, 3, 3], 4)] {
        for (bias, post) in
            [(false, Post::None), (true, Post::Relu), (true, Post::Hardtanh(Scalar::Float(-1.0), Scalar::Float(2.0)))]
        {
            let case = Case { x, weight, groups, bias, post };
            assert_close(&convolve(&case, true), &convolve(&case, false));
        }
    }
}

#[test]
fn a_convolution_of_nothing() {
    if !torch() || !packable().conv_f32 {
        return;
    }
    let case = Case { x: [0, 16, HEIGHT, HEIGHT], weight: [8, 16, 3, 3], groups: 1, bias: false, post: Post::None };
    assert!(convolve(&case, true).is_empty());
}
