//! Normalisations. All are a mean and a variance over some dimensions, in f32 for the half types, and an affine map with one
//! rounding at the end.

use super::batch_norm::{follow_instances, normalise_by_running};
use super::moments::norm_over;
use super::operator::{Operator, int, one};
use super::shared::{
    centred, count_in, divides, drop_dims, flag, float, mean_over, only_float, opt_real, per_channel, real, same_sizes, square,
    sum_over, wide,
};
use super::slope::standardised_slope;
use super::{Bound, Surface, fresh};
use crate::builder::{Builder, broadcast_shapes};
use crate::decide::is_one;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{Arg, NodeId};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["layer_norm"], "input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True", layer_norm),
    fresh(&["rms_norm"], "input, normalized_shape, weight=None, eps=None", rms_norm),
    fresh(&["group_norm"], "input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True", group_norm),
    fresh(
        &["F.instance_norm"],
        "input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5",
        instance_norm,
    ),
    fresh(
        &["instance_norm"],
        "input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True",
        instance_norm,
    ),
    fresh(&["F.local_response_norm"], "input, size, alpha=1e-4, beta=0.75, k=1.0", local_response_norm),
    fresh(&["F.normalize"], "input, p=2.0, dim=1, eps=1e-12", normalize),
    fresh(&["cosine_similarity"], "x1, x2, dim=1, eps=1e-8", cosine_similarity),
    fresh(&["cdist"], "x1, x2, p=2.0, compute_mode=use_mm_for_euclid_dist_if_necessary", cdist),
    fresh(&["pairwise_distance"], "x1, x2, p=2.0, eps=1e-6, keepdim=False", pairwise_distance),
];

/// `1 / sqrt(mean(x^2) + eps)` over `dims`.
fn inverse_root(b: &mut Builder, x: NodeId, dims: &[usize], eps: f64) -> OpResult<NodeId> {
    let squares = square(b, x)?;
    let mean = mean_over(b, squares, dims)?;
    let raised = b.binary(PointOp::Add, mean, eps)?;
    b.unary(PointOp::Rsqrt, raised)
}

/// Mean 0 and variance 1 over `dims`; `x` is wide.
fn standardised(b: &mut Builder, x: NodeId, dims: &[usize], eps: f64) -> OpResult<NodeId> {
    let (centred, _) = centred(b, x, dims)?;
    let scale = inverse_root(b, centred, dims, eps)?;
    let y = b.binary(PointOp::Mul, centred, scale)?;
    standardised_slope(b, y, x, scale, dims)
}

/// `y * weight + bias`, each if given, converted to the type of `y` and shaped by `lay`.
fn affine(
    b: &mut Builder,
    args: &Bound,
    mut y: NodeId,
    lay: &dyn Fn(&mut Builder, NodeId) -> OpResult<NodeId>,
) -> OpResult<NodeId> {
    for (name, op) in [("weight", PointOp::Mul), ("bias", PointOp::Add)] {
        if let Some(parameter) = opt_real(b, args, name)? {
            let parameter = lay(b, parameter)?;
            let dtype = b.dtype(y);
            let parameter = b.cast(parameter, dtype);
            y = b.binary(op, y, parameter)?;
        }
    }
    Ok(y)
}

/// The last dimensions, which must have the sizes that the call names.
fn normalised_dims(b: &Builder, args: &Bound, x: NodeId) -> OpResult<Vec<usize>> {
    let (shape, given) = (b.shape(x), args.ints("normalized_shape")?);
    let first = shape.len().checked_sub(given.len()).filter(|_| !given.is_empty());
    match first {
        Some(first) if same_sizes(&shape[first..], &given)? => Ok((first..shape.len()).collect()),
        _ => Err(OpError::runtime(format!(
            "Given normalized_shape={given:?}, expected input with shape [*, {given:?}], but got input of size{shape:?}"
        ))),
    }
}

fn layer_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = float(b, args, "input", "\"LayerNormKernelImpl\"")?;
    let dtype = b.dtype(x);
    let dims = normalised_dims(b, args, x)?;
    let x = wide(b, x);
    let y = standardised(b, x, &dims, args.float("eps")?)?;
    let y = affine(b, args, y, &|_, parameter| Ok(parameter))?;
    Ok(b.cast(y, dtype).into())
}

