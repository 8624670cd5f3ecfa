//! Special functions: those that are made of others, and those that are torch's own kernels with a slope by Ops.

use super::operator::{Operator, int};
use super::shared::{real, sum_over};
use super::slope::sloped;
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::{Arg, NodeId};
use ox_ir::{DType, PointOp, Sym};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

pub const ROWS: &[Surface] = &[
    fresh(&["special.entr"], "input", entr),
    fresh(&["special.ndtr"], "input", ndtr),
    fresh(&["mvlgamma", "special.multigammaln"], "input, p", multigammaln),
    fresh(&["erfinv", "special.erfinv"], "input", |b, a| {
        kernel(b, a, "aten::erfinv", |_, _, y| Ok(1.0 / (FRAC_2_SQRT_PI * exp(-y.square()))))
    }),
    fresh(&["special.erfcx"], "input", |b, a| kernel(b, a, "aten::special_erfcx", |_, x, y| Ok(2.0 * x * y - FRAC_2_SQRT_PI))),
    fresh(&["special.ndtri"], "input", |b, a| {
        kernel(b, a, "aten::special_ndtri", |_, _, y| Ok((2.0 * PI).sqrt() * exp(y.square() / 2.0)))
    }),
    fresh(&["special.log_ndtr"], "input", |b, a| {
        kernel(b, a, "aten::special_log_ndtr", |_, x, y| Ok(exp(-(y + x.square() / 2.0)) / (2.0 * PI).sqrt()))
    }),
    fresh(&["i0", "special.i0"], "input", |b, a| {
        kernel(b, a, "aten::i0", |b, x, _| Ok(called(b, "aten::special_i1", x)?.into()))
    }),
    fresh(&["special.i0e"], "input", |b, a| {
        kernel(b, a, "aten::special_i0e", |b, x, y| {
            let other = called(b, "aten::special_i1e", x.clone())?;
            Ok(Expr::Node(other) - sign(x) * y)
        })
    }),
    fresh(&["special.i1"], "input", |b, a| {
        kernel(b, a, "aten::special_i1", |b, x, y| {
            beside_zero(b, x, |b, x| Ok(Expr::Node(called(b, "aten::i0", x.clone())?) - y / x))
        })
    }),
    fresh(&["special.i1e"], "input", |b, a| {
        kernel(b, a, "aten::special_i1e", |b, x, y| {
            beside_zero(b, x, |b, x| Ok(Expr::Node(called(b, "aten::special_i0e", x.clone())?) - y * (sign(x.clone()) + 1.0 / x)))
        })
    }),
    fresh(&["digamma", "special.digamma", "special.psi"], "input", |b, a| {
        kernel(b, a, "aten::digamma", |b, x, _| {
            let x = x.build(b)?;
            Ok(polygamma(b, 1, x)?.into())
        })
    }),
    fresh(&["Tensor.polygamma"], "input, n", polygamma_row),
    fresh(&["polygamma", "special.polygamma"], "n, input", polygamma_row),
];

fn exp(x: Expr) -> Expr {
    x.unary(PointOp::Exp)
}

fn sign(x: Expr) -> Expr {
    x.unary(PointOp::Sign)
}

/// The argument in the type that the function is computed and returned in.
fn float_input(b: &mut Builder, a: &Bound) -> OpResult<NodeId> {
    let x = real(b, a, "input")?;
    Ok(b.cast(x, b.float_type(b.dtype(x))))
}

/// A function of one float tensor by torch's kernel of that name.
fn called(b: &mut Builder, name: &'static str, x: Expr) -> OpResult<NodeId> {
    let x = x.build(b)?;
    Ok(Operator::new(name, "", []).call(b, &[x], &[(b.dtype(x), b.shape(x))])?[0])
}

/// `slope` is given the argument and the result.
fn kernel(
    b: &mut Builder,
    a: &Bound,
    name: &'static str,
    slope: impl FnOnce(&mut Builder, Expr, Expr) -> OpResult<Expr>,
) -> OpResult<Value> {
    let x = float_input(b, a)?;
    let y = called(b, name, Expr::Node(x))?;
    let slope = slope(b, Expr::Node(x), Expr::Node(y))?;
    Ok(sloped(b, y, x, slope)?.into())
}

/// The slopes of odd Bessel functions are a half at zero, and as good as that where `1 / x` says nothing any more.
fn beside_zero(b: &mut Builder, x: Expr, slope: impl FnOnce(&mut Builder, Expr) -> OpResult<Expr>) -> OpResult<Expr> {
    let at = x.build(b)?;
    let eps = if b.dtype(at) == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let far = Expr::Node(at).unary(PointOp::Abs).gt(eps);
    let slope = slope(b, far.clone().pick(at, eps))?;
    Ok(far.pick(slope, 0.5))
}

/// `-x log x`, which is 0 at 0 and `-inf` below.
fn entr(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = float_input(b, a)?;
    let value = b.in_compute_type(x, |b, x| {
        let at = || Expr::Node(x);
        let log = || at().unary(PointOp::Log);
        let outside = at().eq(0.0).pick(0.0, f64::NEG_INFINITY);
        let inside = at().gt(0.0).or(at().unary(PointOp::IsNan));
        let y = inside.pick(-at() * log(), outside).build(b)?;
        sloped(b, y, x, -(1.0 + log()))
    })?;
    Ok(value.into())
}

/// The normal distribution below x. Eager rounds after each step.
fn ndtr(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = float_input(b, a)?;
    let scaled = b.multiply(&x.into(), &FRAC_1_SQRT_2.into())?;
    let erf = b.unary(PointOp::Erf, scaled)?;
    let raised = b.binary(PointOp::Add, erf, 1.0)?;
    Ok(b.multiply(&raised.into(), &0.5.into())?.into())
}

/// `log gamma` at p places half a step apart, summed up.
fn multigammaln(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    if b.dtype(a.tensor("input")?) == DType::Bool {
        return Err(OpError::runtime("The input tensor may not be a boolean tensor."));
    }
    let (x, p) = (float_input(b, a)?, a.const_int("p")?);
    if !(1..=64).contains(&p) || b.dtype(x) != b.dtype(x).compute() {
        return Err(OpError::unsupported("multigammaln of such an order or type"));
    }
    let rank = b.rank(x);
    let places = b.counting(&Sym::from(p), b.dtype(x))?;
    let steps = (Expr::Node(places) * 0.5 + (0.5 - p as f64 / 2.0)).build(b)?;
    let rows = b.unsqueeze(x, rank)?;
    let places = b.binary(PointOp::Add, rows, steps)?;
    let logs = b.unary(PointOp::Lgamma, places)?;
    let total = sum_over(b, logs, &[rank])?;
    let total = b.squeeze(total, &[rank])?;
    let constant = (p * (p - 1)) as f64 * PI.ln() / 4.0;
    Ok(b.binary(PointOp::Add, total, constant)?.into())
}

fn polygamma(b: &mut Builder, n: i64, x: NodeId) -> OpResult<NodeId> {
    let operator = Operator { args: vec![int(n), Arg::Tensor(0)], ..Operator::new("aten::polygamma", "", []) };
    Ok(operator.call(b, &[x], &[(b.dtype(x), b.shape(x))])?[0])
}

fn polygamma_row(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, n) = (float_input(b, a)?, a.const_int("n")?);
    if n < 0 {
        return Err(OpError::runtime("polygamma(n, x) does not support negative n."));
    }
    let y = polygamma(b, n, x)?;
    let slope = polygamma(b, n + 1, x)?;
    Ok(sloped(b, y, x, slope)?.into())
}
