//! Losses over classes.
//!
//! The logarithm of the chosen class's probability is taken from that class's score alone, so that no table of
//! log-probabilities need exist: `log_softmax(x)[t] = (x[t] - max) - log(sum(exp(x - max)))`, with eager's roundings.

use super::gather::gather;
use super::loss::{Reduction, reduced, reduction};
use super::shared::{real, require_float, same_sizes, size_operand, sum_over, wide};
use super::softmax::log_softmax_along;
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{Bounds, NodeId, ReduceOp};
use ox_ir::{DType, PointOp, Sym};

pub const ROWS: &[Surface] = &[
    fresh(
        &["F.cross_entropy"],
        "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction=mean, label_smoothing=0.0",
        cross_entropy,
    ),
    fresh(
        &["F.nll_loss"],
        "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction=mean",
        nll_loss,
    ),
];

/// Scores [N, C, ...] and classes [N, ...], with what the call says about them.
struct Classes {
    scores: NodeId,
    target: NodeId,
    weight: Option<NodeId>,
    /// bool [N, ...]: the target that says "none".
    ignored: NodeId,
    reduction: Reduction,
    /// The call had no batch dimension.
    single: bool,
}

fn classes(b: &mut Builder, args: &Bound) -> OpResult<Classes> {
    let (mut scores, mut target) = (real(b, args, "input")?, real(b, args, "target")?);
    require_float(b, scores, "\"log_softmax\"")?;
    if b.dtype(target) != DType::I64 {
        return Err(OpError::unsupported(format!("classes of type {}", b.dtype(target))));
    }
    let single = b.rank(scores) == 1;
    if single {
        (scores, target) = (b.unsqueeze(scores, 0)?, b.unsqueeze(target, 0)?);
    }
    check_shapes(b, scores, target)?;
    let ignored = b.binary(PointOp::Eq, target, args.const_int("ignore_index")?)?;
    let target = b.choose(ignored, 0i64, target)?;
    let weight = class_weight(b, args, scores)?;
    Ok(Classes { scores, target, weight, ignored, reduction: reduction(args)?, single })
}

fn check_shapes(b: &Builder, scores: NodeId, target: NodeId) -> OpResult<()> {
    let mut expected = b.shape(scores);
    if expected.len() < 2 {
        return Err(OpError::value("Expected scores over classes"));
    }
    expected.remove(1);
    if !same_sizes(&expected, &b.shape(target))? {
        let message = format!("Expected target of size {expected:?}, got {:?}", b.shape(target));
        // Eager raises one or the other, by which size is wrong.
        return Err(if b.shape(target).first() != expected.first() {
            OpError::value(message)
        } else {
            OpError::runtime(message)
        });
    }
    Ok(())
}

fn class_weight(b: &mut Builder, args: &Bound, scores: NodeId) -> OpResult<Option<NodeId>> {
    let Some(weight) = args.opt_tensor("weight")? else { return Ok(None) };
    if !same_sizes(&b.shape(weight), &b.shape(scores)[1..2])? {
        return Err(OpError::runtime("weight tensor should be defined either for all classes or no classes"));
    }
    if b.dtype(weight) != b.dtype(scores) {
        return Err(OpError::unsupported("class weights of another type than the scores"));
    }
    Ok(Some(wide(b, weight)))
}

/// The element of each target's class: [N, C, ...] and [N, ...] to [N, ...], wide.
fn pick(b: &mut Builder, x: NodeId, target: NodeId) -> OpResult<NodeId> {
    let index = b.unsqueeze(target, 1)?;
    let picked = gather(b, x, 1, index, Bounds::IndexError)?;
    let picked = b.squeeze(picked, &[1])?;
    Ok(wide(b, picked))
}

/// Rounded to the type of the scores and back, as the table of log-probabilities would be.
fn rounded(b: &mut Builder, x: NodeId, dtype: DType) -> NodeId {
    let narrow = b.cast(x, dtype);
    wide(b, narrow)
}

/// The losses of the targets given their classes' log-probabilities, and what the mean divides by.
fn weighted(b: &mut Builder, c: &Classes, log: NodeId) -> OpResult<(NodeId, NodeId)> {
    let mut losses = b.unary(PointOp::Neg, log)?;
    let mut counted = b.full_like(ox_ir::Scalar::Float(1.0), losses);
    if let Some(weight) = c.weight {
        counted = b.index(weight, &[c.target], &[0], 0, Bounds::IndexError)?;
        losses = b.point(PointOp::Mul, &[losses, counted])?;
    }
    Ok((b.choose(c.ignored, 0.0, losses)?, b.choose(c.ignored, 0.0, counted)?))
}

fn total(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let dims: Vec<usize> = (0..b.rank(x)).collect();
    let sum = sum_over(b, x, &dims)?;
    b.squeeze(sum, &dims)
}

/// The losses reduced; the mean is over the weights of what was not ignored. In the wide type.
fn combined(b: &mut Builder, c: &Classes, losses: NodeId, counted: NodeId) -> OpResult<NodeId> {
    match c.reduction {
        Reduction::None if c.single => b.squeeze(losses, &[0]),
        Reduction::None => Ok(losses),
        Reduction::Sum => total(b, losses),
        Reduction::Mean => {
            let (sum, count) = (total(b, losses)?, total(b, counted)?);
            b.point(PointOp::Div, &[sum, count])
        }
    }
}

