//! `interpolate`: the source of each output element is computed as torch computes it, in f32 (f64 for f64 tensors).

use super::adaptive::average_to;
use super::gather::gathered;
use super::nearest::nearest;
use super::operator::{Operator, int, ints, one};
use super::shared::{flag, not_implemented, real, size_operand, wide};
use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::{Value, ValueOf};
use ox_ir::graph::{Arg, Bounds, NodeId};
use ox_ir::{DType, PointOp, Scalar, Sym};

pub const ROWS: &[Surface] = &[
    fresh(
        &["F.interpolate"],
        "input, size=None, scale_factor=None, mode=nearest, align_corners=None, recompute_scale_factor=None, antialias=False",
        interpolate,
    ),
    fresh(&["F.upsample"], "input, size=None, scale_factor=None, mode=nearest, align_corners=None", interpolate),
    fresh(&["F.grid_sample"], "input, grid, mode=bilinear, padding_mode=zeros, align_corners=None", grid_sample),
    fresh(&["F.upsample_nearest"], "input, size=None, scale_factor=None, mode=nearest", interpolate),
    fresh(&["F.upsample_bilinear"], "input, size=None, scale_factor=None, mode=bilinear, align_corners=True", interpolate),
];

/// Whether the result of the row's function depends on how its first argument lies in memory.
pub fn by_order(row: &Surface) -> bool {
    ["F.interpolate", "F.upsample", "F.upsample_nearest"].contains(&row.names[0])
}

/// One spatial dimension: how long it is and becomes, and the factor that was asked for, if it was.
pub(super) struct Axis {
    pub from: Sym,
    pub to: Sym,
    factor: Option<f64>,
}

impl Axis {
    /// Both lengths, if they are known.
    pub fn known(&self) -> Option<(i64, i64)> {
        Some((self.from.as_const()?, self.to.as_const()?))
    }

    /// Input elements per output element, by the factor.
    pub fn by_factor(&self) -> Option<f64> {
        self.factor.filter(|factor| *factor > 0.0).map(|factor| 1.0 / factor)
    }

    /// Input elements per output element, where that is known.
    pub fn known_ratio(&self) -> Option<f64> {
        self.by_factor().or_else(|| self.known().map(|(from, to)| from as f64 / to as f64))
    }

    /// Input elements per output element. Of sizes that vary it is computed in the type of the positions, as torch does.
    pub fn ratio(&self, b: &mut Builder, dtype: DType) -> OpResult<Operand> {
        match self.known_ratio() {
            Some(ratio) => Ok(Operand::from(ratio)),
            None => quotient(b, &self.from, &self.to, dtype),
        }
    }

    /// The same, where sizes of which one is `times` the other are taken as that, whatever the factor says.
    pub fn ratio_unless(&self, b: &mut Builder, dtype: DType, times: i64, other: Operand) -> OpResult<Operand> {
        let whole = &self.from * times;
        if self.by_factor().is_none() || self.known().is_some() || are_apart(&whole, &self.to) {
            return Ok(other);
        }
        let (whole, to) = (b.sym_value(whole, DType::I64), b.sym_value(self.to.clone(), DType::I64));
        let same = b.point(PointOp::Eq, &[whole, to])?;
        let (exact, other) = (b.full(Scalar::Float(1.0 / times as f64), dtype, &[]), b.materialise(&other, dtype));
        Ok(Operand::Tensor(b.point(PointOp::Where, &[same, exact, other])?))
    }
}

fn quotient(b: &mut Builder, a: &Sym, by: &Sym, dtype: DType) -> OpResult<Operand> {
    let (a, by) = (b.sym_value(a.clone(), dtype), b.sym_value(by.clone(), dtype));
    Ok(Operand::Tensor(b.point(PointOp::Div, &[a, by])?))
}

pub(super) fn are_apart(a: &Sym, b: &Sym) -> bool {
    (a - b).is_positive() || (b - a).is_positive()
}

