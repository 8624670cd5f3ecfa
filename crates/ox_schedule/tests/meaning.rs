//! A Plan means what its Graph means: both are interpreted on the same inputs.

use ox_ir::{DType, Graph, Scalar};
use ox_schedule::{ScheduleOptions, Target, schedule};
use ox_testing::{TensorData, interpret_graph, interpret_plan};

/// Numbers that are neither regular nor extreme; small ones for integers, so that they can be indices. Elements that share
/// memory are equal.
fn filled(dtype: DType, shape: &[usize], strides: &[i64], seed: usize) -> TensorData {
    TensorData::from_fn(dtype, shape, |index| {
        let address: i64 = index.iter().zip(strides).map(|(i, s)| *i as i64 * s).sum();
        let n = ((address + 7 * seed as i64 + 3) * 37 + address * address % 17).rem_euclid(101);
        match dtype {
            DType::Bool => Scalar::Bool(n % 2 == 0),
            d if d.is_float() => Scalar::Float(ox_testing::scalar::round(dtype, n as f64 / 25.0 - 2.0)),
            _ => Scalar::Int(n % 3),
        }
    })
}

#[track_caller]
fn check_sizes(text: &str, sizes: &[i64]) -> ox_ir::Plan {
    check_with(text, sizes, &Default::default())
}

#[track_caller]
fn check_with(text: &str, sizes: &[i64], options: &ScheduleOptions) -> ox_ir::Plan {
    let graph = Graph::parse(text).unwrap();
    let plan = schedule(&graph, options).unwrap();
    let bind = |v: &ox_ir::Var| graph.sizes.iter().position(|s| s == v).map(|k| sizes[k]);
    let inputs: Vec<TensorData> = graph
        .inputs
        .iter()
        .enumerate()
        .map(|(n, input)| {
            let shape: Vec<usize> = input.ty.shape.iter().map(|s| s.eval(&bind).unwrap() as usize).collect();
            let strides: Vec<i64> = input.strides.iter().map(|s| s.eval(&bind).unwrap()).collect();
            filled(input.ty.dtype, &shape, &strides, n)
        })
        .collect();
    let expected = interpret_graph(&graph, &inputs, sizes).unwrap();
    let got = interpret_plan(&plan, &inputs, sizes).unwrap_or_else(|e| panic!("{e}\n{plan}"));
    for (k, (g, e)) in got.outputs.iter().zip(&expected.outputs).enumerate() {
        if let Some(difference) = ox_testing::compare::difference(g, e) {
            panic!("output {k}: {difference}\n{plan}");
        }
    }
    for (input, value) in &expected.mutations {
        if let Some(difference) = ox_testing::compare::difference(got.inputs[*input as usize].as_ref().unwrap(), value) {
            panic!("input {input} afterwards: {difference}\n{plan}");
        }
    }
    plan
}

#[track_caller]
fn check(text: &str) -> ox_ir::Plan {
    check_sizes(text, &[])
}

#[test]
fn a_residual_and_a_layer_norm_are_one_kernel() {
    let plan = check(
        r#"graph(%0: f32[4, 3, 20] "x", %1: f32[4, 3, 20] "r", %2: f32[20] "w", %3: f32[20, 5] "m") {
  %5 = add(%0, %1) : f32[4, 3, 20]
  %6 = reduce(%5, op=sum, dims=[2]) : f32[4, 3, 1]
  %7 = full(20.0) : f32[4, 3, 1]
  %8 = div(%6, %7) : f32[4, 3, 1]
  %9 = expand(%8) : f32[4, 3, 20]
  %10 = sub(%5, %9) : f32[4, 3, 20]
  %11 = mul(%10, %10) : f32[4, 3, 20]
  %12 = reduce(%11, op=sum, dims=[2]) : f32[4, 3, 1]
  %13 = div(%12, %7) : f32[4, 3, 1]
  %14 = full(1e-5) : f32[4, 3, 1]
  %15 = add(%13, %14) : f32[4, 3, 1]
  %16 = rsqrt(%15) : f32[4, 3, 1]
  %17 = expand(%16) : f32[4, 3, 20]
  %18 = mul(%10, %17) : f32[4, 3, 20]
  %19 = reshape(%2) : f32[1, 1, 20]
  %20 = expand(%19) : f32[4, 3, 20]
  %21 = mul(%18, %20) : f32[4, 3, 20]
  %22 = reshape(%21) : f32[12, 20]
  %23 = matmul(%22, %3) : f32[12, 5]
  %24 = reshape(%23) : f32[4, 3, 5]
  return %24, %5
}"#,
    );
    assert_eq!(plan.kernels.len(), 1);
    assert_eq!(plan.steps.len(), 2);
}