fn nll_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let c = classes(b, args)?;
    let log = pick(b, c.scores, c.target)?;
    let (losses, counted) = weighted(b, &c, log)?;
    let value = combined(b, &c, losses, counted)?;
    let dtype = b.dtype(c.scores);
    Ok(b.cast(value, dtype).into())
}

fn cross_entropy(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let smoothing = args.float("label_smoothing")?;
    if !(0.0..=1.0).contains(&smoothing) {
        return Err(OpError::runtime(format!("label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")));
    }
    if b.dtype(args.tensor("target")?).is_float() {
        return of_probabilities(b, args, smoothing);
    }
    let c = classes(b, args)?;
    let dtype = b.dtype(c.scores);
    let log = picked_log_softmax(b, &c)?;
    let (losses, counted) = weighted(b, &c, log)?;
    let hard = combined(b, &c, losses, counted)?;
    let value = match smoothing {
        0.0 => hard,
        _ => {
            let soft = smooth(b, &c, counted)?;
            let classes = b.shape(c.scores)[1].clone();
            let hard = b.binary(PointOp::Mul, hard, 1.0 - smoothing)?;
            let soft = b.binary(PointOp::Mul, soft, smoothing)?;
            let soft = b.binary(PointOp::Div, soft, size_operand(&classes))?;
            b.point(PointOp::Add, &[hard, soft])?
        }
    };
    Ok(b.cast(value, dtype).into())
}

fn picked_log_softmax(b: &mut Builder, c: &Classes) -> OpResult<NodeId> {
    let x = wide(b, c.scores);
    // Whatever is subtracted, the result is the same: it has no gradient.
    let max = b.reduce(ReduceOp::Max, x, &[1])?;
    let max = b.detach(max)?;
    let shifted = b.binary(PointOp::Sub, x, max)?;
    let powers = b.unary(PointOp::Exp, shifted)?;
    let sum = sum_over(b, powers, &[1])?;
    let log = b.unary(PointOp::Log, sum)?;
    let (max, log) = (b.squeeze(max, &[1])?, b.squeeze(log, &[1])?);
    let own = pick(b, x, c.target)?;
    let own = b.point(PointOp::Sub, &[own, max])?;
    let own = b.point(PointOp::Sub, &[own, log])?;
    Ok(rounded(b, own, b.dtype(c.scores)))
}

/// The loss against equal probabilities for all classes, reduced.
fn smooth(b: &mut Builder, c: &Classes, counted: NodeId) -> OpResult<NodeId> {
    let x = wide(b, c.scores);
    let log = log_softmax_along(b, x, 1)?;
    let mut log = rounded(b, log, b.dtype(c.scores));
    if let Some(weight) = c.weight {
        let weight = super::shared::per_channel(b, weight, b.rank(log))?;
        log = b.binary(PointOp::Mul, log, weight)?;
    }
    let sum = sum_over(b, log, &[1])?;
    let sum = b.squeeze(sum, &[1])?;
    let losses = b.unary(PointOp::Neg, sum)?;
    let losses = b.choose(c.ignored, 0.0, losses)?;
    combined(b, c, losses, counted)
}

/// Targets are probabilities of all classes; `ignore_index` means nothing.
fn of_probabilities(b: &mut Builder, args: &Bound, smoothing: f64) -> OpResult<Value> {
    let (mut scores, mut target) = (real(b, args, "input")?, real(b, args, "target")?);
    require_float(b, scores, "\"log_softmax\"")?;
    if b.rank(scores) == 0 || !same_sizes(&b.shape(scores), &b.shape(target))? {
        return Err(OpError::runtime("expected scores and probabilities of one shape"));
    }
    let single = b.rank(scores) == 1;
    if single {
        (scores, target) = (b.unsqueeze(scores, 0)?, b.unsqueeze(target, 0)?);
    }
    let (dtype, classes) = (b.dtype(scores), b.shape(scores)[1].clone());
    let weight = class_weight(b, args, scores)?;
    let x = wide(b, scores);
    let log = log_softmax_along(b, x, 1)?;
    let log = rounded(b, log, dtype);
    let target = smoothed(b, target, smoothing, &classes)?;
    let mut products = b.binary(PointOp::Mul, log, target)?;
    if let Some(weight) = weight {
        let weight = super::shared::per_channel(b, weight, b.rank(products))?;
        products = b.binary(PointOp::Mul, products, weight)?;
    }
    let sum = sum_over(b, products, &[1])?;
    let sum = b.squeeze(sum, &[1])?;
    let losses = b.unary(PointOp::Neg, sum)?;
    let losses = if single { b.squeeze(losses, &[0])? } else { losses };
    finish_probabilities(b, losses, reduction(args)?, dtype)
}

fn finish_probabilities(b: &mut Builder, losses: NodeId, reduction: Reduction, dtype: DType) -> OpResult<Value> {
    let value = reduced(b, losses, reduction)?;
    let value = value.as_tensor().ok_or_else(|| OpError::bug("a loss that is no tensor"))?;
    Ok(b.cast(value, dtype).into())
}

fn smoothed(b: &mut Builder, target: NodeId, smoothing: f64, classes: &Sym) -> OpResult<NodeId> {
    let target = wide(b, target);
    if smoothing == 0.0 {
        return Ok(target);
    }
    let kept = b.binary(PointOp::Mul, target, 1.0 - smoothing)?;
    let Some(n) = classes.as_const() else {
        return Err(OpError::unsupported("label smoothing over an unknown number of classes"));
    };
    b.binary(PointOp::Add, kept, smoothing / n as f64)
}
