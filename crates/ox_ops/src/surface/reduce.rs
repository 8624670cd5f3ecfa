//! Sums, products, extremes and counts.

use super::gather::gather;
use super::shared::{drop_dims, mean_over, real, reduced_dims, same_sizes, sum_over, truth, wide};
use super::slope::shared_out;
use super::{Bound, Surface, fresh, maybe};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::promote::torch_name;
use crate::value::{Value, ValueOf};
use ox_ir::graph::{Bounds, NodeId, ReduceOp};
use ox_ir::{DType, Device, PointOp};

pub const ROWS: &[Surface] = &[
    fresh(&["sum"], "input, dim=None, keepdim=False, *, dtype=None", sum),
    fresh(&["mean"], "input, dim=None, keepdim=False, *, dtype=None", mean),
    fresh(&["prod"], "input, dim=None, keepdim=False, *, dtype=None", prod),
    fresh(&["nansum"], "input, dim=None, keepdim=False, *, dtype=None", nansum),
    fresh(&["nanmean"], "input, dim=None, keepdim=False, *, dtype=None", nanmean),
    fresh(&["amax"], "input, dim=None, keepdim=False", |b, args| extreme(b, args, ReduceOp::Max)),
    fresh(&["amin"], "input, dim=None, keepdim=False", |b, args| extreme(b, args, ReduceOp::Min)),
    fresh(&["aminmax"], "input, *, dim=None, keepdim=False", aminmax),
    fresh(&["max"], "input, dim=None, keepdim=False, *, other=None", |b, args| max_or_min(b, args, MAX)),
    fresh(&["min"], "input, dim=None, keepdim=False, *, other=None", |b, args| max_or_min(b, args, MIN)),
    fresh(&["argmax"], "input, dim=None, keepdim=False", |b, args| arg_extreme(b, args, ReduceOp::ArgMax)),
    fresh(&["argmin"], "input, dim=None, keepdim=False", |b, args| arg_extreme(b, args, ReduceOp::ArgMin)),
    fresh(&["any"], "input, dim=None, keepdim=False", |b, args| any_or_all(b, args, ReduceOp::Any)),
    fresh(&["all"], "input, dim=None, keepdim=False", |b, args| any_or_all(b, args, ReduceOp::All)),
    fresh(&["count_nonzero"], "input, dim=None", count_nonzero),
    fresh(&["trace"], "input", trace),
    maybe(&["sum_to_size"], "input, *size", sum_to_size),
];

/// The value that a sum or product is taken of: converted to `dtype` if that is given, whole numbers to i64; and the result's type.
fn addends(b: &mut Builder, args: &Bound, x: NodeId) -> OpResult<(NodeId, DType)> {
    let own = b.dtype(x);
    let default = if own.is_float() { own } else { DType::I64 };
    let dtype = args.opt_dtype("dtype")?.unwrap_or(default);
    if dtype.is_complex() || dtype == DType::Bool {
        return Err(OpError::unsupported(format!("a sum in {dtype}")));
    }
    let x = b.cast(x, dtype);
    Ok((wide(b, x), dtype))
}

fn finish(b: &mut Builder, args: &Bound, value: NodeId, dims: &[usize], dtype: DType) -> OpResult<Value> {
    let value = b.cast(value, dtype);
    Ok(drop_dims(b, value, dims, args.boolean("keepdim")?)?.into())
}

fn sum(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let (x, dtype) = addends(b, args, x)?;
    let total = sum_over(b, x, &dims)?;
    finish(b, args, total, &dims, dtype)
}

fn prod(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let (x, dtype) = addends(b, args, x)?;
    let product = b.reduce(ReduceOp::Prod, x, &dims)?;
    finish(b, args, product, &dims, dtype)
}

fn mean(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let (rounded, dtype) = float_addends(b, args, x)?;
    // On the CPU the addends of a mean in a half type are not rounded to it.
    let addends = match dtype.compute() {
        wide if wide != dtype && b.device == Device::Cpu => b.cast(x, wide),
        _ => rounded,
    };
    let mean = mean_over(b, addends, &dims)?;
    finish(b, args, mean, &dims, dtype)
}

fn float_addends(b: &mut Builder, args: &Bound, x: NodeId) -> OpResult<(NodeId, DType)> {
    let dtype = args.opt_dtype("dtype")?.unwrap_or(b.dtype(x));
    if !dtype.is_float() {
        return Err(OpError::runtime(format!(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
            torch_name(dtype)
        )));
    }
    addends(b, args, x)
}

