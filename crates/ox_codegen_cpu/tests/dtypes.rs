//! Element types: conversion, rounding of the half types, integer arithmetic.

mod support;
use half::{bf16, f16};
use support::*;

fn unary(op: &str, from: &str, to: &str, lanes: &str) -> String {
    format!(
        "sizes s0 in 0..
kernel unary(b0: {from} in, b1: {to} out, i0 < s0) lanes={lanes} {{
  pass {{
    v0 = load b0[i0]
    v1 = {op} v0{}
    store b1[i0] v1
  }}
}}
",
        if op == "cast" { format!(" : {to}") } else { String::new() }
    )
}

fn binary(op: &str, dtype: &str, to: &str, lanes: &str) -> String {
    format!(
        "sizes s0 in 0..
kernel binary(b0: {dtype} in, b1: {dtype} in, b2: {to} out, i0 < s0) lanes={lanes} {{
  pass {{
    v0 = load b0[i0]
    v1 = load b1[i0]
    v2 = {op} v0 v1
    store b2[i0] v2
  }}
}}
"
    )
}

fn apply1<A, B: Clone + Default>(text: &str, a: &Vec<A>) -> Vec<B> {
    let out = vec![B::default(); a.len()];
    run(&compile(text), &[a, &out], &[a.len() as i64], a.len() as i64);
    out
}

fn apply2<A, B: Clone + Default>(text: &str, a: &Vec<A>, b: &Vec<A>) -> Vec<B> {
    let out = vec![B::default(); a.len()];
    run(&compile(text), &[a, b, &out], &[a.len() as i64], a.len() as i64);
    out
}

fn floats() -> Vec<f32> {
    let mut x = numbers(100, 1);
    x.extend([
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        127.9,
        -128.9,
        255.5,
        300.0,
        1e-40,
        -1e-40,
        f32::from_bits(0x8000),
        f32::from_bits(0x8001),
        f32::from_bits(0x1_8000),
        f32::from_bits(0x7f_ffff),
        f32::MIN_POSITIVE,
        65504.0,
        65519.0,
        65520.0,
    ]);
    x.extend([
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
        3.3895314e38,
        3.4e38,
        6e-8,
        2e-8,
    ]);
    x.extend((0..300).map(|k| f32::from_bits(0x3f80_0000 + k * 0x1357)));
    x
}

const LANES: [&str; 2] = ["outer", "none"];

#[test]
fn half_types_round_to_nearest_even() {
    let source = floats();
    for lanes in LANES {
        let got: Vec<u16> = apply1(&unary("cast", "f32", "bf16", lanes), &source);
        for (x, g) in source.iter().zip(&got) {
            // Every NaN becomes the same one.
            let want = if x.is_nan() { 0x7fc0 } else { bf16::from_f32(*x).to_bits() };
            assert_eq!(*g, want, "{x}");
        }
        let got: Vec<u16> = apply1(&unary("cast", "f32", "f16", lanes), &source);
        for (x, g) in source.iter().zip(&got) {
            let (g, want) = (f16::from_bits(*g), f16::from_f32(*x));
            assert!(g.to_bits() == want.to_bits() || (g.is_nan() && want.is_nan()), "{x} {g} {want}");
        }
    }
}

#[test]
fn every_half_value_survives_loading() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let got: Vec<f32> = apply1(&unary("cast", "bf16", "f32", "outer"), &all);
    assert!(all.iter().zip(&got).all(|(b, g)| g.to_bits() == (*b as u32) << 16));
    let got: Vec<f32> = apply1(&unary("cast", "f16", "f32", "outer"), &all);
    for (b, g) in all.iter().zip(&got) {
        let want = f16::from_bits(*b).to_f32();
        assert!(*g == want || (g.is_nan() && want.is_nan()), "{b:x}");
    }
}

/// A chain in bf16 is rounded after every operation, as eager's separate kernels do.
#[test]
fn half_chains_round_in_between() {
    let text = "sizes s0 in 0..
kernel chain(b0: bf16 in, b1: bf16 out, i0 < s0) lanes=outer {
  pass {
    v0 = load b0[i0]
    v1 = mul v0 v0
    v2 = add v1 v0
    v3 = exp v2
    store b1[i0] v3
  }
}
";
    let source: Vec<u16> = numbers(500, 8).iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
    let got: Vec<u16> = apply1(text, &source);
    for (x, g) in source.iter().zip(&got) {
        let x = bf16::from_bits(*x).to_f32();
        let round = |x: f32| bf16::from_f32(x).to_f32();
        let want = round((round(round(x * x) + x) as f64).exp() as f32);
        assert_eq!(bf16::from_bits(*g).to_f32(), want);
    }
}

