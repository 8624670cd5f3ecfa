//! Pools: sliding windows, reduced.

use super::gather::gather;
use super::operator::{Operator, ints};
use super::shared::{known_per_dim, only_float, real, size_operand, wide};
use super::slope::gated;
use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::{Arg, Bounds, NodeId, ReduceOp, Shape};
use ox_ir::{DType, Device, PointOp, Scalar, Sym};

const MAX: &str = "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False";
const WITH_INDICES: &str = "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True";
const AVERAGE: &str =
    "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None";
const POWER: &str = "input, norm_type, kernel_size, stride=None, ceil_mode=False";

pub const ROWS: &[Surface] = &[
    fresh(&["max_pool1d"], MAX, |b, args| max_pool(b, args, 1)),
    fresh(&["max_pool2d"], MAX, |b, args| max_pool(b, args, 2)),
    fresh(&["max_pool3d"], MAX, |b, args| max_pool(b, args, 3)),
    fresh(&["F.max_pool1d_with_indices"], WITH_INDICES, |b, args| max_pool(b, args, 1)),
    fresh(&["F.max_pool2d_with_indices"], WITH_INDICES, |b, args| max_pool(b, args, 2)),
    fresh(&["F.max_pool3d_with_indices"], WITH_INDICES, |b, args| max_pool(b, args, 3)),
    fresh(&["avg_pool1d"], AVERAGE, |b, args| average_pool(b, args, 1)),
    fresh(&["avg_pool2d"], AVERAGE, |b, args| average_pool(b, args, 2)),
    fresh(&["avg_pool3d"], AVERAGE, |b, args| average_pool(b, args, 3)),
    fresh(&["F.lp_pool1d"], POWER, |b, args| power_pool(b, args, 1)),
    fresh(&["F.lp_pool2d"], POWER, |b, args| power_pool(b, args, 2)),
    fresh(&["F.lp_pool3d"], POWER, |b, args| power_pool(b, args, 3)),
];

/// The windows over one dimension.
pub struct Sliding {
    pub size: i64,
    pub stride: i64,
    pub padding: i64,
    pub dilation: i64,
    /// How many there are, and how many elements must be padded behind for the last.
    pub count: Sym,
    pub behind: Sym,
}

impl Sliding {
    pub fn new(len: &Sym, [size, stride, padding, dilation]: [i64; 4], ceil: bool) -> OpResult<Sliding> {
        if size < 1 || stride < 1 || dilation < 1 || padding < 0 {
            return Err(OpError::runtime("kernel size, stride and dilation must be greater than zero, padding not negative"));
        }
        let reach = dilation * (size - 1) + 1;
        let room = len + (2 * padding - reach);
        let (count, behind) = match ceil {
            false => (&room.div(&Sym::from(stride)) + 1, Sym::from(padding)),
            true => {
                // The last window must begin inside of the input or the padding in front of it.
                let last = (2 * padding - reach + stride - 1).min(padding - 1);
                let count = &(len + last).div(&Sym::from(stride)) + 1;
                // Of sizes that vary as many elements as the last window may need at most.
                let needed = match (len.as_const(), count.as_const()) {
                    (Some(len), Some(count)) => (count - 1) * stride + reach - len - padding,
                    _ => last + reach - padding,
                };
                (count, Sym::from(needed.max(padding)))
            }
        };
        if (&count - 1).bounds().1 < 0 {
            return Err(OpError::runtime(format!("Output size is too small: input {len}, kernel {size}")));
        }
        Ok(Sliding { size, stride, padding, dilation, count, behind })
    }

    /// The one window over a dimension, without what of it lies behind the last element.
    fn clipped(&self, len: &Sym) -> Sliding {
        let Sliding { size, stride, padding, dilation, ref count, ref behind } = *self;
        let reached = len.as_const().filter(|len| *len > 0 && count.is_one()).map(|len| (len + padding - 1) / dilation + 1);
        match reached.filter(|reached| (1..size).contains(reached)) {
            Some(size) => Sliding { size, stride, padding, dilation, count: count.clone(), behind: Sym::ZERO },
            None => Sliding { size, stride, padding, dilation, count: count.clone(), behind: behind.clone() },
        }
    }
}

