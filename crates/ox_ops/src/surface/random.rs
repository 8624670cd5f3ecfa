//! Random tensors. What has values to check (probabilities and deviations in tensors), or comes from a generator of the user's, is left to
//! torch.

use super::create::{check_device, sizes};
use super::{Bound, Surface, fresh};
use crate::builder::{Builder, Draw};
use crate::error::{OpError, OpResult};
use crate::value::{Value, ValueOf};
use ox_ir::graph::{NodeId, Shape};
use ox_ir::{DType, PointOp};

/// What every random factory takes besides its own arguments.
macro_rules! options {
    ($own:literal) => {
        concat!($own, ", generator=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None, names=None")
    };
}

const LIKE: &str = options!("input, *");

pub const ROWS: &[Surface] = &[
    fresh(&["torch.rand"], options!("*size"), |b, a| created(b, a, Draw::uniform)),
    fresh(&["torch.randn"], options!("*size"), |b, a| created(b, a, Draw::normal)),
    fresh(&["torch.rand_like"], LIKE, |b, a| alike(b, a, Draw::uniform)),
    fresh(&["torch.randn_like"], LIKE, |b, a| alike(b, a, Draw::normal)),
    fresh(&["torch.randint"], options!("low=None, high=None, size=None, *"), randint),
    fresh(&["torch.randint_like"], options!("input, low=None, high=None, *"), randint_like),
    fresh(&["bernoulli"], "input, p=None, *, generator=None", bernoulli),
    fresh(&["Tensor.uniform"], "input, from=0.0, to=1.0, *, generator=None", uniform),
    fresh(&["Tensor.normal"], "input, mean=0.0, std=1.0, *, generator=None", |b, a| {
        let shape = b.shape(a.tensor("input")?);
        normal(b, a, b.dtype(a.tensor("input")?), &shape)
    }),
    fresh(&["torch.normal"], options!("mean, std=1.0, size=None, *"), |b, a| {
        check_device(b, a, None)?;
        let dtype = a.opt_dtype("dtype")?.unwrap_or(b.default_dtype);
        let shape = sizes(a)?;
        normal(b, a, dtype, &shape)
    }),
    fresh(&["Tensor.exponential"], "input, lambd=1.0, *, generator=None", exponential),
];

type Distribution = fn(&Draw, &mut Builder, DType) -> OpResult<NodeId>;

fn drawn(b: &mut Builder, a: &Bound, dtype: DType, shape: &Shape, distribution: Distribution) -> OpResult<NodeId> {
    if !dtype.is_float() {
        return Err(OpError::unsupported(format!("random numbers of type {dtype}")));
    }
    let draw = b.draw(Some(a), shape)?;
    distribution(&draw, b, dtype)
}

fn created(b: &mut Builder, a: &Bound, distribution: Distribution) -> OpResult<Value> {
    check_device(b, a, None)?;
    let dtype = a.opt_dtype("dtype")?.unwrap_or(b.default_dtype);
    let shape = sizes(a)?;
    let values = drawn(b, a, dtype, &shape, distribution)?;
    Ok(b.cast(values, dtype).into())
}

fn alike(b: &mut Builder, a: &Bound, distribution: Distribution) -> OpResult<Value> {
    let x = a.tensor("input")?;
    check_device(b, a, Some(x))?;
    let dtype = a.opt_dtype("dtype")?.unwrap_or(b.dtype(x));
    let shape = b.shape(x);
    let values = drawn(b, a, dtype, &shape, distribution)?;
    Ok(b.cast(values, dtype).into())
}

/// `randint(high, size)` or `randint(low, high, size)`.
fn randint(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    check_device(b, a, None)?;
    let short = matches!(a.value("high"), ValueOf::List(_) | ValueOf::Tuple(_));
    let (low, high) = match (short, a.has("low")) {
        (true, _) => (0, a.const_int("low")?),
        (false, true) => (a.const_int("low")?, a.const_int("high")?),
        (false, false) => (0, a.const_int("high")?),
    };
    let shape: Shape = a.ints(if short { "high" } else { "size" })?.into_iter().collect();
    let dtype = a.opt_dtype("dtype")?.unwrap_or(DType::I64);
    whole(b, a, (low, high), dtype, &shape)
}