#[test]
fn f64_goes_to_half_by_way_of_f32() {
    // Just above the middle between two bf16: in f32 it is the middle, and goes to even.
    let source = vec![1.0 + 1.0 / 256.0 + 1e-12, 1.0 + 3.0 / 256.0 - 1e-12, -1e300, 1e-300];
    let got: Vec<u16> = apply1(&unary("cast", "f64", "bf16", "outer"), &source);
    let want: Vec<u16> = source.iter().map(|x| bf16::from_f32(*x as f32).to_bits()).collect();
    assert_eq!(got, want);
}

#[test]
fn casts_between_numbers() {
    let source: Vec<f32> = numbers(40, 3).iter().map(|x| x * 30.0).chain([0.0, -0.0, f32::NAN, 0.25, -1.0, 255.0]).collect();
    for lanes in LANES {
        let as_i64: Vec<i64> = apply1(&unary("cast", "f32", "i64", lanes), &source);
        let as_u8: Vec<u8> = apply1(&unary("cast", "f32", "u8", lanes), &source);
        let as_i16: Vec<i16> = apply1(&unary("cast", "f32", "i16", lanes), &source);
        let as_bool: Vec<u8> = apply1(&unary("cast", "f32", "bool", lanes), &source);
        for (k, x) in source.iter().enumerate() {
            assert_eq!(as_bool[k], (*x != 0.0) as u8, "{x}");
            if !x.is_nan() {
                assert_eq!((as_i64[k], as_i16[k]), (*x as i64, *x as i16), "{x}");
                assert_eq!(as_u8[k], *x as i64 as u8, "{x}");
            }
        }
        let ints: Vec<i64> = vec![0, 1, -1, 255, 256, 1 << 40, i64::MIN, i64::MAX, 16777217, -300];
        let as_f32: Vec<f32> = apply1(&unary("cast", "i64", "f32", lanes), &ints);
        let as_i8: Vec<i8> = apply1(&unary("cast", "i64", "i8", lanes), &ints);
        let as_bool: Vec<u8> = apply1(&unary("cast", "i64", "bool", lanes), &ints);
        assert_eq!(as_f32, ints.iter().map(|x| *x as f32).collect::<Vec<_>>());
        assert_eq!(as_i8, ints.iter().map(|x| *x as i8).collect::<Vec<_>>());
        assert_eq!(as_bool, ints.iter().map(|x| (*x != 0) as u8).collect::<Vec<_>>());
        let bytes: Vec<u8> = (0..=255).collect();
        let as_i32: Vec<i32> = apply1(&unary("cast", "u8", "i32", lanes), &bytes);
        assert_eq!(as_i32, (0..=255).collect::<Vec<_>>());
        let bools: Vec<u8> = vec![0, 1, 1, 0, 1];
        let as_f64: Vec<f64> = apply1(&unary("cast", "bool", "f64", lanes), &bools);
        assert_eq!(as_f64, [0.0, 1.0, 1.0, 0.0, 1.0]);
        let as_i64: Vec<i64> = apply1(&unary("cast", "bool", "i64", lanes), &bools);
        assert_eq!(as_i64, [0, 1, 1, 0, 1]);
    }
}

/// No value crashes the process; NaN and what does not fit give something.
#[test]
fn casts_out_of_range_do_not_trap() {
    let source = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30];
    for to in ["i64", "i32", "i16", "i8", "u8"] {
        for lanes in LANES {
            let _: Vec<i64> = apply1(&unary("cast", "f32", to, lanes), &source);
        }
    }
}

