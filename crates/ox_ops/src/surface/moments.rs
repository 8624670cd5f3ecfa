//! Variances, standard deviations and vector norms.

use super::shared::{
    centred, count_in, drop_dims, real, reduced_dims, require_float, size_operand, square, sum_over, truth, tuple, wide,
};
use super::slope::shared_out;
use super::{Bound, Operand, Surface, fresh, wrap_dims};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::{Value, ValueOf};
use ox_ir::graph::{NodeId, ReduceOp};
use ox_ir::{DType, Device, PointOp, Scalar, Sym};

const VARIANCE: &str = "input, dim=None, unbiased=None, keepdim=False, *, correction=None";

pub const ROWS: &[Surface] = &[
    fresh(&["var"], VARIANCE, |b, args| Ok(variance(b, args, false)?.0.into())),
    fresh(&["std"], VARIANCE, |b, args| Ok(variance(b, args, true)?.0.into())),
    fresh(&["var_mean"], VARIANCE, |b, args| variance(b, args, false).map(|(v, m)| tuple([v, m]))),
    fresh(&["std_mean"], VARIANCE, |b, args| variance(b, args, true).map(|(v, m)| tuple([v, m]))),
    fresh(&["norm"], "input, p=fro, dim=None, keepdim=False, *, dtype=None", norm),
    fresh(
        &["linalg.vector_norm", "aten.linalg_vector_norm"],
        "input, ord=2, dim=None, keepdim=False, *, dtype=None",
        vector_norm,
    ),
    fresh(&["linalg.matrix_norm"], "input, ord=fro, dim=None, keepdim=False, *, dtype=None", matrix_norm),
    fresh(&["linalg.norm"], "input, ord=None, dim=None, keepdim=False, *, dtype=None", linalg_norm),
    fresh(&["dist"], "input, other, p=2", dist),
];

/// torch has three overloads: `var(unbiased)`, `var(dim, unbiased, keepdim)` and `var(dim, correction=..., keepdim=...)`.
struct VarianceArgs {
    dims: Vec<usize>,
    correction: Scalar,
    keepdim: bool,
}

fn variance_args(b: &Builder, args: &Bound, x: NodeId) -> OpResult<VarianceArgs> {
    let rank = b.rank(x);
    let (flag, dims) = match args.value("dim") {
        ValueOf::Bool(unbiased) => (Some(*unbiased), (0..rank).collect()),
        _ if args.has("unbiased") => (Some(args.boolean("unbiased")?), reduced_dims(args, "dim", rank)?),
        _ => (None, reduced_dims(args, "dim", rank)?),
    };
    let correction = match flag {
        Some(unbiased) => Scalar::Int(unbiased as i64),
        None if args.has("correction") => args.scalar("correction")?,
        None => Scalar::Int(1),
    };
    Ok(VarianceArgs { dims, correction, keepdim: args.boolean("keepdim")? })
}

/// The divisor: never below zero, so that too few elements give NaN.
fn degrees_of_freedom(count: &Sym, correction: Scalar) -> OpResult<Operand> {
    match (count.as_const(), correction) {
        (Some(n), correction) => Ok(Operand::from((n as f64 - correction.as_f64()).max(0.0))),
        (None, Scalar::Float(c)) if c.fract() != 0.0 => Err(OpError::unsupported("a fractional correction of an unknown size")),
        (None, correction) => Ok(size_operand(&(count - correction.as_i64()).greater(&Sym::ZERO))),
    }
}

/// Eager's kernel for a CPU adds up in f64, whatever the type: squares of what is above 1e19 do not fit into an f32.
fn widest(b: &mut Builder, x: NodeId) -> NodeId {
    match (b.ty(x).device, b.dtype(x)) {
        (Device::Cpu, DType::F32 | DType::BF16) => b.cast(x, DType::F64),
        _ => wide(b, x),
    }
}

