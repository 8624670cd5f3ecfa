//! Order statistics are calls of torch's operators: the arguments must be those of its schemas, the types those of its results.

use ox_ir::graph::{GraphInput, Op, contiguous_strides};
use ox_ir::{DType, Sym, TensorType};
use ox_ops::{FrontValue, OpError, Recorder, Seen, ValueOf};

/// The call of `name` on f32[2, 5], as text, and its results' types.
fn call(name: &str, rest: &[FrontValue], kwargs: &[(&str, FrontValue)]) -> Result<(String, Vec<TensorType>), OpError> {
    let mut recorder = Recorder::new();
    let ty = TensorType::new(DType::F32, [2i64, 5].map(Sym::from));
    let strides = contiguous_strides(&ty.shape);
    let x = recorder.input(GraphInput { name: "x".into(), ty, strides, frozen: false, packed: false });
    let args: Vec<FrontValue> = [ValueOf::Tensor(x)].into_iter().chain(rest.iter().cloned()).collect();
    let kwargs: Vec<(String, FrontValue)> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    let value = recorder.call("torch", name, &args, &kwargs, Seen::default())?;
    let types = value.tensors().into_iter().map(|t| recorder.ty(t).clone()).collect();
    let calls: Vec<String> = recorder
        .builder()
        .graph()
        .nodes
        .iter()
        .filter_map(|n| match &n.op {
            Op::Library(l) => Some(format!("{:?} {:?} {:?} effect={}", l.callee, l.args, l.kwargs, l.effect)),
            _ => None,
        })
        .collect();
    Ok((calls.join("\n"), types))
}

fn types(name: &str, rest: &[FrontValue], kwargs: &[(&str, FrontValue)]) -> String {
    let (_, types) = call(name, rest, kwargs).unwrap();
    let text = |t: &TensorType| format!("{}{:?}", t.dtype, t.shape.iter().map(|s| s.as_const().unwrap()).collect::<Vec<_>>());
    types.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn results_have_torchs_types() {
    let int = FrontValue::int;
    assert_eq!(types("sort", &[], &[]), "f32[2, 5] i64[2, 5]");
    assert_eq!(types("argsort", &[int(0)], &[]), "i64[2, 5]");
    assert_eq!(types("topk", &[int(3)], &[]), "f32[2, 3] i64[2, 3]");
    assert_eq!(types("topk", &[int(1), int(0)], &[]), "f32[1, 5] i64[1, 5]");
    assert_eq!(types("kthvalue", &[int(2)], &[]), "f32[2] i64[2]");
    assert_eq!(types("median", &[], &[]), "f32[]");
    assert_eq!(types("median", &[int(0)], &[("keepdim", ValueOf::Bool(true))]), "f32[1, 5] i64[1, 5]");
    assert_eq!(types("mode", &[], &[]), "f32[2] i64[2]");
    assert_eq!(types("cummax", &[int(1)], &[]), "f32[2, 5] i64[2, 5]");
    assert_eq!(types("multinomial", &[int(4)], &[]), "i64[2, 4]");
}

#[test]
fn arguments_follow_the_schema() {
    let (text, _) = call("topk", &[FrontValue::int(3)], &[("largest", ValueOf::Bool(false))]).unwrap();
    let expected = r#"Dispatcher { name: "aten::topk", overload: "" } [Tensor(0), Int(3), Int(-1), Bool(false), Bool(true)] [] effect=false"#;
    assert_eq!(text, expected);
    let (text, _) = call("sort", &[], &[("stable", ValueOf::Bool(true))]).unwrap();
    let kwargs = r#"[("stable", Bool(true)), ("dim", Int(-1)), ("descending", Bool(false))]"#;
    assert_eq!(text, format!(r#"Dispatcher {{ name: "aten::sort", overload: "stable" }} [Tensor(0)] {kwargs} effect=false"#));
}

#[test]
fn draws_keep_their_place() {
    assert!(call("multinomial", &[FrontValue::int(4)], &[]).unwrap().0.ends_with("effect=true"));
}

#[test]
fn out_of_range_is_the_users_error() {
    let user = |r: Result<_, OpError>| matches!(r, Err(OpError::User { .. }));
    assert!(user(call("topk", &[FrontValue::int(6)], &[])));
    assert!(user(call("sort", &[FrontValue::int(2)], &[])));
}