fn interpolate(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let x = real(b, args, "input")?;
    let antialias = args.knows("antialias") && args.boolean("antialias")?;
    let mode = args.str("mode")?.to_string();
    let axes = axes(b, args, x)?;
    if let Some(empty) = axes.iter().find(|a| a.to.bounds().1 <= 0 || a.from.is_zero()) {
        return Err(OpError::runtime(format!(
            "Input and output sizes should be greater than 0, but got {} and {}",
            empty.from, empty.to
        )));
    }
    // Eager refuses it in its own words, though nothing comes out.
    if b.shape(x)[1..].iter().any(Sym::is_zero) || (mode == "area" && !b.dtype(x).is_float()) {
        return Err(OpError::unsupported("an image without channels, or an average of whole numbers"));
    }
    let align = args.knows("align_corners") && flag(args, "align_corners")?;
    let told = args.knows("align_corners") && args.has("align_corners");
    match mode.as_str() {
        "bilinear" if antialias => library(b, x, &axes, align, "aten::_upsample_bilinear2d_aa"),
        "bicubic" if antialias => library(b, x, &axes, align, "aten::_upsample_bicubic2d_aa"),
        _ if antialias => Err(OpError::value(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input",
        )),
        "bicubic" => library(b, x, &axes, align, "aten::upsample_bicubic2d"),
        "nearest" | "area" | "nearest-exact" if told => Err(OpError::value(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear",
        )),
        "nearest" => Ok(nearest(b, x, args.strides.as_ref(), &axes, 0.0)?.into()),
        "nearest-exact" => Ok(nearest(b, x, args.strides.as_ref(), &axes, 0.5)?.into()),
        "area" => {
            let sizes: Vec<Sym> = axes.iter().map(|a| a.to.clone()).collect();
            average_to(b, x, &sizes)
        }
        "linear" | "bilinear" | "trilinear" => {
            let wanted = ["linear", "bilinear", "trilinear"].iter().position(|m| *m == mode).map_or(0, |n| n + 1);
            if axes.len() != wanted {
                return Err(not_implemented(format!(
                    "Got {}D input, but {mode} mode needs {}D input",
                    axes.len() + 2,
                    wanted + 2
                )));
            }
            Ok(gathered(b, x, |b, x| linear(b, x, &axes, align))?.into())
        }
        other => Err(OpError::unsupported(format!("interpolate '{other}'"))),
    }
}

/// Torch's own kernel, for images.
fn library(b: &mut Builder, x: NodeId, axes: &[Axis], align: bool, name: &'static str) -> OpResult<Value> {
    if axes.len() != 2 || !b.dtype(x).is_float() {
        return Err(OpError::unsupported("interpolation by a wide kernel of something else than float images"));
    }
    let mut shape = b.shape(x);
    for (size, axis) in shape[2..].iter_mut().zip(axes) {
        *size = axis.to.clone();
    }
    let factors: Option<Vec<Arg>> = axes.iter().map(|a| Some(Arg::Float(Scalar::Float(a.factor?)))).collect();
    let (sizes, factors) = match factors {
        Some(factors) => (Arg::None, Arg::List(factors)),
        None => (ints(axes.iter().map(|a| a.to.clone())), Arg::None),
    };
    one(Operator::new(name, "vec", [sizes, Arg::Bool(align), factors]).call(b, &[x], &[(b.dtype(x), shape)])?)
}

/// Reads images at given places.
fn grid_sample(b: &mut Builder, args: &mut Bound) -> OpResult<Value> {
    let (x, grid) = (real(b, args, "input")?, real(b, args, "grid")?);
    let place = |name: &str, of: [&str; 3]| -> OpResult<Arg> {
        let found = of.iter().position(|m| args.str(name).is_ok_and(|given| given == *m));
        found.map(|n| int(n as i64)).ok_or_else(|| OpError::value(format!("{name} must be one of {of:?}")))
    };
    let mode = place("mode", ["bilinear", "nearest", "bicubic"])?;
    let padding = place("padding_mode", ["zeros", "border", "reflection"])?;
    let align = Arg::Bool(flag(args, "align_corners")?);
    let (own, places) = (b.shape(x), b.shape(grid));
    if own.len() < 4 || places.len() != own.len() {
        return Err(OpError::runtime("grid_sampler(): expected input and grid to have same number of dimensions"));
    }
    let shape = own[..2].iter().chain(&places[1..places.len() - 1]).cloned().collect();
    let operator = Operator::new("aten::grid_sampler", "", [Arg::Tensor(1), mode, padding, align]);
    one(operator.call(b, &[x, grid], &[(b.dtype(x), shape)])?)
}

