//! Order statistics: sorts, medians, running extremes, searches, draws. All are torch's own kernels, called through its dispatcher; a
//! row knows the result's types, so that no Python is needed.

use super::operator::{Operator, int, one};
use super::{Bound, Surface, fresh, wrap_dim};
use crate::builder::Builder;
use crate::decide::exceeds;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{Arg, NodeId, Shape};
use ox_ir::{DType, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["sort"], "input, dim=-1, descending=False, stable=None", sort),
    fresh(&["argsort"], "input, dim=-1, descending=False, stable=False", argsort),
    fresh(&["msort"], "input", msort),
    fresh(&["topk"], "input, k, dim=-1, largest=True, sorted=True", topk),
    fresh(&["kthvalue"], "input, k, dim=-1, keepdim=False", kthvalue),
    fresh(&["median"], "input, dim=None, keepdim=False", |b, args| middle(b, args, "aten::median")),
    fresh(&["nanmedian"], "input, dim=None, keepdim=False", |b, args| middle(b, args, "aten::nanmedian")),
    fresh(&["mode"], "input, dim=-1, keepdim=False", mode),
    fresh(&["cummax"], "input, dim", |b, args| running(b, args, "aten::cummax")),
    fresh(&["cummin"], "input, dim", |b, args| running(b, args, "aten::cummin")),
    fresh(&["logcumsumexp"], "input, dim", logcumsumexp),
    fresh(&["searchsorted"], "sorted_sequence, values, *, out_int32=False, right=False, side=None, sorter=None", searchsorted),
    fresh(&["bucketize"], "input, boundaries, *, out_int32=False, right=False", bucketize),
    fresh(&["multinomial"], "input, num_samples, replacement=False", multinomial),
];

/// The dimension as given, which torch wraps itself; out of range is the user's error now.
fn dim_arg(b: &Builder, args: &Bound, x: NodeId) -> OpResult<(usize, Arg)> {
    let dim = args.const_int("dim")?;
    Ok((wrap_dim(dim, b.rank(x))?, int(dim)))
}

fn flag(args: &Bound, name: &str) -> OpResult<Arg> {
    Ok(Arg::Bool(args.boolean(name)?))
}

fn sort(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let ((_, dim), descending) = (dim_arg(b, args, x)?, flag(args, "descending")?);
    let shape = b.shape(x);
    if !args.has("stable") {
        return Operator::new("aten::sort", "", [dim, descending]).values_and_indices(b, x, shape);
    }
    let mut operator = Operator::new("aten::sort", "stable", []);
    operator.kwargs = vec![("stable", flag(args, "stable")?), ("dim", dim), ("descending", descending)];
    operator.values_and_indices(b, x, shape)
}

fn argsort(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let ((_, dim), descending) = (dim_arg(b, args, x)?, flag(args, "descending")?);
    let operator = match args.boolean("stable")? {
        false => Operator::new("aten::argsort", "", [dim, descending]),
        true => {
            let kwargs = vec![("stable", Arg::Bool(true)), ("dim", dim), ("descending", descending)];
            Operator { kwargs, ..Operator::new("aten::argsort", "stable", []) }
        }
    };
    let shape = b.shape(x);
    one(operator.call(b, &[x], &[(DType::I64, shape)])?)
}

fn msort(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let outs = [(b.dtype(x), b.shape(x)), (DType::I64, b.shape(x))];
    one(Operator::new("aten::sort", "", [int(0), Arg::Bool(false)]).call(b, &[x], &outs)?)
}

fn topk(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let ((at, dim), k) = (dim_arg(b, args, x)?, args.int("k")?);
    let mut shape = b.shape(x);
    if let Some(size) = shape.get_mut(at) {
        if exceeds(&k, size) || k.bounds().1 < 0 {
            return Err(OpError::runtime("selected index k out of range"));
        }
        *size = k.clone();
    }
    let rest = [Arg::Int(k), dim, flag(args, "largest")?, flag(args, "sorted")?];
    Operator::new("aten::topk", "", rest).values_and_indices(b, x, shape)
}

