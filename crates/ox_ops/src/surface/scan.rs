//! Running sums and products, and differences.

use super::shared::{real, wide};
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{NodeId, ReduceOp};
use ox_ir::{DType, PointOp, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["cumsum"], "input, dim, *, dtype=None", |b, args| running(b, args, ReduceOp::Sum)),
    fresh(&["cumprod"], "input, dim, *, dtype=None", |b, args| running(b, args, ReduceOp::Prod)),
    fresh(&["diff"], "input, n=1, dim=-1, prepend=None, append=None", diff),
];

/// Whole numbers are summed in i64, halves in f32 with one rounding of each partial result.
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
    let x = wide(b, x);
    let scanned = b.scan(op, x, dim)?;
    Ok(b.cast(scanned, dtype).into())
}

fn diff(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let input = real(b, args, "input")?;
    if b.rank(input) == 0 {
        return Err(OpError::runtime("diff expects input to be at least one-dimensional"));
    }
    let dim = args.dim("dim", b.rank(input))?;
    let mut x = joined(b, args, dim)?;
    let times = args.const_int("n")?;
    if times < 0 {
        return Err(OpError::runtime(format!("order must be non-negative but got {times}")));
    }
    for _ in 0..times {
        x = difference(b, x, dim)?;
    }
    Ok(x.into())
}

/// The input between what is to be put in front of it and behind it.
fn joined(b: &mut Builder, args: &Bound, dim: usize) -> OpResult<NodeId> {
    let mut parts = Vec::with_capacity(3);
    for name in ["prepend", "input", "append"] {
        parts.extend(args.opt_tensor(name)?);
    }
    let same = parts.iter().all(|p| b.dtype(*p) == b.dtype(parts[0]) && b.rank(*p) == b.rank(parts[0]));
    if !same {
        return Err(OpError::unsupported("diff of tensors of different types"));
    }
    b.cat(&parts, dim)
}

fn difference(b: &mut Builder, x: NodeId, dim: usize) -> OpResult<NodeId> {
    let len = &b.ty(x).shape[dim] - 1;
    if len.bounds().1 < 0 {
        return Ok(x);
    }
    let later = b.slice_dim(x, dim, &Sym::ONE, &len, 1)?;
    let earlier = b.slice_dim(x, dim, &Sym::ZERO, &len, 1)?;
    let op = if b.dtype(x) == DType::Bool { PointOp::Xor } else { PointOp::Sub };
    b.point(op, &[later, earlier])
}