/// `randint_like(input, high)` or `randint_like(input, low, high)`.
fn randint_like(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    check_device(b, a, Some(x))?;
    let (low, high) = match (a.has("low"), a.has("high")) {
        (true, false) => (0, a.const_int("low")?),
        (true, true) => (a.const_int("low")?, a.const_int("high")?),
        _ => (0, a.const_int("high")?),
    };
    let dtype = a.opt_dtype("dtype")?.unwrap_or(b.dtype(x));
    let shape = b.shape(x);
    whole(b, a, (low, high), dtype, &shape)
}

fn whole(b: &mut Builder, a: &Bound, (low, high): (i64, i64), dtype: DType, shape: &Shape) -> OpResult<Value> {
    let range = high.checked_sub(low).filter(|range| *range > 0);
    let range = range.ok_or_else(|| OpError::unsupported(format!("random integers from {low} to {high}")))?;
    let (least, most) = integers(dtype);
    if low < least || high > most {
        return Err(OpError::unsupported(format!("random integers from {low} to {high} as {dtype}")));
    }
    let draw = b.draw(Some(a), shape)?;
    let values = draw.below(b, range)?;
    let values = if low == 0 { values } else { b.binary(PointOp::Add, values, low)? };
    Ok(b.cast(values, dtype).into())
}

/// From the first to below the last, all integers are values of the type. torch has checks of its own beyond that.
fn integers(dtype: DType) -> (i64, i64) {
    let both = |most: i64| (-most, most);
    match dtype {
        DType::I64 => (i64::MIN, i64::MAX),
        DType::I32 => both(1 << 31),
        DType::I16 => both(1 << 15),
        DType::I8 => both(1 << 7),
        DType::U8 => (0, 1 << 8),
        DType::Bool => (0, 2),
        DType::F64 => both(1 << 53),
        DType::F32 => both(1 << 24),
        DType::F16 => both(1 << 11),
        DType::BF16 => both(1 << 8),
        _ => (0, 0),
    }
}

fn bernoulli(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    if a.value("p").as_scalar().is_none() {
        return Err(OpError::unsupported("probabilities that are only known while running"));
    }
    let (p, shape) = (a.float("p")?, b.shape(x));
    if !(0.0..=1.0).contains(&p) {
        return Err(OpError::runtime(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")));
    }
    let hit = b.draw(Some(a), &shape)?.chance(b, p)?;
    Ok(b.cast(hit, b.dtype(x)).into())
}

fn uniform(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, from, to) = (a.tensor("input")?, a.float("from")?, a.float("to")?);
    let (dtype, shape) = (b.dtype(x), b.shape(x));
    if from > to || !(to - from).is_finite() {
        return Err(OpError::unsupported(format!("a uniform distribution from {from} to {to}")));
    }
    let unit = drawn(b, a, dtype, &shape, Draw::uniform)?;
    let scaled = b.binary(PointOp::Mul, unit, to - from)?;
    let moved = b.binary(PointOp::Add, scaled, from)?;
    Ok(b.cast(moved, dtype).into())
}

fn normal(b: &mut Builder, a: &Bound, dtype: DType, shape: &Shape) -> OpResult<Value> {
    let (mean, std) = (a.float("mean")?, a.float("std")?);
    if std < 0.0 {
        return Err(OpError::runtime(format!("normal expects std >= 0.0, but found std {std}")));
    }
    let unit = drawn(b, a, dtype, shape, Draw::normal)?;
    let scaled = b.binary(PointOp::Mul, unit, std)?;
    let moved = b.binary(PointOp::Add, scaled, mean)?;
    Ok(b.cast(moved, dtype).into())
}

fn exponential(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, rate) = (a.tensor("input")?, a.float("lambd")?);
    if rate <= 0.0 {
        return Err(OpError::runtime(format!("exponential_ expects lambda > 0.0, but found lambda={rate}")));
    }
    let (dtype, shape) = (b.dtype(x), b.shape(x));
    let share = drawn(b, a, dtype, &shape, Draw::inside)?;
    let negative = b.unary(PointOp::Neg, share)?;
    let log = b.unary(PointOp::Log1p, negative)?;
    let values = b.binary(PointOp::Mul, log, -1.0 / rate)?;
    Ok(b.cast(values, dtype).into())
}
