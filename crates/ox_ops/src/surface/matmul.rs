//! Matrix products in all their forms. A weight of two dimensions against a batch is ONE product on the flattened rows.

use super::shared::{real, sum_over, wide};
use super::{Bound, Surface, fresh};
use crate::builder::{Builder, broadcast_shapes};
use crate::error::{OpError, OpResult};
use crate::infer::{differ, shape_text};
use crate::promote::torch_name;
use crate::value::Value;
use ox_ir::graph::{NodeId, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["matmul", "linalg.matmul"], "input, other", |b, args| both(b, args, "input", "other", product)),
    fresh(&["mm"], "input, mat2", |b, args| ranked(b, args, ("input", 2), ("mat2", 2), product)),
    fresh(&["bmm"], "input, mat2", |b, args| ranked(b, args, ("input", 3), ("mat2", 3), batched)),
    fresh(&["mv"], "input, vec", |b, args| ranked(b, args, ("input", 2), ("vec", 1), product)),
    fresh(&["dot"], "input, tensor", |b, args| ranked(b, args, ("input", 1), ("tensor", 1), dot)),
    fresh(&["vdot"], "input, other", |b, args| ranked(b, args, ("input", 1), ("other", 1), dot)),
    fresh(&["inner"], "input, other", |b, args| both(b, args, "input", "other", inner)),
    fresh(&["outer", "ger"], "input, vec2", |b, args| ranked(b, args, ("input", 1), ("vec2", 1), outer)),
    fresh(&["linear"], "input, weight, bias=None", linear),
    fresh(&["bilinear"], "input1, input2, weight, bias=None", bilinear),
    fresh(&["linalg.vecdot"], "input, other, *, dim=-1", vecdot),
    fresh(&["kron"], "input, other", |b, args| both(b, args, "input", "other", kron)),
    fresh(&["chain_matmul"], "*matrices", |b, args| chain(b, args, "matrices")),
    fresh(&["linalg.multi_dot"], "tensors", |b, args| chain(b, args, "tensors")),
];

type Product = fn(&mut Builder, NodeId, NodeId) -> OpResult<NodeId>;

fn both(b: &mut Builder, args: &mut Bound, first: &str, second: &str, f: Product) -> OpResult<Value> {
    let (x, y) = (real(b, args, first)?, real(b, args, second)?);
    Ok(f(b, x, y)?.into())
}

fn ranked(b: &mut Builder, args: &mut Bound, first: (&str, usize), second: (&str, usize), f: Product) -> OpResult<Value> {
    for (name, rank) in [first, second] {
        let given = b.rank(real(b, args, name)?);
        if given != rank {
            return Err(OpError::runtime(format!("{name} must be {rank}-dimensional, got {given}-dimensional")));
        }
    }
    both(b, args, first.0, second.0, f)
}

/// What a product may be taken of: one type for both, not bool.
pub fn check_types(b: &Builder, x: NodeId, y: NodeId) -> OpResult<()> {
    let (a, c) = (b.dtype(x), b.dtype(y));
    if a != c {
        let message = format!("expected m1 and m2 to have the same dtype, but got: {} != {}", torch_name(a), torch_name(c));
        return Err(OpError::runtime(message));
    }
    if a == DType::Bool {
        return Err(OpError::unsupported("a product of bools"));
    }
    Ok(())
}

fn check_inner(b: &Builder, x: NodeId, y: NodeId) -> OpResult<()> {
    let (a, c) = (b.shape(x), b.shape(y));
    if differ(&a[a.len() - 1], &c[c.len() - 2]) {
        let message = format!("mat1 and mat2 shapes cannot be multiplied ({} and {})", shape_text(&a), shape_text(&c));
        return Err(OpError::runtime(message));
    }
    Ok(())
}

/// `torch.matmul`.
pub fn product(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    check_types(b, x, y)?;
    match (b.rank(x), b.rank(y)) {
        (0, _) | (_, 0) => Err(OpError::runtime("both arguments to matmul need to be at least 1D")),
        (1, 1) => dot(b, x, y),
        (1, rank) => {
            let row = b.unsqueeze(x, 0)?;
            let z = product(b, row, y)?;
            b.squeeze(z, &[rank - 2])
        }
        (rank, 1) => {
            let column = b.unsqueeze(y, 1)?;
            let z = product(b, x, column)?;
            b.squeeze(z, &[rank - 1])
        }
        (_, 2) => by_matrix(b, x, y),
        _ => batched(b, x, y),
    }
}

