//! Losses of one element against one element, and how losses are reduced.

use super::operator::{Operator, int, one};
use super::shared::{mean_over, real, require_float, same_sizes, sum_over, wide};
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{Arg, NodeId, Shape};
use ox_ir::{DType, PointOp};

pub const ROWS: &[Surface] = &[
    fresh(&["F.mse_loss"], "input, target, size_average=None, reduce=None, reduction=mean, weight=None", mse_loss),
    fresh(&["F.l1_loss"], "input, target, size_average=None, reduce=None, reduction=mean, weight=None", l1_loss),
    fresh(&["F.smooth_l1_loss"], "input, target, size_average=None, reduce=None, reduction=mean, beta=1.0", smooth_l1_loss),
    fresh(&["F.huber_loss"], "input, target, reduction=mean, delta=1.0, weight=None", huber_loss),
    fresh(
        &["F.binary_cross_entropy_with_logits"],
        "input, target, weight=None, size_average=None, reduce=None, reduction=mean, pos_weight=None",
        bce_with_logits,
    ),
    fresh(
        &["F.binary_cross_entropy"],
        "input, target, weight=None, size_average=None, reduce=None, reduction=mean",
        binary_cross_entropy,
    ),
    fresh(&["F.kl_div"], "input, target, size_average=None, reduce=None, reduction=mean, log_target=False", kl_div),
    fresh(&["F.soft_margin_loss"], "input, target, size_average=None, reduce=None, reduction=mean", soft_margin_loss),
    fresh(
        &["F.poisson_nll_loss"],
        "input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction=mean",
        poisson_nll_loss,
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    None,
    Mean,
    Sum,
}

/// How the call wants its losses. The two flags that `reduction` replaced are eager's.
pub fn reduction(args: &Bound) -> OpResult<Reduction> {
    if ["size_average", "reduce"].iter().any(|name| args.knows(name) && args.has(name)) {
        return Err(OpError::unsupported("size_average and reduce"));
    }
    match args.str("reduction")? {
        "none" => Ok(Reduction::None),
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        other => Err(OpError::value(format!("{other} is not a valid value for reduction"))),
    }
}

/// The losses reduced, in their own type.
pub fn reduced(b: &mut Builder, losses: NodeId, reduction: Reduction) -> OpResult<Value> {
    if reduction == Reduction::None {
        return Ok(losses.into());
    }
    let dtype = b.dtype(losses);
    let dims: Vec<usize> = (0..b.rank(losses)).collect();
    let losses = wide(b, losses);
    let value = match reduction {
        Reduction::Mean => mean_over(b, losses, &dims)?,
        _ => sum_over(b, losses, &dims)?,
    };
    let value = b.cast(value, dtype);
    Ok(b.squeeze(value, &dims)?.into())
}

/// A loss of two tensors that broadcast: computed wide, rounded, reduced.
fn paired(b: &mut Builder, args: &Bound, f: impl FnOnce(&mut Builder, NodeId, NodeId) -> OpResult<NodeId>) -> OpResult<Value> {
    let reduction = reduction(args)?;
    let losses = paired_losses(b, args, f)?;
    reduced(b, losses, reduction)
}

fn paired_losses(
    b: &mut Builder,
    args: &Bound,
    f: impl FnOnce(&mut Builder, NodeId, NodeId) -> OpResult<NodeId>,
) -> OpResult<NodeId> {
    if args.knows("weight") && args.has("weight") {
        return Err(OpError::unsupported("a weighted loss"));
    }
    let (x, y, dtype) = pair(b, args)?;
    let (x, y) = (wide(b, x), wide(b, y));
    let losses = f(b, x, y)?;
    Ok(b.cast(losses, dtype))
}

/// Input and target in one type and shape.
fn pair(b: &mut Builder, args: &Bound) -> OpResult<(NodeId, NodeId, DType)> {
    let (x, y) = (real(b, args, "input")?, real(b, args, "target")?);
    let dtype = b.result_type(&[x.into(), y.into()]);
    let (x, y) = (b.cast(x, dtype), b.cast(y, dtype));
    if !dtype.is_float() {
        return Err(OpError::unsupported(format!("a loss of {dtype}")));
    }
    let pair = b.broadcast(&[x, y])?;
    Ok((pair[0], pair[1], dtype))
}

/// The distance of `x` and `y`.
fn gap(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    let gap = b.point(PointOp::Sub, &[x, y])?;
    b.point(PointOp::Abs, &[gap])
}

fn mse_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    paired(b, args, |b, x, y| {
        let gap = b.point(PointOp::Sub, &[x, y])?;
        b.point(PointOp::Mul, &[gap, gap])
    })
}

