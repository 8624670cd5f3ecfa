//! Every row of the rule tables holds for every type that it names, on values chosen to break it.

use super::pattern::{On, Pattern, parse, rows};
use ox_ir::{DType, Scalar};
use ox_testing::scalar::{DivisionByZero, apply, convert};

const TYPES: [DType; 10] =
    [DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

fn values(dtype: DType) -> Vec<Scalar> {
    let floats = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.25, -7.3, 1e-30, 6e4, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let ints = [0, 1, -1, 2, 3, 7, -7, 100, i8::MIN as i64, i16::MIN as i64, i32::MIN as i64, i64::MIN, i64::MAX, 255];
    let mut out: Vec<Scalar> = match dtype {
        DType::Bool => vec![Scalar::Bool(false), Scalar::Bool(true)],
        d if d.is_float() => floats.iter().map(|x| convert(Scalar::Float(*x), d)).collect(),
        d => ints.iter().map(|x| convert(Scalar::Int(*x), d)).collect(),
    };
    out.dedup();
    out
}

/// The types of the variables: all that of ?x, but for conditions and the values that a condition chooses from.
fn variable_types(pattern: &Pattern, dtype: DType, own: DType, out: &mut [DType; 3]) {
    match pattern {
        Pattern::Var(place) => out[*place] = own,
        Pattern::Number(_) => {}
        Pattern::Apply(op, args) if op.name() == "where" => {
            variable_types(&args[0], dtype, DType::Bool, out);
            args[1..].iter().for_each(|a| variable_types(a, dtype, dtype, out));
        }
        Pattern::Apply(_, args) => args.iter().for_each(|a| variable_types(a, dtype, own, out)),
    }
}

/// The value and its type; numbers take the type of what stands beside them.
fn eval(pattern: &Pattern, vars: &[(Scalar, DType); 3], hint: DType) -> Result<(Scalar, DType), DivisionByZero> {
    match pattern {
        Pattern::Var(place) => Ok(vars[*place]),
        Pattern::Number(value) => Ok((convert(*value, hint), hint)),
        Pattern::Apply(op, args) => {
            let typed = args.iter().rev().find_map(|a| type_of(a, vars)).unwrap_or(hint);
            let is_condition = |n: usize| op.name() == "where" && n == 0;
            let hint = |n: usize| if is_condition(n) { DType::Bool } else { typed };
            let values: Result<Vec<_>, _> = args.iter().enumerate().map(|(n, a)| eval(a, vars, hint(n)).map(|v| v.0)).collect();
            Ok((apply(*op, typed, &values?)?, op.result(typed)))
        }
    }
}

fn type_of(pattern: &Pattern, vars: &[(Scalar, DType); 3]) -> Option<DType> {
    match pattern {
        Pattern::Var(place) => Some(vars[*place].1),
        Pattern::Number(_) => None,
        Pattern::Apply(op, args) => args.iter().rev().find_map(|a| type_of(a, vars)).map(|d| op.result(d)),
    }
}

fn accepts(pattern: &Pattern, vars: &[(Scalar, DType); 3]) -> bool {
    match pattern {
        Pattern::Apply(op, args) => {
            let dtype = args.iter().rev().find_map(|a| type_of(a, vars));
            let condition = |n: usize| op.name() == "where" && n == 0;
            let literal = |(n, a): (usize, &Pattern)| match a {
                Pattern::Number(Scalar::Bool(_)) => condition(n) || dtype == Some(DType::Bool),
                _ => true,
            };
            dtype.is_none_or(|d| op.accepts(d)) && args.iter().enumerate().all(literal) && args.iter().all(|a| accepts(a, vars))
        }
        _ => true,
    }
}

fn same(a: Scalar, b: Scalar) -> bool {
    a == b || (a.as_f64().is_nan() && b.as_f64().is_nan())
}

fn check_row((name, on, from, to): (&str, On, &Pattern, &Pattern), dtype: DType) -> u32 {
    // ?x is a condition where the rule is about one; the others are then of every type.
    let mut types = [dtype; 3];
    variable_types(from, dtype, dtype, &mut types);
    if !on.holds(types[0]) {
        return 0;
    }
    let mut checked = 0;
    for x in values(types[0]) {
        for y in values(types[1]) {
            for z in values(types[2]) {
                let vars = [(x, types[0]), (y, types[1]), (z, types[2])];
                if !accepts(from, &vars) {
                    return 0;
                }
                let Ok((before, result)) = eval(from, &vars, dtype) else { continue };
                let (after, kind) = eval(to, &vars, result).unwrap_or_else(|_| panic!("{name} divides by zero"));
                assert!(kind == result && same(before, after), "{name} on {dtype} {vars:?}: {before}, then {after}");
                checked += 1;
            }
        }
    }
    checked
}

#[test]
fn every_row_is_exact() {
    for (name, on, from, to) in rows() {
        // torch multiplies for exponent 3, where `pow` itself may round differently.
        let types = TYPES.iter().filter(|d| *name != "pow-three" || d.is_int());
        let checked: u32 = types.map(|d| check_row((name, *on, &parse(from), &parse(to)), *d)).sum();
        assert!(checked > 0, "{name} was never tried");
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = rows().map(|r| r.0).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
