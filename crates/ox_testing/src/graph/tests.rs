//! Small graphs with results worked out by hand or by eager PyTorch.

use super::*;

fn arange(dtype: DType, shape: &[usize]) -> TensorData {
    let n = shape.iter().product::<usize>() as i64;
    TensorData::new(dtype, shape, (0..n).map(Scalar::Int))
}

fn floats(shape: &[usize], data: &[f64]) -> TensorData {
    TensorData::floats(DType::F32, shape, data)
}

#[track_caller]
fn run_all(head: &str, body: &str, inputs: &[TensorData], sizes: &[i64]) -> GraphResult {
    let graph = Graph::parse(&format!("{head} {{\n{body}\n}}")).unwrap();
    interpret_graph(&graph, inputs, sizes).unwrap()
}

#[track_caller]
fn run(head: &str, body: &str, inputs: &[TensorData]) -> TensorData {
    run_all(head, body, inputs, &[]).outputs.remove(0)
}

/// One op on an arange of shape [2, 3].
#[track_caller]
fn on_2x3(op: &str, expected_shape: &[usize], expected: &[i64]) {
    let body = format!("%1 = {op}\n return %1");
    let got = run("graph(%0: i64[2, 3] \"x\")", &body, &[arange(DType::I64, &[2, 3])]);
    assert_eq!(got, TensorData::ints(DType::I64, expected_shape, expected));
}

#[test]
fn views() {
    on_2x3("reshape(%0) : i64[3, 2]", &[3, 2], &[0, 1, 2, 3, 4, 5]);
    on_2x3("permute(%0, [1, 0]) : i64[3, 2]", &[3, 2], &[0, 3, 1, 4, 2, 5]);
    on_2x3("slice(%0, [1, 2 by -1]) : i64[1, 3]", &[1, 3], &[5, 4, 3]);
    on_2x3("slice(%0, [0, 0 by 2]) : i64[2, 2]", &[2, 2], &[0, 2, 3, 5]);
    on_2x3("unfold(%0, dim=1, step=1, dilation=1) : i64[2, 2, 2]", &[2, 2, 2], &[0, 1, 1, 2, 3, 4, 4, 5]);
    on_2x3("unfold(%0, dim=1, dilation=2) : i64[2, 1, 2]", &[2, 1, 2], &[0, 2, 3, 5]);
    on_2x3("diagonal(%0, dim1=0, dim2=1) : i64[2]", &[2], &[0, 4]);
    on_2x3("diagonal(%0, offset=1, dim1=0, dim2=1) : i64[2]", &[2], &[1, 5]);
    on_2x3("diagonal(%0, offset=-1, dim1=0, dim2=1) : i64[1]", &[1], &[3]);
    on_2x3("iota(dim=1) : i64[2, 3]", &[2, 3], &[0, 1, 2, 0, 1, 2]);
}

#[test]
fn reads_outside_are_found() {
    let graph = Graph::parse("graph(%0: i64[3] \"x\") {\n %1 = slice(%0, [1]) : i64[3]\n return %1 }").unwrap();
    let error = interpret_graph(&graph, &[arange(DType::I64, &[3])], &[]).unwrap_err();
    assert!(matches!(&error, InterpretError::Invalid(m) if m.contains("reads [3]")), "{error}");
}

#[test]
fn expand_with_a_symbolic_size() {
    let head = "sizes s0 in 1..8\ngraph(%0: f32[1, 2] \"x\")";
    let got = run_all(
        head,
        "%1 = expand(%0) : f32[s0, 2]\n %2 = sym_value(2*s0) : i64[]\n return %1, %2",
        &[floats(&[1, 2], &[1.0, 2.0])],
        &[3],
    );
    assert_eq!(got.outputs[0], floats(&[3, 2], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]));
    assert_eq!(got.outputs[1], TensorData::ints(DType::I64, &[], &[6]));
}