#[test]
fn softmax_keeps_its_exponentials() {
    let plan = check(
        r#"graph(%0: f32[4, 33] "x") {
  %1 = reduce(%0, op=max, dims=[1]) : f32[4, 1]
  %2 = expand(%1) : f32[4, 33]
  %3 = sub(%0, %2) : f32[4, 33]
  %4 = exp(%3) : f32[4, 33]
  %5 = reduce(%4, op=sum, dims=[1]) : f32[4, 1]
  %6 = expand(%5) : f32[4, 33]
  %7 = div(%4, %6) : f32[4, 33]
  return %7
}"#,
    );
    assert_eq!(plan.kernels.len(), 1);
    assert_eq!(plan.to_string().matches(" exp ").count(), 1);
}

#[test]
fn group_norm_is_one_kernel() {
    let plan = check(
        r#"graph(%0: f32[2, 8, 3, 3] "x", %1: f32[8] "w") {
  %2 = reshape(%0) : f32[2, 4, 18]
  %3 = reduce(%2, op=sum, dims=[2]) : f32[2, 4, 1]
  %4 = full(18.0) : f32[2, 4, 1]
  %5 = div(%3, %4) : f32[2, 4, 1]
  %6 = expand(%5) : f32[2, 4, 18]
  %7 = sub(%2, %6) : f32[2, 4, 18]
  %8 = reshape(%7) : f32[2, 8, 3, 3]
  %9 = reshape(%1) : f32[1, 8, 1, 1]
  %10 = expand(%9) : f32[2, 8, 3, 3]
  %11 = mul(%8, %10) : f32[2, 8, 3, 3]
  return %11
}"#,
    );
    assert_eq!(plan.kernels.len(), 1);
    assert!(!plan.to_string().contains("//"), "no division should be left:\n{plan}");
}

#[test]
fn heads_are_split_and_joined_without_a_copy() {
    let plan = check(
        r#"graph(%0: f32[2, 5, 12] "q", %1: f32[12, 12] "w") {
  %2 = reshape(%0) : f32[2, 5, 3, 4]
  %3 = permute(%2, [0, 2, 1, 3]) : f32[2, 3, 5, 4]
  %4 = attention(%3, %3, %3) : f32[2, 3, 5, 4]
  %5 = permute(%4, [0, 2, 1, 3]) : f32[2, 5, 3, 4]
  %6 = reshape(%5) : f32[10, 12]
  %7 = matmul(%6, %1) : f32[10, 12]
  return %7
}"#,
    );
    assert_eq!(plan.kernels.len(), 0, "{plan}");
}

#[test]
fn reductions_over_any_axes() {
    for dims in ["[0]", "[1]", "[2]", "[0, 1]", "[0, 2]", "[1, 2]", "[0, 1, 2]"] {
        let shape: Vec<String> = [3, 4, 5]
            .iter()
            .enumerate()
            .map(|(d, n)| if dims.contains(&d.to_string()) { "1".into() } else { n.to_string() })
            .collect();
        let shape = shape.join(", ");
        for op in ["sum", "max", "min", "prod"] {
            check(&format!(
                r#"graph(%0: f32[3, 4, 5] "x") {{
  %1 = reduce(%0, op={op}, dims={dims}) : f32[{shape}]
  %2 = expand(%1) : f32[3, 4, 5]
  %3 = sub(%0, %2) : f32[3, 4, 5]
  return %1, %3
}}"#
            ));
        }
    }
}

