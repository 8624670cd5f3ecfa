//! Convolutions, plain and transposed, in one to three dimensions.

use super::matmul::check_types;
use super::shared::{only_float, opt_real, per_dim};
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::infer::{conv_out_size, differ, shape_text};
use crate::value::{Value, ValueOf};
use ox_ir::graph::{ConvAttrs, NodeId, Post};
use ox_ir::{Scalar, Sym};
use smallvec::SmallVec;

const PLAIN: &str = "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1";
const TRANSPOSED: &str = "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1";

pub const ROWS: &[Surface] = &[
    fresh(&["conv1d"], PLAIN, |b, args| plain(b, args, 1)),
    fresh(&["conv2d"], PLAIN, |b, args| plain(b, args, 2)),
    fresh(&["conv3d"], PLAIN, |b, args| plain(b, args, 3)),
    fresh(&["conv_transpose1d"], TRANSPOSED, |b, args| transposed(b, args, 1)),
    fresh(&["conv_transpose2d"], TRANSPOSED, |b, args| transposed(b, args, 2)),
    fresh(&["conv_transpose3d"], TRANSPOSED, |b, args| transposed(b, args, 3)),
    fresh(&["convolution"], "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups", |b, args| {
        general(b, args)
    }),
];

type Sizes = SmallVec<[Sym; 3]>;

fn plain(b: &mut Builder, args: &mut Bound, n: usize) -> OpResult<Value> {
    let weight = args.tensor("weight")?;
    let (stride, dilation) = (per_dim(args, "stride", n)?, per_dim(args, "dilation", n)?);
    let (padding, excess) = match args.value("padding") {
        ValueOf::Str(mode) => named_padding(b, mode, weight, &stride, &dilation)?,
        _ => (per_dim(args, "padding", n)?, vec![Sym::ZERO; n]),
    };
    let attrs = ConvAttrs {
        stride: Sizes::from_vec(stride),
        padding: Sizes::from_vec(padding),
        dilation: Sizes::from_vec(dilation),
        transposed: false,
        output_padding: smallvec::smallvec![Sym::ZERO; n],
        groups: args.int("groups")?,
        bias: false,
        add: false,
        post: Post::None,
    };
    convolve(b, args, attrs, &excess)
}

/// 'valid' is no padding, 'same' as much as keeps the size. Where that is odd, the excess goes behind and is padded beforehand.
fn named_padding(b: &Builder, mode: &str, weight: NodeId, stride: &[Sym], dilation: &[Sym]) -> OpResult<(Vec<Sym>, Vec<Sym>)> {
    let zeros = vec![Sym::ZERO; stride.len()];
    match mode {
        "valid" => Ok((zeros.clone(), zeros)),
        "same" if stride.iter().any(|s| !s.is_one()) => {
            Err(OpError::runtime("padding='same' is not supported for strided convolutions"))
        }
        "same" => {
            let kernel = b.shape(weight);
            let totals = kernel.iter().skip(2).zip(dilation).map(|(k, d)| d * &(k - 1));
            let two = Sym::from(2i64);
            Ok(totals.map(|total| (total.div(&two), total.rem(&two))).unzip())
        }
        other => Err(OpError::runtime(format!("Invalid padding string: '{other}'"))),
    }
}

fn transposed(b: &mut Builder, args: &mut Bound, n: usize) -> OpResult<Value> {
    let attrs = ConvAttrs {
        stride: per_dim(args, "stride", n)?.into(),
        padding: per_dim(args, "padding", n)?.into(),
        dilation: per_dim(args, "dilation", n)?.into(),
        transposed: true,
        output_padding: per_dim(args, "output_padding", n)?.into(),
        groups: args.int("groups")?,
        bias: false,
        add: false,
        post: Post::None,
    };
    convolve(b, args, attrs, &vec![Sym::ZERO; n])
}

/// `aten::convolution`, which says everything.
fn general(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let rank = b.rank(args.tensor("weight")?);
    let n = rank.checked_sub(2).filter(|n| (1..=3).contains(n));
    let n = n.ok_or_else(|| OpError::unsupported(format!("convolution with a weight of {rank} dimensions")))?;
    if args.boolean("transposed")? { transposed(b, args, n) } else { plain(b, args, n) }
}

/// An input without batch dimension is a batch of one. `excess` zeros go behind each spatial dimension.
fn convolve(b: &mut Builder, args: &Bound, attrs: ConvAttrs, excess: &[Sym]) -> OpResult<Value> {
    let x = only_float(b, args, "input", "convolution")?;
    let weight = only_float(b, args, "weight", "convolution")?;
    let bias = opt_real(b, args, "bias")?;
    let single = b.rank(x) == excess.len() + 1;
    let mut x = if single { b.unsqueeze(x, 0)? } else { x };
    check(b, &attrs, x, weight, bias)?;
    if excess.iter().any(|e| !e.is_zero()) {
        let low = vec![Sym::ZERO; excess.len() + 2];
        let high: Vec<Sym> = low[..2].iter().chain(excess).cloned().collect();
        x = b.pad(x, &low, &high, Scalar::Float(0.0))?;
    }
    let y = b.conv(x, weight, bias, attrs)?;
    let y = if single { b.squeeze(y, &[0])? } else { y };
    Ok(y.into())
}

fn check(b: &Builder, attrs: &ConvAttrs, x: NodeId, weight: NodeId, bias: Option<NodeId>) -> OpResult<()> {
    let (size, kernel) = (b.shape(x), b.shape(weight));
    if size.len() != attrs.stride.len() + 2 || kernel.len() != size.len() {
        let (n, size) = (attrs.stride.len(), shape_text(&size));
        return Err(OpError::runtime(format!("Expected {}D or {}D input to conv{n}d, but got {size}", n + 1, n + 2)));
    }
    if size[1].is_zero() {
        // Eager's result has no channels either, whatever the weight says.
        return Err(OpError::unsupported("convolution of no channels"));
    }
    check_types(b, x, weight)?;
    bias.map_or(Ok(()), |bias| check_types(b, x, bias))?;
    let channels = if attrs.transposed { kernel[0].clone() } else { &kernel[1] * &attrs.groups };
    if differ(&size[1], &channels) {
        let (size, kernel) = (shape_text(&size), shape_text(&kernel));
        return Err(OpError::runtime(format!("a weight of size {kernel} expects {channels} channels, but got input of {size}")));
    }
    let empty = (2..size.len()).find(|d| (&conv_out_size(attrs, d - 2, &size[*d], &kernel[*d]) - 1).bounds().1 < 0);
    match empty {
        Some(_) => Err(OpError::runtime("Calculated padded input size per channel is smaller than the kernel")),
        None => Ok(()),
    }
}