fn variance(b: &mut Builder, args: &Bound, root: bool) -> OpResult<(NodeId, NodeId)> {
    let x = real(b, args, "input")?;
    if !b.dtype(x).is_float() {
        return Err(OpError::runtime("std and var only support floating point and complex dtypes"));
    }
    let dtype = b.dtype(x);
    let VarianceArgs { dims, correction, keepdim } = variance_args(b, args, x)?;
    let count = count_in(b, x, &dims);
    let divisor = degrees_of_freedom(&count, correction)?;
    let x = widest(b, x);
    let (centred, mut mean) = centred(b, x, &dims)?;
    let squares = square(b, centred)?;
    let total = sum_over(b, squares, &dims)?;
    if !count.is_one() {
        mean = mean_of_a_walk(b, (x, mean), total, &dims)?;
    }
    let mut spread = b.binary(PointOp::Div, total, divisor.clone())?;
    let divisor = b.materialise(&divisor, b.dtype(x));
    if root {
        spread = b.unary(PointOp::Sqrt, spread)?;
        let share = Expr::Node(spread).eq(0.0).pick(0.0, Expr::Node(centred) / (Expr::Node(spread) * divisor));
        spread = shared_out(b, spread, x, share, &dims)?;
    } else {
        spread = shared_out(b, spread, x, 2.0 * Expr::Node(centred) / divisor, &dims)?;
    }
    let mut finish = |value: NodeId| {
        let value = b.cast(value, dtype);
        drop_dims(b, value, &dims, keepdim)
    };
    Ok((finish(spread)?, finish(mean)?))
}

/// Eager finds mean and variance in one walk: what comes behind an infinity is compared with the mean so far, and both are lost. An
/// infinity that comes last, and alone, is the mean. `total` is of the squares: NaN where one is lost.
fn mean_of_a_walk(b: &mut Builder, (x, mean): (NodeId, NodeId), total: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let mut lost = b.unary(PointOp::IsNan, total)?;
    if let Some(last) = last_of(b, x, dims)? {
        let infinite = |b: &mut Builder, x: NodeId| {
            let size = b.unary(PointOp::Abs, x)?;
            b.binary(PointOp::Eq, size, f64::INFINITY)
        };
        let (all, last) = (infinite(b, x)?, infinite(b, last)?);
        let all = b.cast(all, b.dtype(x));
        let count = sum_over(b, all, dims)?;
        let is_alone = b.binary(PointOp::Eq, count, 1.0)?;
        let is_kept = b.binary(PointOp::And, is_alone, last)?;
        let is_lost = b.unary(PointOp::Not, is_kept)?;
        lost = b.binary(PointOp::And, lost, is_lost)?;
    }
    b.choose(lost, total, mean)
}

/// The last element of what is reduced, with the dimensions at size 1; None where there may be none.
fn last_of(b: &mut Builder, x: NodeId, dims: &[usize]) -> OpResult<Option<NodeId>> {
    let mut last = x;
    for &dim in dims {
        let size = b.shape(x)[dim].clone();
        if !size.is_positive() {
            return Ok(None);
        }
        last = b.slice_dim(last, dim, &(&size - 1), &Sym::ONE, 1)?;
    }
    Ok(Some(last))
}

/// The p-norm over `dims`, which stay with size 1, in the type of `x`; computed wide.
pub fn norm_over(b: &mut Builder, x: NodeId, p: f64, dims: &[usize]) -> OpResult<NodeId> {
    let dtype = b.dtype(x);
    let x = wide(b, x);
    let value = match p {
        0.0 => {
            let counted = truth(b, x)?;
            let ones = b.cast(counted, dtype.compute());
            sum_over(b, ones, dims)?
        }
        // Eager leaves out powers and roots then: what is large or small stays what it is.
        _ if count_in(b, x, dims).is_one() => b.unary(PointOp::Abs, x)?,
        2.0 => {
            let squares = square(b, x)?;
            let total = sum_over(b, squares, dims)?;
            b.unary(PointOp::Sqrt, total)?
        }
        _ => norm_of_sizes(b, x, p, dims)?,
    };
    let value = norm_slope(b, value, x, p, dims)?;
    Ok(b.cast(value, dtype))
}

/// Where the norm is zero, so are all slopes.
fn norm_slope(b: &mut Builder, value: NodeId, x: NodeId, p: f64, dims: &[usize]) -> OpResult<NodeId> {
    let (at, norm) = (|| Expr::Node(x), || Expr::Node(value));
    let share = match p {
        0.0 | 1.0 => return Ok(value),
        _ if p.is_infinite() => return Ok(value),
        2.0 => at() / norm(),
        _ => {
            let steep = at().unary(PointOp::Sign) * at().unary(PointOp::Abs).binary(PointOp::Pow, p - 1.0);
            let steep = if p < 1.0 { at().eq(0.0).pick(0.0, steep) } else { steep };
            steep / norm().binary(PointOp::Pow, p - 1.0)
        }
    };
    shared_out(b, value, x, norm().eq(0.0).pick(0.0, share), dims)
}

