//! `scaled_dot_product_attention`.

use super::shared::{float, opt_real};
use super::{Bound, Surface, fresh};
use crate::builder::{Builder, broadcast_shapes};
use crate::error::{OpError, OpResult};
use crate::infer::differ;
use crate::value::Value;
use ox_ir::graph::{NodeId, Shape};
use ox_ir::{DType, Scalar, Sym};

pub const ROWS: &[Surface] = &[fresh(
    &["scaled_dot_product_attention"],
    "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False",
    attention,
)];

fn attention(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let [q, k, v] = ["query", "key", "value"].map(|name| float(b, args, name, "scaled_dot_product_attention"));
    let [q, mut k, mut v] = [q?, k?, v?];
    check(b, [q, k, v])?;
    if args.float("dropout_p")? != 0.0 {
        return Err(OpError::unsupported("attention with dropout"));
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
    let scale = args.opt_float("scale")?.map(Scalar::Float);
    Ok(b.attention([q, k, v], mask, causal, scale)?.into())
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