macro_rules! integer_tests {
    ($($name:ident $t:ident $dtype:literal $signed:literal;)*) => {$(
        #[test]
        fn $name() {
            let edge: Vec<$t> = vec![0, 1, 2, 3, 5, 7, $t::MAX, $t::MAX - 1, $t::MIN, $t::MIN + 1, 100, (0 as $t).wrapping_sub(1), (0 as $t).wrapping_sub(7)];
            let a: Vec<$t> = edge.iter().flat_map(|x| vec![*x; edge.len()]).collect();
            let b: Vec<$t> = edge.iter().flat_map(|_| edge.clone()).collect();
            let divides = |b: $t| b != 0;
            let floor = |a: $t, b: $t| {
                let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
                #[allow(unused_comparisons)]
                if r != 0 && (r < 0) != (b < 0) { q.wrapping_sub(1) } else { q }
            };
            for lanes in LANES {
                let check = |op: &str, when: &dyn Fn($t, $t) -> bool, want: &dyn Fn($t, $t) -> $t| {
                    let got: Vec<$t> = apply2(&binary(op, $dtype, $dtype, lanes), &a, &b);
                    for ((x, y), g) in a.iter().zip(&b).zip(&got) {
                        if when(*x, *y) {
                            assert_eq!(*g, want(*x, *y), "{op} {x} {y} {lanes}");
                        }
                    }
                };
                let any = |_: $t, _: $t| true;
                let divisor = |_: $t, b: $t| divides(b);
                check("add", &any, &|a, b| a.wrapping_add(b));
                check("sub", &any, &|a, b| a.wrapping_sub(b));
                check("mul", &any, &|a, b| a.wrapping_mul(b));
                check("div_trunc", &divisor, &|a, b| a.wrapping_div(b));
                check("div_floor", &divisor, &floor);
                check("fmod", &divisor, &|a, b| a.wrapping_rem(b));
                check("remainder", &divisor, &|a, b| a.wrapping_sub(floor(a, b).wrapping_mul(b)));
                check("maximum", &any, &|a, b| a.max(b));
                check("minimum", &any, &|a, b| a.min(b));
                check("and", &any, &|a, b| a & b);
                check("xor", &any, &|a, b| a ^ b);
                let bits = $t::BITS as i64;
                let inside = move |b: $t| (0..bits).contains(&(b as i64));
                check("shl", &any, &|a, b| if inside(b) { a << b } else { 0 });
                check("shr", &any, &|a, b| if inside(b) { a >> b } else { a >> (bits - 1) >> (1 - $signed) });
                let got: Vec<u8> = apply2(&binary("lt", $dtype, "bool", lanes), &a, &b);
                assert!(a.iter().zip(&b).zip(&got).all(|((a, b), g)| *g == (a < b) as u8));
                let got: Vec<u8> = apply2(&binary("ge", $dtype, "bool", lanes), &a, &b);
                assert!(a.iter().zip(&b).zip(&got).all(|((a, b), g)| *g == (a >= b) as u8));
                let got: Vec<$t> = apply1(&unary("neg", $dtype, $dtype, lanes), &a);
                assert!(a.iter().zip(&got).all(|(a, g)| *g == a.wrapping_neg()));
            }
        }
    )*};
}

integer_tests! {
    arithmetic_on_i64 i64 "i64" 1;
    arithmetic_on_i32 i32 "i32" 1;
    arithmetic_on_i16 i16 "i16" 1;
    arithmetic_on_i8 i8 "i8" 1;
    arithmetic_on_u8 u8 "u8" 0;
}

