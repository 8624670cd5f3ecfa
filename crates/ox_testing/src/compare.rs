//! Comparing results.

use crate::error::InterpretError;
use crate::graph::{GraphResult, interpret_graph};
use crate::plan::{PlanResult, interpret_plan};
use crate::tensor::{TensorData, unflat};
use ox_ir::{DType, Graph, Plan, Scalar};

/// The largest relative and absolute difference that rounding may leave, as `torch.testing.assert_close` has it.
pub fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (1e-7, 1e-7),
        DType::F32 => (1.3e-6, 1e-5),
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        _ => (0.0, 0.0),
    }
}

/// What is different, in words, or None. NaN equals NaN.
pub fn difference(got: &TensorData, expected: &TensorData) -> Option<String> {
    if got.dtype != expected.dtype || got.shape != expected.shape {
        return Some(format!("{}{:?}, not {}{:?}", got.dtype, got.shape, expected.dtype, expected.shape));
    }
    let (relative, absolute) = tolerance(expected.dtype);
    let at = got.data.iter().zip(&expected.data).position(|(a, b)| !is_close(*a, *b, relative, absolute))?;
    let index = unflat(&expected.shape, at);
    Some(format!("at {index:?}: {}, not {}", got.data[at], expected.data[at]))
}

fn is_close(a: Scalar, b: Scalar, relative: f64, absolute: f64) -> bool {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= absolute + relative * b.abs() && b.is_finite()
        }
        (a, b) => a == b,
    }
}

#[track_caller]
pub fn assert_close(got: &TensorData, expected: &TensorData) {
    if let Some(difference) = difference(got, expected) {
        panic!("{difference}");
    }
}

/// What a plan does differently from its graph on these inputs, in words, or None. Where the graph ends in an error, the plan must
/// end in the same kind of error.
pub fn plan_difference(graph: &Graph, plan: &Plan, inputs: &[TensorData], sizes: &[i64]) -> Option<String> {
    result_difference(&interpret_graph(graph, inputs, sizes), &interpret_plan(plan, inputs, sizes), inputs)
}

/// The same for results that are already there.
pub fn result_difference(
    expected: &Result<GraphResult, InterpretError>,
    got: &Result<PlanResult, InterpretError>,
    inputs: &[TensorData],
) -> Option<String> {
    let (expected, got) = match (expected, got) {
        (Ok(expected), Ok(got)) => (expected, got),
        (Err(expected), Err(got)) if std::mem::discriminant(expected) == std::mem::discriminant(got) => return None,
        (Err(expected), Err(got)) => return Some(format!("the plan fails with `{got}`, the graph with `{expected}`")),
        (Err(expected), Ok(_)) => return Some(format!("the plan does not fail; the graph does: {expected}")),
        (Ok(_), Err(got)) => return Some(format!("the plan fails: {got}")),
    };
    if got.outputs.len() != expected.outputs.len() {
        return Some(format!("{} outputs, not {}", got.outputs.len(), expected.outputs.len()));
    }
    let outputs = got.outputs.iter().zip(&expected.outputs).enumerate();
    let output = outputs.filter_map(|(n, (g, e))| difference(g, e).map(|d| format!("output {n}: {d}"))).next();
    output.or_else(|| {
        got.inputs.iter().zip(inputs).enumerate().find_map(|(n, (got, before))| {
            let got = got.as_ref()?;
            let mutation = expected.mutations.iter().rev().find(|(input, _)| *input as usize == n);
            difference(got, mutation.map_or(before, |(_, value)| value)).map(|d| format!("input {n} afterwards: {d}"))
        })
    })
}
