//! Losses with a margin.

use super::loss::{Reduction, log_sigmoid, reduced, reduction};
use super::norm::distance;
use super::operator::{Operator, int, one};
use super::shared::{only_float, real, size_operand, sum_over, wide};
use super::slope::gated;
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::infer::differ;
use crate::value::Value;
use ox_ir::graph::{Arg, Bounds, NodeId};
use ox_ir::{DType, PointOp, Sym};

pub const ROWS: &[Surface] = &[
    fresh(
        &["F.hinge_embedding_loss"],
        "input, target, margin=1.0, size_average=None, reduce=None, reduction=mean",
        hinge_embedding_loss,
    ),
    fresh(
        &["F.margin_ranking_loss"],
        "input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction=mean",
        margin_ranking_loss,
    ),
    fresh(
        &["F.cosine_embedding_loss"],
        "input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction=mean",
        cosine_embedding_loss,
    ),
    fresh(
        &["F.triplet_margin_loss"],
        "anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None, reduction=mean",
        triplet_margin_loss,
    ),
    fresh(
        &["F.multilabel_soft_margin_loss"],
        "input, target, weight=None, size_average=None, reduce=None, reduction=mean",
        multilabel_soft_margin_loss,
    ),
    fresh(
        &["F.multi_margin_loss"],
        "input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction=mean",
        multi_margin_loss,
    ),
    fresh(&["F.multilabel_margin_loss"], "input, target, size_average=None, reduce=None, reduction=mean", multilabel_margin_loss),
];

/// `max(margin - x, 0)`.
fn short_of(b: &mut Builder, x: NodeId, margin: f64) -> OpResult<NodeId> {
    let negated = b.unary(PointOp::Neg, x)?;
    let rest = b.binary(PointOp::Add, negated, margin)?;
    at_least_zero(b, rest)
}

/// Eager's `clamp_min`: at zero the gradient passes whole.
fn at_least_zero(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    let value = b.binary(PointOp::Maximum, x, 0.0)?;
    gated(b, value, x, Expr::Node(x).ge(0.0))
}

fn hinge_embedding_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, target) = (real(b, args, "input")?, real(b, args, "target")?);
    let short = short_of(b, x, args.float("margin")?)?;
    let (far, near) = (b.binary(PointOp::Ne, target, 1i64)?, b.binary(PointOp::Ne, target, -1i64)?);
    let zero = b.full(ox_ir::Scalar::Int(0), b.dtype(x), &[]);
    let (far, near) = (b.choose(far, short, zero)?, b.choose(near, x, zero)?);
    let losses = b.binary(PointOp::Add, far, near)?;
    reduced(b, losses, reduction(args)?)
}

fn margin_ranking_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, y, target) = (real(b, args, "input1")?, real(b, args, "input2")?, real(b, args, "target")?);
    if b.rank(x) != b.rank(y) || b.rank(x) != b.rank(target) {
        return Err(OpError::runtime("margin_ranking_loss : All input tensors should have same dimension"));
    }
    let gap = b.binary(PointOp::Sub, x, y)?;
    let product = b.binary(PointOp::Mul, target, gap)?;
    let losses = short_of(b, product, args.float("margin")?)?;
    reduced(b, losses, reduction(args)?)
}

/// The sum over the feature dimension of the product, in the type of the factors.
fn inner(b: &mut Builder, x: NodeId, y: NodeId, dim: usize) -> OpResult<NodeId> {
    let product = b.binary(PointOp::Mul, x, y)?;
    let dtype = b.dtype(product);
    let product = wide(b, product);
    let sum = sum_over(b, product, &[dim])?;
    let sum = b.cast(sum, dtype);
    b.squeeze(sum, &[dim])
}

fn cosine_embedding_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let [x, y] = ["input1", "input2"].map(|name| only_float(b, args, name, "cosine_embedding_loss"));
    let (x, y, target) = (x?, y?, real(b, args, "target")?);
    let dim = b.rank(target);
    if dim > 1 || b.rank(x) != dim + 1 || b.rank(y) != dim + 1 {
        return Err(OpError::runtime("cosine_embedding_loss expects vectors for each target"));
    }
    let product = inner(b, x, y, dim)?;
    let mut sizes = Vec::with_capacity(2);
    for v in [x, y] {
        let square = inner(b, v, v, dim)?;
        sizes.push(b.binary(PointOp::Add, square, 1e-12)?);
    }
    let size = b.binary(PointOp::Mul, sizes[0], sizes[1])?;
    let size = b.unary(PointOp::Sqrt, size)?;
    let cosine = b.binary(PointOp::Div, product, size)?;
    let negated = b.unary(PointOp::Neg, cosine)?;
    let apart = b.binary(PointOp::Add, negated, 1.0)?;
    let beyond = b.binary(PointOp::Sub, cosine, args.float("margin")?)?;
    let beyond = at_least_zero(b, beyond)?;
    let (same, other) = (b.binary(PointOp::Eq, target, 1i64)?, b.binary(PointOp::Eq, target, -1i64)?);
    let zero = b.full(ox_ir::Scalar::Int(0), b.dtype(cosine), &[]);
    let rest = b.choose(other, beyond, zero)?;
    let losses = b.choose(same, apart, rest)?;
    reduced(b, losses, reduction(args)?)
}

