//! Every call that `scripts/golden_surface.py` made in eager torch, recorded through the surface and run by the reference
//! interpreter, must give the same values, types, shapes and exceptions. Each is recorded once more with all sizes above 1 unknown:
//! then a row may decline, but what it records must compute the same.

mod parse;

use ox_ir::graph::{Graph, GraphInput, GraphOutput, Op, contiguous_strides};
use ox_ir::{Scalar, Sym, TensorType, Var};
use ox_ops::{ExceptionKind, FrontValue, OpError, OpResult, OutputSpec, Recorder, Seen, TensorRef, ValueOf};
use ox_testing::compare::difference;
use ox_testing::{TensorData, interpret_graph};
use parse::{Call, Item, parse};

/// The inputs of the graph, with the positional argument that each is.
#[derive(Default)]
struct Inputs {
    data: Vec<TensorData>,
    refs: Vec<TensorRef>,
    of_argument: Vec<Option<usize>>,
    /// Whether sizes above 1 are unknown while recording; their values, in the order of their variables.
    symbolic: bool,
    sizes: Vec<i64>,
}

impl Inputs {
    /// Equal sizes are one variable.
    fn size(&mut self, recorder: &mut Recorder, n: usize) -> Sym {
        let known = n as i64;
        if !self.symbolic || known < 2 {
            return Sym::from(known);
        }
        let var = |place: usize| Var::size(place as u32, 2, i64::MAX, 1);
        match self.sizes.iter().position(|size| *size == known) {
            Some(place) => Sym::var(&var(place)),
            None => {
                self.sizes.push(known);
                recorder.builder().size(var(self.sizes.len() - 1))
            }
        }
    }
}

