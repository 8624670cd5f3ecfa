//! Type rules of matrix products, convolutions and attention.

use super::{common_device, differ, require};
use crate::error::{OpError, OpResult};
use ox_ir::graph::{AttentionAttrs, ConvAttrs, Shape};
use ox_ir::{Sym, TensorType};

pub(super) fn infer_matmul(bias: bool, add: bool, args: &[&TensorType]) -> OpResult<TensorType> {
    require(args.len() == 2 + bias as usize + add as usize, || format!("matmul of {} arguments", args.len()))?;
    let (a, b) = (args[0], args[1]);
    let rank = a.rank();
    let fits = rank >= 2 && b.rank() == rank && a.dtype == b.dtype && a.shape[..rank - 2] == b.shape[..rank - 2];
    require(fits && !differ(&a.shape[rank - 1], &b.shape[rank - 2]), || format!("matmul of {a:?} and {b:?}"))?;
    let mut shape = a.shape.clone();
    shape[rank - 1] = b.shape[rank - 1].clone();
    let ty = TensorType { dtype: a.dtype, device: common_device(args), shape };
    if bias {
        require(fits_bias(args[2], &ty), || format!("matmul bias {:?} for {ty:?}", args[2]))?;
    }
    if add {
        let last = args[args.len() - 1];
        require(last.shape == ty.shape && last.dtype == ty.dtype, || format!("matmul adds {last:?} to {ty:?}"))?;
    }
    Ok(ty)
}

/// A bias lines up with the last dimensions of the result, each size equal or 1.
fn fits_bias(bias: &TensorType, ty: &TensorType) -> bool {
    let skip = ty.rank().saturating_sub(bias.rank());
    bias.dtype == ty.dtype
        && (1..=ty.rank()).contains(&bias.rank())
        && bias.shape.iter().zip(&ty.shape[skip..]).all(|(a, b)| a == b || a.is_one())
}

/// One spatial size of a convolution's result.
pub fn conv_out_size(attrs: &ConvAttrs, k: usize, size: &Sym, kernel: &Sym) -> Sym {
    let reach = &(&attrs.dilation[k] * &(kernel - 1)) + 1;
    if attrs.transposed {
        let spread = &(&(size - 1) * &attrs.stride[k]) - &(&attrs.padding[k] * 2);
        return &(&spread + &reach) + &attrs.output_padding[k];
    }
    let room = &(size + &(&attrs.padding[k] * 2)) - &reach;
    &room.div(&attrs.stride[k]) + 1
}

pub(super) fn infer_conv(attrs: &ConvAttrs, args: &[&TensorType]) -> OpResult<TensorType> {
    require(args.len() == 2 + attrs.bias as usize + attrs.add as usize, || format!("conv of {} arguments", args.len()))?;
    let (x, weight) = (args[0], args[1]);
    let spatial = attrs.stride.len();
    let lengths = attrs.padding.len() == spatial && attrs.dilation.len() == spatial;
    let fits = lengths && x.rank() == spatial + 2 && weight.rank() == x.rank() && x.dtype == weight.dtype;
    require(fits && (!attrs.transposed || attrs.output_padding.len() == spatial), || format!("conv of {x:?} with {weight:?}"))?;
    let (channels_in, channels_out) = match attrs.transposed {
        true => (weight.shape[0].clone(), &weight.shape[1] * &attrs.groups),
        false => (&weight.shape[1] * &attrs.groups, weight.shape[0].clone()),
    };
    require(!differ(&x.shape[1], &channels_in), || format!("conv of {x:?} with {weight:?}"))?;
    let mut shape = Shape::from_iter([x.shape[0].clone(), channels_out]);
    shape.extend((0..spatial).map(|k| conv_out_size(attrs, k, &x.shape[k + 2], &weight.shape[k + 2])));
    Ok(TensorType { dtype: x.dtype, device: common_device(args), shape })
}

pub(super) fn infer_attention(attrs: &AttentionAttrs, args: &[&TensorType]) -> OpResult<TensorType> {
    require(args.len() == 3 + attrs.mask as usize, || format!("attention of {} arguments", args.len()))?;
    let [q, k, v] = [args[0], args[1], args[2]];
    let rank = q.rank();
    let batches = rank >= 2 && [k, v].iter().all(|t| t.rank() == rank && t.shape[..rank - 2] == q.shape[..rank - 2]);
    let types = k.dtype == q.dtype && v.dtype == q.dtype && q.dtype.is_float();
    require(batches && types, || format!("attention of {args:?}"))?;
    let sizes = !differ(&q.shape[rank - 1], &k.shape[rank - 1]) && !differ(&k.shape[rank - 2], &v.shape[rank - 2]);
    if !sizes {
        return Err(OpError::bug(format!("attention of {args:?}")));
    }
    let mut shape = q.shape.clone();
    shape[rank - 1] = v.shape[rank - 1].clone();
    Ok(TensorType { dtype: q.dtype, device: common_device(args), shape })
}
