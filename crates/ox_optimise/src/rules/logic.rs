//! Selection, comparison and bits.

use super::pattern::{On::*, Row};

pub const ROWS: &[Row] = &[
    // Selection.
    ("where-true", Any, "(where true ?x ?y)", "?x"),
    ("where-false", Any, "(where false ?y ?x)", "?x"),
    ("where-same", Any, "(where ?y ?x ?x)", "?x"),
    ("where-not", Bool, "(where (not ?x) ?y ?z)", "(where ?x ?z ?y)"),
    ("where-is-condition", Bool, "(where ?x true false)", "?x"),
    ("where-is-not-condition", Bool, "(where ?x false true)", "(not ?x)"),
    // Negation. Of the comparisons only (in)equality can be turned around for floats: all others are false for NaN.
    ("not-not", Bits, "(not (not ?x))", "?x"),
    ("not-eq", Any, "(not (eq ?x ?y))", "(ne ?x ?y)"),
    ("not-ne", Any, "(not (ne ?x ?y))", "(eq ?x ?y)"),
    ("not-lt", Bits, "(not (lt ?x ?y))", "(ge ?x ?y)"),
    ("not-le", Bits, "(not (le ?x ?y))", "(gt ?x ?y)"),
    ("not-gt", Bits, "(not (gt ?x ?y))", "(le ?x ?y)"),
    ("not-ge", Bits, "(not (ge ?x ?y))", "(lt ?x ?y)"),
    // Comparison.
    ("eq-same", Bits, "(eq ?x ?x)", "true"),
    ("ne-same", Bits, "(ne ?x ?x)", "false"),
    ("lt-same", Any, "(lt ?x ?x)", "false"),
    ("gt-same", Any, "(gt ?x ?x)", "false"),
    ("le-same", Bits, "(le ?x ?x)", "true"),
    ("ge-same", Bits, "(ge ?x ?x)", "true"),
    ("eq-true", Bool, "(eq ?x true)", "?x"),
    ("eq-false", Bool, "(eq ?x false)", "(not ?x)"),
    ("ne-true", Bool, "(ne ?x true)", "(not ?x)"),
    ("ne-false", Bool, "(ne ?x false)", "?x"),
    // Bits.
    ("and-same", Bits, "(and ?x ?x)", "?x"),
    ("or-same", Bits, "(or ?x ?x)", "?x"),
    ("xor-same", Bits, "(xor ?x ?x)", "0"),
    ("and-zero", Bits, "(and ?x 0)", "0"),
    ("or-zero", Bits, "(or ?x 0)", "?x"),
    ("xor-zero", Bits, "(xor ?x 0)", "?x"),
    ("and-true", Bool, "(and ?x true)", "?x"),
    ("or-true", Bool, "(or ?x true)", "true"),
    ("xor-true", Bool, "(xor ?x true)", "(not ?x)"),
    ("and-ones", Int, "(and ?x -1)", "?x"),
    ("or-ones", Int, "(or ?x -1)", "-1"),
    ("shl-zero", Int, "(shl ?x 0)", "?x"),
    ("shr-zero", Int, "(shr ?x 0)", "?x"),
    ("maximum-true", Bool, "(maximum ?x true)", "true"),
    ("minimum-false", Bool, "(minimum ?x false)", "false"),
];
