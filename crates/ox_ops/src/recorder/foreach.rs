//! `torch._foreach_*`: a function over lists of tensors is that function over each of them, in order.

use super::{FrontValue, Recorder, Seen};
use crate::error::{OpError, OpResult};
use crate::value::ValueOf;

impl Recorder {
    /// Records the call if it is one of a list.
    pub(super) fn foreach(
        &mut self,
        name: &str,
        args: &[FrontValue],
        kwargs: &[(String, FrontValue)],
    ) -> OpResult<Option<FrontValue>> {
        let Some(function) = name.strip_prefix("_foreach_") else { return Ok(None) };
        let lists = || args.iter().chain(kwargs.iter().map(|(_, value)| value)).filter_map(|value| value.items());
        let count = lists().next().map(<[_]>::len).ok_or_else(|| OpError::unsupported(format!("{name} of no list")))?;
        if lists().any(|list| list.len() != count) {
            return Err(OpError::unsupported(format!("{name} of lists that differ in length")));
        }
        let mut results = Vec::with_capacity(count);
        for n in 0..count {
            let (mut one, mut named) = (Vec::with_capacity(args.len()), Vec::new());
            for (place, value) in args.iter().enumerate() {
                let value = self.part(function, value, n)?;
                match is_factor(function, place) {
                    true => named.push(("value".to_string(), value)),
                    false => one.push(value),
                }
            }
            for (key, value) in kwargs {
                named.push((singular(function, key).to_string(), self.part(function, value, n)?));
            }
            let (namespace, function) = single(function, &one);
            results.push(self.call(namespace, function, &one, &named, Seen::default())?);
        }
        Ok(Some(ValueOf::List(results)))
    }

    /// What the n-th call gets of an argument. Factors may come as one tensor.
    fn part(&mut self, function: &str, value: &FrontValue, n: usize) -> OpResult<FrontValue> {
        match value {
            ValueOf::List(items) | ValueOf::Tuple(items) => Ok(items[n].clone()),
            ValueOf::Tensor(tensor) if takes_factors(function) && self.ty(*tensor).rank() == 1 => {
                let index = [value.clone(), ValueOf::int(0), ValueOf::int(n as i64)];
                match self.call("torch", "select", &index, &[], Seen::default())? {
                    ValueOf::Tensor(item) => Ok(ValueOf::Number(item)),
                    other => Ok(other),
                }
            }
            other => Ok(other.clone()),
        }
    }
}

fn takes_factors(function: &str) -> bool {
    matches!(function.trim_end_matches('_'), "addcmul" | "addcdiv")
}

/// The fourth argument of `addcmul` is a keyword in the function of single tensors.
fn is_factor(function: &str, place: usize) -> bool {
    place == 3 && takes_factors(function)
}

fn singular<'a>(function: &str, keyword: &'a str) -> &'a str {
    match keyword {
        "scalars" if takes_factors(function) => "value",
        "scalars" => "other",
        "weights" => "weight",
        "tensors1" => "end",
        "self" => "input",
        other => other,
    }
}

/// The function of single tensors. With a number, `maximum` is a clamp.
fn single<'a>(function: &'a str, args: &[FrontValue]) -> (&'static str, &'a str) {
    let by_number = matches!(args.get(1), Some(other) if other.as_tensor().is_none());
    match function {
        "norm" => ("linalg", "vector_norm"),
        "maximum" if by_number => ("torch", "clamp_min"),
        "maximum_" if by_number => ("torch", "clamp_min_"),
        "minimum" if by_number => ("torch", "clamp_max"),
        "minimum_" if by_number => ("torch", "clamp_max_"),
        other => ("torch", other),
    }
}
