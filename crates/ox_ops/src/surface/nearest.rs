//! `interpolate` by 'nearest' and 'nearest-exact': eager's two ways on a CPU to the element that is nearest.

use super::Operand;
use super::gather::gathered;
use super::resize::{Axis, are_apart};
use super::scatter::widened;
use super::shared::size_operand;
use crate::builder::Builder;
use crate::decide::exceeds;
use crate::error::{OpError, OpResult};
use crate::recorder::Layout;
use ox_ir::graph::{Bounds, NodeId, Shape};
use ox_ir::{DType, Device, PointOp, Sym};

/// Where the elements of one output dimension come from.
#[derive(PartialEq, Eq)]
enum Source {
    /// Each input element `n` times.
    Repeat(i64),
    /// Every n-th.
    Step(i64),
    Computed,
}

/// Of sizes that are not known: a power of two is exact in every type, whatever the size.
fn source_of_any(axis: &Axis, offset: f64) -> Source {
    let whole = |factor: f64| Some(factor as i64).filter(|n| *n > 0 && n.count_ones() == 1 && *n as f64 == factor);
    let ratio = axis.by_factor();
    match (ratio.and_then(|ratio| whole(1.0 / ratio)), ratio.and_then(whole)) {
        (Some(times), _) if axis.to == &axis.from * times => Source::Repeat(times),
        (_, Some(step)) if offset == 0.0 && axis.to == axis.from.div(&Sym::from(step)) => Source::Step(step),
        _ => Source::Computed,
    }
}

/// Eager's two ways to the nearest element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In f32. Plain 'nearest' copies and doubles whatever the factor says. All gradients go this way.
    Images,
    /// In the type of the tensor, of which the end is f32. 'nearest-exact' is half an element back, and forth again.
    Any,
}

#[derive(Clone, Copy)]
struct Nearest {
    way: Way,
    dtype: DType,
    offset: f64,
}

impl Nearest {
    fn copies(&self) -> bool {
        self.way == Way::Images && self.offset == 0.0
    }

    fn goes_back(&self) -> bool {
        self.way == Way::Any && self.offset != 0.0
    }

    fn is_narrow(&self) -> bool {
        self.way == Way::Images || self.dtype != DType::F64
    }

    /// What it is computed in.
    fn kind(&self) -> DType {
        if self.is_narrow() { DType::F32 } else { DType::F64 }
    }

    /// The element that torch takes, with its rounding.
    fn element(&self, ratio: f64, to: i64, from: i64) -> i64 {
        let ratio = if self.is_narrow() { ratio as f32 as f64 } else { ratio };
        let to = to as f64 + self.offset;
        let place = match self.goes_back() {
            true if self.is_narrow() => (to.mul_add(ratio, -0.5) as f32).max(0.0) as f64 + 0.5,
            true => to.mul_add(ratio, -0.5).max(0.0) + 0.5,
            false => to * ratio,
        };
        ((place as f32).floor() as i64).min(from - 1)
    }

    fn source(&self, axis: &Axis) -> Source {
        let (Some((from, to)), Some(ratio)) = (axis.known(), axis.known_ratio()) else { return source_of_any(axis, self.offset) };
        if self.copies() && (to == from || to == 2 * from) {
            return Source::Repeat(to / from);
        }
        let all = |f: &dyn Fn(i64) -> i64| (0..to).all(|n| self.element(ratio, n, from) == f(n));
        if to % from == 0 && all(&|n| n / (to / from)) {
            return Source::Repeat(to / from);
        }
        if from % to == 0 && all(&|n| n * (from / to)) {
            return Source::Step(from / to);
        }
        Source::Computed
    }

    /// Whether another way certainly leads to the same elements.
    fn agrees(&self, other: &Nearest, axis: &Axis) -> bool {
        let [source, others] = [self, other].map(|nearest| nearest.source(axis));
        if source != Source::Computed || others != Source::Computed {
            return source == others;
        }
        match (axis.known(), axis.known_ratio()) {
            (Some((from, to)), Some(ratio)) => (0..to).all(|n| self.element(ratio, n, from) == other.element(ratio, n, from)),
            _ => self.dtype != DType::F64 && self.agrees_in_f32(axis),
        }
    }

    /// Whether both ways certainly lead to the same elements, whatever the sizes are: a whole factor has no place half way between two.
    fn agrees_in_f32(&self, axis: &Axis) -> bool {
        match axis.by_factor() {
            Some(ratio) if self.offset != 0.0 => (1.0 / ratio).fract() == 0.0,
            Some(_) => [1, 2].iter().all(|times| are_apart(&(&axis.from * *times), &axis.to)),
            None => self.offset == 0.0,
        }
    }
}

