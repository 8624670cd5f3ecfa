//! Dropout. The noise is what eager's is: 0 or 1 / (1 - p) for each element or channel, in the type of the input, which it is multiplied with.

use super::binary::round_to;
use super::{Bound, Surface, maybe};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::{NodeId, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};

const FUNCTIONAL: &str = "input, p=0.5, training=True, inplace=False";
const ALPHA: &str = "input, p=0.5, training=False, inplace=False";
const PLAIN: &str = "input, p, train";

pub const ROWS: &[Surface] = &[
    maybe(&["dropout"], FUNCTIONAL, |b, a| dropout(b, a, "training", Kept::Elements, scaled)),
    maybe(&["dropout1d"], FUNCTIONAL, |b, a| dropout(b, a, "training", Kept::Batched(3), scaled)),
    maybe(&["dropout2d"], FUNCTIONAL, |b, a| dropout(b, a, "training", Kept::Channels, scaled)),
    maybe(&["dropout3d"], FUNCTIONAL, |b, a| dropout(b, a, "training", Kept::Batched(5), scaled)),
    maybe(&["torch.dropout", "aten.dropout"], PLAIN, |b, a| dropout(b, a, "train", Kept::Elements, scaled)),
    maybe(&["torch.feature_dropout", "aten.feature_dropout"], PLAIN, |b, a| dropout(b, a, "train", Kept::Channels, scaled)),
    maybe(&["torch.alpha_dropout", "aten.alpha_dropout"], PLAIN, |b, a| dropout(b, a, "train", Kept::Elements, saturated)),
    maybe(&["torch.feature_alpha_dropout", "aten.feature_alpha_dropout"], PLAIN, |b, a| {
        dropout(b, a, "train", Kept::Channels, saturated)
    }),
    maybe(&["F.alpha_dropout"], ALPHA, |b, a| dropout(b, a, "training", Kept::Elements, saturated)),
    maybe(&["F.feature_alpha_dropout"], ALPHA, |b, a| dropout(b, a, "training", Kept::Channels, saturated)),
];

/// What is kept or dropped as one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Elements,
    /// Dimensions 0 and 1 are batch and channels.
    Channels,
    /// Likewise, but of tensors of another rank than this dimension 0 is the channels.
    Batched(usize),
}

type Apply = fn(&mut Builder, NodeId, NodeId, f64) -> OpResult<NodeId>;

fn dropout(b: &mut Builder, a: &Bound, flag: &str, kept: Kept, apply: Apply) -> OpResult<Value> {
    let (x, p) = (a.tensor("input")?, a.float("p")?);
    if !(0.0..=1.0).contains(&p) {
        let text = format!("dropout probability has to be between 0 and 1, but got {p}");
        return Err(if flag == "train" { OpError::runtime(text) } else { OpError::value(text) });
    }
    if !a.boolean(flag)? || p == 0.0 || b.ty(x).numel().is_zero() {
        return Ok(x.into());
    }
    if !b.dtype(x).is_float() {
        return Err(OpError::unsupported(format!("dropout of {}", b.dtype(x))));
    }
    let shape = noise_shape(b, x, kept)?;
    if p == 1.0 {
        return Ok(b.binary(PointOp::Mul, x, 0.0)?.into());
    }
    let keep = b.draw(None, &shape)?.chance(b, 1.0 - p)?;
    Ok(apply(b, x, keep, p)?.into())
}

fn noise_shape(b: &Builder, x: NodeId, kept: Kept) -> OpResult<Shape> {
    let mut shape = b.shape(x);
    let rank = shape.len();
    let leading = match kept {
        Kept::Elements => rank,
        Kept::Batched(3) if rank != 2 && rank != 3 => {
            return Err(OpError::unsupported("dropout1d of other than 2 or 3 dimensions"));
        }
        Kept::Batched(batched) if rank != batched => 1,
        Kept::Channels | Kept::Batched(_) => 2,
    };
    if rank < leading {
        return Err(OpError::runtime("Feature dropout requires at least 2 dimensions in the input"));
    }
    shape[leading..].fill(Sym::ONE);
    Ok(shape)
}

/// `kept` where it is kept, `dropped` elsewhere.
fn choice(b: &mut Builder, keep: NodeId, kept: f64, dropped: f64, dtype: DType) -> OpResult<NodeId> {
    let shape = b.shape(keep);
    let [kept, dropped] = [kept, dropped].map(|value| b.full(Scalar::Float(round_to(dtype, value)), dtype, &shape));
    b.point(PointOp::Where, &[keep, kept, dropped])
}

pub(super) fn scaled(b: &mut Builder, x: NodeId, keep: NodeId, p: f64) -> OpResult<NodeId> {
    let noise = choice(b, keep, 1.0 / (1.0 - p), 0.0, b.dtype(x))?;
    b.binary(PointOp::Mul, x, noise)
}

/// What is dropped gets the value at which SELU saturates; mean and variance stay.
fn saturated(b: &mut Builder, x: NodeId, keep: NodeId, p: f64) -> OpResult<NodeId> {
    const ALPHA: f64 = 1.758_099_340_847_376_6;
    let scale = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    let (dtype, shift) = (b.dtype(x), ALPHA * scale);
    let noise = choice(b, keep, scale, 0.0, dtype)?;
    let moved = choice(b, keep, shift * p, shift * p - shift, dtype)?;
    let product = b.binary(PointOp::Mul, x, noise)?;
    b.binary(PointOp::Add, product, moved)
}
