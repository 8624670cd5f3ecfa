//! Which calls write their first argument, by their names, and which argument that is.

/// Python's in-place operators.
const OPERATORS: [&str; 15] = [
    "setitem",
    "iadd",
    "isub",
    "imul",
    "imatmul",
    "idiv",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
];

/// Names that end as those of methods that write, but only to be no words of Python's.
const PLAIN: [&str; 4] = ["and_", "or_", "not_", "is_"];

/// What torch's functions and its schemas call the first argument.
const FIRST: [&str; 2] = ["input", "self"];

/// `add_`, `iadd` and `__iadd__`; not `__add__`.
pub fn writes_first(name: &str) -> bool {
    let dunder = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    match dunder {
        Some(inner) => OPERATORS.contains(&inner),
        None => OPERATORS.contains(&name) || (name.ends_with('_') && !PLAIN.contains(&name)),
    }
}

/// The first argument of a call, which may also be given by its name.
pub fn first_argument<T>(by_place: Option<T>, by_name: impl FnMut(&str) -> Option<T>) -> Option<T> {
    by_place.or_else(|| FIRST.into_iter().find_map(by_name))
}

#[cfg(test)]
mod tests {
    use super::writes_first;

    #[test]
    fn names() {
        assert!(["add_", "_foreach_add_", "iadd", "__iadd__", "setitem", "__setitem__", "imatmul"].into_iter().all(writes_first));
        assert!(!["add", "__add__", "__getitem__", "index", "item", "and_", "or_"].into_iter().any(writes_first));
    }
}
