//! Powers with a constant exponent, as torch computes them: products for 2 and 3, a division for -1, no call of `pow`.

use super::pattern::{On::*, Row};

pub const ROWS: &[Row] = &[
    ("pow-zero", Any, "(pow ?x 0)", "1"),
    ("pow-one", Any, "(pow ?x 1)", "?x"),
    ("pow-two", Any, "(pow ?x 2)", "(mul ?x ?x)"),
    ("pow-three", Any, "(pow ?x 3)", "(mul (mul ?x ?x) ?x)"),
    ("pow-minus-one", Float, "(pow ?x -1)", "(reciprocal ?x)"),
];