/// x [.., m, k] by y [k, n]: one product of the flattened rows.
fn by_matrix(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    check_inner(b, x, y)?;
    let rows = flat_rows(b, x)?;
    let z = b.matmul(rows, y)?;
    unflatten(b, x, z)
}

/// [.., k] as [rows, k].
pub fn flat_rows(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let (last, outer) = split_last(b, x)?;
    let rows: Sym = outer.iter().product();
    b.reshape(x, &[rows, last])
}

/// [rows, n] as [.., n], with the leading dimensions of `like`.
pub fn unflatten(b: &mut Builder, like: NodeId, z: NodeId) -> OpResult<NodeId> {
    let (_, mut shape) = split_last(b, like)?;
    shape.push(b.ty(z).shape[1].clone());
    b.reshape(z, &shape)
}

fn split_last(b: &Builder, x: NodeId) -> OpResult<(Sym, Shape)> {
    let mut shape = b.shape(x);
    let last = shape.pop().ok_or_else(|| OpError::runtime("a matrix product of a number"))?;
    Ok((last, shape))
}

/// Both have at least two dimensions; leading ones are broadcast.
pub fn batched(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    check_types(b, x, y)?;
    check_inner(b, x, y)?;
    let (a, c) = (b.shape(x), b.shape(y));
    let (batch_x, batch_y) = (&a[..a.len() - 2], &c[..c.len() - 2]);
    if batch_y.iter().all(|s| s.is_one()) && batch_y.len() <= batch_x.len() {
        let matrix = b.reshape(y, &c[c.len() - 2..])?;
        return by_matrix(b, x, matrix);
    }
    let batch = broadcast_shapes(&[batch_x, batch_y])?;
    let x = spread(b, x, &batch)?;
    let y = spread(b, y, &batch)?;
    b.matmul(x, y)
}

/// The matrices of `x` under the batch dimensions `batch`.
fn spread(b: &mut Builder, x: NodeId, batch: &[Sym]) -> OpResult<NodeId> {
    let own = b.shape(x);
    let shape: Vec<Sym> = batch.iter().chain(&own[own.len() - 2..]).cloned().collect();
    b.broadcast_to(x, &shape)
}

/// The sum of products over the last dimension, in the wide type.
fn summed_product(b: &mut Builder, x: NodeId, y: NodeId, dim: usize) -> OpResult<NodeId> {
    check_types(b, x, y)?;
    let dtype = b.dtype(x);
    let (x, y) = (wide(b, x), wide(b, y));
    let z = b.binary(PointOp::Mul, x, y)?;
    let z = sum_over(b, z, &[dim])?;
    let z = b.cast(z, dtype);
    b.squeeze(z, &[dim])
}

fn dot(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    if differ(&b.ty(x).shape[0], &b.ty(y).shape[0]) {
        return Err(OpError::runtime("inconsistent tensor size, expected tensors of equal size for dot"));
    }
    summed_product(b, x, y, 0)
}

fn vecdot(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y) = (real(b, args, "input")?, real(b, args, "other")?);
    let pair = b.broadcast(&[x, y])?;
    let dim = args.dim("dim", b.rank(pair[0]))?;
    Ok(summed_product(b, pair[0], pair[1], dim)?.into())
}

/// Last dimension against last dimension.
fn inner(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    if b.rank(x) == 0 || b.rank(y) == 0 {
        return b.binary(PointOp::Mul, x, y);
    }
    check_types(b, x, y)?;
    let shape: Shape = split_last(b, x)?.1.into_iter().chain(split_last(b, y)?.1).collect();
    let (rows, columns) = (flat_rows(b, x)?, flat_rows(b, y)?);
    let columns = b.transpose(columns, 0, 1)?;
    check_inner(b, rows, columns)?;
    let z = b.matmul(rows, columns)?;
    b.reshape(z, &shape)
}

fn outer(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    let column = b.unsqueeze(x, 1)?;
    b.binary(PointOp::Mul, column, y)
}

fn linear(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, weight) = (real(b, args, "input")?, real(b, args, "weight")?);
    let bias = super::shared::opt_real(b, args, "bias")?;
    Ok(linear_of(b, x, weight, bias)?.into())
}

