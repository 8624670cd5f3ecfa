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

/// Pieces of this width have a polynomial each.
const PIECE: f64 = 17.0 / 64.0;
/// From here on the result is 1.
const END: f64 = 4.0;
/// Somewhere in the middle of each piece, where erf is nearly a number of f32 (to 2^-33), and that number. The first piece begins at zero.
const ORIGINS: [f64; 16] = [
    0.0, 0.26563627, 0.5312568, 0.7968742, 1.0624638, 1.3280969, 1.5937258, 1.8593454, 2.124972, 2.3906949, 2.6561744, 2.9218576,
    3.1874046, 3.4532204, 3.7188454, 3.984375,
];
const VALUES: [f64; 16] = [
    0.0, 0.2928351, 0.5475342, 0.7402365, 0.86704504, 0.9396479, 0.97579557, 0.99144924, 0.9973456, 0.99927765, 0.9998276,
    0.99996406, 0.99999344, 0.999999, 0.9999999, 1.0,
];
/// (erf(origin + t) - value) / t in powers of t, to 0.5 ulp of the sum; in the first piece it is erf(t)/t - 1.
const SLOPES: [[f64; 16]; 5] = [
    [
        0.12837917,
        1.0515021,
        0.8509079,
        0.5979631,
        0.364931,
        0.19338755,
        0.088994585,
        0.035565354,
        0.012342283,
        0.003717739,
        0.0009736295,
        0.00022119454,
        4.367345e-5,
        7.4728796e-6,
        1.1104722e-6,
        0.0,
    ],
    [
        3.0292384e-7,
        -0.27931148,
        -0.45204413,
        -0.47649857,
        -0.38772735,
        -0.25684038,
        -0.14183508,
        -0.06612892,
        -0.026226766,
        -0.008887578,
        -0.0025858283,
        -0.0006461674,
        -0.00013815763,
        -3.8671235e-5,
        -1.565356e-5,
        0.0,
    ],
    [
        -0.37614313,
        -0.30106044,
        -0.123569086,
        0.053813897,
        0.15298209,
        0.1629406,
        0.12103229,
        0.07011676,
        0.03304097,
        0.012926305,
        0.0042547104,
        0.001185042,
        0.00028123416,
        5.7141304e-5,
        1.0079332e-5,
        0.0,
    ],
    [
        0.00030897706,
        0.13206007,
        0.18231447,
        0.13688183,
        0.048228964,
        -0.022041291,
        -0.04878084,
        -0.04302625,
        -0.02640677,
        -0.012564065,
        -0.0048412606,
        -0.0015400338,
        -0.000467361,
        0.00063728273,
        0.0006352914,
        0.0,
    ],
    [
        0.110864125,
        0.07695599,
        -0.00017248876,
        -0.0593017,
        -0.06585945,
        -0.036867592,
        -0.0051638517,
        0.010880072,
        0.012432018,
        0.008072436,
        0.0038339624,
        0.0014322621,
        0.00043348418,
        0.00011094246,
        2.476265e-5,
        0.0,
    ],
];

pub fn erf(x: V<'_>) -> V<'_> {
    let a = x.abs();
    in_pieces(a).unwrap_or_else(|| by_exponent(a)).copysign(x)
}

fn by_exponent(a: V<'_>) -> V<'_> {
    // Beyond 4 the result is 1.
    let a = a.gt(a.float(4.0)).select(a.float(4.0), a);
    let exponent = a.fma(polynomial(a, &EXPONENT), a);
    one_minus_exp_of_negated(exponent)
}

/// Where the host finds numbers in tables that lie in registers: two thirds of the instructions.
fn in_pieces(a: V<'_>) -> Option<V<'_>> {
    let a = a.gt(a.float(END)).select(a.float(END), a);
    // Adding this leaves the number of the piece in the last places.
    let piece = a.fma(a.float(1.0 / PIECE), a.float(12582912.0)).to_bits();
    let t = a - piece.of_table(&ORIGINS)?;
    let value = piece.of_table(&VALUES)?;
    let slopes = SLOPES.iter().map(|slope| piece.of_table(slope)).collect::<Option<Vec<_>>>()?;
    let slope = slopes.into_iter().rev().reduce(|sum, c| sum.fma(t, c))?;
    // t in the first piece, where the value is zero: small results are exact in their first term.
    let first = t.gt(value).select(t, value);
    Some(slope.fma(t, first))
}
