//! Convolutions of any number of spatial dimensions.

use super::matmul::post;
use super::{Env, Result};
use crate::error::InterpretError;
use crate::tensor::{TensorData, indices};
use ox_ir::graph::ConvAttrs;
use ox_ir::{DType, Scalar};

struct Geometry {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: usize,
}

pub(crate) fn conv(attrs: &ConvAttrs, args: &[&TensorData], dtype: DType, shape: &[usize], env: &Env) -> Result<TensorData> {
    if args.len() != 2 + usize::from(attrs.bias) + usize::from(attrs.add) {
        return Err(InterpretError::invalid("a convolution of wrong arguments"));
    }
    let geometry = Geometry {
        stride: env.evals(&attrs.stride)?,
        padding: env.evals(&attrs.padding)?,
        dilation: env.evals(&attrs.dilation)?,
        groups: env.eval(&attrs.groups)? as usize,
    };
    let (x, weight) = (args[0], args[1]);
    let bias = attrs.bias.then(|| args[2]);
    let add = attrs.add.then(|| args[args.len() - 1]);
    Ok(TensorData::from_fn(dtype, shape, |index| {
        let sum =
            if attrs.transposed { geometry.transposed(x, weight, index) } else { geometry.plain(x, weight, shape[1], index) };
        let bias = bias.map_or(0.0, |t| t.get(&index[1..2]).as_f64());
        let add = add.map_or(0.0, |t| t.get_broadcast(index).as_f64());
        Scalar::Float(post(&attrs.post, sum + bias + add))
    }))
}

impl Geometry {
    /// weight: [out channels, in channels of a group, kernel...].
    fn plain(&self, x: &TensorData, weight: &TensorData, out_channels: usize, index: &[usize]) -> f64 {
        let group = index[1] / (out_channels / self.groups);
        let mut sum = 0.0;
        for tap in indices(&weight.shape[1..]) {
            let place = |d: usize| index[d + 2] as i64 * self.stride[d] - self.padding[d] + tap[d + 1] as i64 * self.dilation[d];
            let Some(source) = inside(&x.shape[2..], place) else { continue };
            let from = [&[index[0], group * weight.shape[1] + tap[0]], source.as_slice()].concat();
            let with = [&[index[1]], tap.as_slice()].concat();
            sum += x.get(&from).as_f64() * weight.get(&with).as_f64();
        }
        sum
    }

    /// weight: [in channels, out channels of a group, kernel...]. Input element `s` adds to the places `s*stride - padding +
    /// tap*dilation`; here that is asked from the result's side.
    fn transposed(&self, x: &TensorData, weight: &TensorData, index: &[usize]) -> f64 {
        let (group, channel) = (index[1] / weight.shape[1], index[1] % weight.shape[1]);
        let in_channels = x.shape[1] / self.groups;
        let mut sum = 0.0;
        for tap in indices(&weight.shape[2..]) {
            let times_stride = |d: usize| index[d + 2] as i64 + self.padding[d] - tap[d] as i64 * self.dilation[d];
            if (0..tap.len()).any(|d| times_stride(d) % self.stride[d] != 0) {
                continue;
            }
            let Some(source) = inside(&x.shape[2..], |d| times_stride(d) / self.stride[d]) else { continue };
            for c in group * in_channels..(group + 1) * in_channels {
                let from = [&[index[0], c], source.as_slice()].concat();
                let with = [&[c, channel], tap.as_slice()].concat();
                sum += x.get(&from).as_f64() * weight.get(&with).as_f64();
            }
        }
        sum
    }
}

fn inside(shape: &[usize], place: impl Fn(usize) -> i64) -> Option<Vec<usize>> {
    shape.iter().enumerate().map(|(d, n)| usize::try_from(place(d)).ok().filter(|at| at < n)).collect()
}
