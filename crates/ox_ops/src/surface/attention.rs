//! `scaled_dot_product_attention`.

use super::dropout::scaled;
use super::shared::{float, opt_real};
use super::softmax::{safe_softmax_along, softmax_along};
use super::{Bound, Surface, fresh};
use crate::builder::{Builder, broadcast_shapes};
use crate::error::{OpError, OpResult};
use crate::infer::differ;
use crate::value::Value;
use ox_ir::graph::{NodeId, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[fresh(
    &["scaled_dot_product_attention"],
    "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False",
    attention,
)];

fn attention(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let [q, k, v] = ["query", "key", "value"].map(|name| float(b, args, name, "scaled_dot_product_attention"));
    let [q, mut k, mut v] = [q?, k?, v?];
    check(b, [q, k, v])?;
    let dropped = args.float("dropout_p")?;
    if !(0.0..1.0).contains(&dropped) {
        return Err(OpError::unsupported("attention that drops everything"));
    }
    if args.boolean("enable_gqa")? {
        (k, v) = (repeat_heads(b, k, q)?, repeat_heads(b, v, q)?);
    }
    let [q, k, v] = common_batch(b, [q, k, v])?;
    let causal = args.boolean("is_causal")?;
    let mask = match opt_real(b, args, "attn_mask")? {
        // Some of eager's kernels take both, some raise.
        Some(_) if causal => return Err(OpError::unsupported("attention with a mask that is causal, too")),
        Some(mask) => Some(fit_mask(b, mask, q, k)?),
        None => None,
    };
    let scale = args.opt_float("scale")?;
    if dropped > 0.0 {
        return Ok(with_dropout(b, [q, k, v], mask, causal, scale, dropped)?.into());
    }
    Ok(b.attention([q, k, v], mask, causal, scale.map(Scalar::Float))?.into())
}

/// As eager composes it of tensor operations, the half types in f32: weights are drawn that count.
fn with_dropout(
    b: &mut Builder,
    qkv: [NodeId; 3],
    mask: Option<NodeId>,
    causal: bool,
    scale: Option<f64>,
    p: f64,
) -> OpResult<NodeId> {
    let dtype = b.dtype(qkv[0]);
    let [q, k, v] = qkv.map(|t| b.cast(t, dtype.compute()));
    let (shape, last) = (b.shape(q), b.rank(q) - 1);
    let factor = match (scale, shape[last].as_const()) {
        (Some(scale), _) if scale >= 0.0 => scale.sqrt(),
        (None, Some(size)) if size > 0 => 1.0 / (size as f64).sqrt().sqrt(),
        _ => return Err(OpError::unsupported("attention with dropout, scaled by what is not known")),
    };
    let (q, k) = (b.binary(PointOp::Mul, q, factor)?, b.binary(PointOp::Mul, k, factor)?);
    let k = b.transpose(k, last - 1, last)?;
    let scores = b.matmul(q, k)?;
    let seen = seen(b, scores, mask, causal)?;
    let weights = match seen {
        Seen::All => softmax_along(b, scores, last)?,
        Seen::Added(mask) => {
            let mask = b.cast(mask, dtype.compute());
            let scores = b.binary(PointOp::Add, scores, mask)?;
            safe_softmax_along(b, scores, last)?
        }
        Seen::Where(mask) => {
            let scores = b.choose(mask, scores, f64::NEG_INFINITY)?;
            safe_softmax_along(b, scores, last)?
        }
    };
    let shape = b.shape(weights);
    let keep = b.draw(None, &shape)?.chance(b, 1.0 - p)?;
    let weights = scaled(b, weights, keep, p)?;
    let result = b.matmul(weights, v)?;
    Ok(b.cast(result, dtype))
}

enum Seen {
    All,
    Added(NodeId),
    Where(NodeId),
}

fn seen(b: &mut Builder, scores: NodeId, mask: Option<NodeId>, causal: bool) -> OpResult<Seen> {
    let shape = b.shape(scores);
    let last = shape.len() - 1;
    Ok(match mask {
        Some(mask) if b.dtype(mask) == DType::Bool => Seen::Where(mask),
        Some(mask) => Seen::Added(mask),
        None if causal => {
            let (row, column) = (b.iota(&shape, last - 1)?, b.iota(&shape, last)?);
            Seen::Where(b.point(PointOp::Le, &[column, row])?)
        }
        None => Seen::All,
    })
}

fn check(b: &Builder, [q, k, v]: [NodeId; 3]) -> OpResult<()> {
    if [q, k, v].iter().any(|t| b.rank(*t) < 2) {
        return Err(OpError::runtime("Expected query, key, and value to all be at least 2 dimensional"));
    }
    if b.dtype(k) != b.dtype(q) || b.dtype(v) != b.dtype(q) {
        return Err(OpError::runtime("Expected query, key, and value to have the same dtype"));
    }
    let tail = |t: NodeId| {
        let shape = b.shape(t);
        (shape[shape.len() - 2].clone(), shape[shape.len() - 1].clone())
    };
    if differ(&tail(q).1, &tail(k).1) || differ(&tail(k).0, &tail(v).0) {
        return Err(OpError::runtime("query, key and value do not fit one another"));
    }
    Ok(())
}

/// Grouped queries: each head of `x` serves as many consecutive heads of the query.
fn repeat_heads(b: &mut Builder, x: NodeId, query: NodeId) -> OpResult<NodeId> {
    let (own, want) = (b.shape(x), b.shape(query));
    if own.len() < 3 || want.len() < 3 {
        return Err(OpError::runtime("enable_gqa needs a dimension of heads"));
    }
    let (heads, wanted) = (&own[own.len() - 3], &want[want.len() - 3]);
    if heads == wanted {
        return Ok(x);
    }
    let times = match (heads.as_const(), wanted.as_const()) {
        (Some(h), Some(w)) if h > 0 && w % h == 0 => w / h,
        (Some(h), Some(w)) => {
            return Err(OpError::runtime(format!(
                "Number of heads in key and value must divide the number of heads in query, got {h} and {w}"
            )));
        }
        _ => return Err(OpError::unsupported("grouped attention over an unknown number of heads")),
    };
    let x = b.unsqueeze(x, own.len() - 2)?;
    let mut wide = b.shape(x);
    wide[own.len() - 2] = Sym::from(times);
    let x = b.expand(x, &wide)?;
    let mut shape = own.clone();
    shape[own.len() - 3] = wanted.clone();
    b.reshape(x, &shape)
}

/// All three under the batch dimensions that they broadcast to.
fn common_batch(b: &mut Builder, qkv: [NodeId; 3]) -> OpResult<[NodeId; 3]> {
    let shapes = qkv.map(|t| b.shape(t));
    let batch = broadcast_shapes(&[leading(&shapes[0]), leading(&shapes[1]), leading(&shapes[2])])?;
    let mut out = qkv;
    for (tensor, shape) in out.iter_mut().zip(&shapes) {
        let full: Shape = batch.iter().chain(&shape[shape.len() - 2..]).cloned().collect();
        *tensor = b.broadcast_to(*tensor, &full)?;
    }
    Ok(out)
}

fn leading(shape: &Shape) -> &[Sym] {
    &shape[..shape.len() - 2]
}

/// The mask with the shape of the products: [batch.., queries, keys].
fn fit_mask(b: &mut Builder, mask: NodeId, q: NodeId, k: NodeId) -> OpResult<NodeId> {
    if b.dtype(mask) != DType::Bool && b.dtype(mask) != b.dtype(q) {
        return Err(OpError::runtime("Expected attn_mask dtype to be bool or to match query dtype"));
    }
    let mut shape = b.shape(q);
    let rank = shape.len();
    shape[rank - 1] = b.ty(k).shape[rank - 2].clone();
    b.broadcast_to(mask, &shape)
}
