//! Products that are added to something: `beta * input + alpha * (a @ b)`.

use super::matmul::{batched, check_types, product};
use super::shared::{real, wide};
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
    let product = scaled(b, value, f.alpha)?;
    let is_ignored = f.beta.as_f64() == 0.0;
    if is_ignored && !dtype.is_float() {
        return Ok(b.cast(product, dtype));
    }
    let input = wide(b, f.input);
    let input = scaled(b, input, f.beta)?;
    let shape = b.shape(product);
    let input = b.broadcast_to(input, &shape)?;
    let sum = b.point(PointOp::Add, &[input, product])?;
    // The gradient of what is ignored is there, and zero.
    let sum = if is_ignored { b.graft(product, sum)? } else { sum };
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
    if fits_as_bias(b, f.input, [&m, &n])
        && let Some(sum) = added(b, &f, f.input, f.a, f.b)?
    {
        return Ok(sum.into());
    }
    let value = product(b, f.a, f.b)?;
    Ok(combined(b, &f, value)?.into())
}

/// The library's own sum: rounded once, and without a pass of its own. Whole numbers and a `beta` of zero are not for it.
fn added(b: &mut Builder, f: &Factors, input: NodeId, x: NodeId, y: NodeId) -> OpResult<Option<NodeId>> {
    if !b.dtype(x).is_float() || f.beta.as_f64() == 0.0 {
        return Ok(None);
    }
    let as_float = |s: Scalar| Scalar::Float(s.as_f64());
    b.matmul_bias(x, y, input, as_float(f.alpha), as_float(f.beta)).map(Some)
}

fn baddbmm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["batch1", "batch2"], [3, 3])?;
    let (x, y) = (b.shape(f.a), b.shape(f.b));
    if differ(&x[0], &y[0]) || differ(&x[2], &y[1]) {
        return Err(OpError::runtime("batch1 and batch2 shapes cannot be multiplied"));
    }
    if x[0] == y[0] {
        let input = b.broadcast_to(f.input, &[x[0].clone(), x[1].clone(), y[2].clone()])?;
        if let Some(sum) = added(b, &f, input, f.a, f.b)? {
            return Ok(sum.into());
        }
    }
    let value = batched(b, f.a, f.b)?;
    Ok(combined(b, &f, value)?.into())
}

/// The sum over the batch is a product of longer rows: [b, n, k] and [b, k, p] as [n, b * k] and [b * k, p].
fn addbmm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["batch1", "batch2"], [3, 3])?;
    let (x, y) = (b.shape(f.a), b.shape(f.b));
    if differ(&x[0], &y[0]) || differ(&x[2], &y[1]) {
        return Err(OpError::runtime("batch1 and batch2 shapes cannot be multiplied"));
    }
    let rows = b.permute(f.a, &[1, 0, 2])?;
    let rows = b.reshape(rows, &[x[1].clone(), &x[0] * &x[2]])?;
    let columns = b.reshape(f.b, &[&y[0] * &y[1], y[2].clone()])?;
    let input = b.broadcast_to(f.input, &[x[1].clone(), y[2].clone()])?;
    if let Some(sum) = added(b, &f, input, rows, columns)? {
        return Ok(sum.into());
    }
    let value = product(b, rows, columns)?;
    Ok(combined(b, &f, value)?.into())
}

fn addmv(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["mat", "vec"], [2, 1])?;
    let rows = b.shape(f.a)[0].clone();
    if differ(&b.shape(f.a)[1], &b.shape(f.b)[0]) {
        return Err(OpError::runtime("mat and vec sizes do not fit"));
    }
    let input = b.broadcast_to(f.input, std::slice::from_ref(&rows))?;
    let (input, column) = (b.unsqueeze(input, 1)?, b.unsqueeze(f.b, 1)?);
    if let Some(sum) = added(b, &f, input, f.a, column)? {
        return Ok(b.squeeze(sum, &[1])?.into());
    }
    let value = product(b, f.a, f.b)?;
    Ok(combined(b, &f, value)?.into())
}

fn addr(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let f = factors(b, args, ["vec1", "vec2"], [1, 1])?;
    let dtype = b.dtype(f.a);
    let (column, row) = (b.unsqueeze(f.a, 1)?, wide(b, f.b));
    let column = wide(b, column);
    let value = b.binary(PointOp::Mul, column, row)?;
    let sum = combined(b, &f, value)?;
    Ok(b.cast(sum, dtype).into())
}
