//! Products that are added to something: `beta * input + alpha * (a @ b)`.

use super::matmul::{batched, check_types, product};
use super::shared::{real, sum_over, wide};
use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::infer::differ;
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["addmm"], "input, mat1, mat2, *, beta=1, alpha=1", addmm),
    fresh(&["baddbmm"], "input, batch1, batch2, *, beta=1, alpha=1", baddbmm),
    fresh(&["addbmm"], "input, batch1, batch2, *, beta=1, alpha=1", addbmm),
    fresh(&["addmv"], "input, mat, vec, *, beta=1, alpha=1", addmv),
    fresh(&["addr"], "input, vec1, vec2, *, beta=1, alpha=1", addr),
];

struct Factors {
    input: NodeId,
    a: NodeId,
    b: NodeId,
    alpha: Scalar,
    beta: Scalar,
}

fn factors(b: &Builder, args: &Bound, names: [&str; 2], ranks: [usize; 2]) -> OpResult<Factors> {
    let input = real(b, args, "input")?;
    let [first, second] = [real(b, args, names[0])?, real(b, args, names[1])?];
    if [b.rank(first), b.rank(second)] != ranks {
        return Err(OpError::runtime(format!("{names:?} must have {ranks:?} dimensions")));
    }
    if [input, first, second].iter().all(|t| b.dtype(*t) == DType::Bool) {
        return Err(OpError::unsupported("products of bools"));
    }
    check_types(b, first, second)?;
    check_types(b, input, first)?;
    Ok(Factors { input, a: first, b: second, alpha: args.scalar("alpha")?, beta: args.scalar("beta")? })
}

/// `beta * input + alpha * value`, wide, with one rounding; a `beta` of zero ignores even NaN.
fn combined(b: &mut Builder, f: &Factors, value: NodeId) -> OpResult<NodeId> {
    let dtype = b.dtype(value);
    let value = wide(b, value);
    let mut sum = scaled(b, value, f.alpha)?;
    if f.beta.as_f64() != 0.0 {
        let input = wide(b, f.input);
        let input = scaled(b, input, f.beta)?;
        let shape = b.shape(sum);
        let input = b.broadcast_to(input, &shape)?;
        sum = b.point(PointOp::Add, &[input, sum])?;
    }
    Ok(b.cast(sum, dtype))
}

fn scaled(b: &mut Builder, x: NodeId, factor: Scalar) -> OpResult<NodeId> {
    if factor.as_f64() == 1.0 {
        return Ok(x);
    }
    if !b.dtype(x).is_float() && matches!(factor, Scalar::Float(_)) {
        return Err(OpError::unsupported("whole numbers times a fraction"));
    }
    b.binary(PointOp::Mul, x, Operand::Scalar(factor))
}

/// Whether the library can add `input` to rows of a product: a vector over the columns, or a matrix that broadcasts to the result.
fn fits_as_bias(b: &Builder, input: NodeId, result: [&Sym; 2]) -> bool {
    let shape = b.shape(input);
    let want = &result[2 - shape.len().min(2)..];
    (1..=2).contains(&shape.len()) && shape.iter().zip(want).all(|(s, r)| s == *r || s.is_one())
}

fn addmm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["mat1", "mat2"], [2, 2])?;
    let (m, n) = (b.ty(f.a).shape[0].clone(), b.ty(f.b).shape[1].clone());
    if differ(&b.ty(f.a).shape[1], &b.ty(f.b).shape[0]) {
        return Err(OpError::runtime("mat1 and mat2 shapes cannot be multiplied"));
    }
    let native = b.dtype(f.a).is_float() && f.beta.as_f64() != 0.0;
    if native && fits_as_bias(b, f.input, [&m, &n]) {
        let as_float = |s: Scalar| Scalar::Float(s.as_f64());
        return Ok(b.matmul_bias(f.a, f.b, f.input, as_float(f.alpha), as_float(f.beta))?.into());
    }
    let value = product(b, f.a, f.b)?;
    Ok(combined(b, &f, value)?.into())
}

fn baddbmm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["batch1", "batch2"], [3, 3])?;
    let value = batched(b, f.a, f.b)?;
    Ok(combined(b, &f, value)?.into())
}

fn addbmm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["batch1", "batch2"], [3, 3])?;
    let value = batched(b, f.a, f.b)?;
    let dtype = b.dtype(value);
    let value = wide(b, value);
    let total = sum_over(b, value, &[0])?;
    let total = b.squeeze(total, &[0])?;
    let total = b.cast(total, dtype);
    Ok(combined(b, &f, total)?.into())
}

fn addmv(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["mat", "vec"], [2, 1])?;
    let value = product(b, f.a, f.b)?;
    Ok(combined(b, &f, value)?.into())
}

fn addr(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["vec1", "vec2"], [1, 1])?;
    let column = b.unsqueeze(f.a, 1)?;
    let value = b.binary(PointOp::Mul, column, f.b)?;
    Ok(combined(b, &f, value)?.into())
}
