//! Operators on sizes: a front end meets `x.shape[0] // 2` as a call like any other.

use crate::error::{ExceptionKind, OpError, OpResult};
use crate::value::ValueOf;
use ox_ir::Sym;

/// The result of an operator on integers, or None if the call is not one.
pub(crate) fn size_math<T>(name: &str, args: &[ValueOf<T>]) -> OpResult<Option<ValueOf<T>>> {
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
