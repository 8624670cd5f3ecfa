//! Convolutions, plain and with post-ops.

use crate::build::*;
use ox_ir::graph::{ConvAttrs, Post};
use ox_ir::plan::Call;
use ox_ir::{DType, Scalar, Sym};
use smallvec::smallvec;

fn attrs(bias: bool, add: bool, post: Post) -> ConvAttrs {
    let two = |n: i64| smallvec![Sym::from(n), Sym::from(n)];
    ConvAttrs {
        stride: two(1),
        padding: two(1),
        dilation: two(1),
        transposed: false,
        output_padding: two(0),
        groups: Sym::ONE,
        bias,
        add,
        post,
    }
}

const C: i64 = 3;
const O: i64 = 4;
const H: i64 = 6;

/// 3x3, padding 1, contiguous.
fn naive(x: &[f32], w: &[f32], batch: i64) -> Vec<f32> {
    let mut out = Vec::new();
    let at = |n: i64, c: i64, i: i64, j: i64| {
        let inside = (0..H).contains(&i) && (0..H).contains(&j);
        if inside { x[(((n * C + c) * H + i) * H + j) as usize] } else { 0.0 }
    };
    for (n, o, i, j) in (0..batch * O * H * H).map(|f| (f / (O * H * H), f / (H * H) % O, f / H % H, f % H)) {
        let taps = (0..C * 9).map(|t| (t / 9, t / 3 % 3, t % 3));
        out.push(taps.map(|(c, di, dj)| at(n, c, i + di - 1, j + dj - 1) * w[(((o * C + c) * 3 + di) * 3 + dj) as usize]).sum());
    }
    out
}

fn check(bias: bool, add: bool, post: Post, f: impl Fn(f32) -> f32, in_arena: bool) {
    let batch = 2;
    let out_sizes = [batch, O, H, H];
    let mut b = Builder::default();
    let (x, w) = (b.input(&[batch, C, H, H]), b.input(&[O, C, 3, 3]));
    let (bi, r) = (b.input(&[O]), b.input(&out_sizes));
    let t = if in_arena { b.arena(DType::F32, &out_sizes) } else { b.library(DType::F32, &out_sizes, None) };
    let y = b.output(&out_sizes);
    let mut ins = vec![b.whole(x), b.whole(w)];
    ins.extend(bias.then(|| b.whole(bi)));
    ins.extend(add.then(|| b.whole(r)));
    b.call(Call::Conv(Box::new(attrs(bias, add, post))), ins, &[t]);
    b.launch(twice_plus_one, Sym::from(batch * O * H * H), &[t, y]);
    b.plan.steps.push(ox_ir::plan::Step::Drop(t));
    let (xs, ws, bs, rs) = (sample(batch * C * H * H), sample(O * C * 9), sample(O), sample(batch * O * H * H));
    let inputs = [tensor(&[batch, C, H, H], &xs), tensor(&[O, C, 3, 3], &ws), tensor(&[O], &bs), tensor(&out_sizes, &rs)];
    let executable = b.build();
    let want: Vec<f32> = naive(&xs, &ws, batch)
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let bias = if bias { bs[i / (H * H) as usize % O as usize] } else { 0.0 };
            2.0 * f(v + bias + if add { rs[i] } else { 0.0 }) + 1.0
        })
        .collect();
    for _ in 0..2 {
        let got = run(&executable, &inputs.iter().collect::<Vec<_>>());
        assert_close(&floats(&got[0]), &want);
    }
}

#[test]
fn plain_and_fused() {
    if !torch() {
        return;
    }
    for in_arena in [false, true] {
        check(false, false, Post::None, |x| x, in_arena);
        check(true, false, Post::None, |x| x, in_arena);
        check(true, false, Post::Relu, |x| x.max(0.0), in_arena);
        check(false, true, Post::None, |x| x, in_arena);
        check(true, true, Post::Relu, |x| x.max(0.0), in_arena);
        check(true, false, Post::Hardtanh(Scalar::Float(-1.0), Scalar::Float(2.0)), |x| x.clamp(-1.0, 2.0), in_arena);
        check(false, false, Post::LeakyRelu(Scalar::Float(0.2)), |x| if x > 0.0 { x } else { 0.2 * x }, in_arena);
        check(false, false, Post::Silu, |x| x / (1.0 + (-x).exp()), in_arena);
        check(false, false, Post::Gelu(true), |x| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh()), in_arena);
    }
}