#[test]
fn integer_powers() {
    let a: Vec<i64> = vec![2, 3, -2, -1, -1, 1, 0, 0, 5, 10, 7, -3, 2, 2];
    let b: Vec<i64> = vec![10, 4, 3, 5, -4, -7, 0, 3, -1, 18, 100, 0, 63, 64];
    let want: Vec<i64> = a
        .iter()
        .zip(&b)
        .map(|(a, b)| match (*a, *b) {
            (a, b) if b >= 0 => a.wrapping_pow(b as u32),
            (1, _) => 1,
            (-1, b) => {
                if b % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        })
        .collect();
    for lanes in LANES {
        let got: Vec<i64> = apply2(&binary("pow", "i64", "i64", lanes), &a, &b);
        assert_eq!(got, want);
    }
}

#[test]
fn float_division_and_remainder() {
    let a = vec![7.0f32, -7.0, 7.0, -7.0, 0.0, -0.0, 5.5, 1e10, -1.0, f32::INFINITY, f32::NAN, 3.0, -3.0, 1.0];
    let b = vec![3.0f32, 3.0, -3.0, -3.0, 2.0, 2.0, 0.0, 3.0, f32::INFINITY, 2.0, 1.0, 1.5, 1.5, 0.1];
    let got: Vec<f32> = apply2(&binary("remainder", "f32", "f32", "outer"), &a, &b);
    let python = |a: f32, b: f32| {
        let r = a % b;
        if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
    };
    for ((x, y), g) in a.iter().zip(&b).zip(&got) {
        let want = python(*x, *y);
        assert!(*g == want || (g.is_nan() && want.is_nan()), "{x} % {y} = {g}, not {want}");
    }
    let got: Vec<f32> = apply2(&binary("div_floor", "f32", "f32", "outer"), &a, &b);
    for ((x, y), g) in a.iter().zip(&b).zip(&got) {
        let want = match (*x, *y) {
            (x, 0.0) => x / 0.0,
            (x, y) if x.is_infinite() => (x - x % y) / y,
            (-1.0, y) if y.is_infinite() => -1.0,
            (x, y) => ((x as f64 - python(x, y) as f64) / y as f64).round() as f32,
        };
        assert!(*g == want || (g.is_nan() && want.is_nan()), "{x} // {y} = {g}, not {want}");
    }
    let got: Vec<f32> = apply2(&binary("div_trunc", "f32", "f32", "outer"), &a, &b);
    assert_eq!(&got[..4], [2.0, -2.0, -2.0, 2.0]);
}

#[test]
fn comparison_and_choice_with_nan() {
    let a = vec![1.0f32, f32::NAN, 1.0, f32::NAN, -0.0];
    let b = vec![f32::NAN, 1.0, 2.0, f32::NAN, 0.0];
    for lanes in LANES {
        let apply = |op: &str| -> Vec<f32> { apply2(&binary(op, "f32", "f32", lanes), &a, &b) };
        let nans = |v: Vec<f32>| v.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
        assert_eq!(nans(apply("maximum")), [true, true, false, true, false]);
        assert_eq!(nans(apply("minimum")), [true, true, false, true, false]);
        assert_eq!(nans(apply("fmax")), [false, false, false, true, false]);
        assert_eq!((apply("maximum")[2], apply("minimum")[2], apply("fmin")[0]), (2.0, 1.0, 1.0));
        for op in ["maximum", "minimum", "fmax", "fmin"] {
            assert!(apply(op)[4].is_sign_negative(), "{op} of two zeros is the first");
        }
        let test = |op: &str| -> Vec<u8> { apply2(&binary(op, "f32", "bool", lanes), &a, &b) };
        assert_eq!(test("eq"), [0, 0, 0, 0, 1]);
        assert_eq!(test("ne"), [1, 1, 1, 1, 0]);
        assert_eq!(test("le"), [0, 0, 1, 0, 1]);
        assert_eq!(test("gt"), [0, 0, 0, 0, 0]);
        let one =
            |op: &str| -> Vec<f32> { apply1(&unary(op, "f32", "f32", lanes), &vec![2.5f32, -2.5, -0.5, 0.0, 3.5, f32::NAN]) };
        assert_eq!(one("round")[..5], [2.0, -2.0, -0.0, 0.0, 4.0]);
        assert_eq!(one("trunc")[..5], [2.0, -2.0, -0.0, 0.0, 3.0]);
        assert_eq!(one("sign")[..], [1.0, -1.0, -1.0, 0.0, 1.0, 0.0]);
        let flags: Vec<u8> = apply1(&unary("signbit", "f32", "bool", lanes), &vec![1.0f32, -1.0, -0.0, 0.0]);
        assert_eq!(flags, [0, 1, 1, 0]);
        let flags: Vec<u8> =
            apply1(&unary("isinf", "f32", "bool", lanes), &vec![1.0f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        assert_eq!(flags, [0, 1, 1, 0]);
    }
}

/// What is read where a mask is off lies in memory as a constant.
#[test]
fn halves_that_stand_where_nothing_is_read() {
    let text = "kernel joined(b0: f16 in, b1: f16 out, i0 < 6, i1 < 2, i2 < 40) lanes=outer parallel {
  pass {
    v0 = index i1
    v1 = index 1
    v2 = lt v0 v1
    v3 = load b0[40*i0 + i2] if v2 else 3
    store b1[80*i0 + i1 + 2*i2] v3
  }
}
";
    let source: Vec<f16> = (0..240).map(|n| f16::from_f32(n as f32)).collect();
    let out = vec![f16::ZERO; 480];
    run(&compile(text), &[&source, &out], &[], 480);
    let expected: Vec<f16> = source.iter().flat_map(|x| [*x, f16::from_f32(3.0)]).collect();
    assert_eq!(out, expected);
}

/// LLVM takes what is computed of widened halves and narrowed for the same of halves, and does that lane by lane. What is only moved is not converted.
#[cfg(target_arch = "x86_64")]
#[test]
fn halves_are_computed_in_vectors() {
    let computed = ["floor v0", "round v0", "trunc v0", "log v0", "sin v0", "where v2 v0 v1", "copysign v0 v1", "maximum v0 v1"];
    for (cpu, features) in
        [("haswell", "+avx2,+fma,+f16c"), ("skylake-avx512", "+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq")]
    {
        let backend = ox_codegen_cpu::Backend::for_cpu(cpu, features).unwrap();
        let conversions = |result: &str| {
            let text = format!(
                "kernel halves(b0: f16 in, b1: f16 out, i0 < 4096) lanes=outer parallel {{
  pass {{
    v0 = load b0[i0]
    v1 = mul v0 v0
    v2 = lt v0 v1
    {result}
  }}
}}
"
            );
            backend.emit_assembly(&parse(&text)).unwrap().matches("vcvtps2ph").count()
        };
        for op in computed {
            let count = conversions(&format!("v3 = {op}\n    store b1[i0] v3"));
            assert!((1..=6).contains(&count), "{count} conversions for {op} on {cpu}");
        }
        assert_eq!(conversions("store b1[i0] v0"), 0, "{cpu}");
    }
}
