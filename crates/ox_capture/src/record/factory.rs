//! Shadows where torch's own kernels for the meta device do not help: one is written in Python and costs a second the first time, another
//! returns more than the real one.

use crate::obj::{Obj, items_of, py, tuple_of};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The shadow of `torch.arange`. None for calls that only torch can judge: those with a tensor, without an item, or with an option.
pub fn arange(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
    let mut numbers = args.to_vec();
    let mut options = Vec::new();
    for (key, value) in kwargs.iter() {
        match (key.extract::<String>()?.as_str(), numbers.len()) {
            ("start", 0) | ("end", 1) | ("step", 2) => numbers.push(value.into()),
            (name @ ("dtype" | "device"), _) => options.push((name.to_string(), value)),
            _ => return Ok(None),
        }
    }
    let Some(length) = length_of(&numbers)? else { return Ok(None) };
    let all_ints = numbers.iter().all(|n| n.class_is(types().int));
    let made = PyDict::new(py());
    if all_ints {
        made.set_item("dtype", py().import("torch")?.getattr("int64")?)?;
    }
    for (name, value) in options.iter().filter(|(_, value)| !value.is_none()) {
        made.set_item(name, value)?;
    }
    Ok(Some(py().import("torch")?.getattr("empty")?.call((length,), Some(&made))?.into()))
}

/// How many items there are between start and end; None if there are none or a number is no plain one.
fn length_of(numbers: &[Obj]) -> PyResult<Option<i64>> {
    let is_number = |n: &Obj| n.class_is(types().int) || n.class_is(types().float);
    if numbers.is_empty() || numbers.len() > 3 || !numbers.iter().all(is_number) {
        return Ok(None);
    }
    let values = numbers.iter().map(|n| n.bind().extract::<f64>()).collect::<PyResult<Vec<f64>>>()?;
    let (start, end, step) = match values[..] {
        [end] => (0.0, end, 1.0),
        [start, end] => (start, end, 1.0),
        _ => (values[0], values[1], values[2]),
    };
    let length = ((end - start) / step).ceil();
    // Beyond this a double does not count exactly.
    let is_sound = length >= 1.0 && length < 2f64.powi(52) && values.iter().all(|v| v.abs() < 2f64.powi(52));
    Ok(is_sound.then_some(length as i64))
}

/// Fused attention returns no weights where none are asked for or there is nothing to weigh; its meta kernel does.
pub fn without_weights(args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Obj> {
    const PLACE: usize = 10;
    let asked = args.get(PLACE).cloned().or(kwargs.get_item("need_weights")?.map(Obj::from));
    let asked = asked.map_or(Ok(true), |asked| asked.truth())?;
    match &items_of(&result)[..] {
        [values, _] if !asked || values.bind().call_method0("numel")?.extract::<usize>()? == 0 => {
            tuple_of(&[values.clone(), Obj::none()])
        }
        _ => Ok(result),
    }
}