/// The way of eager's kernel for a tensor that lies so.
fn way(b: &Builder, x: NodeId, strides: Option<&Shape>, axes: &[Axis]) -> OpResult<Way> {
    let is_small = matches!(axes, [h, w] if !exceeds(&(&h.to + &w.to), &Sym::from(128i64)));
    let of_images = is_small || b.ty(x).device != Device::Cpu || has_channels_last(&b.shape(x), strides)?;
    Ok(if of_images { Way::Images } else { Way::Any })
}

/// Whether the channels, four at least, lie side by side.
fn has_channels_last(shape: &[Sym], strides: Option<&Shape>) -> OpResult<bool> {
    if shape.len() <= 3 || !exceeds(&shape[1], &Sym::from(3i64)) {
        return Ok(false);
    }
    let strides = strides.ok_or_else(|| OpError::unsupported("interpolate of memory that is not known"))?;
    let order: Vec<usize> = [0].into_iter().chain(2..shape.len()).chain([1]).collect();
    Ok(Layout { strides: strides.clone(), offset: Sym::ZERO }.is_dense_in(shape, &order))
}

/// Each element of the result is the one at the nearest place.
pub(super) fn nearest(b: &mut Builder, x: NodeId, strides: Option<&Shape>, axes: &[Axis], offset: f64) -> OpResult<NodeId> {
    let dtype = b.dtype(x);
    if !dtype.is_float() && dtype != DType::U8 {
        return Err(OpError::unsupported(format!("interpolate of {dtype}")));
    }
    let slope = Nearest { way: Way::Images, dtype, offset };
    let other = Nearest { way: Way::Any, ..slope };
    if axes.iter().all(|axis| slope.agrees(&other, axis)) || way(b, x, strides, axes)? == Way::Images {
        return gathered(b, x, |b, x| nearest_by(b, x, axes, slope));
    }
    let value = nearest_by(b, x, axes, other)?;
    let path = widened(b, x);
    let path = nearest_by(b, path, axes, slope)?;
    let path = b.cast(path, dtype);
    b.graft(value, path)
}

fn nearest_by(b: &mut Builder, x: NodeId, axes: &[Axis], nearest: Nearest) -> OpResult<NodeId> {
    let mut y = x;
    for (k, axis) in axes.iter().enumerate() {
        let dim = k + 2;
        y = match nearest.source(axis) {
            Source::Repeat(1) => y,
            Source::Repeat(times) => repeat(b, y, dim, times)?,
            Source::Step(step) => b.slice_dim(y, dim, &Sym::ZERO, &axis.to, step)?,
            Source::Computed => {
                let index = nearest_index(b, axis, nearest)?;
                b.index(y, &[index], &[dim], dim, Bounds::IndexError)?
            }
        };
    }
    Ok(y)
}

/// Each element of `dim`, `times` times in a row.
fn repeat(b: &mut Builder, x: NodeId, dim: usize, times: i64) -> OpResult<NodeId> {
    let mut shape = b.shape(x);
    let apart = b.unsqueeze(x, dim + 1)?;
    let mut spread = b.shape(apart);
    spread[dim + 1] = Sym::from(times);
    let spread = b.expand(apart, &spread)?;
    shape[dim] = &shape[dim] * times;
    b.reshape(spread, &shape)
}

fn nearest_index(b: &mut Builder, axis: &Axis, nearest: Nearest) -> OpResult<NodeId> {
    let kind = nearest.kind();
    let mut places = b.counting(&axis.to, kind)?;
    if nearest.offset != 0.0 {
        places = b.binary(PointOp::Add, places, nearest.offset)?;
    }
    let mut ratio = axis.ratio(b, kind)?;
    if nearest.copies() {
        ratio = axis.ratio_unless(b, kind, 2, ratio)?;
        ratio = axis.ratio_unless(b, kind, 1, ratio)?;
    }
    let places = match nearest.goes_back() {
        true => back_and_forth(b, places, ratio)?,
        false => b.binary(PointOp::Mul, places, ratio)?,
    };
    let places = b.cast(places, DType::F32);
    let places = b.unary(PointOp::Floor, places)?;
    let places = b.cast(places, DType::I64);
    b.binary(PointOp::Minimum, places, size_operand(&(&axis.from - 1)))
}

fn back_and_forth(b: &mut Builder, places: NodeId, ratio: Operand) -> OpResult<NodeId> {
    let half = (-0.5).into();
    let back = b.pointwise_in(PointOp::Fma, b.dtype(places), &[places.into(), ratio, half])?;
    let back = b.binary(PointOp::Maximum, back, 0.0)?;
    b.binary(PointOp::Add, back, 0.5)
}
