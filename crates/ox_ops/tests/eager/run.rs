//! Records a case, interprets the graph, compares.

use crate::case::{Case, Statement};
use crate::text::Expr;
use ox_ir::graph::{Alias, Graph, GraphInput, contiguous_strides};
use ox_ir::{DType, Sym, TensorType, Var};
use ox_ops::{FrontValue, OpError, OutputSpec, Recorder, Seen, TensorRef, ValueOf};
use ox_testing::{InterpretError, TensorData, interpret_graph};

#[derive(Debug)]
#[allow(dead_code)]
pub enum Failure {
    Unsupported(String),
    Wrong(String),
}

fn wrong<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Wrong(message.into()))
}

struct Runner {
    recorder: Recorder,
    values: Vec<(String, FrontValue)>,
    /// The sizes of inputs are variables (equal ones the same); their values.
    symbolic: bool,
    sizes: Vec<i64>,
}

/// Runs a case with sizes known and with sizes unknown; the latter may be refused.
pub fn run(case: &Case) -> Result<(), Failure> {
    run_once(case, false)?;
    match run_once(case, true) {
        Err(Failure::Wrong(message)) => wrong(format!("with unknown sizes: {message}")),
        _ => Ok(()),
    }
}

fn run_once(case: &Case, symbolic: bool) -> Result<(), Failure> {
    let mut runner = Runner { recorder: Recorder::new(), values: Vec::new(), symbolic, sizes: Vec::new() };
    for (name, data) in &case.inputs {
        let tensor = runner.input(name, data);
        runner.values.push((name.clone(), FrontValue::Tensor(tensor)));
    }
    for statement in &case.statements {
        match runner.step(case, statement) {
            Ok(()) => {}
            Err(OpError::Unsupported(message)) => return Err(Failure::Unsupported(message)),
            Err(error @ OpError::Undecided(..)) => return Err(Failure::Unsupported(error.to_string())),
            Err(OpError::User { kind, message }) => return expect_error(case, &format!("{kind:?}"), &message),
            Err(OpError::Bug(message)) => return wrong(format!("bug: {message}")),
        }
    }
    for (name, expected) in &case.numbers {
        let value = runner.get(name);
        let text = if let FrontValue::Int(n) = &value { runner.known(n).to_string() } else { format!("{value:?}") };
        if text != *expected {
            return wrong(format!("{name} is {text}, not {expected}"));
        }
    }
    compare(case, runner)
}

fn expect_error(case: &Case, kind: &str, message: &str) -> Result<(), Failure> {
    match &case.error {
        Some(expected) if expected == kind => Ok(()),
        other => wrong(format!("{kind}({message}), but eager: {other:?}")),
    }
}

impl Runner {
    fn input(&mut self, name: &str, data: &TensorData) -> TensorRef {
        let shape: Vec<Sym> = data.shape.iter().map(|size| self.size(*size as i64)).collect();
        let ty = TensorType::new(data.dtype, shape);
        let strides = contiguous_strides(&ty.shape);
        self.recorder.input(GraphInput { name: name.into(), ty, strides, frozen: false, packed: false })
    }

    /// As Dynamo does it, 0 and 1 are always known.
    fn size(&mut self, size: i64) -> Sym {
        if !self.symbolic || size < 2 {
            return Sym::from(size);
        }
        let place = self.sizes.iter().position(|s| *s == size).unwrap_or(self.sizes.len());
        let var = Var::size(place as u32, 2, i64::MAX, 1);
        if place == self.sizes.len() {
            self.sizes.push(size);
            self.recorder.builder().size(var.clone());
        }
        Sym::var(&var)
    }

    fn known(&self, sym: &Sym) -> i64 {
        sym.eval(&|var| self.sizes.get(var.id() as usize).copied()).expect("a size")
    }

    /// `a`, or `a.1` for an item of a tuple.
    fn get(&self, name: &str) -> FrontValue {
        let (stem, place) = name.split_once('.').map_or((name, None), |(s, p)| (s, p.parse::<usize>().ok()));
        let value = self.values.iter().rev().find(|(n, _)| n == stem).map(|(_, v)| v.clone());
        let value = value.unwrap_or_else(|| panic!("no value `{name}`"));
        place.map_or(value.clone(), |n| value.items().expect("a tuple")[n].clone())
    }

    fn value(&self, expr: &Expr) -> FrontValue {
        let all = |items: &[Expr]| items.iter().map(|e| self.value(e)).collect();
        match expr {
            Expr::Name(name) => self.get(name),
            Expr::Int(n) => ValueOf::int(*n),
            Expr::Float(x) => ValueOf::Float(*x),
            Expr::Bool(x) => ValueOf::Bool(*x),
            Expr::None => ValueOf::None,
            Expr::Str(text) => ValueOf::Str(text.clone()),
            Expr::DType(dtype) => ValueOf::DType(*dtype),
            Expr::Ellipsis => ValueOf::Ellipsis,
            Expr::List(items) => ValueOf::List(all(items)),
            Expr::Tuple(items) => ValueOf::Tuple(all(items)),
            Expr::Slice(parts) => ValueOf::Slice(Box::new([self.value(&parts[0]), self.value(&parts[1]), self.value(&parts[2])])),
        }
    }

