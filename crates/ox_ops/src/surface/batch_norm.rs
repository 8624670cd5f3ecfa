//! Batch normalisation, which alone keeps statistics: in training the running ones are written.

use super::shared::{centred, count_in, float, mean_over, opt_real, per_channel, real, size_operand, square, sum_over, wide};
use super::slope::standardised_slope;
use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::decide::is_one;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::value::Value;
use ox_ir::graph::NodeId;
use ox_ir::{DType, PointOp, Sym};

pub const ROWS: &[Surface] = &[
    fresh(
        &["F.batch_norm"],
        "input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5",
        batch_norm,
    ),
    fresh(
        &["batch_norm"],
        "input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True",
        batch_norm,
    ),
];

fn batch_norm(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = float(b, args, "input", "\"batch_norm\"")?;
    let rank = b.rank(x);
    if rank < 2 {
        return Err(OpError::unsupported("batch_norm without a channel dimension"));
    }
    if args.boolean("training")? {
        let (mean, variance) = batch_statistics(b, args, x)?;
        let y = apply(b, args, x, mean, variance)?;
        return by_batch_slope(b, args, y, x, mean, variance);
    }
    let (mean, variance) = (running(b, args, "running_mean")?, running(b, args, "running_var")?);
    apply(b, args, x, mean, variance)
}

/// The derivative of a norm by the statistics of its batch: that of the standardised values times weight plus bias.
fn by_batch_slope(b: &mut Builder, args: &Bound, y: Value, x: NodeId, mean: NodeId, variance: NodeId) -> OpResult<Value> {
    let y = y.as_tensor().ok_or_else(|| OpError::bug("a norm that is no tensor"))?;
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    let dims: Vec<usize> = (0..rank).filter(|d| *d != 1).collect();
    let raised = b.binary(PointOp::Add, variance, args.float("eps")?)?;
    let scale = b.unary(PointOp::Rsqrt, raised)?;
    let (mean, scale) = (per_channel(b, mean, rank)?, per_channel(b, scale, rank)?);
    let x = wide(b, x);
    let standard = ((Expr::Node(x) - mean) * scale).build(b)?;
    let mut path = standardised_slope(b, standard, x, scale, &dims)?;
    for (name, op) in [("weight", PointOp::Mul), ("bias", PointOp::Add)] {
        if let Some(parameter) = opt_real(b, args, name)? {
            let parameter = wide(b, parameter);
            let parameter = per_channel(b, parameter, rank)?;
            path = b.binary(op, path, parameter)?;
        }
    }
    let path = b.cast(path, dtype);
    Ok(b.graft(y, path)?.into())
}

/// With running statistics an instance norm is a batch norm.
pub(super) fn normalise_by_running(b: &mut Builder, args: &Bound, x: NodeId) -> OpResult<Value> {
    let (mean, variance) = (running(b, args, "running_mean")?, running(b, args, "running_var")?);
    apply(b, args, x, mean, variance)
}

fn apply(b: &mut Builder, args: &Bound, x: NodeId, mean: NodeId, variance: NodeId) -> OpResult<Value> {
    let (scale, shift) = scale_and_shift(b, args, mean, variance)?;
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    let (scale, shift) = (per_channel(b, scale, rank)?, per_channel(b, shift, rank)?);
    let wide_x = wide(b, x);
    let scaled = b.binary(PointOp::Mul, wide_x, scale)?;
    let y = b.binary(PointOp::Add, scaled, shift)?;
    Ok(b.cast(y, dtype).into())
}

fn running(b: &mut Builder, args: &Bound, name: &str) -> OpResult<NodeId> {
    if !args.has(name) {
        return Err(OpError::runtime(format!("Expected {name} to be defined when training=False")));
    }
    let value = real(b, args, name)?;
    Ok(wide(b, value))
}

/// Per channel: `y = x * scale + shift`, which is what eager computes, too.
fn scale_and_shift(b: &mut Builder, args: &Bound, mean: NodeId, variance: NodeId) -> OpResult<(NodeId, NodeId)> {
    let raised = b.binary(PointOp::Add, variance, args.float("eps")?)?;
    let mut scale = b.unary(PointOp::Rsqrt, raised)?;
    if let Some(weight) = opt_real(b, args, "weight")? {
        let weight = wide(b, weight);
        scale = b.binary(PointOp::Mul, scale, weight)?;
    }
    let offset = b.binary(PointOp::Mul, mean, scale)?;
    let shift = match opt_real(b, args, "bias")? {
        Some(bias) => {
            let bias = wide(b, bias);
            b.binary(PointOp::Sub, bias, offset)?
        }
        None => b.unary(PointOp::Neg, offset)?,
    };
    Ok((scale, shift))
}

