//! erf of f32: at most 1.5 ulp.

use super::exp::exp;
use super::polynomial;
use crate::ir::V;

/// erf(x)/x - 1 in powers of x^2, for |x| <= 0.95, to 2^-35.
const SMALL: [f64; 8] =
    [0.128379167, -0.376126379, 0.112837866, -0.0268656928, 0.00522189913, -0.000849864562, 0.000113865266, -1.00571006e-05];
/// -log(1 - erf(x)), for 0.9 <= x <= 4, to 2^-33 of erf(x).
const LARGE: [f64; 8] =
    [-0.000169203806, 1.12948835, 0.633400857, 0.108220369, -0.0250806045, 0.00415625004, -0.000431392516, 2.08285237e-05];

pub fn erf(x: V<'_>) -> V<'_> {
    let a = x.abs();
    let small = x.fma(polynomial(x * x, &SMALL), x);
    // Beyond 4 the result is 1.
    let capped = a.gt(a.float(4.0)).select(a.float(4.0), a);
    let large = (1.0 - exp(-polynomial(capped, &LARGE))).copysign(x);
    a.lt(a.float(0.92)).select(small, large)
}