/// `x @ weight^T + bias`.
fn linear_of(b: &mut Builder, x: NodeId, weight: NodeId, bias: Option<NodeId>) -> OpResult<NodeId> {
    if b.rank(weight) == 1 && bias.is_none() {
        return product(b, x, weight);
    }
    if b.rank(weight) != 2 || b.rank(x) == 0 {
        return Err(OpError::unsupported(format!("linear with a weight of {} dimensions", b.rank(weight))));
    }
    check_types(b, x, weight)?;
    let matrix = b.transpose(weight, 0, 1)?;
    let rows = flat_rows(b, x)?;
    check_inner(b, rows, matrix)?;
    let z = match bias {
        None => b.matmul(rows, matrix)?,
        Some(bias) => {
            check_types(b, x, bias)?;
            if b.ty(bias).shape[..] != b.ty(weight).shape[..1] {
                return Err(OpError::unsupported("linear with a bias that is not one number a column"));
            }
            let one = Scalar::Float(1.0);
            b.matmul_bias(rows, matrix, bias, one, one)?
        }
    };
    unflatten(b, x, z)
}

/// `out[o] = x1^T weight[o] x2 + bias[o]`: one product over all of x1, then a sum over x2.
fn bilinear(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y, weight) = (real(b, args, "input1")?, real(b, args, "input2")?, real(b, args, "weight")?);
    if b.rank(x) == 0 || b.rank(x) != b.rank(y) || b.rank(weight) != 3 || !b.dtype(x).is_float() {
        return Err(OpError::unsupported("bilinear of such tensors"));
    }
    check_types(b, x, y)?;
    check_types(b, x, weight)?;
    let (dtype, w) = (b.dtype(x), b.shape(weight));
    let mut shape = split_last(b, x)?.1;
    let (x, y) = (flat_rows(b, x)?, flat_rows(b, y)?);
    let matrix = b.permute(weight, &[1, 0, 2])?;
    let matrix = b.reshape(matrix, &[w[1].clone(), &w[0] * &w[2]])?;
    let (x, matrix) = (wide(b, x), wide(b, matrix));
    check_inner(b, x, matrix)?;
    let half = b.matmul(x, matrix)?;
    let half = b.reshape(half, &[b.shape(x)[0].clone(), w[0].clone(), w[2].clone()])?;
    let (y, rows) = (wide(b, y), b.shape(x)[0].clone());
    let y = b.reshape(y, &[rows.clone(), Sym::ONE, w[2].clone()])?;
    let products = b.binary(PointOp::Mul, half, y)?;
    let mut z = sum_over(b, products, &[2])?;
    z = b.squeeze(z, &[2])?;
    if let Some(bias) = super::shared::opt_real(b, args, "bias")? {
        let bias = wide(b, bias);
        z = b.binary(PointOp::Add, z, bias)?;
    }
    let z = b.cast(z, dtype);
    shape.push(w[0].clone());
    Ok(b.reshape(z, &shape)?.into())
}

/// Every element of `x` times all of `y`.
fn kron(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    let rank = b.rank(x).max(b.rank(y));
    let lead = |shape: Shape| -> Vec<Sym> { vec![Sym::ONE; rank - shape.len()].into_iter().chain(shape).collect() };
    let (a, c) = (lead(b.shape(x)), lead(b.shape(y)));
    let coarse: Vec<Sym> = a.iter().flat_map(|s| [s.clone(), Sym::ONE]).collect();
    let fine: Vec<Sym> = c.iter().flat_map(|s| [Sym::ONE, s.clone()]).collect();
    let (x, y) = (b.reshape(x, &coarse)?, b.reshape(y, &fine)?);
    let z = b.binary(PointOp::Mul, x, y)?;
    let shape: Vec<Sym> = a.iter().zip(&c).map(|(s, t)| s * t).collect();
    b.reshape(z, &shape)
}

fn chain(b: &mut Builder, args: &mut Bound, name: &str) -> OpResult<Value> {
    let factors = args.tensors(name)?;
    if factors.iter().any(|f| b.dtype(*f).is_complex()) {
        return Err(OpError::unsupported("complex tensors"));
    }
    let (first, rest) = factors.split_first().ok_or_else(|| OpError::runtime("a product of no matrices"))?;
    let mut z = *first;
    for factor in rest {
        z = product(b, z, *factor)?;
    }
    Ok(z.into())
}
