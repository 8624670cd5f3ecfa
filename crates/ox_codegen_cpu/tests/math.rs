//! Every function against the C library in f64: the stated bounds in ulp, and exact agreement on infinities, NaN and signs of zero.

mod support;
use ox_codegen_cpu::Backend;
use support::*;

unsafe extern "C" {
    fn erf(x: f64) -> f64;
    fn erfc(x: f64) -> f64;
    fn lgamma(x: f64) -> f64;
    fn asinh(x: f64) -> f64;
    fn acosh(x: f64) -> f64;
    fn atanh(x: f64) -> f64;
}

/// Rows of (name, the true value, bound for f32, bound for f64). The f64 bound holds against a reference that is itself off by up to one.
type Row = (&'static str, fn(f64) -> f64, f64, f64);

const FUNCTIONS: [Row; 26] = [
    ("exp", f64::exp, 1.0, 2.0),
    ("exp2", f64::exp2, 1.0, 2.0),
    ("expm1", f64::exp_m1, 2.0, 3.0),
    ("log", f64::ln, 1.0, 2.0),
    ("log2", f64::log2, 2.0, 3.0),
    ("log10", f64::log10, 2.0, 3.0),
    ("log1p", f64::ln_1p, 2.0, 3.0),
    ("sin", f64::sin, 1.5, 2.0),
    ("cos", f64::cos, 1.5, 2.0),
    ("tan", f64::tan, 1.0, 4.0),
    ("asin", f64::asin, 1.0, 4.0),
    ("acos", f64::acos, 1.0, 4.0),
    ("atan", f64::atan, 1.0, 4.0),
    ("sinh", f64::sinh, 1.0, 4.0),
    ("cosh", f64::cosh, 1.0, 4.0),
    ("tanh", f64::tanh, 2.0, 3.0),
    ("asinh", |x| unsafe { asinh(x) }, 1.0, 4.0),
    ("acosh", |x| unsafe { acosh(x) }, 1.0, 4.0),
    ("atanh", |x| unsafe { atanh(x) }, 1.0, 4.0),
    ("sigmoid", |x| x.min(0.0).exp() / (1.0 + (-x.abs()).exp()), 2.5, 3.0),
    ("erf", |x| unsafe { erf(x) }, 1.9, 3.0),
    ("erfc", |x| unsafe { erfc(x) }, 1.0, 6.0),
    ("lgamma", |x| unsafe { lgamma(x) }, 1.0, 1.0),
    ("sqrt", f64::sqrt, 0.5, 0.5),
    ("rsqrt", |x| 1.0 / x.sqrt(), 1.5, 1.5),
    ("reciprocal", |x| 1.0 / x, 0.5, 0.5),
];

fn text(op: &str, dtype: &str, lanes: &str) -> String {
    format!(
        "sizes s0 in 0..
kernel {op}(b0: {dtype} in, b1: {dtype} out, i0 < s0) lanes={lanes} {{
  pass {{
    v0 = load b0[i0]
    v1 = {op} v0
    store b1[i0] v1
  }}
}}
"
    )
}

/// The distance in units of the last place of the true value, rounded to f32.
fn ulp32(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && rounded.is_nan()) {
        return if got == 0.0 && want == 0.0 && got.is_sign_negative() != want.is_sign_negative() { f64::INFINITY } else { 0.0 };
    }
    if !got.is_finite() || !rounded.is_finite() {
        // Just at the edge of the range one may be infinite and the other the greatest number.
        let (a, b) = (got.clamp(f32::MIN, f32::MAX) as f64, want.clamp(f32::MIN as f64, f32::MAX as f64));
        return if got.is_nan() || rounded.is_nan() { f64::INFINITY } else { (a - b).abs() / 2f64.powi(104) };
    }
    let exponent = (want.abs().max(f32::MIN_POSITIVE as f64).log2().floor() as i32).max(-126);
    (got as f64 - want).abs() / 2f64.powi(exponent - 23)
}

fn ulp64(got: f64, want: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        return f64::INFINITY;
    }
    let place = want.abs().next_up() - want.abs();
    (got - want).abs() / place
}