fn l1_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    paired(b, args, gap)
}

fn smooth_l1_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let beta = args.float("beta")?;
    if beta < 0.0 {
        return Err(OpError::runtime("smooth_l1_loss does not support negative values for beta."));
    }
    if beta == 0.0 {
        return l1_loss(b, args);
    }
    paired(b, args, |b, x, y| {
        let gap = gap(b, x, y)?;
        let near = b.binary(PointOp::Lt, gap, beta)?;
        let half = b.binary(PointOp::Mul, gap, 0.5)?;
        let square = b.binary(PointOp::Mul, half, gap)?;
        let square = b.binary(PointOp::Div, square, beta)?;
        let line = b.binary(PointOp::Sub, gap, 0.5 * beta)?;
        b.choose(near, square, line)
    })
}

fn huber_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let delta = args.float("delta")?;
    if delta <= 0.0 {
        return Err(OpError::runtime("huber_loss does not support non-positive values for delta."));
    }
    paired(b, args, |b, x, y| {
        let gap = gap(b, x, y)?;
        let near = b.binary(PointOp::Le, gap, delta)?;
        let half = b.binary(PointOp::Mul, gap, 0.5)?;
        let square = b.binary(PointOp::Mul, half, gap)?;
        let line = b.binary(PointOp::Sub, gap, 0.5 * delta)?;
        let line = b.binary(PointOp::Mul, line, delta)?;
        b.choose(near, square, line)
    })
}

/// `log(sigmoid(x))`, without overflow on either side.
pub fn log_sigmoid(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let below = b.binary(PointOp::Minimum, x, 0.0)?;
    let size = b.unary(PointOp::Abs, x)?;
    let size = b.unary(PointOp::Neg, size)?;
    let power = b.unary(PointOp::Exp, size)?;
    let tail = b.unary(PointOp::Log1p, power)?;
    b.binary(PointOp::Sub, below, tail)
}

fn bce_with_logits(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let reduction = reduction(args)?;
    let (x, y) = (real(b, args, "input")?, real(b, args, "target")?);
    if !same_sizes(&b.shape(x), &b.shape(y))? {
        return Err(OpError::value("Target size must be the same as input size"));
    }
    require_float(b, x, "binary_cross_entropy_with_logits")?;
    let dtype = b.result_type(&[x.into(), y.into()]);
    let (x, y) = (wide(b, x), wide(b, y));
    let mut log = log_sigmoid(b, x)?;
    if let Some(positive) = args.opt_tensor("pos_weight")? {
        let positive = wide(b, positive);
        let extra = b.binary(PointOp::Sub, positive, 1.0)?;
        let extra = b.binary(PointOp::Mul, extra, y)?;
        let factor = b.binary(PointOp::Add, extra, 1.0)?;
        log = b.binary(PointOp::Mul, log, factor)?;
    }
    let negated = b.unary(PointOp::Neg, y)?;
    let rest = b.binary(PointOp::Add, negated, 1.0)?;
    let rest = b.binary(PointOp::Mul, rest, x)?;
    let mut losses = b.binary(PointOp::Sub, rest, log)?;
    if let Some(weight) = args.opt_tensor("weight")? {
        let weight = wide(b, weight);
        losses = b.binary(PointOp::Mul, losses, weight)?;
    }
    let losses = b.cast(losses, dtype);
    reduced(b, losses, reduction)
}

/// Torch's own kernel, because it checks that the probabilities are some.
fn binary_cross_entropy(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y) = (real(b, args, "input")?, real(b, args, "target")?);
    if !same_sizes(&b.shape(x), &b.shape(y))? {
        return Err(OpError::value("Using a target size that is different to the input size is deprecated"));
    }
    let shape = b.shape(x);
    let (number, out) = match reduction(args)? {
        Reduction::None => (0, shape.clone()),
        Reduction::Mean => (1, Shape::new()),
        Reduction::Sum => (2, Shape::new()),
    };
    let mut tensors = vec![x, y];
    let weight = match args.opt_tensor("weight")? {
        Some(weight) => {
            tensors.push(b.broadcast_to(weight, &shape)?);
            Arg::Tensor(2)
        }
        None => Arg::None,
    };
    let operator = Operator::new("aten::binary_cross_entropy", "", [Arg::Tensor(1), weight, int(number)]);
    one(operator.call(b, &tensors, &[(b.dtype(x), out)])?)
}

