//! Calls of torch's operators that have a derivative: by another operator of torch's, or by Ops. The rest is differentiated by torch
//! itself: the graph is cut there.

use super::{Gradients, Site, attention, contract, fused, operators};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::surface::wrap_dim;
use ox_ir::graph::{Arg, Bounds, Combine, Library, NodeId, ReduceOp};
use ox_ir::{Device, Scalar};

type Rule = fn(&mut Builder, &Site<'_>, &Library) -> OpResult<Gradients>;

const RULES: &[(&str, Rule)] = &[
    (attention::FORWARD, attention::flash_backward),
    (fused::CUDNN, fused::backward),
    (fused::FLASH, fused::backward),
    (fused::EFFICIENT, fused::backward),
    ("aten::sort", |b, site, call| selection(b, site, dim_of(call, 1)?)),
    ("aten::topk", |b, site, call| selection(b, site, dim_of(call, 2)?)),
    ("aten::kthvalue", |b, site, call| selection(b, site, dim_of(call, 2)?)),
    ("aten::median", middle),
    ("aten::nanmedian", middle),
    ("aten::mode", |b, site, call| selection(b, site, dim_of(call, 1)?)),
    ("aten::cummax", |b, site, call| selection(b, site, dim_of(call, 1)?)),
    ("aten::cummin", |b, site, call| selection(b, site, dim_of(call, 1)?)),
    ("aten::max_pool1d_with_indices", operators::max_pool),
    ("aten::max_pool2d_with_indices", operators::max_pool),
    ("aten::max_pool3d_with_indices", operators::max_pool),
    ("aten::adaptive_max_pool1d", operators::adaptive_max_pool),
    ("aten::adaptive_max_pool2d", operators::adaptive_max_pool),
    ("aten::adaptive_max_pool3d", operators::adaptive_max_pool),
    ("aten::adaptive_avg_pool1d", operators::adaptive_avg_pool),
    ("aten::adaptive_avg_pool2d", operators::adaptive_avg_pool),
    ("aten::adaptive_avg_pool3d", operators::adaptive_avg_pool),
    ("aten::binary_cross_entropy", operators::binary_cross_entropy),
    ("aten::grid_sampler", operators::grid_sampler),
    ("aten::upsample_bicubic2d", operators::upsample),
    ("aten::_upsample_bilinear2d_aa", operators::upsample),
    ("aten::_upsample_bicubic2d_aa", operators::upsample),
    ("aten::col2im", operators::col2im),
    ("aten::convolution_backward", contract::conv_again),
    // Eager's derivative of what is drawn is zero.
    ("aten::bernoulli", |b, site, _| site.each(|n| Ok(Some(b.full_like(Scalar::Float(0.0), site.arg(n)))))),
];

pub fn library(b: &mut Builder, site: &Site<'_>, call: &Library) -> OpResult<Gradients> {
    let name = call.callee.name();
    let rule = RULES.iter().find(|(known, _)| *known == name).filter(|_| call.mutates.is_empty());
    match rule {
        Some((_, rule)) => rule(b, site, call),
        None => Err(OpError::unsupported(format!("the derivative of {name} is torch's"))),
    }
}

/// The dimension that an operator works along: the n-th argument, or by name, or the last.
fn dim_of(call: &Library, at: usize) -> OpResult<i64> {
    let named = || call.kwargs.iter().find(|(name, _)| name == "dim").map(|(_, arg)| arg);
    match call.args.get(at).or_else(named) {
        None => Ok(-1),
        Some(Arg::Int(dim)) => dim.as_const().ok_or_else(|| unknown_dim(call)),
        Some(_) => Err(unknown_dim(call)),
    }
}

fn unknown_dim(call: &Library) -> OpError {
    OpError::unsupported(format!("the derivative of {} along a dimension that is not known", call.callee.name()))
}

/// Along a dimension. Of all elements, those that equal it share the gradient: that is torch's.
fn middle(b: &mut Builder, site: &Site<'_>, call: &Library) -> OpResult<Gradients> {
    match call.outs.len() {
        2 => selection(b, site, dim_of(call, 1)?),
        _ => Err(OpError::unsupported("the derivative of a median of all elements is torch's")),
    }
}

/// (values, indices) along a dimension: each value's gradient belongs where its index says.
fn selection(b: &mut Builder, site: &Site<'_>, dim: i64) -> OpResult<Gradients> {
    let (x, mut grad) = (site.arg(0), site.grad()?);
    let values = b.ty(grad).clone();
    let mut indices = b.project(site.result, 1, values.with_dtype(ox_ir::DType::I64));
    let rank = b.rank(x);
    let dim = wrap_dim(dim, rank)?;
    if rank == 0 {
        return Ok(vec![Some(grad)]);
    }
    if values.rank() < rank {
        (grad, indices) = (b.unsqueeze(grad, dim)?, b.unsqueeze(indices, dim)?);
    }
    site.only(scatter_sum(b, x, dim, indices, grad))
}

/// Zeros like `x`, with `grad` added where `gather` along `dim` would have read it; half types on a CPU in f32, rounded once, as eager does it.
pub fn scatter_sum(b: &mut Builder, x: NodeId, dim: usize, indices: NodeId, grad: NodeId) -> OpResult<NodeId> {
    let dtype = b.dtype(x);
    let sums = if b.ty(x).device == Device::Cpu { dtype.compute() } else { dtype };
    let (wide, grad) = (b.cast(x, sums), b.cast(grad, sums));
    let base = b.full_like(Scalar::Float(0.0), wide);
    let shape = b.shape(indices);
    let places = (0..shape.len()).map(|d| if d == dim { Ok(indices) } else { b.iota(&shape, d) });
    let places = places.collect::<OpResult<Vec<_>>>()?;
    let dims: Vec<usize> = (0..shape.len()).collect();
    let total = b.index_put(base, &places, grad, (&dims, 0, Bounds::RuntimeError), Combine::With(ReduceOp::Sum))?;
    Ok(b.cast(total, dtype))
}