/// `x` with zeros for its NaNs, and where they are.
fn without_nans(b: &mut Builder, x: NodeId) -> OpResult<(NodeId, NodeId)> {
    let holes = b.point(PointOp::IsNan, &[x])?;
    Ok((b.choose(holes, 0.0, x)?, holes))
}

fn nansum(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    if !b.dtype(x).is_float() {
        return sum(b, args);
    }
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let (x, _) = without_nans(b, x)?;
    let (x, dtype) = addends(b, args, x)?;
    let total = sum_over(b, x, &dims)?;
    finish(b, args, total, &dims, dtype)
}

fn nanmean(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let (x, dtype) = float_addends(b, args, x)?;
    let (x, holes) = without_nans(b, x)?;
    let kept = b.point(PointOp::Not, &[holes])?;
    let kept = b.cast(kept, DType::I64);
    let (total, count) = (sum_over(b, x, &dims)?, sum_over(b, kept, &dims)?);
    let mean = b.binary(PointOp::Div, total, count)?;
    finish(b, args, mean, &dims, dtype)
}

/// Extremes of nothing do not exist.
fn require_elements(b: &Builder, x: NodeId, dims: &[usize], name: &str) -> OpResult<()> {
    match dims.iter().find(|d| b.ty(x).shape[**d].is_zero()) {
        Some(d) => Err(OpError::index(format!("{name}(): Expected reduction dim {d} to have non-zero size."))),
        None => Ok(()),
    }
}

fn extreme(b: &mut Builder, args: &mut Bound, op: ReduceOp) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    require_elements(b, x, &dims, op.name())?;
    let value = b.reduce(op, x, &dims)?;
    Ok(drop_dims(b, value, &dims, args.boolean("keepdim")?)?.into())
}

/// All that equal the extremum share its gradient; if it is NaN, all NaNs do.
fn extreme_of_all(b: &mut Builder, args: &mut Bound, x: NodeId, op: ReduceOp) -> OpResult<Value> {
    let value = extreme(b, args, op)?;
    let (Some(found), true) = (value.as_tensor(), b.dtype(x).is_float() && b.rank(x) > 0) else { return Ok(value) };
    let dims: Vec<usize> = (0..b.rank(x)).collect();
    let is_nan = |node: NodeId| Expr::Node(node).unary(PointOp::IsNan);
    let chosen = is_nan(found).pick(is_nan(x), Expr::Node(x).eq(found)).build(b)?;
    let ones = b.cast(chosen, b.dtype(x).compute());
    let ties = sum_over(b, ones, &dims)?;
    let wide_x = wide(b, x);
    let most = b.reduce(op, wide_x, &dims)?;
    let path = shared_out(b, most, wide_x, Expr::Node(ones) / ties, &dims)?;
    let path = b.cast(path, b.dtype(x));
    let path = b.reshape(path, &[])?;
    Ok(b.graft(found, path)?.into())
}

fn aminmax(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let least = extreme(b, args, ReduceOp::Min)?;
    let most = extreme(b, args, ReduceOp::Max)?;
    Ok(ValueOf::Tuple(vec![least, most]))
}

/// The reduction, its index form and the binary operation of one direction.
type Direction = (ReduceOp, ReduceOp, PointOp);
const MAX: Direction = (ReduceOp::Max, ReduceOp::ArgMax, PointOp::Maximum);
const MIN: Direction = (ReduceOp::Min, ReduceOp::ArgMin, PointOp::Minimum);

/// `max(x)`, `max(x, dim)` -> (values, indices), `max(x, y)`.
fn max_or_min(b: &mut Builder, args: &mut Bound, (op, arg_op, point): Direction) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let second = if args.has("other") { "other" } else { "dim" };
    match args.value(second) {
        ValueOf::None => extreme_of_all(b, args, x, op),
        ValueOf::Tensor(_) => {
            let other = real(b, args, second)?;
            Ok(b.binary(point, x, other)?.into())
        }
        _ => {
            let dim = args.dim("dim", b.rank(x))?;
            let keepdim = args.boolean("keepdim")?;
            if b.rank(x) == 0 {
                let index = arg_along(b, x, dim, arg_op, keepdim)?;
                return Ok(ValueOf::Tuple(vec![x.into(), index.into()]));
            }
            require_elements(b, x, &[dim], op.name())?;
            let (value, index) = (b.reduce(op, x, &[dim])?, b.reduce(arg_op, x, &[dim])?);
            let path = gather(b, x, dim, index, Bounds::IndexError)?;
            let value = b.graft(value, path)?;
            let [value, index] = [value, index].map(|node| drop_dims(b, node, &[dim], keepdim));
            Ok(ValueOf::Tuple(vec![value?.into(), index?.into()]))
        }
    }
}