/// 'batchmean' is the sum over the number of rows.
fn kl_div(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let batch_mean = args.str("reduction")? == "batchmean";
    let reduction = if batch_mean { Reduction::Sum } else { reduction(args)? };
    let log_target = args.boolean("log_target")?;
    let losses = paired_losses(b, args, |b, x, y| if log_target { kl_of_logs(b, x, y) } else { kl_of_target(b, x, y) })?;
    let value = reduced(b, losses, reduction)?;
    match value.as_tensor() {
        Some(total) if batch_mean => {
            let rows = b.shape(args.tensor("input")?).first().cloned();
            let rows = rows.ok_or_else(|| OpError::unsupported("kl_div of numbers by batch"))?;
            Ok(b.binary(PointOp::Div, total, super::shared::size_operand(&rows))?.into())
        }
        _ => Ok(value),
    }
}

fn kl_of_logs(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    let gap = b.point(PointOp::Sub, &[y, x])?;
    let power = b.unary(PointOp::Exp, y)?;
    b.point(PointOp::Mul, &[power, gap])
}

/// A probability of zero counts nothing.
fn kl_of_target(b: &mut Builder, x: NodeId, y: NodeId) -> OpResult<NodeId> {
    let own = x_log_x(b, y)?;
    let cross = b.point(PointOp::Mul, &[y, x])?;
    b.point(PointOp::Sub, &[own, cross])
}

fn x_log_x(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let log = b.unary(PointOp::Log, x)?;
    let product = b.point(PointOp::Mul, &[x, log])?;
    let zero = b.binary(PointOp::Eq, x, 0.0)?;
    b.choose(zero, 0.0, product)
}

/// In torch each step is an operation of its own: in 16 bits each is rounded, and what is beyond is infinite. They write to memory of the
/// input's shape, which a larger target does not fit.
fn soft_margin_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let reduction = reduction(args)?;
    let shape = b.shape(args.tensor("input")?);
    let (x, y, _) = pair(b, args)?;
    if b.shape(x) != shape {
        return Err(OpError::unsupported("soft_margin_loss with a larger target"));
    }
    let negated = b.unary(PointOp::Neg, x)?;
    let product = b.point(PointOp::Mul, &[negated, y])?;
    let power = b.unary(PointOp::Exp, product)?;
    let losses = b.unary(PointOp::Log1p, power)?;
    reduced(b, losses, reduction)
}

/// Each step is rounded, as eager's are: `eps` is lost in f16, and the logarithm of 0 is infinite.
fn poisson_nll_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (log_input, full, eps) = (args.boolean("log_input")?, args.boolean("full")?, args.float("eps")?);
    let reduction = reduction(args)?;
    let (x, y, _) = pair(b, args)?;
    let (rate, log) = match log_input {
        true => (b.unary(PointOp::Exp, x)?, x),
        false => {
            let raised = b.binary(PointOp::Add, x, eps)?;
            (x, b.unary(PointOp::Log, raised)?)
        }
    };
    let product = b.point(PointOp::Mul, &[y, log])?;
    let mut losses = b.point(PointOp::Sub, &[rate, product])?;
    if full {
        let rest = stirling(b, y)?;
        losses = b.point(PointOp::Add, &[losses, rest])?;
    }
    reduced(b, losses, reduction)
}

/// Stirling's approximation of `log(y!)` for y above 1, else 0.
fn stirling(b: &mut Builder, y: NodeId) -> OpResult<NodeId> {
    let log = b.unary(PointOp::Log, y)?;
    let product = b.point(PointOp::Mul, &[y, log])?;
    let first = b.point(PointOp::Sub, &[product, y])?;
    let circle = b.binary(PointOp::Mul, y, 2.0 * std::f64::consts::PI)?;
    let circle = b.unary(PointOp::Log, circle)?;
    let half = b.binary(PointOp::Mul, circle, 0.5)?;
    let whole = b.point(PointOp::Add, &[first, half])?;
    let small = b.binary(PointOp::Le, y, 1.0)?;
    b.choose(small, 0.0, whole)
}