#[test]
fn argmax_over_any_axis() {
    for (dim, shape) in [(0, "1, 4, 5"), (1, "3, 1, 5"), (2, "3, 4, 1")] {
        check(&format!(
            r#"graph(%0: f32[3, 4, 5] "x") {{
  %1 = reduce(%0, op=argmax, dims=[{dim}]) : i64[{shape}]
  %2 = reduce(%0, op=argmin, dims=[{dim}]) : i64[{shape}]
  return %1, %2
}}"#
        ));
    }
}

#[test]
fn large_reductions_are_cut() {
    let plan = check(
        r#"graph(%0: f32[1, 65536] "x") {
  %1 = reduce(%0, op=max, dims=[0, 1]) : f32[1, 1]
  %2 = reshape(%1) : f32[]
  return %2
}"#,
    );
    assert_eq!(plan.steps.len(), 2, "{plan}");
}

#[test]
fn values_from_several_sources() {
    check(
        r#"graph(%0: f32[3, 4] "x", %1: f32[3, 2] "y", %2: f32[2, 2] "z") {
  %3 = neg(%0) : f32[3, 4]
  %4 = cat(%3, %1, dim=1) : f32[3, 6]
  %5 = pad(%4, low=[1, -1], value=0.5) : f32[5, 6]
  %6 = exp(%5) : f32[5, 6]
  %7 = slice_scatter(%6, %2, [1 by 2, 4 by -3]) : f32[5, 6]
  %8 = slice(%7, [4 by -2, 0 by 2]) : f32[3, 3]
  return %7, %8
}"#,
    );
}

#[test]
fn windows_and_diagonals() {
    check(
        r#"graph(%0: f32[2, 7, 7] "x") {
  %1 = pad(%0, low=[0, 1, 1], value=-inf) : f32[2, 9, 9]
  %2 = unfold(%1, dim=1, step=2) : f32[2, 4, 9, 3]
  %3 = unfold(%2, dim=2, step=2) : f32[2, 4, 4, 3, 3]
  %4 = reduce(%3, op=max, dims=[3, 4]) : f32[2, 4, 4, 1, 1]
  %5 = reshape(%4) : f32[2, 4, 4]
  %6 = diagonal(%5, offset=1, dim1=1, dim2=2) : f32[2, 3]
  %7 = neg(%6) : f32[2, 3]
  return %5, %7
}"#,
    );
}

#[test]
fn gathers_and_scatters() {
    check(
        r#"graph(%0: f32[3, 4] "x", %1: i64[5] "i", %2: f32[5, 4] "v", %3: i64[5, 4] "full", %4: i32[2] "j") {
  %5 = index(%0, %1, dims=[0], at=0) : f32[5, 4]
  %6 = exp(%5) : f32[5, 4]
  %7 = index_put(%0, %1, %6, dims=[0], at=0, combine=sum) : f32[3, 4]
  %8 = iota(dim=1) : i64[5, 4]
  %9 = index_put(%0, %3, %8, %2, dims=[0, 1], at=0, combine=sum) : f32[3, 4]
  %10 = index(%2, %4, dims=[1], at=1) : f32[5, 2]
  %11 = index_put(%7, %1, %2, dims=[0], at=0) : f32[3, 4]
  return %6, %7, %9, %10, %11
}"#,
    );
}

