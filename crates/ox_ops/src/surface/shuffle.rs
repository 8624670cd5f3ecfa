//! Rearrangements between channels and positions, and windows as columns.

use super::operator::{Operator, ints, one};
use super::pool::{Sliding, spread_windows};
use super::shared::{divides, known_per_dim, per_dim};
use super::{Bound, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::Value;
use ox_ir::graph::Shape;
use ox_ir::{Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(&["pixel_shuffle"], "input, upscale_factor", pixel_shuffle),
    fresh(&["pixel_unshuffle"], "input, downscale_factor", pixel_unshuffle),
    fresh(&["channel_shuffle", "native_channel_shuffle"], "input, groups", channel_shuffle),
    fresh(&["F.fold"], "input, output_size, kernel_size, dilation=1, padding=0, stride=1", fold),
    fresh(&["F.unfold", "aten.im2col"], "input, kernel_size, dilation=1, padding=0, stride=1", unfold),
];

/// The dimensions before the last three, and the three.
fn image(shape: &Shape, name: &str) -> OpResult<(usize, [Sym; 3])> {
    match shape.len().checked_sub(3) {
        Some(lead) => Ok((lead, [shape[lead].clone(), shape[lead + 1].clone(), shape[lead + 2].clone()])),
        None => Err(OpError::runtime(format!("{name} expects input to have at least 3 dimensions"))),
    }
}

/// `perm` over the last dimensions, the first `lead` stay.
fn behind(lead: usize, perm: &[usize]) -> Vec<usize> {
    (0..lead).chain(perm.iter().map(|p| lead + p)).collect()
}

fn pixel_shuffle(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let (shape, r) = (b.shape(x), args.const_int("upscale_factor")?);
    let (lead, [c, h, w]) = image(&shape, "pixel_shuffle")?;
    if r <= 0 || !divides(r * r, &c)? {
        return Err(OpError::runtime(format!(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by {}",
            r * r
        )));
    }
    let (factor, channels) = (Sym::from(r), c.div(&Sym::from(r * r)));
    let apart = [&shape[..lead], &[channels.clone(), factor.clone(), factor.clone(), h.clone(), w.clone()]].concat();
    let x = b.reshape(x, &apart)?;
    let x = b.permute(x, &behind(lead, &[0, 3, 1, 4, 2]))?;
    let together = [&shape[..lead], &[channels, &h * r, &w * r]].concat();
    Ok(b.reshape(x, &together)?.into())
}

fn pixel_unshuffle(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let (shape, r) = (b.shape(x), args.const_int("downscale_factor")?);
    let (lead, [c, h, w]) = image(&shape, "pixel_unshuffle")?;
    if r <= 0 || !divides(r, &h)? || !divides(r, &w)? {
        return Err(OpError::runtime(format!("pixel_unshuffle expects height and width to be divisible by {r}")));
    }
    // Eager gives an empty image back as it is.
    if shape.iter().any(Sym::is_zero) {
        return Ok(x.into());
    }
    let factor = Sym::from(r);
    let (rows, columns) = (h.div(&factor), w.div(&factor));
    let apart = [&shape[..lead], &[c.clone(), rows.clone(), factor.clone(), columns.clone(), factor.clone()]].concat();
    let x = b.reshape(x, &apart)?;
    let x = b.permute(x, &behind(lead, &[0, 2, 4, 1, 3]))?;
    let together = [&shape[..lead], &[&c * (r * r), rows, columns]].concat();
    Ok(b.reshape(x, &together)?.into())
}

fn channel_shuffle(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let (shape, groups) = (b.shape(x), args.const_int("groups")?);
    if shape.len() < 3 || groups <= 0 || !divides(groups, &shape[1])? {
        return Err(OpError::runtime("channel_shuffle expects channels that the groups divide"));
    }
    let mut apart = shape.clone();
    apart[1] = shape[1].div(&Sym::from(groups));
    apart.insert(1, Sym::from(groups));
    let x = b.reshape(x, &apart)?;
    let x = b.transpose(x, 1, 2)?;
    Ok(b.reshape(x, &shape)?.into())
}

/// The inverse of `unfold`, adding where windows overlap.
fn fold(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let shape = b.shape(x);
    let sizes = per_dim(args, "output_size", 2)?;
    let mut lists = Vec::with_capacity(4);
    for name in ["kernel_size", "dilation", "padding", "stride"] {
        lists.push(known_per_dim(args, name, 2)?);
    }
    let window = lists[0][0] * lists[0][1];
    if !(2..=3).contains(&shape.len()) || window <= 0 || !divides(window, &shape[shape.len() - 2])? {
        return Err(OpError::runtime("Expected 2D or 3D columns whose rows the window's size divides"));
    }
    let mut out: Shape = shape[..shape.len() - 1].iter().cloned().collect();
    let channels = out.len() - 1;
    out[channels] = out[channels].div(&Sym::from(window));
    out.extend(sizes.iter().cloned());
    let lists = lists.iter().map(|list| ints(list.iter().map(|n| Sym::from(*n))));
    one(Operator::new("aten::col2im", "", [ints(sizes)].into_iter().chain(lists)).call(b, &[x], &[(b.dtype(x), out)])?)
}

/// Every window of [N, C, H, W] as a column of [N, C * window, windows].
fn unfold(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = args.tensor("input")?;
    let shape = b.shape(x);
    if shape.len() != 3 && shape.len() != 4 {
        return Err(OpError::runtime(format!("Expected 3D or 4D input, but got {}D", shape.len())));
    }
    let lead = shape.len() - 3;
    let named = ["kernel_size", "stride", "padding", "dilation"];
    let mut parameters = Vec::with_capacity(4);
    for name in named {
        parameters.push(known_per_dim(args, name, 2)?);
    }
    let window = |k: usize| Sliding::new(&shape[lead + 1 + k], [0, 1, 2, 3].map(|p: usize| parameters[p][k]), false);
    let windows = [window(0)?, window(1)?];
    let spread = spread_windows(b, x, &windows, Scalar::Int(0))?;
    let columns = b.permute(spread, &behind(lead, &[0, 3, 4, 1, 2]))?;
    let rows = &shape[lead] * (windows[0].size * windows[1].size);
    let places = &windows[0].count * &windows[1].count;
    let together = [&shape[..lead], &[rows, places]].concat();
    Ok(b.reshape(columns, &together)?.into())
}
