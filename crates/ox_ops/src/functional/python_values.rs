//! Operators on Python's own values: a front end meets `x.shape[0] // 2` and `parts[1]` as calls like any other.

use crate::error::{ExceptionKind, OpError, OpResult};
use crate::value::ValueOf;
use ox_ir::Sym;

/// The result of an operator on integers or sequences, or None if the call is not one.
pub(crate) fn python_value<T: Clone>(name: &str, args: &[ValueOf<T>]) -> OpResult<Option<ValueOf<T>>> {
    let ints: Option<Vec<Sym>> = args.iter().map(|a| if let ValueOf::Int(s) = a { Some(s.clone()) } else { None }).collect();
    let name = name.trim_matches('_');
    let value = match (name, ints.as_deref()) {
        ("add" | "iadd" | "radd", Some([a, b])) => ValueOf::Int(a + b),
        ("sub" | "isub", Some([a, b])) => ValueOf::Int(a - b),
        ("mul" | "imul" | "rmul", Some([a, b])) => ValueOf::Int(a * b),
        ("neg", Some([a])) => ValueOf::Int(-a),
        ("pos", Some([a])) => ValueOf::Int(a.clone()),
        ("floordiv" | "ifloordiv", Some([a, b])) => ValueOf::Int(nonzero(b).map(|b| a.div(b))?),
        ("mod" | "imod", Some([a, b])) => ValueOf::Int(nonzero(b).map(|b| a.rem(b))?),
        ("getitem", _) => return item_of(args),
        ("sym_max", Some([a, b])) => ValueOf::Int(a.greater(b)),
        ("sym_min", Some([a, b])) => ValueOf::Int(a.lesser(b)),
        ("truediv", Some([a, b])) => match (a.as_const(), nonzero(b)?.as_const()) {
            (Some(a), Some(b)) => ValueOf::Float(a as f64 / b as f64),
            _ => return Err(OpError::unsupported("true division of sizes that are not known")),
        },
        ("eq" | "ne" | "lt" | "le" | "gt" | "ge", Some([a, b])) => ValueOf::Bool(compare(name, a, b)?),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn nonzero(b: &Sym) -> OpResult<&Sym> {
    if !b.is_zero() {
        return Ok(b);
    }
    let message = "integer division or modulo by zero".to_string();
    Err(OpError::User { kind: ExceptionKind::ZeroDivisionError, message })
}

fn compare(name: &str, a: &Sym, b: &Sym) -> OpResult<bool> {
    let (above, below) = ((a - b).is_positive(), (b - a).is_positive());
    let (at_least, at_most) = ((a - b).is_nonneg(), (b - a).is_nonneg());
    let known = match name {
        "eq" => (a == b, above || below),
        "ne" => (above || below, a == b),
        "gt" => (above, at_most),
        "lt" => (below, at_least),
        "ge" => (at_least, below),
        _ => (at_most, above),
    };
    match known {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(OpError::unsupported(format!("comparison of {a} and {b}"))),
    }
}

/// `sequence[index]` for an int or a slice of step 1.
fn item_of<T: Clone>(args: &[ValueOf<T>]) -> OpResult<Option<ValueOf<T>>> {
    let [sequence, index] = args else { return Ok(None) };
    let Some(items) = sequence.items() else { return Ok(None) };
    let len = items.len() as i64;
    let from_end = |at: i64| if at < 0 { at + len } else { at };
    match index {
        ValueOf::Int(at) => {
            let at = at.as_const().ok_or_else(|| OpError::unsupported("an item whose number is not known"))?;
            let item = usize::try_from(from_end(at)).ok().and_then(|at| items.get(at));
            item.map(|item| Some(item.clone())).ok_or_else(|| OpError::index("index out of range"))
        }
        ValueOf::Slice(parts) => {
            let bound = |part: &ValueOf<T>, default: i64| match part {
                ValueOf::None => Ok(default),
                other => other.as_int().and_then(|s| s.as_const()).map(|at| from_end(at).clamp(0, len)).ok_or(()),
            };
            let unknown = || OpError::unsupported("a slice of a sequence");
            let whole = matches!(&parts[2], ValueOf::None) || parts[2].as_int().is_some_and(|step| step.is_one());
            let (Ok(start), Ok(end), true) = (bound(&parts[0], 0), bound(&parts[1], len), whole) else {
                return Err(unknown());
            };
            let cut = items[start as usize..end.max(start) as usize].to_vec();
            Ok(Some(if matches!(sequence, ValueOf::List(_)) { ValueOf::List(cut) } else { ValueOf::Tuple(cut) }))
        }
        _ => Ok(None),
    }
}