#[test]
fn scans() {
    check(
        r#"graph(%0: f32[3, 4] "x", %1: i64[6] "n") {
  %2 = mul(%0, %0) : f32[3, 4]
  %3 = scan(%2, op=sum, dim=1) : f32[3, 4]
  %4 = scan(%2, op=sum, dim=0) : f32[3, 4]
  %5 = add(%3, %4) : f32[3, 4]
  %6 = scan(%1, op=prod, dim=0) : i64[6]
  return %5, %6
}"#,
    );
}

/// What is computed for a recurrence alone is computed in its loop, whichever dimension it goes along.
#[test]
fn recurrences() {
    for dim in 0..3 {
        let plan = check(&format!(
            r#"graph(%0: f32[3, 4, 5] "decay", %1: f32[3, 4, 5] "x") {{
  %2 = sigmoid(%0) : f32[3, 4, 5]
  %3 = mul(%1, %1) : f32[3, 4, 5]
  %4 = scan(%3, %2, op=sum, dim={dim}) : f32[3, 4, 5]
  return %4
}}"#
        ));
        assert_eq!(plan.kernels.len(), 1, "{plan}");
    }
}

#[test]
fn outputs_in_eagers_strides() {
    check(
        r#"graph(%0: f32[3, 4] "x", %1: f32[2, 3, 4, 5] "y") {
  %2 = exp(%0) : f32[3, 4]
  %3 = permute(%2, [1, 0]) : f32[4, 3]
  %4 = neg(%1) : f32[2, 3, 4, 5]
  return %2, %3 strides [1, 4], %4 strides [60, 1, 15, 3], %0, %0, %2
}"#,
    );
}

#[test]
fn inputs_that_trade_places() {
    check(
        r#"graph(%0: f32[3, 4] "x", %1: f32[3, 4] "y") {
  %2 = neg(%0) : f32[3, 4]
  mutate 0 = %1
  mutate 1 = %0
  return %2
}"#,
    );
}

#[test]
fn strided_inputs() {
    check(
        r#"graph(%0: f32[3, 4] strides [1, 3] "x", %1: f32[3, 4] strides [0, 1] "y") {
  %2 = add(%0, %1) : f32[3, 4]
  %3 = reduce(%2, op=sum, dims=[0]) : f32[1, 4]
  return %2, %3
}"#,
    );
}

#[test]
fn empty_tensors() {
    check(
        r#"graph(%0: f32[0, 4] "x", %1: f32[3, 4] "y") {
  %2 = exp(%0) : f32[0, 4]
  %3 = reduce(%2, op=sum, dims=[0]) : f32[1, 4]
  %4 = cat(%2, %1, dim=0) : f32[3, 4]
  %5 = expand(%3) : f32[3, 4]
  %6 = add(%4, %5) : f32[3, 4]
  return %2, %3, %6
}"#,
    );
}

#[test]
fn sizes_at_run_time() {
    let text = r#"sizes s0 in 2.., s1 in 2..
graph(%0: f32[s0, s1, 8] "x", %1: f32[8] "w") {
  %2 = reduce(%0, op=max, dims=[2]) : f32[s0, s1, 1]
  %3 = expand(%2) : f32[s0, s1, 8]
  %4 = sub(%0, %3) : f32[s0, s1, 8]
  %5 = reshape(%1) : f32[1, 1, 8]
  %6 = expand(%5) : f32[s0, s1, 8]
  %7 = mul(%4, %6) : f32[s0, s1, 8]
  %8 = reshape(%7) : f32[s0*s1, 8]
  %9 = permute(%8, [1, 0]) : f32[8, s0*s1]
  %10 = exp(%9) : f32[8, s0*s1]
  %11 = cat(%0, %7, dim=1) : f32[s0, 2*s1, 8]
  return %8, %10, %11
}"#;
    check_sizes(text, &[3, 5]);
    check_sizes(text, &[2, 2]);
}

