//! Matrix products and convolutions.

use super::{Gradients, Site, sum};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::surface::Operator;
use ox_ir::graph::{Arg, ConvAttrs, Library, NodeId, Op, Post, Shape};
use ox_ir::{PointOp, Scalar, Sym};
use smallvec::{SmallVec, smallvec};

pub fn matmul(b: &mut Builder, site: &Site<'_>) -> OpResult<Gradients> {
    let Op::Matmul { bias, add, alpha, beta, post: Post::None } = &site.node.op else {
        return Err(OpError::unsupported("a product with an activation"));
    };
    let (grad, rank) = (site.grad()?, b.rank(site.result));
    let flip = |b: &mut Builder, x: NodeId| b.transpose(x, rank - 2, rank - 1);
    site.each(|n| {
        Ok(Some(match n {
            // A factor that was given transposed gets its gradient transposed, so that what lies behind needs no copy.
            0 | 1 => {
                let (first, second) = if n == 0 { (grad, flip(b, site.arg(1))?) } else { (flip(b, site.arg(0))?, grad) };
                match is_flipped(b, site.arg(n)) {
                    false => product(b, first, second, *alpha)?,
                    true => {
                        let (first, second) = (flip(b, second)?, flip(b, first)?);
                        let flipped = product(b, first, second, *alpha)?;
                        flip(b, flipped)?
                    }
                }
            }
            2 if *bias => {
                let total = sum_to(b, grad, site.arg(2))?;
                scaled(b, total, *beta)?
            }
            _ if *add => grad,
            _ => return Err(OpError::bug("a product with too many arguments")),
        }))
    })
}

/// Whether a matrix is one that lies in memory with its last dimensions the other way round.
fn is_flipped(b: &Builder, x: NodeId) -> bool {
    match &b.graph().node(x).op {
        Op::Permute(perm) => perm.last().is_some_and(|last| *last != perm.len() - 1),
        _ => false,
    }
}

fn product(b: &mut Builder, x: NodeId, y: NodeId, alpha: Scalar) -> OpResult<NodeId> {
    b.add(Op::Matmul { bias: false, add: false, alpha, beta: Scalar::Float(1.0), post: Post::None }, &[x, y])
}

fn scaled(b: &mut Builder, x: NodeId, by: Scalar) -> OpResult<NodeId> {
    if by.as_f64() == 1.0 { Ok(x) } else { b.binary(PointOp::Mul, x, by.as_f64()) }
}

/// The sum over all that was broadcast from `like`.
fn sum_to(b: &mut Builder, x: NodeId, like: NodeId) -> OpResult<NodeId> {
    let (large, small) = (b.shape(x), b.shape(like));
    let front = large.len() - small.len();
    let repeated = |d: usize| d < front || (small[d - front].is_one() && !large[d].is_one());
    let dims: Vec<usize> = (0..large.len()).filter(|d| repeated(*d)).collect();
    let total = if dims.is_empty() { x } else { sum(b, x, &dims)? };
    b.reshape(total, &small)
}

/// By the library's own derivative; the bias is summed by a kernel of ours.
pub fn conv(b: &mut Builder, site: &Site<'_>, attrs: &ConvAttrs) -> OpResult<Gradients> {
    if attrs.post != Post::None || attrs.add {
        return Err(OpError::unsupported("a convolution with an activation"));
    }
    let (grad, x, weight) = (site.grad()?, site.arg(0), site.arg(1));
    let mask = [site.wanted[0], site.wanted[1]];
    let [dx, dw] = if mask == [false; 2] { [None; 2] } else { conv_backward(b, [grad, x, weight], attrs, mask)? };
    let mut gradients: Gradients = vec![dx, dw];
    if attrs.bias {
        let dims: Vec<usize> = (0..b.rank(grad)).filter(|d| *d != 1).collect();
        let total = if site.wanted[2] { Some(sum(b, grad, &dims)?) } else { None };
        let shape = b.shape(site.arg(2));
        gradients.push(total.map(|total| b.reshape(total, &shape)).transpose()?);
    }
    Ok(gradients)
}