fn axes(b: &Builder, args: &Bound, x: NodeId) -> OpResult<Vec<Axis>> {
    let shape = b.shape(x);
    if !(3..=5).contains(&shape.len()) {
        return Err(not_implemented(format!("Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D)", shape.len())));
    }
    let spatial = &shape[2..];
    match (args.has("size"), args.has("scale_factor")) {
        (true, false) => {
            let sizes = super::shared::per_dim(args, "size", spatial.len())
                .map_err(|_| OpError::value("size shape must match input shape"))?;
            Ok(spatial.iter().zip(sizes).map(|(from, to)| Axis { from: from.clone(), to, factor: None }).collect())
        }
        (false, true) => {
            let recompute = args.knows("recompute_scale_factor") && flag(args, "recompute_scale_factor")?;
            let factors = factors(args, spatial.len())?;
            spatial.iter().zip(factors).map(|(from, factor)| scaled(from, factor, recompute)).collect()
        }
        (true, true) => Err(OpError::value("only one of size or scale_factor should be defined")),
        (false, false) => Err(OpError::value("either size or scale_factor should be defined")),
    }
}

fn factors(args: &Bound, n: usize) -> OpResult<Vec<f64>> {
    let one = |v: &Value| match v {
        ValueOf::Int(_) | ValueOf::Float(_) => v.as_scalar().map(|s| s.as_f64()),
        _ => None,
    };
    let given = args.value("scale_factor");
    let factors: Option<Vec<f64>> = match given.items() {
        Some(items) => items.iter().map(one).collect(),
        None => one(given).map(|factor| vec![factor; n]),
    };
    let factors = factors.ok_or_else(|| OpError::unsupported("a scale factor that is not known"))?;
    if factors.len() != n {
        return Err(OpError::value(format!(
            "scale_factor shape must match input shape. Input is {n}D, scale_factor is {}",
            factors.len()
        )));
    }
    Ok(factors)
}

fn scaled(from: &Sym, factor: f64, recompute: bool) -> OpResult<Axis> {
    let to = match (from.as_const(), dyadic(factor)) {
        (Some(n), _) => Sym::from((n as f64 * factor).floor() as i64),
        (None, Some((over, under))) => (from * over).div(&Sym::from(under)),
        (None, None) => return Err(OpError::unsupported("interpolate of an unknown size by a fraction")),
    };
    Ok(Axis { from: from.clone(), to, factor: (!recompute).then_some(factor) })
}

/// A factor as a fraction whose denominator is a power of two, small enough that sizes times the factor are not rounded.
fn dyadic(factor: f64) -> Option<(i64, i64)> {
    let under = (0..=10).map(|n| 1i64 << n).find(|under| (factor * *under as f64).fract() == 0.0)?;
    let over = factor * under as f64;
    (over.abs() <= 65536.0).then_some((over as i64, under))
}

/// 0, 1, 2, ... of the output dimension, in the type that torch computes positions in.
fn positions(b: &mut Builder, dtype: DType, axis: &Axis) -> OpResult<NodeId> {
    let dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    b.counting(&axis.to, dtype)
}

/// The two neighbours of each output position along one dimension, and how much each counts.
struct Neighbours {
    index: [NodeId; 2],
    weight: [NodeId; 2],
}

/// Steps between the input's ends for each between the output's. Of one output element nothing is asked but the first place.
fn aligned(b: &mut Builder, axis: &Axis, dtype: DType) -> OpResult<Operand> {
    let (from, to) = (&axis.from - 1, (&axis.to - 1).greater(&Sym::ONE));
    match (from.as_const(), to.as_const()) {
        (Some(from), Some(to)) => Ok(Operand::from(from as f64 / to as f64)),
        _ => quotient(b, &from, &to, dtype),
    }
}