#[test]
fn half_types_round_where_the_graph_says() {
    check(
        r#"graph(%0: bf16[3, 16] "x", %1: bf16[3, 16] "y") {
  %2 = mul(%0, %1) : bf16[3, 16]
  %3 = add(%2, %0) : bf16[3, 16]
  %4 = cast(%3) : f32[3, 16]
  %5 = reduce(%4, op=sum, dims=[1]) : f32[3, 1]
  %6 = cast(%5) : bf16[3, 1]
  return %3, %6
}"#,
    );
}

#[test]
fn batched_products_become_three_dimensional() {
    check(
        r#"graph(%0: f32[2, 3, 4, 5] "a", %1: f32[2, 3, 5, 2] "b") {
  %2 = matmul(%0, %1) : f32[2, 3, 4, 2]
  %3 = exp(%2) : f32[2, 3, 4, 2]
  %4 = permute(%3, [0, 2, 1, 3]) : f32[2, 4, 3, 2]
  %5 = reshape(%4) : f32[8, 6]
  %6 = permute(%0, [0, 2, 1, 3]) : f32[2, 4, 3, 5]
  %7 = reshape(%6) : f32[8, 15]
  return %2, %5, %7
}"#,
    );
}

#[test]
fn convolutions_work_channels_last() {
    let plan = check(
        r#"graph(%0: f32[2, 3, 5, 5] "x", %1: f32[4, 3, 3, 3] "w", %2: f32[4, 4, 1, 1] "v") {
  %3 = conv(%0, %1, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], groups=1) : f32[2, 4, 5, 5]
  %4 = full(0.0) : f32[2, 4, 5, 5]
  %5 = maximum(%3, %4) : f32[2, 4, 5, 5]
  %6 = conv(%5, %2, stride=[1, 1], padding=[0, 0], dilation=[1, 1], output_padding=[0, 0], groups=1) : f32[2, 4, 5, 5]
  %7 = add(%6, %5) : f32[2, 4, 5, 5]
  %8 = reshape(%7) : f32[2, 100]
  return %8, %7
}"#,
    );
    let lasts = plan.buffers.iter().filter(|b| b.strides[1].is_one() && b.shape.len() == 4).count();
    assert!(lasts >= 4, "{plan}");
}

/// Rows of a linear layer, normed and seen as an image: such an image lies channels-last, and nothing is copied into another order, in front of the convolution or behind it.
#[test]
fn tokens_that_are_an_image_stay_where_they_are() {
    let plan = check(
        r#"graph(%0: f32[18, 4] "x", %1: f32[4, 6] "l", %2: f32[6, 1, 3, 3] "w") {
  %3 = matmul(%0, %1) : f32[18, 6]
  %4 = reduce(%3, op=max, dims=[0, 1]) : f32[1, 1]
  %5 = expand(%4) : f32[18, 6]
  %6 = sub(%3, %5) : f32[18, 6]
  %7 = reshape(%6) : f32[2, 3, 3, 6]
  %8 = permute(%7, [0, 3, 1, 2]) : f32[2, 6, 3, 3]
  %9 = conv(%8, %2, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], groups=6) : f32[2, 6, 3, 3]
  %10 = permute(%9, [0, 2, 3, 1]) : f32[2, 3, 3, 6]
  %11 = reshape(%10) : f32[18, 6]
  %12 = permute(%1, [1, 0]) : f32[6, 4]
  %13 = matmul(%11, %12) : f32[18, 4]
  return %13
}"#,
    );
    assert_eq!(plan.kernels.len(), 1, "{plan}");
}