/// Norms that are made of absolute values.
fn norm_of_sizes(b: &mut Builder, x: NodeId, p: f64, dims: &[usize]) -> OpResult<NodeId> {
    let sizes = b.unary(PointOp::Abs, x)?;
    if p.is_infinite() {
        if dims.iter().any(|d| b.ty(sizes).shape[*d].is_zero()) {
            return Err(OpError::runtime("linalg.vector_norm cannot compute the inf norm on an empty dimension"));
        }
        return b.reduce(if p > 0.0 { ReduceOp::Max } else { ReduceOp::Min }, sizes, dims);
    }
    if p == 1.0 {
        return sum_over(b, sizes, dims);
    }
    let powers = b.binary(PointOp::Pow, sizes, p)?;
    let total = sum_over(b, powers, dims)?;
    b.binary(PointOp::Pow, total, 1.0 / p)
}

fn norm_with(b: &mut Builder, args: &Bound, p: f64) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dtype: Option<DType> = args.opt_dtype("dtype")?;
    let x = dtype.map_or(x, |dtype| b.cast(x, dtype));
    require_float(b, x, "linalg.vector_norm")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let value = norm_over(b, x, p, &dims)?;
    Ok(drop_dims(b, value, &dims, args.boolean("keepdim")?)?.into())
}

fn vector_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    norm_with(b, args, args.float("ord")?)
}

/// `torch.norm`: the Frobenius norm is the 2-norm of all elements; the nuclear norm is not ours.
fn norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    match args.value("p") {
        ValueOf::None => norm_with(b, args, 2.0),
        ValueOf::Str(name) if name == "fro" => norm_with(b, args, 2.0),
        ValueOf::Str(name) if name == "inf" => norm_with(b, args, f64::INFINITY),
        ValueOf::Str(name) => Err(OpError::unsupported(format!("norm '{name}'"))),
        _ => norm_with(b, args, args.float("p")?),
    }
}

/// A matrix norm where `ord` is given for two dimensions; those need singular values or sums in one direction.
fn linalg_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    if !args.has("ord") {
        return norm_with(b, args, 2.0);
    }
    let rank = b.rank(args.tensor("input")?);
    let vector = if args.has("dim") { args.ints("dim")?.len() == 1 } else { rank == 1 };
    if !vector || matches!(args.value("ord"), ValueOf::Str(_)) {
        return matrix_norm(b, args);
    }
    norm_with(b, args, args.float("ord")?)
}

/// Over two dimensions: of all elements, or the largest or smallest sum of a row or a column. Those by singular values are torch's.
fn matrix_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let x = args.opt_dtype("dtype")?.map_or(x, |dtype| b.cast(x, dtype));
    let rank = b.rank(x);
    let given = if args.has("dim") { args.const_ints("dim")? } else { vec![-2, -1] };
    if given.len() != 2 || rank < 2 || !b.dtype(x).is_float() || b.dtype(x) != b.dtype(x).compute() {
        return Err(OpError::unsupported("the norm of such matrices"));
    }
    let dims = wrap_dims(&given, rank)?;
    let value = match args.value("ord") {
        ValueOf::Str(name) if name == "fro" => norm_over(b, x, 2.0, &dims)?,
        ValueOf::Str(name) => return Err(OpError::unsupported(format!("norm '{name}'"))),
        _ => norm_by_sums(b, x, args.float("ord")?, [dims[0], dims[1]])?,
    };
    Ok(drop_dims(b, value, &dims, args.boolean("keepdim")?)?.into())
}

/// The largest (or smallest, if `p` is negative) sum of a column; with infinite `p` of a row.
fn norm_by_sums(b: &mut Builder, x: NodeId, p: f64, [row, column]: [usize; 2]) -> OpResult<NodeId> {
    let (summed, left) = if p.is_infinite() { (column, row) } else { (row, column) };
    if !(p.abs() == 1.0 || p.is_infinite()) || b.shape(x)[left].is_zero() {
        return Err(OpError::unsupported("a norm by singular values, or of nothing"));
    }
    let sizes = b.unary(PointOp::Abs, x)?;
    let sums = sum_over(b, sizes, &[summed])?;
    b.reduce(if p > 0.0 { ReduceOp::Max } else { ReduceOp::Min }, sums, &[left])
}

fn dist(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y) = (real(b, args, "input")?, real(b, args, "other")?);
    if [x, y].iter().any(|side| b.dtype(*side) == DType::Bool) {
        return Err(OpError::unsupported("a distance of bools, which eager refuses"));
    }
    let gap = b.binary(PointOp::Sub, x, y)?;
    require_float(b, gap, "linalg.vector_norm")?;
    let dims: Vec<usize> = (0..b.rank(gap)).collect();
    let value = norm_over(b, gap, args.float("p")?, &dims)?;
    Ok(b.squeeze(value, &dims)?.into())
}
