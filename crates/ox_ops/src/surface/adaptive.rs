//! Adaptive pools: the number of windows is given. Ours where the windows are all of one size; others are torch's.

use super::operator::{Operator, ints, one};
use super::pool::first_maximum;
use super::shared::{float, mean_over, real, wide};
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::{Value, ValueOf};
use ox_ir::Sym;
use ox_ir::graph::{NodeId, ReduceOp, Shape};

const MAX: &str = "input, output_size, return_indices=False";

pub const ROWS: &[Surface] = &[
    fresh(&["adaptive_avg_pool1d"], "input, output_size", |b, args| average(b, args, 1)),
    fresh(&["adaptive_avg_pool2d"], "input, output_size", |b, args| average(b, args, 2)),
    fresh(&["adaptive_avg_pool3d"], "input, output_size", |b, args| average(b, args, 3)),
    fresh(&["F.adaptive_max_pool1d"], MAX, |b, args| max(b, args, 1)),
    fresh(&["F.adaptive_max_pool2d"], MAX, |b, args| max(b, args, 2)),
    fresh(&["F.adaptive_max_pool3d"], MAX, |b, args| max(b, args, 3)),
];

/// The sizes asked for; None keeps a dimension's own.
fn targets(b: &Builder, args: &Bound, x: NodeId, n: usize) -> OpResult<Vec<Sym>> {
    let rank = b.rank(x);
    if rank != n + 1 && rank != n + 2 {
        return Err(OpError::runtime(format!("Expected {}D or {}D tensor, but got {rank}D", n + 1, n + 2)));
    }
    let own = &b.shape(x)[rank - n..];
    // Eager refuses it in its own words, though nothing comes out.
    if own.iter().any(Sym::is_zero) {
        return Err(OpError::unsupported("an adaptive pool of an empty image"));
    }
    let one = |value: &Value, own: &Sym| match value {
        ValueOf::None => Ok(own.clone()),
        other => other.as_int().ok_or_else(|| OpError::unsupported("output_size of an adaptive pool")),
    };
    match args.value("output_size") {
        ValueOf::List(items) | ValueOf::Tuple(items) if items.len() == n => {
            items.iter().zip(own).map(|(item, own)| one(item, own)).collect()
        }
        single => own.iter().map(|own| one(single, own)).collect(),
    }
}

/// [.., s1, s2] as [.., t1, s1/t1, t2, s2/t2], and which dimensions the windows are. Where `t` is 1 there is nothing to split.
fn split(b: &mut Builder, x: NodeId, targets: &[Sym]) -> OpResult<(NodeId, Vec<usize>)> {
    let shape = b.shape(x);
    let first = shape.len() - targets.len();
    let mut sizes: Vec<Sym> = shape[..first].to_vec();
    let mut dims = Vec::new();
    for (own, target) in shape[first..].iter().zip(targets) {
        let window = match (own.as_const(), target.as_const()) {
            _ if target.is_one() => own.clone(),
            _ if target == own => Sym::ONE,
            (_, Some(t)) if t > 0 && own.is_multiple_of(t) && (own - 1).is_nonneg() => own.div(target),
            _ => return Err(OpError::unsupported(format!("adaptive pool of {own} elements to {target}"))),
        };
        if !target.is_one() {
            sizes.push(target.clone());
        }
        dims.push(sizes.len());
        sizes.push(window);
    }
    Ok((b.reshape(x, &sizes)?, dims))
}

fn finish(b: &mut Builder, y: NodeId, like: NodeId, targets: &[Sym]) -> OpResult<Value> {
    let shape = pooled_shape(b, like, targets);
    Ok(b.reshape(y, &shape)?.into())
}

const AVERAGES: [&str; 3] = ["aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d"];
const MAXIMA: [&str; 3] = ["aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d"];

fn pooled_shape(b: &Builder, x: NodeId, targets: &[Sym]) -> Shape {
    let mut shape = b.shape(x);
    let first = shape.len() - targets.len();
    shape[first..].clone_from_slice(targets);
    shape
}

/// Windows of different sizes: torch's own kernel.
fn library(b: &mut Builder, x: NodeId, targets: &[Sym], names: [&'static str; 3]) -> OpResult<Value> {
    let out = (b.dtype(x), pooled_shape(b, x, targets));
    one(Operator::new(names[targets.len() - 1], "", [ints(targets.iter().cloned())]).call(b, &[x], &[out])?)
}

fn max_and_places(b: &mut Builder, x: NodeId, targets: &[Sym]) -> OpResult<Value> {
    let shape = pooled_shape(b, x, targets);
    Operator::new(MAXIMA[targets.len() - 1], "", [ints(targets.iter().cloned())]).values_and_indices(b, x, shape)
}

fn average(b: &mut Builder, args: &mut Bound, n: usize) -> OpResult<Value> {
    let x = float(b, args, "input", "\"adaptive_avg_pool\"")?;
    let targets = targets(b, args, x, n)?;
    average_to(b, x, &targets)
}

/// The means of as many windows as `targets` says, over the last dimensions.
pub fn average_to(b: &mut Builder, x: NodeId, targets: &[Sym]) -> OpResult<Value> {
    let (parts, dims) = match split(b, x, targets) {
        Err(OpError::Unsupported(_)) => return library(b, x, targets, AVERAGES),
        split => split?,
    };
    let dtype = b.dtype(x);
    let parts = wide(b, parts);
    let mean = mean_over(b, parts, &dims)?;
    let mean = b.cast(mean, dtype);
    finish(b, mean, x, targets)
}

fn max(b: &mut Builder, args: &mut Bound, n: usize) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let targets = targets(b, args, x, n)?;
    if args.boolean("return_indices")? {
        return max_and_places(b, x, &targets);
    }
    let (parts, dims) = match split(b, x, &targets) {
        Err(OpError::Unsupported(_)) => {
            let both = max_and_places(b, x, &targets)?;
            return both.items().map(|items| items[0].clone()).ok_or_else(|| OpError::bug("one result of two"));
        }
        split => split?,
    };
    let most = b.reduce(ReduceOp::Max, parts, &dims)?;
    let most = b.squeeze(most, &dims)?;
    let most = if b.dtype(x).is_float() { by_first_maximum(b, most, parts, &dims)? } else { most };
    finish(b, most, x, &targets)
}

/// The windows' maxima, with the derivative of the first of each.
fn by_first_maximum(b: &mut Builder, most: NodeId, parts: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let outer = (0..b.rank(parts)).filter(|d| !dims.contains(d));
    let order: Vec<usize> = outer.chain(dims.iter().copied()).collect();
    let windows = b.permute(parts, &order)?;
    let path = first_maximum(b, windows, dims.len())?;
    b.graft(most, path)
}
