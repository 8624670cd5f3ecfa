//! The signature language: Python's own, with `*name` for torch's variadic sizes.
//!
//! ```text
//! "input, dim=None, keepdim=False, *, dtype=None"      "input, *size"
//! ```
//!
//! Defaults are None, True, False, numbers, and words (strings) without quotes. What does not bind is `Unsupported`, never an
//! error of the user: the call is then left to eager, which raises its own TypeError if it must.

use crate::error::{OpError, OpResult};
use crate::value::ValueOf;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Normal,
    /// `*size`: all further positional arguments, or the one list given in their place.
    Variadic,
    KeywordOnly,
}

struct Param {
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
}

fn params(signature: &'static str) -> impl Iterator<Item = Param> {
    let mut keyword_only = false;
    signature.split(',').map(str::trim).filter(|text| !text.is_empty()).filter_map(move |text| {
        if text == "*" {
            keyword_only = true;
            return None;
        }
        if let Some(name) = text.strip_prefix('*') {
            keyword_only = true;
            return Some(Param { name, kind: Kind::Variadic, default: None });
        }
        let (name, default) = match text.split_once('=') {
            Some((name, default)) => (name.trim(), Some(default.trim())),
            None => (text, None),
        };
        Some(Param { name, kind: if keyword_only { Kind::KeywordOnly } else { Kind::Normal }, default })
    })
}

/// The name that torch uses for what NumPy (or a method) calls differently.
fn canonical(keyword: &str) -> &str {
    match keyword {
        "axis" => "dim",
        "axes" => "dims",
        "keepdims" => "keepdim",
        "self" | "x" | "a" | "x1" => "input",
        "x2" | "b" => "other",
        "fill_value" => "value",
        other => other,
    }
}

fn default_value<T>(text: &str) -> ValueOf<T> {
    match text {
        "None" => ValueOf::None,
        "True" => ValueOf::Bool(true),
        "False" => ValueOf::Bool(false),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(n), _) => ValueOf::int(n),
            (_, Ok(x)) => ValueOf::Float(x),
            _ => ValueOf::Str(text.to_string()),
        },
    }
}

/// The arguments by parameter, in the signature's order.
pub(crate) type Slots<T> = Vec<(&'static str, ValueOf<T>)>;

pub(crate) fn bind<T: Clone>(
    signature: &'static str,
    args: &[ValueOf<T>],
    kwargs: &[(String, ValueOf<T>)],
) -> OpResult<Slots<T>> {
    let mut slots: Vec<(Param, Option<ValueOf<T>>)> = params(signature).map(|p| (p, None)).collect();
    bind_positional(&mut slots, args)?;
    for (keyword, value) in kwargs {
        let place = slots.iter().position(|(p, _)| p.name == keyword);
        let place = place.or_else(|| slots.iter().position(|(p, _)| canonical(p.name) == canonical(keyword)));
        match place {
            Some(n) if slots[n].1.is_none() || slots[n].0.kind == Kind::Variadic => slots[n].1 = Some(value.clone()),
            Some(_) => return Err(OpError::unsupported(format!("argument `{keyword}` given twice"))),
            None if value.is_none() => {}
            None => return Err(OpError::unsupported(format!("argument `{keyword}`"))),
        }
    }
    slots.into_iter().map(fill_default).collect()
}

fn bind_positional<T: Clone>(slots: &mut [(Param, Option<ValueOf<T>>)], args: &[ValueOf<T>]) -> OpResult<()> {
    let mut rest = args;
    for (param, slot) in slots.iter_mut() {
        match (param.kind, rest) {
            (Kind::KeywordOnly, _) => break,
            (Kind::Variadic, []) => break,
            (Kind::Variadic, [one @ (ValueOf::List(_) | ValueOf::Tuple(_))]) => *slot = Some(one.clone()),
            (Kind::Variadic, many) => *slot = Some(ValueOf::List(many.to_vec())),
            (Kind::Normal, [first, tail @ ..]) => {
                *slot = Some(first.clone());
                rest = tail;
                continue;
            }
            (Kind::Normal, []) => break,
        }
        rest = &[];
    }
    if rest.is_empty() { Ok(()) } else { Err(OpError::unsupported("too many positional arguments")) }
}

fn fill_default<T>((param, value): (Param, Option<ValueOf<T>>)) -> OpResult<(&'static str, ValueOf<T>)> {
    let value = match (value, param.default, param.kind) {
        (Some(value), _, _) => value,
        (None, Some(text), _) => default_value(text),
        (None, None, Kind::Variadic) => ValueOf::List(Vec::new()),
        (None, None, _) => return Err(OpError::unsupported(format!("missing argument `{}`", param.name))),
    };
    Ok((param.name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    type V = ValueOf<u8>;

    fn bound(signature: &'static str, args: &[V], kwargs: &[(&str, V)]) -> OpResult<Slots<u8>> {
        let kwargs: Vec<(String, V)> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
        bind(signature, args, &kwargs)
    }

    #[test]
    fn positional_keyword_and_default() {
        let slots =
            bound("input, dim=None, keepdim=False, *, scale=1e-5, mode=mean", &[V::Tensor(1)], &[("keepdims", V::Bool(true))]);
        let expected = vec![
            ("input", V::Tensor(1)),
            ("dim", V::None),
            ("keepdim", V::Bool(true)),
            ("scale", V::Float(1e-5)),
            ("mode", V::Str("mean".into())),
        ];
        assert_eq!(slots, Ok(expected));
    }

    #[test]
    fn variadic_sizes_come_in_three_forms() {
        let sizes = vec![V::int(2), V::int(3)];
        let many = bound("input, *size", &[V::Tensor(1), V::int(2), V::int(3)], &[]).unwrap();
        let one = bound("input, *size", &[V::Tensor(1), V::Tuple(sizes.clone())], &[]).unwrap();
        let named = bound("input, *size", &[V::Tensor(1)], &[("size", V::List(sizes.clone()))]).unwrap();
        assert_eq!(many[1].1.items(), Some(sizes.as_slice()));
        assert_eq!(one[1].1.items(), Some(sizes.as_slice()));
        assert_eq!(named[1].1.items(), Some(sizes.as_slice()));
    }

    #[test]
    fn what_does_not_bind_is_unsupported() {
        let unsupported = |r: OpResult<Slots<u8>>| matches!(r, Err(OpError::Unsupported(_)));
        assert!(unsupported(bound("input", &[V::Tensor(1), V::Tensor(2)], &[])));
        assert!(unsupported(bound("input, *, dim", &[V::Tensor(1), V::int(0)], &[])));
        assert!(unsupported(bound("input, other", &[V::Tensor(1)], &[])));
        assert!(unsupported(bound("input", &[V::Tensor(1)], &[("self", V::Tensor(1))])));
        assert!(unsupported(bound("input", &[V::Tensor(1)], &[("unheard_of", V::int(1))])));
        assert!(bound("input", &[V::Tensor(1)], &[("unheard_of", V::None)]).is_ok());
    }
}