/// Floats of every exponent, more of them where functions do things, and all special values.
fn samples() -> Vec<f32> {
    let mut out: Vec<f32> = (0..u32::MAX).step_by(40_009).map(f32::from_bits).collect();
    let dense =
        |out: &mut Vec<f32>, from: f32, to: f32| out.extend((0..40_000).map(|k| from + (to - from) * (k as f32 / 40_000.0)));
    dense(&mut out, -110.0, 95.0);
    dense(&mut out, -10.0, 10.0);
    dense(&mut out, -1.1, 1.1);
    dense(&mut out, 0.9, 1.1);
    dense(&mut out, -160.0, 130.0);
    dense(&mut out, -1e-3, 1e-3);
    dense(&mut out, -1e5, 1e5);
    out.extend((1..2000).map(|k| (k as f64 * std::f64::consts::FRAC_PI_2) as f32));
    out.extend([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]);
    out.extend([
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        -f32::from_bits(1),
        f32::MAX,
        f32::MIN,
        88.72283,
        88.72284,
        -87.33655,
        -103.97208,
    ]);
    out
}

#[test]
fn f32_functions_keep_their_bounds() {
    f32_functions_on(&backend());
}

/// Where numbers are not found in tables that lie in registers.
#[cfg(target_arch = "x86_64")]
#[test]
fn functions_of_an_older_cpu_keep_their_bounds() {
    if !std::is_x86_feature_detected!("avx2") {
        return;
    }
    f32_functions_on(&Backend::for_cpu("haswell", "+avx2,+fma,+f16c").unwrap());
}

fn f32_functions_on(backend: &Backend) {
    let source = samples();
    for (op, truth, bound, _) in FUNCTIONS {
        let out = vec![0.0f32; source.len()];
        let kernel = compile_with(backend, &parse(&text(op, "f32", "outer")));
        run(&kernel, &[&source, &out], &[source.len() as i64], source.len() as i64);
        let mut worst = (0.0, 0.0f32, 0.0f32);
        for (x, got) in source.iter().zip(&out) {
            // As eager's, this sigmoid is zero where exp(-x) overflows, a little before it would have to be.
            let gone = op == "sigmoid" && *x < -88.72;
            let error = if gone && *got == 0.0 { 0.0 } else { ulp32(*got, truth(*x as f64)) };
            if error > worst.0 {
                worst = (error, *x, *got);
            }
        }
        println!("{op:<12} f32 {:.3} ulp at {:e}", worst.0, worst.1);
        assert!(worst.0 <= bound, "{op}({:e}) = {:e}, not {:e}: {} ulp", worst.1, worst.2, truth(worst.1 as f64), worst.0);
    }
}

#[test]
fn f64_functions_keep_their_bounds() {
    let mut source: Vec<f64> = samples().into_iter().step_by(3).map(|x| x as f64 * 1.000_000_012_345).collect();
    source.extend([
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e300,
        -1e300,
        1e-310,
        709.0,
        710.0,
        710.47,
        -710.4,
        1e160,
        -745.0,
        -750.0,
        1e22,
    ]);
    for (op, truth, _, bound) in FUNCTIONS {
        let out = vec![0.0f64; source.len()];
        run(&compile(&text(op, "f64", "outer")), &[&source, &out], &[source.len() as i64], source.len() as i64);
        let mut worst = (0.0, 0.0, 0.0);
        for (x, got) in source.iter().zip(&out) {
            let error = ulp64(*got, truth(*x));
            if error > worst.0 {
                worst = (error, *x, *got);
            }
        }
        println!("{op:<12} f64 {:.3} ulp at {:e}", worst.0, worst.1);
        assert!(worst.0 <= bound, "{op}({:e}) = {:e}, not {:e}: {} ulp", worst.1, worst.2, truth(worst.1), worst.0);
    }
}