fn front(recorder: &mut Recorder, inputs: &mut Inputs, item: &Item, argument: Option<usize>) -> FrontValue {
    match item {
        Item::Tensor(data) => {
            let shape: Vec<Sym> = data.shape.iter().map(|n| inputs.size(recorder, *n)).collect();
            let ty = TensorType::new(data.dtype, shape);
            let strides = contiguous_strides(&ty.shape);
            let input = GraphInput { name: format!("x{}", inputs.data.len()), ty, strides, frozen: false, packed: false };
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
        Item::Tuple(items) => ValueOf::Tuple(items.iter().map(|i| front(recorder, inputs, i, None)).collect()),
    }
}

fn record(call: &Call, symbolic: bool) -> OpResult<(Recorder, Inputs, FrontValue)> {
    let (mut recorder, mut inputs) = (Recorder::new(), Inputs { symbolic, ..Inputs::default() });
    let args: Vec<FrontValue> =
        call.args.iter().enumerate().map(|(n, a)| front(&mut recorder, &mut inputs, a, Some(n))).collect();
    let kwargs: Vec<(String, FrontValue)> =
        call.kwargs.iter().map(|(k, v)| (k.clone(), front(&mut recorder, &mut inputs, v, None))).collect();
    let value = recorder.call(&call.namespace, &call.name, &args, &kwargs, Seen::default())?;
    Ok((recorder, inputs, value))
}

/// What is wrong with a call, in words.
fn fault(call: &Call) -> Option<String> {
    match (record(call, false), &call.result) {
        (Ok(recorded), Ok(expected)) => wrong_values(call, recorded, expected).or_else(|| symbolic_fault(call, expected)),
        (Ok(_), Err(kind)) => Some(format!("does not raise {kind}")),
        (Err(OpError::User { kind, .. }), Err(expected)) if exception(kind) == expected => None,
        // Left to eager, which raises.
        (Err(OpError::Unsupported(_)), Err(_)) => None,
        (Err(error), _) => Some(format!("{error:?}")),
    }
}

fn symbolic_fault(call: &Call, expected: &Item) -> Option<String> {
    let fault = match record(call, true) {
        Ok(recorded) => wrong_values(call, recorded, expected),
        Err(OpError::Unsupported(_)) => None,
        Err(error) => Some(error.to_string()),
    };
    fault.map(|fault| format!("with unknown sizes: {fault}"))
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
    if graph.nodes.iter().any(|node| matches!(node.op, Op::Library(_))) {
        return wrong_types(&graph, &inputs, expected);
    }
    let result = match interpret_graph(&graph, &inputs.data, &inputs.sizes) {
        Ok(result) => result,
        Err(error) => return Some(format!("{error:?}")),
    };
    let mut wanted = Vec::new();
    tensors(expected, &mut wanted);
    if wanted.len() != result.outputs.len() {
        return Some(format!("{} results, not {}", result.outputs.len(), wanted.len()));
    }
    let mut exact = Vec::new();
    call.exact.iter().for_each(|item| tensors(item, &mut exact));
    let unequal = result.outputs.iter().zip(&wanted).enumerate().find_map(|(n, (got, want))| {
        difference(got, want).filter(|_| !exact.get(n).is_some_and(|exact| at_least_as_good(got, want, exact)))
    });
    unequal.or_else(|| wrong_changes(call, &inputs, &result.mutations))
}

/// What torch itself computes while running needs no check but of the types that were promised.
fn wrong_types(graph: &Graph, inputs: &Inputs, expected: &Item) -> Option<String> {
    let mut wanted = Vec::new();
    tensors(expected, &mut wanted);
    let value = |var: &Var| inputs.sizes.get(var.id() as usize).copied();
    let size = |sym: &Sym| sym.eval(&value).map(|n| n as usize);
    let promised = |output: &GraphOutput| {
        let ty = graph.ty(output.value);
        (ty.dtype, ty.shape.iter().map(size).collect::<Option<Vec<usize>>>())
    };
    let got: Vec<_> = graph.outputs.iter().map(promised).collect();
    let want: Vec<_> = wanted.iter().map(|t| (t.dtype, Some(t.shape.clone()))).collect();
    (got != want).then(|| format!("promises {got:?}, not {want:?}"))
}

/// Eager's half-precision kernels sometimes round on the way where we do not: then our error may be twice theirs at most.
fn at_least_as_good(got: &TensorData, eager: &TensorData, exact: &TensorData) -> bool {
    let error = |x: &Scalar, exact: &Scalar| (x.as_f64() - exact.as_f64()).abs();
    let same_type = got.dtype == eager.dtype && got.shape == eager.shape && got.shape == exact.shape;
    let ulp = if eager.dtype == ox_ir::DType::BF16 { 1.0 / 256.0 } else { 1.0 / 2048.0 };
    let fine = |((got, eager), exact): ((&Scalar, &Scalar), &Scalar)| {
        got == eager || error(got, exact) <= 2.0 * error(eager, exact) + ulp * exact.as_f64().abs()
    };
    same_type && got.data.iter().zip(&eager.data).zip(&exact.data).all(fine)
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
        Item::List(items) | Item::Tuple(items) => items.iter().for_each(|i| tensors(i, out)),
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
subjects!(library reduce norm matmul conv pool resize loss);

/// Calls from another folder, of any number: how many are right, how many the surface leaves to torch, and what is wrong.
#[test]
#[ignore = "needs a folder of calls, see scripts/golden_surface.py"]
fn folder() {
    let folder = std::env::var("OXYTORCH_GOLDEN").expect("OXYTORCH_GOLDEN names the folder");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let (mut right, mut left, mut wrong) = (0, 0, 0);
    for file in files {
        for line in std::fs::read_to_string(&file).unwrap().lines().filter(|l| !l.is_empty()) {
            let call = parse(line);
            match fault(&call) {
                None => right += 1,
                Some(fault) if fault.starts_with("Unsupported") || fault.contains("library call") => left += 1,
                Some(fault) => {
                    wrong += 1;
                    println!("{}: {fault}\n    {line}", file.display());
                }
            }
        }
    }
    println!("{right} right, {left} left to torch, {wrong} wrong");
    assert_eq!(wrong, 0);
}