/// Mean and variance of the batch, as vectors; moves the running ones towards them. Those of nothing are zeros, and move nothing.
fn batch_statistics(b: &mut Builder, args: &mut Bound, x: NodeId) -> OpResult<(NodeId, NodeId)> {
    let dims: Vec<usize> = (0..b.rank(x)).filter(|d| *d != 1).collect();
    let count = count_in(b, x, &dims);
    if is_one(&count) {
        return Err(OpError::value("Expected more than 1 value per channel when training"));
    }
    let x = wide(b, x);
    let mean = mean_or_zero(b, x, &dims, &count)?;
    let centred = b.binary(PointOp::Sub, x, mean)?;
    let squares = square(b, centred)?;
    let variance = mean_or_zero(b, squares, &dims, &count)?;
    let (mean, variance) = (b.squeeze(mean, &dims)?, b.squeeze(variance, &dims)?);
    if args.has("running_mean") {
        let pace = Pace::of(b, args, &count)?;
        let unbiased = unbiased(b, variance, &count)?;
        move_towards(b, args, "running_mean", mean, &pace)?;
        move_towards(b, args, "running_var", unbiased, &pace)?;
    }
    Ok((mean, variance))
}

fn mean_or_zero(b: &mut Builder, x: NodeId, dims: &[usize], count: &Sym) -> OpResult<NodeId> {
    let sum = sum_over(b, x, dims)?;
    b.binary(PointOp::Div, sum, size_operand(&count.greater(&Sym::ONE)))
}

/// Moves the running statistics towards those of the instances (over `dims`), each as far as a batch norm of that instance alone
/// would, and keeps the mean over the batch. `x` is wide.
pub(super) fn follow_instances(b: &mut Builder, args: &mut Bound, x: NodeId, dims: &[usize]) -> OpResult<()> {
    let count = count_in(b, x, dims);
    let (centred, mean) = centred(b, x, dims)?;
    let squares = square(b, centred)?;
    let variance = mean_over(b, squares, dims)?;
    let unbiased = unbiased(b, variance, &count)?;
    let pace = Pace::of(b, args, &count)?;
    for (name, of_instances) in [("running_mean", mean), ("running_var", unbiased)] {
        let of_batch = mean_over(b, of_instances, &[0])?;
        let of_batch = b.reshape(of_batch, &[b.shape(x)[1].clone()])?;
        move_towards(b, args, name, of_batch, &pace)?;
    }
    Ok(())
}

fn unbiased(b: &mut Builder, variance: NodeId, count: &Sym) -> OpResult<NodeId> {
    let total = b.binary(PointOp::Mul, variance, size_operand(count))?;
    b.binary(PointOp::Div, total, size_operand(&(count - 1)))
}

/// How much of the old statistics is kept, and how much of the new ones added.
struct Pace {
    kept: Operand,
    added: Operand,
    /// The elements that the new ones are of. Where there is none, the old ones stay.
    count: Sym,
}

impl Pace {
    /// By the momentum. Where that is an average over all batches (`momentum=None`), it is another number in every call.
    fn of(b: &mut Builder, args: &Bound, count: &Sym) -> OpResult<Pace> {
        let count = count.clone();
        let Operand::Number(momentum) = args.operand("momentum")? else {
            let momentum = args.float("momentum")?;
            return Ok(Pace { kept: (1.0 - momentum).into(), added: momentum.into(), count });
        };
        let momentum = b.cast(momentum, DType::F64);
        let rest = b.binary(PointOp::Sub, 1.0, momentum)?;
        Ok(Pace { kept: Operand::Number(rest), added: Operand::Number(momentum), count })
    }
}

fn move_towards(b: &mut Builder, args: &mut Bound, name: &'static str, value: NodeId, pace: &Pace) -> OpResult<()> {
    let old = real(b, args, name)?;
    let dtype: DType = b.dtype(old);
    let old = wide(b, old);
    let kept = b.binary(PointOp::Mul, old, pace.kept.clone())?;
    let added = b.binary(PointOp::Mul, value, pace.added.clone())?;
    let mut new = b.binary(PointOp::Add, kept, added)?;
    if !pace.count.is_positive() {
        let nothing = b.binary(PointOp::Eq, size_operand(&pace.count), 0i64)?;
        new = b.choose(nothing, old, new)?;
    }
    let new = b.cast(new, dtype);
    let new = b.detach(new)?;
    args.write(name, new);
    Ok(())
}