/// The channels of a point lie side by side there.
#[test]
fn a_norm_over_channels_is_for_channels_last() {
    let lasts = |dims: &str, normed: &str| {
        let plan = check(&format!(
            r#"graph(%0: f32[2, 3, 5, 5] "x", %1: f32[4, 3, 3, 3] "w", %2: f32[4, 1, 3, 3] "v") {{
  %3 = conv(%0, %1, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], groups=1) : f32[2, 4, 5, 5]
  %4 = reduce(%3, op=max, dims={dims}) : {normed}
  %5 = expand(%4) : f32[2, 4, 5, 5]
  %6 = sub(%3, %5) : f32[2, 4, 5, 5]
  %7 = conv(%6, %2, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], groups=4) : f32[2, 4, 5, 5]
  return %7
}}"#
        ));
        plan.buffers.iter().filter(|b| b.strides.len() == 4 && b.strides[1].is_one() && b.shape[1] == 4i64.into()).count()
    };
    assert!(lasts("[1]", "f32[2, 1, 5, 5]") >= 2);
    assert_eq!(lasts("[2, 3]", "f32[2, 4, 1, 1]"), 0);
}

/// The sums of a batch norm's gradient, in either order of memory: on a GPU each is cut, both share their kernels, and small kernels that
/// have nothing to do with one another are one.
#[test]
fn sums_over_planes_fill_a_gpu() {
    for strides in ["strides [12544, 1, 448, 16] ", ""] {
        let plan = check_with(
            &format!(
                r#"graph(%0: f32[8, 16, 28, 28] {strides}"g", %1: f32[8, 16, 28, 28] {strides}"x", %2: i64[] "n", %3: i64[] "m") {{
  %4 = reduce(%0, op=sum, dims=[0, 2, 3]) : f32[1, 16, 1, 1]
  %5 = mul(%0, %1) : f32[8, 16, 28, 28]
  %6 = reduce(%5, op=sum, dims=[0, 2, 3]) : f32[1, 16, 1, 1]
  %7 = full(1) : i64[]
  %8 = add(%2, %7) : i64[]
  %9 = add(%3, %7) : i64[]
  return %4, %6, %8, %9
}}"#
            ),
            &[],
            &ScheduleOptions { target: Target::Gpu, ..Default::default() },
        );
        let points: Vec<i64> = plan.kernels.iter().filter_map(|kernel| kernel.points().as_const()).collect();
        assert_eq!(plan.steps.len(), 3, "{plan}");
        assert!(points.iter().any(|n| *n > 16), "partial sums for more blocks than there are channels: {points:?}");
    }
}

/// Columns of any length fill a GPU in parts, the last of which may be short or empty.
#[test]
fn columns_of_any_length_are_cut() {
    for (op, length) in [("sum", 1001), ("prod", 64), ("max", 65), ("min", 3), ("sum", 0)] {
        let text = format!(
            "sizes s0 in 0..\ngraph(%0: f32[s0, 32] \"x\") {{\n  %1 = reduce(%0, op={op}, dims=[0]) : f32[1, 32]\n  return %1\n}}"
        );
        let usual = vec![(Graph::parse(&text).unwrap().sizes[0].clone(), 8192)];
        let plan = check_with(&text, &[length], &ScheduleOptions { target: Target::Gpu, usual, ..Default::default() });
        assert_eq!(
            plan.kernels.iter().map(|kernel| kernel.points().as_const()).collect::<Vec<_>>(),
            [Some(64 * 32), Some(32)],
            "{plan}"
        );
    }
}

/// As many partial results at all sizes, also at those that are long where the seen ones were short.
#[test]
fn several_lengths_that_vary_are_cut_at_the_longest() {
    let text = "sizes s0 in 0.., s1 in 0..
graph(%0: f32[s0, s1, 32] \"x\") {
  %1 = reduce(%0, op=sum, dims=[0, 1]) : f32[1, 1, 32]
  return %1
}";
    let sizes = Graph::parse(text).unwrap().sizes;
    let usual = vec![(sizes[0].clone(), 2), (sizes[1].clone(), 8192)];
    let plan = check_with(text, &[70, 3], &ScheduleOptions { target: Target::Gpu, usual, ..Default::default() });
    let points: Vec<Option<i64>> = plan.kernels.iter().map(|kernel| kernel.points().as_const()).collect();
    assert_eq!(points, [Some(128 * 32), Some(32)], "{plan}");
}