fn triplet_margin_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let [anchor, positive, negative] = ["anchor", "positive", "negative"].map(|name| real(b, args, name));
    let [anchor, positive, negative] = [anchor?, positive?, negative?];
    if b.rank(anchor) != b.rank(positive) || b.rank(anchor) != b.rank(negative) {
        return Err(OpError::runtime(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions",
        ));
    }
    let (p, eps, margin) = (args.float("p")?, args.float("eps")?, args.float("margin")?);
    if margin <= 0.0 {
        return Err(OpError::value(format!("margin must be greater than 0, got {margin}")));
    }
    let near = distance(b, anchor, positive, p, eps, false)?;
    let mut far = distance(b, anchor, negative, p, eps, false)?;
    if args.boolean("swap")? {
        let swapped = distance(b, positive, negative, p, eps, false)?;
        far = b.binary(PointOp::Minimum, far, swapped)?;
    }
    let near = b.binary(PointOp::Add, near, margin)?;
    let losses = b.binary(PointOp::Sub, near, far)?;
    let losses = at_least_zero(b, losses)?;
    reduced(b, losses, reduction(args)?)
}

fn multilabel_soft_margin_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, target) = (real(b, args, "input")?, real(b, args, "target")?);
    let Some(last) = b.rank(x).checked_sub(1) else {
        return Err(OpError::unsupported("multilabel_soft_margin_loss of numbers"));
    };
    let negated = b.unary(PointOp::Neg, x)?;
    let (yes, no) = (log_sigmoid(b, x)?, log_sigmoid(b, negated)?);
    let minus = b.unary(PointOp::Neg, target)?;
    let rest = b.binary(PointOp::Add, minus, 1i64)?;
    let (yes, no) = (b.binary(PointOp::Mul, target, yes)?, b.binary(PointOp::Mul, rest, no)?);
    let both = b.binary(PointOp::Add, yes, no)?;
    let mut losses = b.unary(PointOp::Neg, both)?;
    if let Some(weight) = args.opt_tensor("weight")? {
        losses = b.binary(PointOp::Mul, losses, weight)?;
    }
    let (dtype, count) = (b.dtype(losses), size_operand(&b.shape(x)[last]));
    let losses = wide(b, losses);
    let sum = sum_over(b, losses, &[last])?;
    let sum = b.squeeze(sum, &[last])?;
    let sum = b.cast(sum, dtype);
    let losses = b.binary(PointOp::Div, sum, count)?;
    reduced(b, losses, reduction(args)?)
}

/// How far every other class comes within the margin of the target's, to the power of `p`, averaged over the classes.
fn multi_margin_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, target, p) = (real(b, args, "input")?, args.tensor("target")?, args.const_int("p")?);
    let (rank, own) = (b.rank(x), b.shape(x));
    let typed = matches!(b.dtype(x), DType::F32 | DType::F64) && b.dtype(target) == DType::I64;
    if !typed || !matches!(rank, 1 | 2) || !matches!(p, 1 | 2) {
        return Err(OpError::unsupported("multi_margin_loss of these types or sizes"));
    }
    let (rows, classes) = (if rank == 2 { own[0].clone() } else { Sym::ONE }, own[rank - 1].clone());
    if differ(&b.ty(target).numel(), &rows) || !classes.is_positive() {
        return Err(OpError::runtime("inconsistent target size"));
    }
    let shape = [rows.clone(), classes.clone()];
    let (x, target) = (b.reshape(x, &shape)?, b.reshape(target, std::slice::from_ref(&rows))?);
    let row = b.iota(std::slice::from_ref(&rows), 0)?;
    let chosen = b.index(x, &[row, target], &[0, 1], 0, Bounds::RuntimeError)?;
    let chosen = b.unsqueeze(chosen, 1)?;
    let room = b.binary(PointOp::Sub, args.float("margin")?, chosen)?;
    let within = b.binary(PointOp::Add, room, x)?;
    // Eager's kernel leaves out what is not above zero, NaN too.
    let mut losses = Expr::Node(within).gt(0.0).pick(within, 0.0).build(b)?;
    if p == 2 {
        losses = b.binary(PointOp::Mul, losses, losses)?;
    }
    if let Some(weight) = args.opt_tensor("weight")? {
        let weight = b.index(weight, &[target], &[0], 0, Bounds::RuntimeError)?;
        let weight = b.unsqueeze(weight, 1)?;
        losses = b.binary(PointOp::Mul, losses, weight)?;
    }
    let (column, target) = (b.iota(&shape, 1)?, b.unsqueeze(target, 1)?);
    let is_target = b.binary(PointOp::Eq, column, target)?;
    let zero = b.full(ox_ir::Scalar::Int(0), b.dtype(losses), &[]);
    let losses = b.choose(is_target, zero, losses)?;
    let sum = sum_over(b, losses, &[1])?;
    let sum = b.squeeze(sum, &[1])?;
    let losses = b.binary(PointOp::Div, sum, size_operand(&classes))?;
    let losses = if rank == 1 { b.reshape(losses, &[])? } else { losses };
    reduced(b, losses, reduction(args)?)
}

/// The labels of a row end at its first negative one, which only torch's kernel finds in passing.
fn multilabel_margin_loss(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, target, reduction) = (real(b, args, "input")?, args.tensor("target")?, reduction(args)?);
    let per_row = reduction == Reduction::None && b.rank(x) == 2;
    let shape = b.shape(x).into_iter().take(per_row as usize).collect();
    let operator = Operator::new("aten::multilabel_margin_loss", "", [Arg::Tensor(1), int(reduction as i64)]);
    one(operator.call(b, &[x, target], &[(b.dtype(x), shape)])?)
}