#[test]
fn pad_cat_and_slice_scatter() {
    on_2x3("pad(%0, low=[0, -1], value=9) : i64[3, 3]", &[3, 3], &[1, 2, 9, 4, 5, 9, 9, 9, 9]);
    on_2x3("cat(%0, %0, dim=1) : i64[2, 6]", &[2, 6], &[0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    let body = "%1 = slice(%0, [1, 0]) : i64[1, 3]\n %2 = slice_scatter(%0, %1, [0, 0]) : i64[2, 3]\n return %2";
    let got = run("graph(%0: i64[2, 3] \"x\")", body, &[arange(DType::I64, &[2, 3])]);
    assert_eq!(got, TensorData::ints(DType::I64, &[2, 3], &[3, 4, 5, 3, 4, 5]));
}

#[test]
fn index_and_index_put() {
    let head = "graph(%0: i64[2, 3] \"x\", %1: i64[2] \"i\")";
    let inputs = [arange(DType::I64, &[2, 3]), TensorData::ints(DType::I64, &[2], &[-1, 0])];
    let got = run(head, "%2 = index(%0, %1, dims=[1], at=1) : i64[2, 2]\n return %2", &inputs);
    assert_eq!(got.data, TensorData::ints(DType::I64, &[4], &[2, 0, 5, 3]).data);
    let got = run(head, "%2 = index(%0, %1, dims=[1], at=0) : i64[2, 2]\n return %2", &inputs);
    assert_eq!(got.data, TensorData::ints(DType::I64, &[4], &[2, 5, 0, 3]).data);
    let got = run(head, "%2 = index(%0, %1, %1, dims=[0, 1], at=0) : i64[2]\n return %2", &inputs);
    assert_eq!(got.data, TensorData::ints(DType::I64, &[2], &[5, 0]).data);
    let put = "%2 = full(10) : i64[2, 2]\n %3 = index_put(%0, %1, %2, dims=[1], at=1, combine=sum) : i64[2, 3]\n return %3";
    assert_eq!(run(head, put, &inputs).data, TensorData::ints(DType::I64, &[6], &[10, 1, 12, 13, 4, 15]).data);

    let graph = Graph::parse(&format!("{head} {{ %2 = index(%0, %1, dims=[1], at=1) : i64[2, 2]\n return %2 }}")).unwrap();
    let outside = [inputs[0].clone(), TensorData::ints(DType::I64, &[2], &[0, 3])];
    assert_eq!(interpret_graph(&graph, &outside, &[]), Err(InterpretError::IndexError { value: 3, extent: 3 }));

    let no_wrap = format!("{head} {{ %2 = index(%0, %1, dims=[1], at=1, bounds=runtime_error) : i64[2, 2]\n return %2 }}");
    let result = interpret_graph(&Graph::parse(&no_wrap).unwrap(), &inputs, &[]);
    assert_eq!(result, Err(InterpretError::RuntimeError { value: -1, extent: 3 }));
}

#[test]
fn index_put_at_one_place_twice() {
    let head = "graph(%0: i64[3] \"x\", %1: i64[2] \"i\", %2: i64[2] \"v\")";
    let inputs =
        [arange(DType::I64, &[3]), TensorData::ints(DType::I64, &[2], &[1, 1]), TensorData::ints(DType::I64, &[2], &[7, 8])];
    let put = |combine: &str| {
        run(head, &format!("%3 = index_put(%0, %1, %2, dims=[0], at=0, combine={combine}) : i64[3]\n return %3"), &inputs)
    };
    assert_eq!(put("set"), TensorData::ints(DType::I64, &[3], &[0, 8, 2]));
    assert_eq!(put("sum"), TensorData::ints(DType::I64, &[3], &[0, 16, 2]));
    assert_eq!(put("min"), TensorData::ints(DType::I64, &[3], &[0, 1, 2]));
}

#[test]
fn reductions() {
    on_2x3("reduce(%0, op=sum, dims=[1]) : i64[2, 1]", &[2, 1], &[3, 12]);
    on_2x3("reduce(%0, op=max, dims=[0, 1]) : i64[1, 1]", &[1, 1], &[5]);
    on_2x3("scan(%0, op=sum, dim=1) : i64[2, 3]", &[2, 3], &[0, 1, 3, 3, 7, 12]);
    on_2x3("scan(%0, %0, op=sum, dim=1) : i64[2, 3]", &[2, 3], &[0, 1, 4, 3, 16, 85]);
    let head = "graph(%0: f32[4] \"x\")";
    let x = [floats(&[4], &[1.0, f64::NAN, 7.0, f64::NAN])];
    assert_eq!(run(head, "%1 = reduce(%0, op=argmax, dims=[0]) : i64[1]\n return %1", &x).data, [Scalar::Int(1)]);
    assert!(run(head, "%1 = reduce(%0, op=min, dims=[0]) : f32[1]\n return %1", &x).data[0].as_f64().is_nan());
    let empty = run("graph(%0: f32[0] \"x\")", "%1 = reduce(%0, op=prod, dims=[0]) : f32[1]\n return %1", &[floats(&[0], &[])]);
    assert_eq!(empty, floats(&[1], &[1.0]));
}

#[test]
fn points_and_casts() {
    let x = [floats(&[2], &[1.0, -2.5])];
    let body = "%1 = cast(%0) : i32[2]\n %2 = full(0.0) : f32[2]\n %3 = lt(%0, %2) : bool[2]\n %4 = where(%3, %2, %0) : f32[2]\n return %1, %3, %4";
    let got = run_all("graph(%0: f32[2] \"x\")", body, &x, &[]).outputs;
    assert_eq!(got[0], TensorData::ints(DType::I32, &[2], &[1, -2]));
    assert_eq!(got[1], TensorData::bools(&[2], &[false, true]));
    assert_eq!(got[2], floats(&[2], &[1.0, 0.0]));
}

#[test]
fn bf16_chains_are_rounded_at_every_step() {
    let one_plus = 1.0 + 2f64.powi(-7);
    let x = [TensorData::floats(DType::BF16, &[1], &[one_plus])];
    let got = run("graph(%0: bf16[1] \"x\")", "%1 = mul(%0, %0) : bf16[1]\n return %1", &x);
    assert_eq!(got.data[0].as_f64(), 1.0 + 2f64.powi(-6));
}

#[test]
fn mutations() {
    let got = run_all("graph(%0: f32[1] \"x\")", "%1 = neg(%0) : f32[1]\n mutate 0 = %1\n return", &[floats(&[1], &[2.0])], &[]);
    assert_eq!(got.mutations, [(0, floats(&[1], &[-2.0]))]);
}

#[test]
fn matmul_with_bias_and_post() {
    let head = "graph(%0: f32[2, 2] \"a\", %1: f32[2, 2] \"b\", %2: f32[2] \"c\")";
    let inputs = [floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), floats(&[2, 2], &[1.0, -1.0, 0.0, 1.0]), floats(&[2], &[10.0, -10.0])];
    let got = run(head, "%3 = matmul(%0, %1, %2, bias, alpha=2.0, beta=0.5, post=relu) : f32[2, 2]\n return %3", &inputs);
    assert_eq!(got, floats(&[2, 2], &[7.0, 0.0, 11.0, 0.0]));
    let got = run(head, "%3 = matmul(%0, %1, %0, add) : f32[2, 2]\n return %3", &inputs);
    assert_eq!(got, floats(&[2, 2], &[2.0, 3.0, 6.0, 5.0]));
}

#[test]
fn convolutions() {
    let head = "graph(%0: f32[1, 2, 3] \"x\", %1: f32[2, 1, 2] \"w\", %2: f32[2] \"b\")";
    let inputs = [
        floats(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        floats(&[2, 1, 2], &[1.0, 10.0, -1.0, 1.0]),
        floats(&[2], &[0.5, 0.0]),
    ];
    let plain = "%3 = conv(%0, %1, %2, stride=[1], padding=[1], dilation=[1], groups=2, bias) : f32[1, 2, 4]\n return %3";
    assert_eq!(run(head, plain, &inputs), floats(&[1, 2, 4], &[10.5, 21.5, 32.5, 3.5, 4.0, 1.0, 1.0, -6.0]));
    let strided = "%3 = conv(%0, %1, stride=[2], padding=[0], dilation=[2], groups=2) : f32[1, 2, 1]\n return %3";
    assert_eq!(run(head, strided, &inputs), floats(&[1, 2, 1], &[31.0, 2.0]));
    let transposed = "%3 = conv(%0, %1, stride=[2], padding=[1], dilation=[1], transposed, output_padding=[1], groups=2) : f32[1, 2, 5]\n return %3";
    assert_eq!(run(head, transposed, &inputs), floats(&[1, 2, 5], &[10.0, 2.0, 20.0, 3.0, 30.0, 4.0, -5.0, 5.0, -6.0, 6.0]));
}

#[test]
fn attention_with_masks() {
    let head = "graph(%0: f32[1, 2, 1] \"q\", %1: f32[1, 2, 1] \"v\", %2: bool[2, 2] \"m\")";
    let inputs = [
        floats(&[1, 2, 1], &[0.0, 1.0]),
        floats(&[1, 2, 1], &[1.0, 3.0]),
        TensorData::bools(&[2, 2], &[true, true, false, false]),
    ];
    let got = run(head, "%3 = attention(%0, %0, %1, scale=2.0) : f32[1, 2, 1]\n return %3", &inputs);
    let e = 2f64.exp();
    assert_eq!(got, floats(&[1, 2, 1], &[2.0, (1.0 + 3.0 * e) / (1.0 + e)]));
    let got = run(head, "%3 = attention(%0, %0, %1, causal) : f32[1, 2, 1]\n return %3", &inputs);
    assert_eq!(got.data[0].as_f64(), 1.0);
    let got = run(head, "%3 = attention(%0, %0, %1, %2, mask) : f32[1, 2, 1]\n return %3", &inputs);
    assert_eq!(got, floats(&[1, 2, 1], &[2.0, 0.0]));
}

#[test]
fn division_by_zero() {
    let graph = Graph::parse("graph(%0: i32[1] \"x\") {\n %1 = remainder(%0, %0) : i32[1]\n return %1 }").unwrap();
    assert_eq!(interpret_graph(&graph, &[arange(DType::I32, &[1])], &[]), Err(InterpretError::ZeroDivision));
}
