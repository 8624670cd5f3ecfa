//! Every call that `scripts/golden_surface.py` made in eager torch, recorded through the surface and run by the reference
//! interpreter, must give the same values, types, shapes and exceptions.

mod parse;

use ox_ir::graph::{GraphInput, contiguous_strides};
use ox_ir::{Scalar, Sym, TensorType};
use ox_ops::{ExceptionKind, FrontValue, OpError, OpResult, OutputSpec, Recorder, TensorRef, ValueOf};
use ox_testing::compare::difference;
use ox_testing::{TensorData, interpret_graph};
use parse::{Call, Item, parse};

/// The inputs of the graph, with the positional argument that each is.
#[derive(Default)]
struct Inputs {
    data: Vec<TensorData>,
    refs: Vec<TensorRef>,
    of_argument: Vec<Option<usize>>,
}

fn front(recorder: &mut Recorder, inputs: &mut Inputs, item: &Item, argument: Option<usize>) -> FrontValue {
    match item {
        Item::Tensor(data) => {
            let ty = TensorType::new(data.dtype, data.shape.iter().map(|n| Sym::from(*n)));
            let strides = contiguous_strides(&ty.shape);
            let input = GraphInput { name: format!("x{}", inputs.data.len()), ty, strides, frozen: false };
            let tensor = recorder.input(input);
            inputs.data.push(data.clone());
            inputs.refs.push(tensor);
            inputs.of_argument.push(argument);
            ValueOf::Tensor(tensor)
        }
        Item::Scalar(Scalar::Int(n)) => ValueOf::int(*n),
        Item::Scalar(Scalar::Float(x)) => ValueOf::Float(*x),
        Item::Scalar(Scalar::Bool(x)) => ValueOf::Bool(*x),
        Item::None => ValueOf::None,
        Item::Str(text) => ValueOf::Str(text.clone()),
        Item::DType(dtype) => ValueOf::DType(*dtype),
        Item::List(items) => ValueOf::List(items.iter().map(|i| front(recorder, inputs, i, None)).collect()),
    }
}

fn record(call: &Call) -> OpResult<(Recorder, Inputs, FrontValue)> {
    let (mut recorder, mut inputs) = (Recorder::new(), Inputs::default());
    let args: Vec<FrontValue> =
        call.args.iter().enumerate().map(|(n, a)| front(&mut recorder, &mut inputs, a, Some(n))).collect();
    let kwargs: Vec<(String, FrontValue)> =
        call.kwargs.iter().map(|(k, v)| (k.clone(), front(&mut recorder, &mut inputs, v, None))).collect();
    let value = recorder.call(&call.namespace, &call.name, &args, &kwargs, None)?;
    Ok((recorder, inputs, value))
}

/// What is wrong with a call, in words.
fn fault(call: &Call) -> Option<String> {
    match (record(call), &call.result) {
        (Ok(recorded), Ok(expected)) => wrong_values(call, recorded, expected),
        (Ok(_), Err(kind)) => Some(format!("does not raise {kind}")),
        (Err(OpError::User { kind, .. }), Err(expected)) if exception(kind) == expected => None,
        (Err(error), _) => Some(format!("{error:?}")),
    }
}

fn exception(kind: ExceptionKind) -> &'static str {
    match kind {
        ExceptionKind::TypeError => "TypeError",
        ExceptionKind::RuntimeError => "RuntimeError",
        ExceptionKind::IndexError => "IndexError",
        ExceptionKind::ValueError => "ValueError",
        ExceptionKind::ZeroDivisionError => "ZeroDivisionError",
        ExceptionKind::NotImplementedError => "NotImplementedError",
    }
}

fn wrong_values(call: &Call, (recorder, inputs, value): (Recorder, Inputs, FrontValue), expected: &Item) -> Option<String> {
    let outputs: Vec<OutputSpec> = value
        .tensors()
        .into_iter()
        .map(|tensor| OutputSpec { tensor, strides: contiguous_strides(&recorder.ty(tensor).shape), offset: Sym::ZERO })
        .collect();
    let graph = match recorder.finish(&outputs) {
        Ok(graph) => graph,
        Err(error) => return Some(error.to_string()),
    };
    let result = match interpret_graph(&graph, &inputs.data, &[]) {
        Ok(result) => result,
        Err(error) => return Some(format!("{error:?}")),
    };
    let mut wanted = Vec::new();
    tensors(expected, &mut wanted);
    if wanted.len() != result.outputs.len() {
        return Some(format!("{} results, not {}", result.outputs.len(), wanted.len()));
    }
    let unequal = result.outputs.iter().zip(&wanted).find_map(|(got, want)| difference(got, want));
    unequal.or_else(|| wrong_changes(call, &inputs, &result.mutations))
}

fn wrong_changes(call: &Call, inputs: &Inputs, mutations: &[(u32, TensorData)]) -> Option<String> {
    let place = |n: &u32| inputs.of_argument[*n as usize];
    for (input, value) in mutations {
        let expected = call.changed.iter().find(|(n, _)| Some(*n) == place(input));
        let expected = expected.map_or(&inputs.data[*input as usize], |(_, value)| value);
        if let Some(difference) = difference(value, expected) {
            return Some(format!("argument {:?} afterwards {difference}", place(input)));
        }
    }
    let missed = call.changed.iter().find(|(n, _)| !mutations.iter().any(|(input, _)| place(input) == Some(*n)));
    missed.map(|(n, _)| format!("argument {n} is not changed"))
}

fn tensors(item: &Item, out: &mut Vec<TensorData>) {
    match item {
        Item::Tensor(data) => out.push(data.clone()),
        Item::List(items) => items.iter().for_each(|i| tensors(i, out)),
        _ => {}
    }
}

fn check(text: &str) {
    let faults: Vec<String> = text
        .lines()
        .enumerate()
        .filter_map(|(n, line)| fault(&parse(line)).map(|fault| format!("line {}: {fault}\n    {line}", n + 1)))
        .collect();
    assert!(faults.is_empty(), "{} calls differ from torch's:\n{}", faults.len(), faults.join("\n"));
}

macro_rules! subjects {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(include_str!(concat!(stringify!($name), ".txt")));
        }
    )*};
}
subjects!(reduce norm matmul conv pool resize loss);
