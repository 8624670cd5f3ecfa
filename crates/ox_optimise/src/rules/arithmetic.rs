//! Sums, products, signs and extrema. `x + 0.0` is not among them: it turns -0.0 into 0.0.

use super::pattern::{On::*, Row};

pub const ROWS: &[Row] = &[
    ("add-zero", Int, "(add ?x 0)", "?x"),
    ("add-negative-zero", Float, "(add ?x -0.0)", "?x"),
    ("sub-zero", Any, "(sub ?x 0)", "?x"),
    ("sub-self", Int, "(sub ?x ?x)", "0"),
    ("mul-one", Any, "(mul ?x 1)", "?x"),
    ("mul-zero", Int, "(mul ?x 0)", "0"),
    ("div-one", Float, "(div ?x 1)", "?x"),
    ("div-floor-one", Int, "(div_floor ?x 1)", "?x"),
    ("div-trunc-one", Int, "(div_trunc ?x 1)", "?x"),
    ("remainder-one", Int, "(remainder ?x 1)", "0"),
    ("fmod-one", Int, "(fmod ?x 1)", "0"),
    // Signs.
    ("neg-neg", Any, "(neg (neg ?x))", "?x"),
    ("add-neg", Any, "(add ?x (neg ?y))", "(sub ?x ?y)"),
    ("sub-neg", Any, "(sub ?x (neg ?y))", "(add ?x ?y)"),
    ("mul-neg-neg", Any, "(mul (neg ?x) (neg ?y))", "(mul ?x ?y)"),
    ("div-neg-neg", Float, "(div (neg ?x) (neg ?y))", "(div ?x ?y)"),
    ("abs-abs", Any, "(abs (abs ?x))", "(abs ?x)"),
    ("abs-neg", Float, "(abs (neg ?x))", "(abs ?x)"),
    ("square-abs", Any, "(mul (abs ?x) (abs ?x))", "(mul ?x ?x)"),
    // Rounding twice.
    ("floor-floor", Float, "(floor (floor ?x))", "(floor ?x)"),
    ("ceil-ceil", Float, "(ceil (ceil ?x))", "(ceil ?x)"),
    ("round-round", Float, "(round (round ?x))", "(round ?x)"),
    ("trunc-trunc", Float, "(trunc (trunc ?x))", "(trunc ?x)"),
    // Extrema. Taking one twice is left alone for floats: which zero wins depends on the order.
    ("maximum-same", Any, "(maximum ?x ?x)", "?x"),
    ("minimum-same", Any, "(minimum ?x ?x)", "?x"),
    ("fmax-same", Float, "(fmax ?x ?x)", "?x"),
    ("fmin-same", Float, "(fmin ?x ?x)", "?x"),
    ("maximum-twice", Bits, "(maximum (maximum ?x ?y) ?y)", "(maximum ?x ?y)"),
    ("minimum-twice", Bits, "(minimum (minimum ?x ?y) ?y)", "(minimum ?x ?y)"),
];