    fn step(&mut self, case: &Case, s: &Statement) -> Result<(), OpError> {
        let args: Vec<FrontValue> = s.args.iter().map(|e| self.value(e)).collect();
        let kwargs: Vec<(String, FrontValue)> = s.kwargs.iter().map(|(k, e)| (k.clone(), self.value(e))).collect();
        let shares = s.target.as_ref().map(|target| case.shared.iter().any(|(result, _)| result == target));
        let value = self.recorder.call(&s.namespace, &s.name, &args, &kwargs, Seen { shares, strides: None })?;
        if let Some(target) = &s.target {
            self.values.push((target.clone(), value));
        }
        Ok(())
    }
}

fn compare(case: &Case, runner: Runner) -> Result<(), Failure> {
    let mut outputs = Vec::new();
    for (name, _) in &case.tensors {
        let FrontValue::Tensor(tensor) = runner.get(name) else { return wrong(format!("{name} is not a tensor")) };
        let strides = contiguous_strides(&runner.recorder.ty(tensor).shape.clone());
        outputs.push(OutputSpec { tensor, strides, offset: Sym::ZERO });
    }
    let graph = runner.recorder.finish(&outputs).map_err(|e| Failure::Wrong(e.to_string()))?;
    let inputs: Vec<TensorData> = case.inputs.iter().map(|(_, data)| data.clone()).collect();
    let result = match interpret_graph(&graph, &inputs, &runner.sizes) {
        Ok(result) => result,
        Err(error) => return expect_error(case, exception(&error), &format!("{error:?}")),
    };
    if let Some(error) = &case.error {
        return wrong(format!("eager raises {error}"));
    }
    for ((name, expected), got) in case.tensors.iter().zip(&result.outputs) {
        if let Some(difference) = difference(got, expected) {
            return wrong(format!("{name} {difference}"));
        }
    }
    compare_mutations(case, &result.mutations)?;
    compare_sharing(case, &graph)
}

/// An input's final value is one of the case's tensors; it must have been written if and only if that differs.
fn compare_mutations(case: &Case, mutations: &[(u32, TensorData)]) -> Result<(), Failure> {
    for (place, (name, before)) in case.inputs.iter().enumerate() {
        let after = case.tensors.iter().find(|(n, _)| n == name).map(|(_, data)| data).expect("inputs are listed");
        let written = mutations.iter().find(|(input, _)| *input as usize == place).map(|(_, data)| data);
        match written {
            None if difference(before, after).is_some() => return wrong(format!("the write of {name} is lost")),
            Some(got) if difference(got, after).is_some() => return wrong(format!("{name} is written wrongly")),
            _ => {}
        }
    }
    Ok(())
}

/// What eager shares with an input is an alias of that input, and nothing else is.
fn compare_sharing(case: &Case, graph: &Graph) -> Result<(), Failure> {
    for ((name, _), output) in case.tensors.iter().zip(&graph.outputs) {
        let partner = case.aliases.iter().find(|(tensor, _)| tensor == name).map_or(name, |(_, input)| input);
        let expected = case.inputs.iter().position(|(n, _)| n == partner).map(|n| n as u32);
        let alias = match &output.alias {
            Some(Alias::Input(input, _)) => Some(*input),
            _ => None,
        };
        if alias != expected && graph.ty(output.value).numel().is_positive() {
            return wrong(format!("{name} aliases input {alias:?}, not {expected:?}"));
        }
    }
    Ok(())
}

fn exception(error: &InterpretError) -> &'static str {
    match error {
        InterpretError::IndexError { .. } => "IndexError",
        InterpretError::RuntimeError { .. } | InterpretError::ZeroDivision => "RuntimeError",
        _ => "Invalid",
    }
}

/// Half types must agree to the last bit, since their rounding points are part of what is tested; but eager's vector math is not
/// exact either, so that one element of a tensor may be the neighbour.
fn difference(got: &TensorData, expected: &TensorData) -> Option<String> {
    if matches!(expected.dtype, DType::BF16 | DType::F16) && got.dtype == expected.dtype && got.shape == expected.shape {
        let pairs = got.data.iter().zip(&expected.data).map(|(a, b)| (a.as_f64(), b.as_f64()));
        let differ: Vec<(f64, f64)> = pairs.filter(|(a, b)| a != b && !(a.is_nan() && b.is_nan())).collect();
        let ulp = if expected.dtype == DType::BF16 { 1.0 / 128.0 } else { 1.0 / 1024.0 };
        let near = |(a, b): &(f64, f64)| (a - b).abs() <= ulp * b.abs();
        let fine = differ.len() <= 1 && differ.iter().all(near);
        return (!fine).then(|| format!("{} elements differ, first {:?}", differ.len(), differ[0]));
    }
    ox_testing::compare::difference(got, expected)
}
