//! Vector expansions of the functions of analysis, written as formulas over `V`.
//!
//! All coefficients are minimax for the interval in question (Remez), or nearly so (interpolated at Chebyshev's points); where a series starts with exact terms these are kept exact.
//! Error bounds stand with each function, in units of the last place of the result, and are checked by `tests/math.rs`.
//! f32 functions that few models use are computed in f64, where simple formulas are exact enough. What is left goes to the C library.

mod erf;
mod erfc;
mod exp;
mod hyperbolic;
mod inverse;
mod lgamma;
pub mod libm;
mod log;
mod power;
mod random;
mod trig;

pub use inverse::atan2;
pub use power::{fmod, pow};
pub use random::{Half, random};

use crate::ir::{Elem, V};
use ox_ir::PointOp;

/// None if `op` is not a function of one float.
pub fn unary(op: PointOp, x: V<'_>) -> Option<V<'_>> {
    use PointOp::*;
    let narrow = x.elem == Elem::F32;
    Some(match op {
        Exp => exp::exp(x),
        Exp2 => exp::exp2(x),
        Expm1 => exp::expm1(x),
        Log => log::log(x),
        Log1p => log::log1p(x),
        Sigmoid => hyperbolic::sigmoid(x),
        Tanh => hyperbolic::tanh(x),
        Sin => trig::sin(x),
        Cos => trig::cos(x),
        Lgamma if narrow => lgamma::lgamma(x),
        Erfc => erfc::erfc(x),
        Log2 => log::log2(x),
        Log10 => log::log10(x),
        Tan => trig::tan(x),
        Asin => inverse::asin(x),
        Acos => inverse::acos(x),
        Atan => inverse::atan(x),
        Sinh => hyperbolic::sinh(x),
        Cosh => hyperbolic::cosh(x),
        Asinh => hyperbolic::asinh(x),
        Acosh => hyperbolic::acosh(x),
        Atanh => hyperbolic::atanh(x),
        Erf if narrow => erf::erf(x),
        Erf => erfc::erf(x),
        Lgamma => libm::call("lgamma", &[x]),
        _ => return None,
    })
}

/// `c[0] + c[1]*x + c[2]*x^2 + ...`
fn polynomial<'a>(x: V<'a>, c: &[f64]) -> V<'a> {
    let (last, rest) = c.split_last().expect("a polynomial has a coefficient");
    rest.iter().rev().fold(x.float(*last), |sum, c| sum.fma(x, x.float(*c)))
}

/// 2^n as a float of type `elem`, for an integer `n` in the range of normal exponents.
fn power_of_two<'a>(n: V<'a>, elem: Elem) -> V<'a> {
    let (bias, shift) = if elem == Elem::F32 { (127, 23) } else { (1023, 52) };
    let n = n.resize_signed(elem.int());
    (n + bias).shl(n.int(shift)).bits_as(elem)
}

/// `f` computed in f64; of f32 it is rounded once.
fn in_f64<'a>(x: V<'a>, f: impl FnOnce(V<'a>) -> V<'a>) -> V<'a> {
    if x.elem == Elem::F64 { f(x) } else { f(x.fpext(Elem::F64)).fptrunc(Elem::F32) }
}

/// `1 / d` to 1 ulp for a finite `d` of at least 1, without the divider where the host can estimate: two threads of one core share that, and a
/// chain with a division in it would wait for it rather than for memory.
fn reciprocal(d: V<'_>) -> V<'_> {
    let Some(estimate) = d.reciprocal_estimate() else { return 1.0 / d };
    estimate.fma((-d).fma(estimate, d.float(1.0)), estimate)
}