/// Split as the reshape in front of it would have it, the scan would begin anew with every row.
#[test]
fn a_scan_runs_along_the_whole_of_a_reshaped_dimension() {
    check(
        "graph(%0: f32[5] \"x\", %1: f32[7] \"y\") {
  %2 = reshape(%0) : f32[5, 1]
  %3 = expand(%2) : f32[5, 7]
  %4 = reshape(%1) : f32[1, 7]
  %5 = expand(%4) : f32[5, 7]
  %6 = add(%3, %5) : f32[5, 7]
  %7 = reshape(%6) : f32[35]
  %8 = scan(%7, op=sum, dim=0) : f32[35]
  return %8
}",
    );
}

/// Neither needs the other, but both read the same: one kernel reads it once.
#[test]
fn horizontal_fusion_reads_an_input_once() {
    let plan = check(
        r#"graph(%0: f32[24, 40] "x", %1: f32[24, 40] "y") {
  %2 = exp(%0) : f32[24, 40]
  %3 = mul(%0, %1) : f32[24, 40]
  %4 = reduce(%0, op=sum, dims=[1]) : f32[24, 1]
  %5 = reduce(%0, op=max, dims=[1]) : f32[24, 1]
  return %2, %3, %4, %5
}"#,
    );
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    let apart = check(
        r#"graph(%0: f32[24, 40] "x", %1: f32[24, 40] "y") {
  %2 = exp(%0) : f32[24, 40]
  %3 = exp(%1) : f32[24, 40]
  return %2, %3
}"#,
    );
    assert_eq!(apart.steps.len(), 2, "nothing is saved: {apart}");
}

/// Fewer rows than threads would leave most of them idle; rows enough, or few elements, are summed at once.
#[test]
fn sums_of_few_rows_are_split_on_a_cpu() {
    for (rows, columns, kernels) in [(2, 40000, 2), (64, 1250, 1), (2, 400, 1)] {
        let plan = check(&format!(
            r#"graph(%0: i64[{rows}, {columns}] "x") {{
  %1 = reduce(%0, op=sum, dims=[1]) : i64[{rows}, 1]
  return %1
}}"#
        ));
        assert_eq!(plan.kernels.len(), kernels, "{plan}");
        assert!(plan.kernels[0].points().as_const().is_some_and(|n| n >= 16 || kernels == 1), "{plan}");
    }
}

/// The order of a convolution's result: channels-last if what is read and written outweighs the weights that torch repacks, and if windows overlap.
#[test]
fn convolutions_choose_their_memory_order() {
    let is_last = |size: i64, window: i64, stride: i64, weight_channels: i64| {
        let (c, out) = (weight_channels, (size - window) / stride + 1);
        let plan = check(&format!(
            r#"graph(%0: f32[1, {c}, {size}, {size}] "x", %1: f32[{c}, {c}, {window}, {window}] "w") {{
  %2 = conv(%0, %1, stride=[{stride}, {stride}], padding=[0, 0], dilation=[1, 1], output_padding=[0, 0], groups=1) : f32[1, {c}, {out}, {out}]
  %3 = exp(%2) : f32[1, {c}, {out}, {out}]
  %4 = reduce(%3, op=sum, dims=[2, 3]) : f32[1, {c}, 1, 1]
  return %4
}}"#
        ));
        let result = plan.buffers.iter().find(|b| b.shape[..] == [1, c, out, out].map(ox_ir::Sym::from)).expect("a result");
        result.strides[1].is_one()
    };
    assert!(is_last(12, 3, 1, 4), "large planes, small weights");
    assert!(!is_last(4, 3, 1, 24), "small planes, large weights");
    assert!(!is_last(12, 3, 3, 4), "patches");
}