/// One element at a time gives the very bits that vectors give.
#[test]
fn scalar_code_equals_vector_code() {
    let source: Vec<f32> = samples().into_iter().step_by(37).collect();
    for (op, ..) in FUNCTIONS {
        let (vector, scalar) = (vec![0.0f32; source.len()], vec![0.0f32; source.len()]);
        run(&compile(&text(op, "f32", "outer")), &[&source, &vector], &[source.len() as i64], source.len() as i64);
        run(&compile(&text(op, "f32", "none")), &[&source, &scalar], &[source.len() as i64], source.len() as i64);
        for ((x, a), b) in source.iter().zip(&vector).zip(&scalar) {
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{op}({x:e}): {a:e} and {b:e}");
        }
    }
}

/// Name, true value, bound for f32, bound for f64.
type BinaryRow = (&'static str, fn(f64, f64) -> f64, f64, f64);

const BINARY: [BinaryRow; 3] = [("pow", f64::powf, 1.0, 1.0), ("atan2", f64::atan2, 1.0, 4.0), ("fmod", |a, b| a % b, 0.0, 0.0)];

fn text_of_two(op: &str, dtype: &str) -> String {
    text(op, dtype, "outer")
        .replace(&format!("b1: {dtype} out"), &format!("b1: {dtype} in, b2: {dtype} out"))
        .replace("    v1 =", "    v2 = load b1[i0]\n    v1 =")
        .replace(&format!("{op} v0\n"), &format!("{op} v0 v2\n"))
        .replace("store b1", "store b2")
}

/// Numbers of all kinds, and every pair of special ones.
fn pairs() -> (Vec<f32>, Vec<f32>) {
    let special = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        1e30,
        -1e30,
        1e-30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let (mut a, mut b) = (numbers(20_000, 1), numbers(20_000, 2));
    a.extend(numbers(20_000, 3).iter().map(|x| x.abs() * 20.0));
    b.extend(numbers(20_000, 4).iter().map(|x| x * 10.0));
    a.extend(numbers(5000, 5).iter().map(|x| (x * 5.0).exp()));
    b.extend(numbers(5000, 6).iter().map(|x| (x * 2.0).round()));
    for x in special {
        a.extend([x; 16]);
        b.extend(special);
    }
    (a, b)
}

#[test]
fn functions_of_two_arguments() {
    let (a, b) = pairs();
    for (op, truth, bound, _) in BINARY {
        let out = vec![0.0f32; a.len()];
        run(&compile(&text_of_two(op, "f32")), &[&a, &b, &out], &[a.len() as i64], a.len() as i64);
        for ((x, y), got) in a.iter().zip(&b).zip(&out) {
            let want = truth(*x as f64, *y as f64);
            assert!(ulp32(*got, want) <= bound, "{op}({x:e}, {y:e}) = {got:e}, not {want:e}");
        }
    }
}

#[test]
fn f64_functions_of_two_arguments() {
    let (a, b) = pairs();
    let mut a: Vec<f64> = a.into_iter().map(|x| x as f64 * 1.000_000_012_345).collect();
    let mut b: Vec<f64> = b.into_iter().map(|x| x as f64 * 1.000_000_054_321).collect();
    // Quotients that are nearly whole, up to what f64 counts to and beyond, and what is hardly a number.
    for (k, y) in numbers(4000, 7).into_iter().enumerate() {
        let multiple = y as f64 * 2f64.powi(k as i32 % 60);
        a.extend([multiple, multiple.next_up(), multiple.next_down(), (k as f64 + 1.0) * y as f64 - 1e-16]);
        b.extend([y as f64; 4]);
    }
    a.extend([1e-310, -1e-310, 1e308, 1e-310, 1e-300]);
    b.extend([1.0, 3e-310, 1e-310, -1e308, 5e-324]);
    for (op, truth, _, bound) in BINARY {
        let out = vec![0.0f64; a.len()];
        run(&compile(&text_of_two(op, "f64")), &[&a, &b, &out], &[a.len() as i64], a.len() as i64);
        for ((x, y), got) in a.iter().zip(&b).zip(&out) {
            let want = truth(*x, *y);
            let is_right = ulp64(*got, want) <= bound && (want != 0.0 || got.is_sign_negative() == want.is_sign_negative());
            assert!(is_right, "{op}({x:e}, {y:e}) = {got:e}, not {want:e}");
        }
    }
}
