//! From what the program calls to a row of the surface: in-place suffixes, Python's operators and their reflected forms.

use crate::surface::{self, Sharing, Surface};

pub(crate) struct Target {
    pub row: &'static Surface,
    /// The result is written into the first argument.
    pub in_place: bool,
    /// The first two arguments change places (`__radd__`).
    pub swap: bool,
    /// The result is a copy although the row gives a view (`permute_copy`).
    pub copy: bool,
}

impl Target {
    fn plain(row: &'static Surface) -> Target {
        Target { row, in_place: row.sharing == Sharing::Assign, swap: false, copy: false }
    }
}

const OPERATORS: &[&str] =
    &["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor"];

/// The row for a function, method or operator.
pub(crate) fn resolve(namespace: &str, name: &str) -> Option<Target> {
    if let Some(inner) = name.strip_prefix("__").and_then(|n| n.strip_suffix("__")) {
        return resolve_operator(inner);
    }
    if namespace == "operator" {
        return resolve_operator(name);
    }
    if let Some(row) = surface::lookup(namespace, name) {
        return Some(Target::plain(row));
    }
    if let Some(row) = name.strip_suffix("_copy").and_then(|stem| surface::lookup(namespace, stem)) {
        return (row.sharing == Sharing::View).then(|| Target { copy: true, ..Target::plain(row) });
    }
    let stem = name.strip_suffix('_')?;
    let row = surface::lookup(namespace, stem)?;
    Some(Target { in_place: true, ..Target::plain(row) })
}

/// Whether each element of what a function gives is computed of the elements at its place alone.
pub fn is_elementwise(namespace: &str, name: &str) -> bool {
    resolve(namespace, name).is_some_and(|target| !target.in_place && surface::is_elementwise(target.row))
}

/// `name` is one of the operator module's, or what stands between the underscores of a special method.
fn resolve_operator(name: &str) -> Option<Target> {
    let name = name.trim_end_matches('_');
    if let Some(row) = surface::lookup("operator", name) {
        return Some(Target::plain(row));
    }
    let stem = name.get(1..).filter(|stem| OPERATORS.contains(stem))?;
    let row = surface::lookup("operator", stem)?;
    match &name[..1] {
        "i" => Some(Target { in_place: true, ..Target::plain(row) }),
        "r" => Some(Target { swap: true, ..Target::plain(row) }),
        _ => None,
    }
}
