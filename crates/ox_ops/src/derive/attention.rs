//! Attention under autograd: torch's flash kernel with the logarithms of its sums, which its derivative needs; where that kernel does
//! not take the arguments, products and a softmax written out.

use super::fused::{Fused, FusedAttention, heads_inside};
use super::{Gradients, Site};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::surface::{Operand, safe_softmax_along, softmax_along};
use ox_ir::graph::{Arg, AttentionAttrs, Callee, Library, LibraryOut, NodeId, Op, contiguous_strides};
use ox_ir::{DType, Device, PointOp, Scalar, Sym};

pub const FORWARD: &str = "aten::_scaled_dot_product_flash_attention_for_cpu";
const BACKWARD: &str = "aten::_scaled_dot_product_flash_attention_for_cpu_backward";

/// The same attention, of ops that have derivatives. `mask_grad`: the mask's gradient is asked for.
pub fn differentiable(
    b: &mut Builder,
    attrs: &AttentionAttrs,
    args: &[NodeId],
    mask_grad: bool,
    may: FusedAttention,
) -> OpResult<NodeId> {
    if b.ty(args[0]).device != Device::Cpu {
        return on_gpu(b, attrs, args, mask_grad, may);
    }
    if mask_grad || !flash_takes(b, args) { spelt_out(b, attrs, args) } else { flash(b, attrs, args) }
}

fn on_gpu(b: &mut Builder, attrs: &AttentionAttrs, args: &[NodeId], mask_grad: bool, may: FusedAttention) -> OpResult<NodeId> {
    match Fused::choose(b, attrs, args, may).filter(|_| !mask_grad) {
        Some(kernel) => {
            let mask = args.get(3).map(|mask| additive(b, *mask, b.dtype(args[0]))).transpose()?;
            kernel.call(b, attrs, &args[..3], mask)
        }
        // Padded, a fused kernel might take it.
        None if b.dtype(args[0]).size() == 2 => Err(OpError::unsupported("the derivative of this attention is torch's")),
        None => spelt_out(b, attrs, args),
    }
}

/// As eager chooses it.
fn flash_takes(b: &Builder, args: &[NodeId]) -> bool {
    let [q, k, v] = [b.ty(args[0]), b.ty(args[1]), b.ty(args[2])];
    let last = q.rank() - 1;
    let sizes = q.shape[last] == v.shape[last] && [q, k].iter().all(|t| t.shape.iter().all(Sym::is_positive));
    sizes && q.rank() == 4
}

/// A mask as a number that is added: 0 or minus infinity.
fn additive(b: &mut Builder, mask: NodeId, dtype: DType) -> OpResult<NodeId> {
    if b.dtype(mask) != DType::Bool {
        return Ok(b.cast(mask, dtype));
    }
    if b.graph().node(mask).op == Op::Expand {
        let (inner, whole) = (b.graph().node(mask).args[0], b.shape(mask));
        let inner = additive(b, inner, dtype)?;
        return b.expand(inner, &whole);
    }
    let shape = b.shape(mask);
    let (zero, least) = (b.full(Scalar::Float(0.0), dtype, &shape), b.full(Scalar::Float(f64::NEG_INFINITY), dtype, &shape));
    b.point(PointOp::Where, &[mask, zero, least])
}

fn flash(b: &mut Builder, attrs: &AttentionAttrs, args: &[NodeId]) -> OpResult<NodeId> {
    let mut tensors = args.to_vec();
    if let Some(mask) = tensors.get_mut(3) {
        *mask = additive(b, *mask, b.dtype(args[0]))?;
    }
    let out = b.ty(tensors[0]).clone();
    let sums = out.with_dtype(out.dtype.compute()).with_shape(out.shape[..3].iter().cloned().collect());
    let library = Library {
        callee: Callee::Dispatcher { name: FORWARD.into(), overload: String::new() },
        args: vec![Arg::Tensor(0), Arg::Tensor(1), Arg::Tensor(2), Arg::Float(Scalar::Float(0.0)), Arg::Bool(attrs.causal)],
        kwargs: options(attrs.mask.then_some(3), attrs.scale),
        outs: vec![heads_inside(out), LibraryOut { strides: contiguous_strides(&sums.shape), ty: sums }],
        mutates: Vec::new(),
        effect: false,
    };
    Ok(b.library(library, &tensors)?[0])
}

fn options(mask: Option<u32>, scale: Option<Scalar>) -> Vec<(String, Arg)> {
    let scale = scale.map_or(Arg::None, Arg::Float);
    vec![("attn_mask".into(), mask.map_or(Arg::None, Arg::Tensor)), ("scale".into(), scale)]
}

/// The derivative of the flash kernel's call.
pub fn flash_backward(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let grad = site.grad()?;
    let [out, sums] = [0, 1].map(|n: usize| b.project(site.result, n as u32, library.outs[n].ty.clone()));
    let mut tensors = vec![grad, site.arg(0), site.arg(1), site.arg(2), out, sums];
    tensors.extend(site.node.args.get(3));
    let named = |name: &str| library.kwargs.iter().find(|(key, _)| key == name).map_or(Arg::None, |(_, arg)| arg.clone());
    let mask = site.node.args.get(3).map_or(Arg::None, |_| Arg::Tensor(6));
    let call = Library {
        callee: Callee::Dispatcher { name: BACKWARD.into(), overload: String::new() },
        args: (0..6).map(Arg::Tensor).chain([library.args[3].clone(), library.args[4].clone()]).collect(),
        kwargs: vec![("attn_mask".into(), mask), ("scale".into(), named("scale"))],
        outs: site.node.args[..3].iter().map(|arg| heads_inside(b.ty(*arg).clone())).collect(),
        mutates: Vec::new(),
        effect: false,
    };
    let outs = b.library(call, &tensors)?;
    Ok((0..site.node.args.len()).map(|n| outs.get(n).copied().filter(|_| site.wanted[n])).collect())
}

/// `softmax(q @ k^T * scale + mask) @ v`, computed wide.
fn spelt_out(b: &mut Builder, attrs: &AttentionAttrs, args: &[NodeId]) -> OpResult<NodeId> {
    let dtype = b.dtype(args[0]);
    let [q, k, v] = [0, 1, 2].map(|n| b.cast(args[n], dtype.compute()));
    let rank = b.rank(q);
    let q = match attrs.scale {
        Some(scale) => b.binary(PointOp::Mul, q, scale.as_f64())?,
        None => {
            let width = b.sym_value(b.shape(q)[rank - 1].clone(), DType::I64);
            let width = b.cast(width, dtype.compute());
            let scale = b.unary(PointOp::Rsqrt, width)?;
            b.binary(PointOp::Mul, q, scale)?
        }
    };
    let k = b.transpose(k, rank - 2, rank - 1)?;
    let mut scores = b.matmul(q, k)?;
    if attrs.causal {
        let shape = b.shape(scores);
        let (row, column) = (b.iota(&shape, rank - 2)?, b.iota(&shape, rank - 1)?);
        let seen = b.point(PointOp::Ge, &[row, column])?;
        scores = b.choose(seen, scores, Operand::from(f64::NEG_INFINITY))?;
    }
    if attrs.mask {
        let mask = additive(b, args[3], dtype.compute())?;
        scores = b.point(PointOp::Add, &[scores, mask])?;
    }
    let weights = if attrs.mask { safe_softmax_along(b, scores, rank - 1)? } else { softmax_along(b, scores, rank - 1)? };
    let out = b.matmul(weights, v)?;
    Ok(b.cast(out, dtype))
}