/// The shape after a reduction over one dimension.
fn without(shape: &Shape, dim: usize, keepdim: bool) -> Shape {
    let mut shape = shape.clone();
    match keepdim {
        _ if dim >= shape.len() => {}
        true => shape[dim] = Sym::ONE,
        false => {
            shape.remove(dim);
        }
    }
    shape
}

fn kthvalue(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let (at, dim) = dim_arg(b, args, x)?;
    let shape = without(&b.shape(x), at, args.boolean("keepdim")?);
    let rest = [Arg::Int(args.int("k")?), dim, flag(args, "keepdim")?];
    Operator::new("aten::kthvalue", "", rest).values_and_indices(b, x, shape)
}

/// Of all elements, or (values, indices) along a dimension.
fn middle(b: &mut Builder, args: &mut Bound, name: &'static str) -> OpResult<Value> {
    let x = args.tensor("input")?;
    if !args.has("dim") {
        let out = (b.dtype(x), Shape::new());
        return one(Operator::new(name, "", []).call(b, &[x], &[out])?);
    }
    let (at, dim) = dim_arg(b, args, x)?;
    let shape = without(&b.shape(x), at, args.boolean("keepdim")?);
    Operator::new(name, "dim", [dim, flag(args, "keepdim")?]).values_and_indices(b, x, shape)
}

fn mode(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let (at, dim) = dim_arg(b, args, x)?;
    let shape = without(&b.shape(x), at, args.boolean("keepdim")?);
    Operator::new("aten::mode", "", [dim, flag(args, "keepdim")?]).values_and_indices(b, x, shape)
}

fn running(b: &mut Builder, args: &mut Bound, name: &'static str) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let (_, dim) = dim_arg(b, args, x)?;
    let shape = b.shape(x);
    Operator::new(name, "", [dim]).values_and_indices(b, x, shape)
}

fn logcumsumexp(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let (_, dim) = dim_arg(b, args, x)?;
    let out = (b.dtype(x), b.shape(x));
    one(Operator::new("aten::logcumsumexp", "", [dim]).call(b, &[x], &[out])?)
}

fn searchsorted(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    if args.has("sorter") || args.has("side") {
        return Err(OpError::unsupported("searchsorted with a sorter or a side"));
    }
    let (sequence, values) = (args.tensor("sorted_sequence")?, args.tensor("values")?);
    place(b, args, ("aten::searchsorted", sequence, values), values)
}

fn bucketize(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (values, boundaries) = (args.tensor("input")?, args.tensor("boundaries")?);
    place(b, args, ("aten::bucketize", values, boundaries), values)
}

/// Where each of `values` belongs.
fn place(b: &mut Builder, args: &Bound, call: (&'static str, NodeId, NodeId), values: NodeId) -> OpResult<Value> {
    let (name, first, second) = call;
    let dtype = if args.boolean("out_int32")? { DType::I32 } else { DType::I64 };
    let kwargs = vec![("out_int32", flag(args, "out_int32")?), ("right", flag(args, "right")?)];
    let operator = Operator { kwargs, ..Operator::new(name, "Tensor", [Arg::Tensor(1)]) };
    let out = (dtype, b.shape(values));
    one(operator.call(b, &[first, second], &[out])?)
}

/// Draws: neither repeated nor moved past another draw.
fn multinomial(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, samples) = (args.tensor("input")?, args.int("num_samples")?);
    let mut shape = b.shape(x);
    match shape.last_mut() {
        Some(last) => *last = samples.clone(),
        None => return Err(OpError::runtime("prob_dist must be 1 or 2 dim")),
    }
    let rest = [Arg::Int(samples), flag(args, "replacement")?];
    let operator = Operator { effect: true, ..Operator::new("aten::multinomial", "", rest) };
    one(operator.call(b, &[x], &[(DType::I64, shape)])?)
}
