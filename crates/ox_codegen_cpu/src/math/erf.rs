//! erf of f32: at most 1.9 ulp.

use super::exp::one_minus_exp_of_negated;
use super::polynomial;
use crate::ir::V;

/// -log(1 - erf(x))/x - 1, for 0 <= x <= 4, to 2^-28 of erf(x).
const EXPONENT: [f64; 9] = [
    0.128379166,
    0.636619389,
    0.102777831,
    -0.0191530623,
    -0.000160399795,
    0.00166703144,
    -0.000632839219,
    0.000117641976,
    -9.25634868e-06,
];

pub fn erf(x: V<'_>) -> V<'_> {
    let a = x.abs();
    // Beyond 4 the result is 1.
    let a = a.gt(a.float(4.0)).select(a.float(4.0), a);
    let exponent = a.fma(polynomial(a, &EXPONENT), a);
    one_minus_exp_of_negated(exponent).copysign(x)
}
