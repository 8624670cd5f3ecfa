//! Operators of torch's whose derivative is another operator of torch's.

use super::{Gradients, Site};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::surface::Operator;
use ox_ir::graph::{Arg, Library, NodeId};
use ox_ir::{DType, Sym};

fn call(b: &mut Builder, name: &'static str, args: Vec<Arg>, tensors: &[NodeId], like: &[NodeId]) -> OpResult<Vec<NodeId>> {
    let outs: Vec<_> = like.iter().map(|x| (b.dtype(*x), b.shape(*x))).collect();
    Operator { name, overload: "", args, kwargs: Vec::new(), effect: false }.call(b, tensors, &outs)
}

fn tensor_args(count: u32) -> Vec<Arg> {
    (0..count).map(Arg::Tensor).collect()
}

/// Under a dimension of one element before the last, where torch has the operator over planes only.
fn as_plane(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    b.unsqueeze(x, b.rank(x) - 1)
}

fn places(b: &mut Builder, site: &Site<'_>) -> OpResult<NodeId> {
    let ty = b.ty(site.grad()?).with_dtype(DType::I64);
    Ok(b.project(site.result, 1, ty))
}

/// Grad, argument and places, as planes if they are lines.
fn pooled(b: &mut Builder, site: &Site<'_>, line: bool) -> OpResult<[NodeId; 3]> {
    let all = [site.grad()?, site.arg(0), places(b, site)?];
    if !line {
        return Ok(all);
    }
    let [grad, x, places] = all.map(|node| as_plane(b, node));
    Ok([grad?, x?, places?])
}

fn as_given(b: &mut Builder, site: &Site<'_>, grad: NodeId) -> OpResult<Gradients> {
    let shape = b.shape(site.arg(0));
    site.only(b.reshape(grad, &shape))
}

pub fn max_pool(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let Some(Arg::List(size)) = library.args.get(1) else { return Err(OpError::unsupported("a pool without a size")) };
    let (dims, line) = (size.len(), size.len() == 1);
    let tensors = pooled(b, site, line)?;
    // Windows of one element over the dimension that was added.
    let stand_ins = [1i64, 1, 0, 1];
    let lists = library.args[1..5].iter().zip(stand_ins).map(|(list, one)| match list {
        Arg::List(items) if line => Arg::List([Arg::Int(Sym::from(one))].into_iter().chain(items.iter().cloned()).collect()),
        list => list.clone(),
    });
    let args = tensor_args(2).into_iter().chain(lists).chain([library.args[5].clone(), Arg::Tensor(2)]).collect();
    let name = match dims {
        3 => "aten::max_pool3d_with_indices_backward",
        _ => "aten::max_pool2d_with_indices_backward",
    };
    let grad = call(b, name, args, &tensors, &tensors[1..2])?[0];
    as_given(b, site, grad)
}

fn pooled_dims(library: &Library) -> usize {
    match library.args.get(1) {
        Some(Arg::List(sizes)) => sizes.len(),
        _ => 0,
    }
}

pub fn adaptive_max_pool(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let dims = pooled_dims(library);
    let name = if dims == 3 { "aten::adaptive_max_pool3d_backward" } else { "aten::adaptive_max_pool2d_backward" };
    let tensors = pooled(b, site, dims == 1)?;
    let grad = call(b, name, tensor_args(3), &tensors, &tensors[1..2])?[0];
    as_given(b, site, grad)
}

pub fn adaptive_avg_pool(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let dims = pooled_dims(library);
    let name = if dims == 3 { "aten::_adaptive_avg_pool3d_backward" } else { "aten::_adaptive_avg_pool2d_backward" };
    let (mut grad, mut x) = (site.grad()?, site.arg(0));
    if dims == 1 {
        (grad, x) = (as_plane(b, grad)?, as_plane(b, x)?);
    }
    let grad = call(b, name, tensor_args(2), &[grad, x], &[x])?[0];
    as_given(b, site, grad)
}

/// (input, target, weight?, reduction).
pub fn binary_cross_entropy(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    if site.wanted.iter().skip(1).any(|wanted| *wanted) {
        return Err(OpError::unsupported("the derivative of a loss by its target is torch's"));
    }
    let mut tensors = vec![site.grad()?];
    tensors.extend(&site.node.args);
    let weight = site.node.args.get(2).map_or(Arg::None, |_| Arg::Tensor(3));
    let args = tensor_args(3).into_iter().chain([weight, library.args[3].clone()]).collect();
    let grad = call(b, "aten::binary_cross_entropy_backward", args, &tensors, &[site.arg(0)])?[0];
    Ok((0..site.node.args.len()).map(|n| (n == 0).then_some(grad)).collect())
}

pub fn grid_sampler(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let (x, grid) = (site.arg(0), site.arg(1));
    let flat = b.rank(x) == 4;
    let name = if flat { "aten::grid_sampler_2d_backward" } else { "aten::grid_sampler_3d_backward" };
    let mask = Arg::List(vec![Arg::Bool(true), Arg::Bool(true)]);
    let args = tensor_args(3).into_iter().chain(library.args[2..5].iter().cloned()).chain([mask]).collect();
    let tensors = [site.grad()?, x, grid];
    let grads = call(b, name, args, &tensors, &[x, grid])?;
    Ok(grads.into_iter().zip(site.wanted).map(|(grad, wanted)| wanted.then_some(grad)).collect())
}

/// (input, sizes?, align_corners, factors?): the derivative wants sizes, and factors one by one.
pub fn upsample(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let name = match library.callee.name() {
        "aten::upsample_bicubic2d" => "aten::upsample_bicubic2d_backward",
        "aten::_upsample_bilinear2d_aa" => "aten::_upsample_bilinear2d_aa_backward",
        _ => "aten::_upsample_bicubic2d_aa_backward",
    };
    if library.args.len() != 4 {
        return Err(OpError::unsupported("the derivative of this form of an interpolation is torch's"));
    }
    let (grad, x) = (site.grad()?, site.arg(0));
    let sizes = |shape: &[Sym]| Arg::List(shape.iter().cloned().map(Arg::Int).collect());
    let (out, own) = (sizes(&b.shape(grad)[2..]), sizes(&b.shape(x)));
    let factors = match library.args.get(3) {
        Some(Arg::List(items)) => items.clone(),
        _ => vec![Arg::None, Arg::None],
    };
    let args = [Arg::Tensor(0), out, own, library.args[2].clone()].into_iter().chain(factors).collect();
    let grads = call(b, name, args, &[grad], &[x])?;
    site.only(Ok(grads[0]))
}

/// (input, output_size, kernel_size, dilation, padding, stride).
pub fn col2im(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let args = [Arg::Tensor(0)].into_iter().chain(library.args[2..6].iter().cloned()).collect();
    let grads = call(b, "aten::im2col", args, &[site.grad()?], &[site.arg(0)])?;
    site.only(Ok(grads[0]))
}