/// The windows over the last `n` dimensions of `x`, by the arguments' usual names.
fn windows_of(b: &Builder, args: &Bound, x: NodeId, n: usize) -> OpResult<Vec<Sliding>> {
    let rank = b.rank(x);
    if rank != n + 1 && rank != n + 2 {
        return Err(OpError::runtime(format!("Expected {}D or {}D input, but got {rank}D", n + 1, n + 2)));
    }
    let or = |name: &'static str, default: i64| match args.knows(name) {
        true => known_per_dim(args, name, n),
        false => Ok(vec![default; n]),
    };
    let size = known_per_dim(args, "kernel_size", n)?;
    let given = args.has("stride") && !args.value("stride").items().is_some_and(|items| items.is_empty());
    let stride = if given { known_per_dim(args, "stride", n)? } else { size.clone() };
    let (padding, dilation) = (or("padding", 0)?, or("dilation", 1)?);
    let ceil = args.boolean("ceil_mode")?;
    let shape = b.shape(x);
    (0..n)
        .map(|k| {
            if padding[k] > (dilation[k] * (size[k] - 1) + 1) / 2 {
                return Err(OpError::runtime("pad should be at most half of effective kernel size"));
            }
            Sliding::new(&shape[rank - n + k], [size[k], stride[k], padding[k], dilation[k]], ceil)
        })
        .collect()
}

/// [.., s1, s2] as [.., count1, count2, size1, size2], with `value` around the edges.
pub fn spread_windows(b: &mut Builder, x: NodeId, windows: &[Sliding], value: Scalar) -> OpResult<NodeId> {
    let rank = b.rank(x);
    let first = rank - windows.len();
    let (mut low, mut high) = (vec![Sym::ZERO; rank], vec![Sym::ZERO; rank]);
    for (k, w) in windows.iter().enumerate() {
        low[first + k] = Sym::from(w.padding);
        high[first + k] = w.behind.clone();
    }
    let mut y = b.pad(x, &low, &high, value)?;
    for (k, w) in windows.iter().enumerate() {
        y = b.unfold(y, first + k, &w.count, &Sym::from(w.size), w.stride, w.dilation)?;
    }
    Ok(y)
}

/// The same where `value` changes nothing in what is made of each window: one that reaches far beyond its input is no longer than that.
fn spread_to_reduce(b: &mut Builder, x: NodeId, windows: &[Sliding], value: Scalar) -> OpResult<NodeId> {
    let first = b.rank(x) - windows.len();
    let windows: Vec<Sliding> = windows.iter().zip(&b.shape(x)[first..]).map(|(window, len)| window.clipped(len)).collect();
    spread_windows(b, x, &windows, value)
}

fn reduce_windows(b: &mut Builder, spread: NodeId, n: usize, op: ReduceOp) -> OpResult<NodeId> {
    let rank = b.rank(spread);
    let dims: Vec<usize> = (rank - n..rank).collect();
    let y = b.reduce(op, spread, &dims)?;
    b.squeeze(y, &dims)
}

fn max_pool(b: &mut Builder, args: &mut Bound, n: usize) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let windows = windows_of(b, args, x, n)?;
    if args.boolean("return_indices")? {
        return with_indices(b, args, x, &windows);
    }
    let value = ReduceOp::Max.neutral(b.dtype(x));
    let spread = spread_to_reduce(b, x, &windows, value)?;
    let y = reduce_windows(b, spread, n, ReduceOp::Max)?;
    if !b.dtype(x).is_float() {
        return Ok(y.into());
    }
    let path = match n == 2 && b.ty(x).device != Device::Cpu {
        // torch's derivative reads what it needs, where ours would write every window.
        true => {
            let (call, shape) = by_torch(b, args, x, &windows)?;
            call.call(b, &[x], &[(b.dtype(x), shape.clone()), (DType::I64, shape)])?[0]
        }
        false => first_maximum(b, spread, n)?,
    };
    Ok(b.graft(y, path)?.into())
}

/// (values, where each lies in its plane).
fn with_indices(b: &mut Builder, args: &Bound, x: NodeId, windows: &[Sliding]) -> OpResult<Value> {
    let (call, shape) = by_torch(b, args, x, windows)?;
    call.values_and_indices(b, x, shape)
}

/// torch's own kernel, and the shape of its results.
fn by_torch(b: &Builder, args: &Bound, x: NodeId, windows: &[Sliding]) -> OpResult<(Operator, Shape)> {
    let names = ["aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices"];
    let list = |of: fn(&Sliding) -> i64| ints(windows.iter().map(|w| Sym::from(of(w))));
    let lists = [list(|w| w.size), list(|w| w.stride), list(|w| w.padding), list(|w| w.dilation)];
    let ceil = Arg::Bool(args.boolean("ceil_mode")?);
    let mut shape = b.shape(x);
    let first = shape.len() - windows.len();
    for (size, window) in shape[first..].iter_mut().zip(windows) {
        *size = window.count.clone();
    }
    Ok((Operator::new(names[windows.len() - 1], "", lists.into_iter().chain([ceil])), shape))
}

