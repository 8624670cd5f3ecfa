//! erfc: at most 1 ulp in f32, computed in f64, and 5 in f64. erf of f64: at most 2 ulp.

use super::exp::exp_of_negative;
use super::polynomial;
use crate::ir::{Elem, V};

/// What lies in the middle between zero and infinity, by (a - MIDDLE)/(a + MIDDLE).
const MIDDLE: f64 = 3.75;
/// Beyond, erfc is zero.
const END: f64 = 28.0;

/// erfc(a) * exp(a^2) * (a + MIDDLE) in powers of (a - MIDDLE)/(a + MIDDLE), for 0 <= a <= 28, to 2^-32 and 2^-57.
const SCALED: [f64; 13] = [
    1.0919229095881127,
    -0.9587415765352194,
    0.7363189218996049,
    -0.49047030958717985,
    0.27906211786553153,
    -0.13195504026024804,
    0.049118302990578636,
    -0.012538442562129477,
    0.000987523596194551,
    0.000803192122548809,
    -0.00034882198968301216,
    -2.559449650749998e-06,
    3.43099446337739e-05,
];
const SCALED64: [f64; 23] = [
    1.0919229095627891,
    -0.9587415766529096,
    0.7363189252217516,
    -0.4904702912076717,
    0.27906204903379006,
    -0.13195540117876947,
    0.04911877861502787,
    -0.012535880037294259,
    0.0009863380842652129,
    0.000794823066578816,
    -0.00034864690311081685,
    1.0594162057486319e-05,
    3.747202056723222e-05,
    -8.904493624312583e-06,
    -3.2906380558096254e-06,
    1.657098463801191e-06,
    2.8264255291133957e-07,
    -2.6471768373591325e-07,
    -3.0807220571207246e-08,
    4.031880139760462e-08,
    6.21651672038894e-09,
    -4.59895301160274e-09,
    -1.2898780718156364e-09,
];

/// erf(x)/x - 1 in powers of x^2, for |x| <= 1, to 2^-56.
const ERF: [f64; 12] = [
    0.12837916709551256,
    -0.37612638903183543,
    0.11283791670945006,
    -0.02686617064323777,
    0.0052239776071164225,
    -0.0008548325975389692,
    0.00012055294904839707,
    -1.492473690741966e-05,
    1.6447424703317362e-06,
    -1.6208483801871705e-07,
    1.3720064546777686e-08,
    -7.795898827002142e-10,
];

/// For `a` of at least zero, in f64.
fn of_positive<'a>(a: V<'a>, scaled: &[f64]) -> V<'a> {
    let a = a.gt(a.float(END)).select(a.float(END), a);
    let shrink = 1.0 / (a + MIDDLE);
    let square = a * a;
    // What the square lost in rounding counts as many times as it is large.
    let lost = a.fma(a, -square);
    let exp = exp_of_negative(-square);
    exp.fma(-lost, exp) * (polynomial((a - MIDDLE) * shrink, scaled) * shrink)
}

/// erf, for |x| up to 1.
fn erf_of_small(x: V<'_>) -> V<'_> {
    x.fma(polynomial(x * x, &ERF), x)
}

pub fn erfc(x: V<'_>) -> V<'_> {
    if x.elem == Elem::F32 {
        return erfc_by(x.fpext(Elem::F64), &SCALED).fptrunc(Elem::F32);
    }
    // The terms of the other series are larger than their sum there.
    x.abs().lt(x.float(0.5)).select(1.0 - erf_of_small(x), erfc_by(x, &SCALED64))
}

fn erfc_by<'a>(x: V<'a>, scaled: &[f64]) -> V<'a> {
    let positive = of_positive(x.abs(), scaled);
    x.lt(x.float(0.0)).select(2.0 - positive, positive)
}

/// f64 only.
pub fn erf(x: V<'_>) -> V<'_> {
    let a = x.abs();
    let large = 1.0 - of_positive(a, &SCALED64);
    a.gt(a.float(1.0)).select(large, erf_of_small(a)).copysign(x)
}