/// `count` inputs whose sizes along a dimension differ, put together there.
fn many_parts(count: i64, dim: usize, part: &str, behind: &str) -> String {
    let sizes = |along: &str| if dim == 0 { format!("[{along}, 6]") } else { format!("[6, {along}]") };
    let length = |n: i64| n % 5 + 1;
    let inputs: Vec<String> = (0..count).map(|n| format!("%{n}: f32{} \"x{n}\"", sizes(&length(n).to_string()))).collect();
    let parts = (0..count).map(|n| format!("  %{} = {part}(%{n}) : f32{}\n", count + n, sizes(&length(n).to_string())));
    let names: Vec<String> = (count..2 * count).map(|n| format!("%{n}")).collect();
    let all = sizes(&(0..count).map(length).sum::<i64>().to_string());
    let (cat, last) = (2 * count, 2 * count + 1);
    format!(
        "graph({}) {{\n{}  %{cat} = cat({}, dim={dim}) : f32{all}\n  %{last} = {behind}(%{cat}) : f32{all}\n  return %{cat}, %{last}\n}}",
        inputs.join(", "),
        parts.collect::<String>(),
        names.join(", ")
    )
}

/// Code that asks each element in which of all parts it lies grows with their number, and takes as much longer.
#[test]
fn many_parts_are_put_together_share_by_share() {
    for (count, dim) in [(17, 0), (40, 1), (100, 0)] {
        for target in [Target::Cpu, Target::Gpu] {
            let options = ScheduleOptions { target, ..Default::default() };
            let plan = check_with(&many_parts(count, dim, "sin", "tanh"), &[], &options);
            let shares: Vec<_> = plan.kernels.iter().filter(|kernel| kernel.name.starts_with("cat")).collect();
            assert_eq!(shares.len() as i64, (count + 7) / 8, "{plan}");
            assert!(shares.iter().all(|kernel| kernel.bufs.len() <= 9), "{plan}");
        }
    }
    // Few are fused with what comes behind.
    let few = check(&many_parts(6, 1, "sin", "tanh"));
    assert!(few.kernels.iter().any(|kernel| kernel.name == "cat_sin_tanh"), "{few}");
}

/// A kernel of its own costs a large part less than the question which part it is.
#[test]
fn large_parts_are_written_one_by_one() {
    let text = |behind: &str, outputs: &str| {
        format!(
            "graph(%0: f32[4, 9000] \"x\", %1: f32[4, 10] \"y\", %2: f32[4, 20] \"z\", %3: f32[4, 9000] \"w\") {{\n  \
             %4 = sin(%0) : f32[4, 9000]\n  %5 = cat(%4, %1, %2, %3, dim=1) : f32[4, 18030]\n  %6 = {behind}(%5) : f32[4, 18030]\n  \
             return {outputs}\n}}"
        )
    };
    let plan = check(&text("tanh", "%5, %6"));
    let shares: Vec<_> = plan.kernels.iter().filter(|kernel| kernel.name.starts_with("cat")).collect();
    assert_eq!(shares.len(), 3, "{plan}");
    // What nobody needs as a whole is asked for where it is used.
    let fused = check(&text("tanh", "%6"));
    assert_eq!(fused.kernels.len(), 1, "{fused}");
}

#[test]
fn many_parts_of_any_size() {
    let inputs: Vec<String> =
        (0..20).map(|n| format!("%{n}: bf16[{}, 3] strides [1, {}] \"x{n}\"", ["s0", "2"][n % 2], ["s0", "2"][n % 2])).collect();
    let names: Vec<String> = (0..20).map(|n| format!("%{n}")).collect();
    let text = format!(
        "sizes s0 in 0..9\ngraph({}) {{\n  %20 = cat({}, dim=0) : bf16[10*s0 + 20, 3]\n  return %20 strides [1, 10*s0 + 20]\n}}",
        inputs.join(", "),
        names.join(", ")
    );
    for size in [0, 1, 7] {
        check_sizes(&text, &[size]);
    }
}
