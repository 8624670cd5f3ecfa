//! Where an op is tested.

/// A set of arguments on which a function is interesting. Outside of its mathematical domain a float function gives NaN; those
/// arguments belong to the tests too, and are in every set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    Real,
    Positive,
    /// -1 to 1.
    Unit,
    /// From 1 up.
    AboveOne,
    /// Small enough that its exponential is finite in f32.
    Small,
}

const CORNERS: [f64; 8] = [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5];

impl Domain {
    /// The corners, values of every magnitude, and a spread over the interesting range.
    pub fn samples(self) -> Vec<f64> {
        let spread = (0..32).map(|n| (n as f64 - 15.5) / 16.0);
        let scaled: Vec<f64> = match self {
            Domain::Real => spread.flat_map(|x| [x, x * 10.0, x * 1e4, x * 1e20, x * 1e-30]).collect(),
            Domain::Positive => spread.flat_map(|x| [x.abs(), x.abs() * 10.0, x.abs() * 1e10, x.abs() * 1e-10]).collect(),
            Domain::Unit => spread.collect(),
            Domain::AboveOne => spread.flat_map(|x| [1.0 + x.abs(), 1.0 + x.abs() * 1e3]).collect(),
            Domain::Small => spread.flat_map(|x| [x, x * 10.0, x * 80.0]).collect(),
        };
        CORNERS.into_iter().chain(scaled).collect()
    }

    /// Integers of every sign and size, ends of the types among them.
    pub fn integers() -> Vec<i64> {
        let ends = [i64::MIN, i64::MAX, i32::MIN as i64, i32::MAX as i64, i16::MIN as i64, -128, 127, 255];
        ends.into_iter().chain(-9..=9).collect()
    }
}