fn arg_along(b: &mut Builder, x: NodeId, dim: usize, op: ReduceOp, keepdim: bool) -> OpResult<NodeId> {
    if b.rank(x) == 0 {
        return Ok(b.full(ox_ir::Scalar::Int(0), DType::I64, &[]));
    }
    require_elements(b, x, &[dim], op.name())?;
    let places = b.reduce(op, x, &[dim])?;
    drop_dims(b, places, &[dim], keepdim)
}

fn arg_extreme(b: &mut Builder, args: &mut Bound, op: ReduceOp) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    if b.dtype(x) == DType::Bool {
        return Err(OpError::runtime(format!("{}: does not support bool input", op.name())));
    }
    let keepdim = args.boolean("keepdim")?;
    if args.has("dim") {
        let dim = args.dim("dim", b.rank(x))?;
        return Ok(arg_along(b, x, dim, op, keepdim)?.into());
    }
    let rank = b.rank(x);
    let all = [b.ty(x).numel()];
    let flat = b.reshape(x, &all)?;
    let place = arg_along(b, flat, 0, op, false)?;
    let ones = vec![ox_ir::Sym::ONE; if keepdim { rank } else { 0 }];
    Ok(b.reshape(place, &ones)?.into())
}

/// On u8 the result is u8, as it was before there was bool.
fn any_or_all(b: &mut Builder, args: &mut Bound, op: ReduceOp) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let dtype = if b.dtype(x) == DType::U8 { DType::U8 } else { DType::Bool };
    let truth = truth(b, x)?;
    // To these two an empty list is no dimension, to others all.
    if args.has("dim") && args.const_ints("dim")?.is_empty() {
        return Ok(b.cast(truth, dtype).into());
    }
    let value = b.reduce(op, truth, &dims)?;
    finish(b, args, value, &dims, dtype)
}

fn count_nonzero(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let dims = reduced_dims(args, "dim", b.rank(x))?;
    let truth = truth(b, x)?;
    let ones = b.cast(truth, DType::I64);
    let count = sum_over(b, ones, &dims)?;
    Ok(b.squeeze(count, &dims)?.into())
}

fn trace(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    if b.rank(x) != 2 {
        return Err(OpError::runtime("trace: expected a matrix"));
    }
    let dtype = if b.dtype(x).is_float() { b.dtype(x) } else { DType::I64 };
    let line = b.diagonal(x, 0, 0, 1)?;
    let line = b.cast(line, dtype);
    let line = wide(b, line);
    let total = sum_over(b, line, &[0])?;
    let total = b.squeeze(total, &[0])?;
    Ok(b.cast(total, dtype).into())
}

/// Undoes a broadcast by summation.
fn sum_to_size(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    if !b.dtype(x).is_float() && b.dtype(x) != DType::I64 {
        return Err(OpError::unsupported(format!("sum_to_size of {}", b.dtype(x))));
    }
    let (own, size) = (b.shape(x), args.ints("size")?);
    let extra = own.len().checked_sub(size.len());
    let Some(extra) = extra else {
        return Err(OpError::runtime("size is not expandable to the size of the tensor"));
    };
    for (a, s) in own[extra..].iter().zip(&size) {
        if !s.is_one() && !same_sizes(std::slice::from_ref(a), std::slice::from_ref(s))? {
            return Err(OpError::runtime("size is not expandable to the size of the tensor"));
        }
    }
    let repeated = |d: &usize| *d < extra || size[d - extra] != own[*d];
    let dims: Vec<usize> = (0..own.len()).filter(repeated).collect();
    let dtype = b.dtype(x);
    if dtype == DType::Bool {
        return Err(OpError::unsupported("sum_to_size of bool"));
    }
    let x = wide(b, x);
    let total = sum_over(b, x, &dims)?;
    let total = b.cast(total, dtype);
    Ok(b.reshape(total, &size)?.into())
}
