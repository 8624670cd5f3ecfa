//! Running sums and products, and linear recurrences.

use super::shared::{real, wide};
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::ReduceOp;
use ox_ir::{DType, Device, PointOp};

pub const ROWS: &[Surface] = &[
    fresh(&["cumsum"], "input, dim, *, dtype=None", |b, args| running(b, args, ReduceOp::Sum)),
    fresh(&["cumprod"], "input, dim, *, dtype=None", |b, args| running(b, args, ReduceOp::Prod)),
    fresh(&["oxytorch.library.recurrence"], "decay, x, dim", recurrence),
];

/// Of states of a sequence: what an associative scan with `(a, x), (b, y) -> (a * b, b * x + y)` gives. The first decay has nothing to
/// multiply, whatever it is.
fn recurrence(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (decay, x) = (real(b, args, "decay")?, real(b, args, "x")?);
    let dim = args.dim("dim", b.rank(x))?;
    let dtype = b.dtype(x);
    let (decay, x) = (wide(b, decay), wide(b, x));
    let shape = b.shape(x);
    let place = b.iota(&shape, dim)?;
    let first = b.binary(PointOp::Eq, place, 0i64)?;
    let decay = Expr::Node(first).pick(0.0, decay).build(b)?;
    let states = b.recurrence(x, decay, dim)?;
    Ok(b.cast(states, dtype).into())
}

/// Whole numbers are summed in i64, halves in f32, and f32 on the CPU in f64, with one rounding of each partial result.
fn running(b: &mut Builder, args: &mut Bound, op: ReduceOp) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dim = args.dim("dim", b.rank(x))?;
    let own = b.dtype(x);
    let dtype = args.opt_dtype("dtype")?.unwrap_or(if own.is_float() { own } else { DType::I64 });
    if dtype.is_complex() || dtype == DType::Bool {
        return Err(OpError::unsupported(format!("a running sum in {dtype}")));
    }
    let x = b.cast(x, dtype);
    if b.rank(x) == 0 {
        return Ok(x.into());
    }
    let x = match (b.device, dtype) {
        (Device::Cpu, DType::F32) => b.cast(x, DType::F64),
        _ => wide(b, x),
    };
    let scanned = b.scan(op, x, dim)?;
    Ok(b.cast(scanned, dtype).into())
}