fn rms_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = float(b, args, "input", "\"rms_norm\"")?;
    let dtype = b.dtype(x);
    let dims = normalised_dims(b, args, x)?;
    let x = wide(b, x);
    let eps = args.opt_float("eps")?.unwrap_or(match b.dtype(x) {
        DType::F64 => f64::EPSILON,
        _ => f32::EPSILON as f64,
    });
    let scale = inverse_root(b, x, &dims, eps)?;
    let mut y = b.binary(PointOp::Mul, x, scale)?;
    if let Some(weight) = opt_real(b, args, "weight")? {
        y = b.binary(PointOp::Mul, y, weight)?;
    }
    Ok(b.cast(y, dtype).into())
}

/// Statistics over the channels of a group and all positions. The affine map is applied in the grouped shape, so that the whole
/// is one row computation.
fn group_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = float(b, args, "input", "\"GroupNormKernelImpl\"")?;
    let (dtype, shape) = (b.dtype(x), b.shape(x));
    let groups = args.const_int("num_groups")?;
    if shape.len() < 2 || groups < 1 || !divides(groups, &shape[1])? {
        let message =
            format!("Expected number of channels in input to be divisible by num_groups, but got {shape:?} and {groups}");
        return Err(OpError::runtime(message));
    }
    let inner = shape[1].div(&Sym::from(groups));
    let mut grouped: Vec<Sym> = vec![shape[0].clone(), Sym::from(groups), inner.clone()];
    grouped.extend(shape[2..].iter().cloned());
    let x = b.reshape(x, &grouped)?;
    let x = wide(b, x);
    let dims: Vec<usize> = (2..grouped.len()).collect();
    let y = standardised(b, x, &dims, args.float("eps")?)?;
    let rank = grouped.len();
    let y = affine(b, args, y, &|b, parameter| {
        let mut lay = vec![Sym::ONE; rank];
        (lay[1], lay[2]) = (Sym::from(groups), inner.clone());
        b.reshape(parameter, &lay)
    })?;
    let y = b.cast(y, dtype);
    Ok(b.reshape(y, &shape)?.into())
}

fn instance_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = float(b, args, "input", "\"instance_norm\"")?;
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    if rank < 3 {
        return Err(OpError::value(format!("instance_norm expects at least 3 dimensions, got {rank}")));
    }
    if !flag(args, "use_input_stats")? {
        return normalise_by_running(b, args, x);
    }
    let dims: Vec<usize> = (2..rank).collect();
    if is_one(&count_in(b, x, &dims)) {
        return Err(OpError::value("Expected more than 1 spatial element when training"));
    }
    let x = wide(b, x);
    if args.has("running_mean") {
        follow_instances(b, args, x, &dims)?;
    }
    let y = standardised(b, x, &dims, args.float("eps")?)?;
    let y = affine(b, args, y, &|b, parameter| per_channel(b, parameter, rank))?;
    Ok(b.cast(y, dtype).into())
}

/// Each value divided by a power of the mean square of its `size` neighbours in the channel dimension, zeros beyond the ends.
fn local_response_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = only_float(b, args, "input", "local_response_norm")?;
    let rank = b.rank(x);
    if rank < 3 {
        return Err(OpError::value(format!("Expected 3D or higher dimensionality input (got {rank} dimensions)")));
    }
    let (size, dtype) = (args.const_int("size")?, b.dtype(x));
    let x = wide(b, x);
    let squares = square(b, x)?;
    let (mut low, mut high) = (vec![Sym::ZERO; rank], vec![Sym::ZERO; rank]);
    (low[1], high[1]) = (Sym::from(size / 2), Sym::from((size - 1) / 2));
    let padded = b.pad(squares, &low, &high, Scalar::Float(0.0))?;
    let count = b.ty(x).shape[1].clone();
    let windows = b.unfold(padded, 1, &count, &Sym::from(size), 1, 1)?;
    let mean = mean_over(b, windows, &[rank])?;
    let mean = b.squeeze(mean, &[rank])?;
    let scaled = b.binary(PointOp::Mul, mean, args.float("alpha")?)?;
    let raised = b.binary(PointOp::Add, scaled, args.float("k")?)?;
    let divisor = b.binary(PointOp::Pow, raised, args.float("beta")?)?;
    let y = b.binary(PointOp::Div, x, divisor)?;
    Ok(b.cast(y, dtype).into())
}