#[test]
fn one_dimension_transposed_strided_and_grouped() {
    if !torch() {
        return;
    }
    let one = |n: i64| smallvec![Sym::from(n)];
    let run_1d = |transposed: bool, stride: i64, groups: i64, w: (&[i64], &[f32]), post: Post, out: &[i64]| {
        let mut b = Builder::default();
        let (x, weight, y) = (b.input(&[1, 2, 3]), b.input(w.0), b.output(out));
        let attrs = ConvAttrs {
            stride: one(stride),
            padding: one(0),
            dilation: one(1),
            transposed,
            output_padding: one(0),
            groups: Sym::from(groups),
            bias: false,
            add: false,
            post,
        };
        let ins = vec![b.whole(x), b.whole(weight)];
        b.call(Call::Conv(Box::new(attrs)), ins, &[y]);
        let x = tensor(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        floats(&run(&b.build(), &[&x, &tensor(w.0, w.1)])[0])
    };
    let grouped = run_1d(false, 1, 2, (&[2, 1, 2], &[1.0, -1.0, 2.0, 1.0]), Post::Relu, &[1, 2, 2]);
    assert_eq!(grouped, [0.0, 0.0, 13.0, 16.0]);
    let strided = run_1d(false, 2, 1, (&[1, 2, 1], &[1.0, 10.0]), Post::None, &[1, 1, 2]);
    assert_eq!(strided, [41.0, 63.0]);
    let transposed = run_1d(true, 2, 1, (&[2, 1, 2], &[1.0, 2.0, 0.0, 1.0]), Post::None, &[1, 1, 6]);
    assert_eq!(transposed, [1.0, 6.0, 2.0, 9.0, 3.0, 12.0]);
}

#[test]
fn an_output_is_taken_as_torch_made_it_or_copied_to_the_planned_strides() {
    if !torch() {
        return;
    }
    let sizes = [1, O, H, H];
    let channels_last = [O * H * H, 1, O * H, O];
    for strides in [None, Some(channels_last.as_slice())] {
        let mut b = Builder::default();
        let (x, w) = (b.input(&[1, C, H, H]), b.input(&[O, C, 3, 3]));
        let y = b.typed_output(DType::F32, &sizes, strides);
        let ins = vec![b.whole(x), b.whole(w)];
        b.call(Call::Conv(Box::new(attrs(false, false, Post::None))), ins, &[y]);
        let (xs, ws) = (sample(C * H * H), sample(O * C * 9));
        let got = run(&b.build(), &[&tensor(&[1, C, H, H], &xs), &tensor(&[O, C, 3, 3], &ws)]);
        assert_close(&floats(&got[0]), &naive(&xs, &ws, 1));
        if let Some(strides) = strides {
            assert_eq!(got[0].as_ref().strides().unwrap()[1..], strides[1..]);
        }
    }
}

#[test]
fn a_shape_that_torch_does_not_return_is_a_bug_and_a_bad_call_is_torchs() {
    if !torch() {
        return;
    }
    let attempt = |weight: [i64; 4], out: [i64; 4]| {
        let mut b = Builder::default();
        let (x, w) = (b.input(&[1, C, H, H]), b.input(&weight));
        let y = b.output(&out);
        let ins = vec![b.whole(x), b.whole(w)];
        b.call(Call::Conv(Box::new(attrs(false, false, Post::None))), ins, &[y]);
        b.plan.locations = vec!["net.py:3".into()];
        let weights = sample(weight.iter().product());
        try_run(&b.build(), &[&tensor(&[1, C, H, H], &sample(C * H * H)), &tensor(&weight, &weights)]).unwrap_err()
    };
    assert!(matches!(attempt([O, C, 3, 3], [1, O, H, H + 1]), ox_runtime::RunError::Bug(_)));
    match attempt([O, C + 1, 3, 3], [1, O, H, H]) {
        ox_runtime::RunError::Torch { location, .. } => assert_eq!(location, "net.py:3"),
        other => panic!("{other:?}"),
    }
}
