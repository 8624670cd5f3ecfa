//! Which parameters may be numbers that are only known when the graph runs. Everybody else relies on the value.

/// A function, the places of such parameters, and their names.
type Row = (&'static str, &'static [usize], &'static [&'static str]);

const ROWS: &[Row] = &[
    ("add", &[0, 1], &["other", "alpha"]),
    ("sub", &[0, 1], &["other", "alpha"]),
    ("rsub", &[0, 1], &["other", "alpha"]),
    ("mul", &[0, 1], &["other"]),
    ("div", &[0, 1], &["other"]),
    ("truediv", &[0, 1], &["other"]),
    ("lerp", &[2], &["weight"]),
    ("pow", &[0, 1], &["exponent"]),
    ("addcmul", &[3], &["value"]),
    ("addcdiv", &[3], &["value"]),
    ("full", &[1], &["fill_value"]),
    ("full_like", &[1], &["fill_value"]),
    ("new_full", &[2], &["fill_value"]),
    ("linspace", &[0, 1], &["start", "end"]),
    ("fill", &[1], &["value"]),
    ("masked_fill", &[2], &["value"]),
    ("clamp", &[1, 2], &["min", "max"]),
    ("batch_norm", &[6], &["momentum"]),
    ("tensor", &[0], &["data"]),
    ("scalar_tensor", &[0], &["s"]),
    ("new_tensor", &[1], &["data"]),
    ("where", &[1, 2], &["input", "other"]),
    ("eq", &[0, 1], &["other"]),
    ("ne", &[0, 1], &["other"]),
    ("not_equal", &[1], &["other"]),
    ("lt", &[0, 1], &["other"]),
    ("less", &[1], &["other"]),
    ("le", &[0, 1], &["other"]),
    ("less_equal", &[1], &["other"]),
    ("gt", &[0, 1], &["other"]),
    ("greater", &[1], &["other"]),
    ("ge", &[0, 1], &["other"]),
    ("greater_equal", &[1], &["other"]),
    ("floordiv", &[0, 1], &["other"]),
    ("floor_divide", &[0, 1], &["other"]),
    ("mod", &[0, 1], &["other"]),
    ("remainder", &[0, 1], &["other"]),
    ("fmod", &[1], &["other"]),
    ("copysign", &[1], &["other"]),
    ("clamp_min", &[1], &["min"]),
    ("clamp_max", &[1], &["max"]),
    ("threshold", &[1, 2], &["threshold", "value"]),
    ("leaky_relu", &[1], &["negative_slope"]),
    ("index_fill", &[3], &["value"]),
    ("setitem", &[2], &[]),
];

/// Parameters of torch's type Scalar: a tensor there is read by eager, and stands for its value.
const SCALARS: &[Row] = &[
    ("add", &[], &["alpha"]),
    ("sub", &[], &["alpha"]),
    ("addcmul", &[3], &["value", "scalars"]),
    ("addcdiv", &[3], &["value", "scalars"]),
    ("full", &[1], &["fill_value"]),
    ("full_like", &[1], &["fill_value"]),
    ("new_full", &[2], &["fill_value"]),
];

/// Where an argument stands in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place<'a> {
    Position(usize),
    Keyword(&'a str),
}

/// Whether the parameter may be a number that is only known when the graph runs.
pub fn takes_number(function: &str, place: Place<'_>) -> bool {
    is_listed(ROWS, stem(function), place)
}

/// Whether a tensor at this place stands for the number that it holds.
pub fn reads_number(function: &str, place: Place<'_>) -> bool {
    is_listed(SCALARS, stem(function), place)
}

fn is_listed(rows: &[Row], stem: &str, place: Place<'_>) -> bool {
    let Some((_, places, names)) = rows.iter().find(|(name, ..)| *name == stem) else { return false };
    match place {
        Place::Position(n) => places.contains(&n),
        Place::Keyword(name) => names.contains(&name),
    }
}

/// `_foreach_add_`, `__iadd__` and `iadd` are `add`.
fn stem(function: &str) -> &str {
    let name = function.trim_start_matches("_foreach_").trim_matches('_');
    let known = |name: &str| ROWS.iter().any(|(row, ..)| *row == name);
    match name.get(1..) {
        Some(rest) if !known(name) && name.starts_with(['i', 'r']) && known(rest) => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_the_same_function() {
        for name in ["add", "add_", "iadd", "__iadd__", "__radd__", "_foreach_add", "_foreach_add_"] {
            assert!(takes_number(name, Place::Keyword("alpha")), "{name}");
        }
        assert!(takes_number("rsub", Place::Position(1)));
        assert!(!takes_number("lerp_", Place::Position(1)));
        assert!(!takes_number("softshrink", Place::Position(1)));
        assert!(reads_number("_foreach_addcdiv_", Place::Position(3)));
        assert!(reads_number("new_full", Place::Keyword("fill_value")));
        assert!(!reads_number("mul", Place::Position(1)));
    }
}