/// A norm that is not divided by when it is nearly zero.
fn norm_at_least(b: &mut Builder, x: NodeId, p: f64, dims: &[usize], eps: f64) -> OpResult<NodeId> {
    let norm = norm_over(b, x, p, dims)?;
    b.binary(PointOp::Maximum, norm, eps)
}

fn normalize(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = float(b, args, "input", "linalg.vector_norm")?;
    let dims = super::shared::reduced_dims(args, "dim", b.rank(x))?;
    let norm = norm_at_least(b, x, args.float("p")?, &dims, args.float("eps")?)?;
    Ok(b.binary(PointOp::Div, x, norm)?.into())
}

fn cosine_similarity(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y, eps) = (real(b, args, "x1")?, real(b, args, "x2")?, args.float("eps")?);
    let dtype = b.result_type(&[x.into(), y.into()]);
    if !dtype.is_float() {
        return Err(OpError::runtime(format!("expected common dtype to be floating point, yet common dtype is {dtype}")));
    }
    let (x, y) = (b.cast(x, dtype), b.cast(y, dtype));
    let both = b.broadcast(&[x, y])?;
    let dim = args.dim("dim", b.rank(both[0]))?;
    if b.rank(both[0]) == 0 {
        return Err(OpError::unsupported("cosine_similarity of numbers"));
    }
    Ok(cosine_along(b, both[0], both[1], dim, eps)?.into())
}

/// The cosine of the angle between equally shaped tensors along `dim`, which goes.
pub fn cosine_along(b: &mut Builder, x: NodeId, y: NodeId, dim: usize, eps: f64) -> OpResult<NodeId> {
    let (nx, ny) = (norm_at_least(b, x, 2.0, &[dim], eps)?, norm_at_least(b, y, 2.0, &[dim], eps)?);
    let (x, y) = (b.binary(PointOp::Div, x, nx)?, b.binary(PointOp::Div, y, ny)?);
    let product = b.binary(PointOp::Mul, x, y)?;
    let dtype = b.dtype(product);
    let product = wide(b, product);
    let cosine = sum_over(b, product, &[dim])?;
    let cosine = b.cast(cosine, dtype);
    b.squeeze(cosine, &[dim])
}

/// The p-norm of `x - y + eps` over the last dimension.
pub fn distance(b: &mut Builder, x: NodeId, y: NodeId, p: f64, eps: f64, keepdim: bool) -> OpResult<NodeId> {
    let gap = b.binary(PointOp::Sub, x, y)?;
    let gap = b.binary(PointOp::Add, gap, eps)?;
    let Some(last) = b.rank(gap).checked_sub(1) else {
        return Err(OpError::unsupported("distance of numbers"));
    };
    let value = norm_over(b, gap, p, &[last])?;
    drop_dims(b, value, &[last], keepdim)
}

/// All pairs of rows; torch's own kernel, which chooses between two ways by the sizes.
fn cdist(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y) = (float(b, args, "x1", "cdist")?, float(b, args, "x2", "cdist")?);
    let (rx, ry) = (b.rank(x), b.rank(y));
    if rx < 2 || ry < 2 || b.dtype(x) != b.dtype(y) {
        return Err(OpError::unsupported("cdist of vectors or of two types"));
    }
    let mode = match args.str("compute_mode")? {
        "use_mm_for_euclid_dist_if_necessary" => Arg::None,
        "use_mm_for_euclid_dist" => int(1),
        "donot_use_mm_for_euclid_dist" => int(2),
        other => return Err(OpError::value(format!("{other} is not a valid value for compute_mode"))),
    };
    let (sx, sy) = (b.shape(x), b.shape(y));
    let mut shape = broadcast_shapes(&[&sx[..rx - 2], &sy[..ry - 2]])?;
    shape.extend([sx[rx - 2].clone(), sy[ry - 2].clone()]);
    let p = Arg::Float(Scalar::Float(args.float("p")?));
    one(Operator::new("aten::cdist", "", [Arg::Tensor(1), p, mode]).call(b, &[x, y], &[(b.dtype(x), shape)])?)
}

fn pairwise_distance(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y) = (real(b, args, "x1")?, real(b, args, "x2")?);
    let (p, eps) = (args.float("p")?, args.float("eps")?);
    Ok(distance(b, x, y, p, eps, args.boolean("keepdim")?)?.into())
}