fn conv_backward(b: &mut Builder, tensors: [NodeId; 3], attrs: &ConvAttrs, mask: [bool; 2]) -> OpResult<[Option<NodeId>; 2]> {
    let list = |sizes: &[Sym]| Arg::List(sizes.iter().cloned().map(Arg::Int).collect());
    let output_padding = match attrs.output_padding.is_empty() {
        true => list(&vec![Sym::ZERO; attrs.stride.len()]),
        false => list(&attrs.output_padding),
    };
    let call = Operator {
        name: "aten::convolution_backward",
        overload: "",
        args: vec![
            Arg::Tensor(0),
            Arg::Tensor(1),
            Arg::Tensor(2),
            Arg::None,
            list(&attrs.stride),
            list(&attrs.padding),
            list(&attrs.dilation),
            Arg::Bool(attrs.transposed),
            output_padding,
            Arg::Int(attrs.groups.clone()),
            Arg::List(mask.iter().copied().chain([false]).map(Arg::Bool).collect()),
        ],
        kwargs: Vec::new(),
        effect: false,
    };
    let dtype = b.dtype(tensors[0]);
    // What is not asked for comes back undefined.
    let out = |wanted: bool, like: NodeId| (dtype, if wanted { b.shape(like) } else { smallvec![Sym::ZERO] });
    let none: Shape = smallvec![Sym::ZERO];
    let outs = [out(mask[0], tensors[1]), out(mask[1], tensors[2]), (dtype, none)];
    let outs = call.call(b, &tensors, &outs)?;
    Ok([mask[0].then_some(outs[0]), mask[1].then_some(outs[1])])
}

/// The derivative of that derivative: a convolution is linear in its argument and in its weight.
pub fn conv_again(b: &mut Builder, site: &Site<'_>, call: &Library) -> OpResult<Gradients> {
    let attrs = attrs_of(call).ok_or_else(|| OpError::unsupported("the derivative of this form of a convolution is torch's"))?;
    let [grad, x, weight] = [0, 1, 2].map(|n| site.arg(n));
    let [of_x, of_weight] = [0, 1].map(|n: usize| site.grads.get(n).copied().flatten());
    let convolved = |b: &mut Builder, x: NodeId, weight: NodeId| b.add(Op::Conv(Box::new(attrs.clone())), &[x, weight]);
    site.each(|n| match (n, of_x, of_weight) {
        (0, Some(of_x), Some(of_weight)) => {
            let terms = [convolved(b, of_x, weight)?, convolved(b, x, of_weight)?];
            b.point(PointOp::Add, &terms).map(Some)
        }
        (0, Some(of_x), None) => convolved(b, of_x, weight).map(Some),
        (0, None, Some(of_weight)) => convolved(b, x, of_weight).map(Some),
        (1, _, Some(of_weight)) => Ok(conv_backward(b, [grad, x, of_weight], &attrs, [true, false])?[0]),
        (2, Some(of_x), _) => Ok(conv_backward(b, [grad, of_x, weight], &attrs, [false, true])?[1]),
        _ => Ok(None),
    })
}

/// What `conv_backward` was called with.
fn attrs_of(call: &Library) -> Option<ConvAttrs> {
    let sizes = |n: usize| -> Option<SmallVec<[Sym; 3]>> {
        let Some(Arg::List(items)) = call.args.get(n) else { return None };
        items.iter().map(|item| if let Arg::Int(size) = item { Some(size.clone()) } else { None }).collect()
    };
    let (Some(Arg::Bool(transposed)), Some(Arg::Int(groups))) = (call.args.get(7), call.args.get(9)) else { return None };
    Some(ConvAttrs {
        stride: sizes(4)?,
        padding: sizes(5)?,
        dilation: sizes(6)?,
        transposed: *transposed,
        output_padding: sizes(8)?,
        groups: groups.clone(),
        bias: false,
        add: false,
        post: Post::None,
    })
}