fn neighbours(b: &mut Builder, dtype: DType, axis: &Axis, align: bool) -> OpResult<Neighbours> {
    let places = positions(b, dtype, axis)?;
    let kind = b.dtype(places);
    let places = match align {
        // Equal sizes are copied, whatever the factor says.
        _ if axis.from == axis.to => places,
        true => {
            let ratio = aligned(b, axis, kind)?;
            b.binary(PointOp::Mul, places, ratio)?
        }
        false => {
            let ratio = axis.ratio(b, kind)?;
            let ratio = axis.ratio_unless(b, kind, 1, ratio)?;
            let middle = b.binary(PointOp::Add, places, 0.5)?;
            let scaled = b.binary(PointOp::Mul, middle, ratio)?;
            let shifted = b.binary(PointOp::Sub, scaled, 0.5)?;
            b.binary(PointOp::Maximum, shifted, 0.0)?
        }
    };
    let whole = b.unary(PointOp::Trunc, places)?;
    let low = b.cast(whole, DType::I64);
    let last = size_operand(&(&axis.from - 1));
    let low = b.binary(PointOp::Minimum, low, last.clone())?;
    let high = b.binary(PointOp::Add, low, 1i64)?;
    let high = b.binary(PointOp::Minimum, high, last)?;
    let part = b.binary(PointOp::Sub, places, low)?;
    let part = b.binary(PointOp::Maximum, part, 0.0)?;
    let part = b.binary(PointOp::Minimum, part, 1.0)?;
    let one = b.full_like(Scalar::Float(1.0), part);
    let rest = b.point(PointOp::Sub, &[one, part])?;
    Ok(Neighbours { index: [low, high], weight: [rest, part] })
}

fn linear(b: &mut Builder, x: NodeId, axes: &[Axis], align: bool) -> OpResult<NodeId> {
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return Err(OpError::unsupported(format!("linear interpolation of {dtype}")));
    }
    let near: Vec<Neighbours> = axes.iter().map(|axis| neighbours(b, dtype, axis, align)).collect::<OpResult<_>>()?;
    let sizes: Vec<Sym> = axes.iter().map(|axis| axis.to.clone()).collect();
    let y = blend(b, x, &near, &sizes, &mut Vec::new())?;
    Ok(b.cast(y, dtype))
}

/// The mixture over the dimensions from `chosen.len()` on, with the neighbours of those before already chosen.
fn blend(b: &mut Builder, x: NodeId, near: &[Neighbours], sizes: &[Sym], chosen: &mut Vec<NodeId>) -> OpResult<NodeId> {
    let k = chosen.len();
    if k == near.len() {
        return corner(b, x, chosen, sizes);
    }
    let mut parts = Vec::with_capacity(2);
    for side in 0..2 {
        chosen.push(near[k].index[side]);
        let value = blend(b, x, near, sizes, chosen)?;
        chosen.pop();
        let weight = along(b, near[k].weight[side], k, sizes.len())?;
        parts.push(b.binary(PointOp::Mul, value, weight)?);
    }
    b.point(PointOp::Add, &[parts[0], parts[1]])
}

/// A vector over dimension `k` of `n`.
fn along(b: &mut Builder, vector: NodeId, k: usize, n: usize) -> OpResult<NodeId> {
    let len = b.ty(vector).numel();
    let shape: Vec<Sym> = (0..n).map(|d| if d == k { len.clone() } else { Sym::ONE }).collect();
    b.reshape(vector, &shape)
}

/// The input at one neighbour in every dimension, wide.
fn corner(b: &mut Builder, x: NodeId, chosen: &[NodeId], sizes: &[Sym]) -> OpResult<NodeId> {
    let mut indices = Vec::with_capacity(chosen.len());
    for (k, index) in chosen.iter().enumerate() {
        let index = along(b, *index, k, sizes.len())?;
        indices.push(b.broadcast_to(index, sizes)?);
    }
    let dims: Vec<usize> = (2..2 + sizes.len()).collect();
    let value = b.index(x, &indices, &dims, 2, Bounds::IndexError)?;
    Ok(wide(b, value))
}