/// The first of the largest elements of each window, which is the one that gets the gradient.
pub fn first_maximum(b: &mut Builder, spread: NodeId, n: usize) -> OpResult<NodeId> {
    let shape = b.shape(spread);
    let outer = shape.len() - n;
    let mut flat: Vec<Sym> = shape[..outer].to_vec();
    flat.push(shape[outer..].iter().product());
    let windows = b.reshape(spread, &flat)?;
    let place = b.reduce(ReduceOp::ArgMax, windows, &[outer])?;
    let found = gather(b, windows, outer, place, Bounds::IndexError)?;
    b.squeeze(found, &[outer])
}

fn average_pool(b: &mut Builder, args: &mut Bound, n: usize) -> OpResult<Value> {
    let x = only_float(b, args, "input", "a mean")?;
    let windows = windows_of(b, args, x, n)?;
    let divisor = match args.opt_int("divisor_override")? {
        Some(zero) if zero.is_zero() => return Err(OpError::runtime("divisor must be not zero")),
        Some(n) => size_operand(&n),
        None => divisor(b, x, &windows, args.boolean("count_include_pad")?)?,
    };
    Ok(averaged(b, x, &windows, divisor)?.into())
}

fn averaged(b: &mut Builder, x: NodeId, windows: &[Sliding], divisor: Operand) -> OpResult<NodeId> {
    let dtype = b.dtype(x);
    let x = wide(b, x);
    let spread = spread_to_reduce(b, x, windows, Scalar::Float(0.0))?;
    let total = reduce_windows(b, spread, windows.len(), ReduceOp::Sum)?;
    let mean = b.binary(PointOp::Div, total, divisor)?;
    Ok(b.cast(mean, dtype))
}

/// How many elements each window holds: one number where all are alike, else a tensor of counts.
fn divisor(b: &mut Builder, x: NodeId, windows: &[Sliding], include_pad: bool) -> OpResult<Operand> {
    let first = b.rank(x) - windows.len();
    let lens: Vec<Sym> = b.shape(x)[first..].to_vec();
    let whole = |w: &Sliding| w.behind == Sym::from(w.padding) && (include_pad || w.padding == 0);
    if windows.iter().all(whole) {
        return Ok(Operand::from(windows.iter().map(|w| w.size).product::<i64>()));
    }
    let counts: Vec<Sym> = windows.iter().map(|w| w.count.clone()).collect();
    let mut total: Option<NodeId> = None;
    for (k, w) in windows.iter().enumerate() {
        let held = held_by(b, &counts, k, w, &lens[k], include_pad)?;
        total = Some(match total {
            Some(total) => b.binary(PointOp::Mul, total, held)?,
            None => held,
        });
    }
    total.map(Operand::Tensor).ok_or_else(|| OpError::bug("a pool over no dimensions"))
}

/// For each window along dimension `k` of the result: how many of its elements lie inside (of the padded input, if that counts).
fn held_by(b: &mut Builder, counts: &[Sym], k: usize, w: &Sliding, len: &Sym, include_pad: bool) -> OpResult<NodeId> {
    let places = b.iota(counts, k)?;
    let start = b.binary(PointOp::Mul, places, w.stride)?;
    let start = b.binary(PointOp::Sub, start, w.padding)?;
    let end = b.binary(PointOp::Add, start, w.size)?;
    let edge = if include_pad { len + w.padding } else { len.clone() };
    let end = b.binary(PointOp::Minimum, end, size_operand(&edge))?;
    let start = if include_pad { start } else { b.binary(PointOp::Maximum, start, 0i64)? };
    b.binary(PointOp::Sub, end, start)
}

/// The p-norm of each window, as torch has it: from the mean of the powers, so that its sign survives.
fn power_pool(b: &mut Builder, args: &mut Bound, n: usize) -> OpResult<Value> {
    let x = only_float(b, args, "input", "a mean")?;
    let p = args.float("norm_type")?;
    let windows = windows_of(b, args, x, n)?;
    let elements: i64 = windows.iter().map(|w| w.size).product();
    let powers = b.binary(PointOp::Pow, x, p)?;
    let divisor = divisor(b, x, &windows, true)?;
    let mean = averaged(b, powers, &windows, divisor)?;
    let (sign, size) = (b.unary(PointOp::Sign, mean)?, b.unary(PointOp::Abs, mean)?);
    // Eager has a `relu` here, by which the slope of the root at zero, which is infinite, comes to nobody.
    let size = gated(b, size, size, Expr::Node(size).le(0.0).unary(PointOp::Not))?;
    let mean = b.binary(PointOp::Mul, sign, size)?;
    let total = b.binary(PointOp::Mul, mean, elements)?;
    Ok(b.binary(PointOp::Pow, total, 1.0 / p)?.into())
}
