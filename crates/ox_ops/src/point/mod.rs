//! What each PointOp means: one row per op, in the order of `ox_ir::point`, in files by subject.
//!
//! A row gives the op's reference meaning on floats and on integers, whether that meaning is exact (every correct implementation
//! gives the same bits), the inputs on which it is tested, and its derivative. To add an op: add it to `ox_ir::point`, and a row at
//! the same place here; the tests say what else is missing.

mod arithmetic;
mod bits;
mod circular;
mod compare;
mod convert;
mod domain;
mod power;
mod random;
mod rounding;
mod special;

use crate::formula::Expr;
use ox_ir::{DType, PointOp, Scalar};
use std::sync::OnceLock;

pub use convert::{convert, round, wrap};
pub use domain::Domain;

/// An op on floats, in f64: the result is rounded to the type afterwards.
pub enum FloatMeaning {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
    /// With roundings to the type that eager computes in before the last one.
    Typed(fn(DType, &[f64]) -> f64),
    Test(fn(f64) -> bool),
    Compare(fn(f64, f64) -> bool),
}

/// An op on integers and bools, exact in i64: the result is wrapped to the type afterwards.
pub enum IntMeaning {
    One(fn(i64) -> i64),
    Two(fn(i64, i64) -> i64),
    /// Where the type's width counts.
    Typed(fn(DType, i64, i64) -> i64),
    /// The second argument must not be zero.
    Division(fn(i64, i64) -> i64),
    Compare(fn(i64, i64) -> bool),
    Three(fn(i64, i64, i64) -> i64),
}

/// What a derivative is made of. Half types are computed in f32, as eager does it.
pub struct Terms {
    pub args: Vec<Expr>,
    pub result: Expr,
    pub grad: Expr,
}

impl Terms {
    /// The first argument.
    pub fn x(&self) -> Expr {
        self.args[0].clone()
    }

    /// The second argument.
    pub fn y(&self) -> Expr {
        self.args[1].clone()
    }

    /// The result.
    pub fn r(&self) -> Expr {
        self.result.clone()
    }

    /// The result's gradient.
    pub fn g(&self) -> Expr {
        self.grad.clone()
    }
}

/// The gradient of one argument.
pub type Slope = fn(&Terms) -> Expr;

#[derive(Clone, Copy)]
pub enum Derivative {
    /// Not a function between floats.
    None,
    /// Piecewise constant.
    Zero,
    /// One for each argument, as eager computes it, ties and zeros included; None is zero.
    Slopes(&'static [Option<Slope>]),
    /// A library call that no formula expresses.
    Call(fn(&mut crate::Builder, ox_ir::NodeId, ox_ir::NodeId) -> crate::OpResult<ox_ir::NodeId>),
}

pub struct PointRow {
    pub op: PointOp,
    pub float: Option<FloatMeaning>,
    pub int: Option<IntMeaning>,
    /// IEEE 754 or integer arithmetic fixes the result.
    pub exact: bool,
    /// Where to test each argument.
    pub domain: &'static [Domain],
    pub derivative: Derivative,
}

impl PointRow {
    /// A row of a float function, tested everywhere.
    const fn float(op: PointOp, float: FloatMeaning) -> PointRow {
        PointRow {
            op,
            float: Some(float),
            int: None,
            exact: false,
            domain: &[Domain::Real, Domain::Real, Domain::Real],
            derivative: Derivative::None,
        }
    }

    const fn int(op: PointOp, int: IntMeaning) -> PointRow {
        PointRow {
            op,
            float: None,
            int: Some(int),
            exact: true,
            domain: &[Domain::Real, Domain::Real, Domain::Real],
            derivative: Derivative::None,
        }
    }

    const fn both(op: PointOp, float: FloatMeaning, int: IntMeaning) -> PointRow {
        PointRow { int: Some(int), ..PointRow::float(op, float) }
    }

    const fn exact(self) -> PointRow {
        PointRow { exact: true, ..self }
    }

    const fn zero_slope(self) -> PointRow {
        PointRow { derivative: Derivative::Zero, ..self }
    }

    const fn slopes(self, slopes: &'static [Option<Slope>]) -> PointRow {
        PointRow { derivative: Derivative::Slopes(slopes), ..self }
    }

    const fn on(self, domain: &'static [Domain]) -> PointRow {
        PointRow { domain, ..self }
    }
}

const TABLES: &[&[PointRow]] =
    &[arithmetic::ROWS, rounding::ROWS, power::ROWS, circular::ROWS, special::ROWS, compare::ROWS, bits::ROWS, random::ROWS];

/// All rows, in the order of `PointOp::ALL`.
pub fn rows() -> impl Iterator<Item = &'static PointRow> {
    TABLES.iter().flat_map(|table| table.iter())
}

pub fn row(op: PointOp) -> &'static PointRow {
    static INDEX: OnceLock<Vec<&'static PointRow>> = OnceLock::new();
    INDEX.get_or_init(|| rows().collect())[op as usize]
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DivisionByZero;

/// Applies an op to elements of type `dtype` (for `where`: whose values are of that type).
pub fn apply(op: PointOp, dtype: DType, args: &[Scalar]) -> Result<Scalar, DivisionByZero> {
    assert_eq!(args.len(), op.arity(), "{}", op.name());
    if op == PointOp::Where {
        return Ok(if args[0].as_bool() { args[1] } else { args[2] });
    }
    let result = match dtype.is_float() {
        true => row(op).float.as_ref().map(|meaning| Ok(apply_float(meaning, dtype, args))),
        false => row(op).int.as_ref().map(|meaning| apply_int(meaning, dtype, args)),
    };
    let result = result.unwrap_or_else(|| panic!("{} is not defined on {dtype}", op.name()))?;
    Ok(convert(result, op.result(dtype)))
}

fn apply_float(meaning: &FloatMeaning, dtype: DType, args: &[Scalar]) -> Scalar {
    let x = |n: usize| args[n].as_f64();
    match meaning {
        FloatMeaning::One(f) => Scalar::Float(f(x(0))),
        FloatMeaning::Two(f) => Scalar::Float(f(x(0), x(1))),
        FloatMeaning::Typed(f) => Scalar::Float(f(dtype, &args.iter().map(|a| a.as_f64()).collect::<Vec<_>>())),
        FloatMeaning::Test(f) => Scalar::Bool(f(x(0))),
        FloatMeaning::Compare(f) => Scalar::Bool(f(x(0), x(1))),
    }
}

fn apply_int(meaning: &IntMeaning, dtype: DType, args: &[Scalar]) -> Result<Scalar, DivisionByZero> {
    let x = |n: usize| args[n].as_i64();
    Ok(match meaning {
        IntMeaning::One(f) => Scalar::Int(f(x(0))),
        IntMeaning::Two(f) => Scalar::Int(f(x(0), x(1))),
        IntMeaning::Typed(f) => Scalar::Int(f(dtype, x(0), args.get(1).map_or(0, |b| b.as_i64()))),
        IntMeaning::Division(_) if x(1) == 0 => return Err(DivisionByZero),
        IntMeaning::Division(f) => Scalar::Int(f(x(0), x(1))),
        IntMeaning::Compare(f) => Scalar::Bool(f(x(0), x(1))),
        IntMeaning::Three(f) => Scalar::Int(f(x(0), x(1), x(2))),
    })
}

#[cfg(test)]
mod identities;
#[cfg(test)]
mod tests;
