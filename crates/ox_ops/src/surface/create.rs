//! Tensors from nothing, and masks by position.

use super::overflow::{check_fits, holds_all};
use super::shared::size_operand;
use super::{Bound, Operand, Surface, fresh};
use crate::builder::Builder;
use crate::decide::assured;
use crate::error::{OpError, OpResult};
use crate::infer::shape_text;
use crate::value::{Value, ValueOf};
use ox_ir::graph::{Bounds, Combine, NodeId, Shape};
use ox_ir::{DType, PointOp, Scalar, Sym};

/// What every factory function takes besides its own arguments.
macro_rules! options {
    ($own:literal) => {
        concat!($own, ", *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None")
    };
}

/// Sizes are variadic, so options need no star of their own.
const SIZES: &str =
    "*size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None, names=None";
const NEW_SIZES: &str = "input, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False";

pub const ROWS: &[Surface] = &[
    fresh(&["zeros"], SIZES, |b, a| filled(b, a, None, Scalar::Int(0))),
    fresh(&["ones"], SIZES, |b, a| filled(b, a, None, Scalar::Int(1))),
    fresh(&["new_zeros"], NEW_SIZES, |b, a| filled(b, a, Some(a.tensor("input")?), Scalar::Int(0))),
    fresh(&["new_ones"], NEW_SIZES, |b, a| filled(b, a, Some(a.tensor("input")?), Scalar::Int(1))),
    fresh(&["empty"], SIZES, |b, a| unwritten(b, a, None)),
    fresh(&["empty_strided"], options!("size, stride"), |b, a| unwritten(b, a, None)),
    fresh(&["new_empty"], NEW_SIZES, |b, a| unwritten(b, a, Some(a.tensor("input")?))),
    fresh(&["new_empty_strided"], options!("input, size, stride"), |b, a| unwritten(b, a, Some(a.tensor("input")?))),
    fresh(&["empty_like"], options!("input"), |b, a| {
        let value = what_is_unwritten(b, dtype_of_new(b, a, Some(a.tensor("input")?))?);
        filled_like(b, a, Operand::Scalar(value))
    }),
    fresh(&["zeros_like"], options!("input"), |b, a| filled_like(b, a, Operand::Scalar(Scalar::Int(0)))),
    fresh(&["ones_like"], options!("input"), |b, a| filled_like(b, a, Operand::Scalar(Scalar::Int(1)))),
    fresh(&["full_like"], options!("input, value"), |b, a| filled_like(b, a, a.operand("value")?)),
    fresh(&["full"], options!("size, value"), |b, a| full(b, a, None)),
    fresh(&["new_full"], options!("input, size, value"), |b, a| full(b, a, Some(a.tensor("input")?))),
    fresh(&["arange"], options!("start, end=None, step=1"), arange),
    fresh(&["linspace"], options!("start, end, steps"), linspace),
    fresh(&["tril_indices"], options!("row, col, offset=0"), |b, a| half_of_a_square(b, a, false)),
    fresh(&["triu_indices"], options!("row, col, offset=0"), |b, a| half_of_a_square(b, a, true)),
    fresh(&["eye"], options!("n, m=None"), eye),
    fresh(&["tensor"], options!("data"), tensor),
    fresh(&["scalar_tensor"], options!("data"), |b, a| {
        check_device(b, a, None)?;
        let dtype = a.opt_dtype("dtype")?.unwrap_or(b.default_dtype);
        let number = a.operand("data")?;
        check_fits(b, &number, dtype)?;
        Ok(b.materialise(&number, dtype).into())
    }),
    fresh(&["new_tensor"], options!("input, data"), |b, a| {
        let dtype = a.opt_dtype("dtype")?.unwrap_or(b.dtype(a.tensor("input")?));
        Ok(literal(b, a.value("data"), Some(dtype))?.into())
    }),
    fresh(&["tril"], "input, diagonal=0", |b, a| triangle(b, a, PointOp::Le)),
    fresh(&["triu"], "input, diagonal=0", |b, a| triangle(b, a, PointOp::Ge)),
    fresh(&["one_hot"], "input, num_classes=-1", one_hot),
];

pub(super) fn check_device(b: &Builder, a: &Bound, like: Option<NodeId>) -> OpResult<()> {
    // torch's default, unless the user has set another: then torch's own function makes the tensor.
    let here = like.map_or(ox_ir::Device::Cpu, |x| b.ty(x).device);
    let fits = match a.value("device") {
        ValueOf::None => here == b.device,
        ValueOf::Device(device) => *device == b.device,
        ValueOf::Str(text) => super::convert::device_named(text) == Some(b.device),
        _ => false,
    };
    if fits { Ok(()) } else { Err(OpError::unsupported("a new tensor on another device")) }
}

pub(super) fn sizes(a: &Bound) -> OpResult<Shape> {
    let shape: Shape = a.ints("size")?.into_iter().collect();
    let numel = shape.iter().try_fold(1i64, |n, s| s.as_const().map_or(Some(n), |s| n.checked_mul(s)));
    if shape.iter().any(|s| s.bounds().1 < 0) {
        let text = shape_text(&shape);
        return Err(OpError::runtime(format!("Trying to create tensor with negative dimension: {text}")));
    }
    if numel.is_none() {
        return Err(OpError::runtime("numel: integer multiplication overflow"));
    }
    Ok(shape)
}

fn filled(b: &mut Builder, a: &Bound, like: Option<NodeId>, value: Scalar) -> OpResult<Value> {
    check_device(b, a, like)?;
    let dtype = dtype_of_new(b, a, like)?;
    let shape = sizes(a)?;
    Ok(b.full(value, dtype, &shape).into())
}

fn dtype_of_new(b: &Builder, a: &Bound, like: Option<NodeId>) -> OpResult<DType> {
    let default = like.map_or(b.default_dtype, |x| b.dtype(x));
    Ok(a.opt_dtype("dtype")?.unwrap_or(default))
}

fn unwritten(b: &mut Builder, a: &Bound, like: Option<NodeId>) -> OpResult<Value> {
    let value = what_is_unwritten(b, dtype_of_new(b, a, like)?);
    filled(b, a, like, value)
}

/// What memory holds that nobody has written: zeros are as good as anything, unless algorithms are to be deterministic.
/// (`torch.utils.deterministic.fill_uninitialized_memory` need not be asked: without it anything will do.)
fn what_is_unwritten(b: &Builder, dtype: DType) -> Scalar {
    match dtype {
        _ if !b.deterministic => Scalar::Int(0),
        dtype if dtype.is_float() => Scalar::Float(f64::NAN),
        DType::Bool => Scalar::Bool(true),
        DType::I8 => Scalar::Int(i8::MAX.into()),
        DType::U8 => Scalar::Int(u8::MAX.into()),
        DType::I16 => Scalar::Int(i16::MAX.into()),
        DType::I32 => Scalar::Int(i32::MAX.into()),
        _ => Scalar::Int(i64::MAX),
    }
}

fn filled_like(b: &mut Builder, a: &Bound, value: Operand) -> OpResult<Value> {
    let x = a.tensor("input")?;
    check_device(b, a, Some(x))?;
    let dtype = a.opt_dtype("dtype")?.unwrap_or(b.dtype(x));
    let shape = b.shape(x);
    fill_shape(b, &value, dtype, &shape)
}

fn fill_shape(b: &mut Builder, value: &Operand, dtype: DType, shape: &[Sym]) -> OpResult<Value> {
    check_fits(b, value, dtype)?;
    if let Operand::Tensor(node) = value
        && !holds_all(dtype, b.dtype(*node))
    {
        return Err(OpError::unsupported(format!("a fill value that {dtype} may not hold")));
    }
    let value = b.materialise(value, dtype);
    if b.rank(value) > 0 {
        return Err(OpError::unsupported("a fill value that is not 0-dimensional"));
    }
    Ok(b.broadcast_to(value, shape)?.into())
}

fn full(b: &mut Builder, a: &Bound, like: Option<NodeId>) -> OpResult<Value> {
    check_device(b, a, like)?;
    let value = a.operand("value")?;
    let default = match (like, &value) {
        (Some(like), _) => b.dtype(like),
        (None, Operand::Tensor(node)) if b.dtype(*node) == DType::Bool => DType::Bool,
        (None, _) => b.result_type(&[a.number("value")?]),
    };
    let dtype = a.opt_dtype("dtype")?.unwrap_or(default);
    let shape = sizes(a)?;
    fill_shape(b, &value, dtype, &shape)
}

/// Integers by size arithmetic; floats by position in double, as eager computes them.
fn arange(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    check_device(b, a, None)?;
    let (start, end) = match a.has("end") {
        true => (a.value("start").clone(), a.value("end").clone()),
        false => (Value::int(0), a.value("start").clone()),
    };
    let step = a.value("step").clone();
    let given = a.opt_dtype("dtype")?;
    if given == Some(DType::Bool) {
        return Err(OpError::unsupported("arange of bools"));
    }
    if let (Some(start), Some(end), Some(step)) = (start.as_int(), end.as_int(), step.as_int()) {
        return int_range(b, &start, &end, &step, given.unwrap_or(DType::I64));
    }
    let known = |v: &Value| v.as_scalar().map(|s| s.as_f64()).ok_or_else(|| OpError::unsupported("arange of unknown numbers"));
    float_range(b, known(&start)?, known(&end)?, known(&step)?, given.unwrap_or(b.default_dtype))
}

fn wrong_range(start: impl std::fmt::Display, end: impl std::fmt::Display) -> OpError {
    OpError::runtime(format!("upper bound and lower bound inconsistent with step sign: {start}, {end}"))
}

fn int_range(b: &mut Builder, start: &Sym, end: &Sym, step: &Sym, dtype: DType) -> OpResult<Value> {
    let Some(by) = step.as_const() else { return Err(OpError::unsupported("arange with an unknown step")) };
    if by == 0 {
        return Err(OpError::runtime("step must be nonzero"));
    }
    let room = if by > 0 { end - start } else { start - end };
    if room.bounds().1 < 0 {
        return Err(wrong_range(start, end));
    }
    if !assured(&room) {
        return Err(OpError::unsupported(format!("arange whose length {room} may be negative")));
    }
    let len = room.div_ceil(&Sym::from(by.unsigned_abs() as i64));
    let mut places = b.counting(&len, DType::I64)?;
    if by != 1 {
        places = b.binary(PointOp::Mul, places, by)?;
    }
    if !start.is_zero() {
        places = b.binary(PointOp::Add, places, size_operand(start))?;
    }
    Ok(b.cast(places, dtype).into())
}

fn float_range(b: &mut Builder, start: f64, end: f64, step: f64, dtype: DType) -> OpResult<Value> {
    if step == 0.0 {
        return Err(OpError::runtime("step must be nonzero"));
    }
    let len = ((end - start) / step).ceil();
    if !len.is_finite() {
        return Err(OpError::runtime(format!("unsupported range: {start} -> {end}")));
    }
    if len < 0.0 || (len == 0.0 && (end - start) * step < 0.0) {
        return Err(wrong_range(start, end));
    }
    if !dtype.is_float() {
        return Err(OpError::unsupported("an integer arange of fractions"));
    }
    let wide = if dtype == DType::F16 || dtype == DType::BF16 { DType::F32 } else { DType::F64 };
    let places = b.counting(&Sym::from(len as i64), wide)?;
    let scaled = b.binary(PointOp::Mul, places, step)?;
    let values = b.binary(PointOp::Add, scaled, start)?;
    Ok(b.cast(values, dtype).into())
}

/// From the nearer end, so that the last value is exact.
fn linspace(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    check_device(b, a, None)?;
    let (start, end, steps) = (a.operand("start")?, a.operand("end")?, a.int("steps")?);
    let dtype = a.opt_dtype("dtype")?.unwrap_or(b.default_dtype);
    if steps.bounds().1 < 0 {
        return Err(OpError::runtime("number of steps must be non-negative"));
    }
    if !dtype.is_float() {
        return Err(OpError::unsupported("an integer linspace"));
    }
    if [&start, &end].iter().any(|at| matches!(at, Operand::Tensor(_))) {
        return Err(OpError::unsupported("a linspace between tensors"));
    }
    [&start, &end].into_iter().try_for_each(|at| check_fits(b, at, dtype))?;
    if steps.bounds().1 < 2 {
        let start = b.materialise(&start, dtype);
        return Ok(b.broadcast_to(start, &[steps])?.into());
    }
    if !assured(&(&steps - 2)) {
        return Err(OpError::unsupported("a linspace of so few steps that it may have one alone"));
    }
    let step = step_of_linspace(b, [&start, &end], &(&steps - 1), dtype)?;
    let places = b.counting(&steps, DType::I64)?;
    let behind = b.binary(PointOp::Sub, size_operand(&(&steps - 1)), places)?;
    let (near, far) = (b.cast(places, dtype), b.cast(behind, dtype));
    let up = b.binary(PointOp::Mul, near, step.clone())?;
    let up = b.binary(PointOp::Add, up, start)?;
    let down = b.binary(PointOp::Mul, far, step)?;
    let down = b.binary(PointOp::Sub, end, down)?;
    let first_half = b.binary(PointOp::Lt, places, size_operand(&steps.div(&Sym::from(2i64))))?;
    Ok(b.choose(first_half, up, down)?.into())
}

/// Every step is rounded to the type, the half types included.
fn step_of_linspace(b: &mut Builder, ends: [&Operand; 2], gaps: &Sym, dtype: DType) -> OpResult<Operand> {
    if let ([Operand::Scalar(start), Operand::Scalar(end)], Some(gaps)) = (ends, gaps.as_const()) {
        let narrow = |x: f64| super::binary::round_to(dtype, x);
        return Ok(narrow(narrow(narrow(end.as_f64()) - narrow(start.as_f64())) / gaps as f64).into());
    }
    let [start, end] = ends.map(|at| b.materialise(at, dtype));
    let gaps = b.materialise(&size_operand(gaps), dtype);
    let length = b.point(PointOp::Sub, &[end, start])?;
    Ok(b.point(PointOp::Div, &[length, gaps])?.into())
}

/// The places below or above a diagonal of a square, row by row. Counted from the tip of the triangle, place p lies in the row r whose
/// first place is r * (r + 1) / 2. The root is exact enough for more places than a tensor can have.
fn half_of_a_square(b: &mut Builder, a: &mut Bound, upper: bool) -> OpResult<Value> {
    check_device(b, a, None)?;
    let (rows, cols, offset) = (a.int("row")?, a.int("col")?, a.int("offset")?);
    let gap = if upper { offset } else { -&offset };
    let side = &rows - &gap;
    if rows != cols || !gap.is_nonneg() || !assured(&(&side - 1)) {
        return Err(OpError::unsupported("a triangle that is no half of a square"));
    }
    let count = (&side * &(&side + 1)).div(&Sym::from(2i64));
    let places = b.counting(&count, DType::I64)?;
    let from_tip = if upper { b.binary(PointOp::Sub, size_operand(&(&count - 1)), places)? } else { places };
    let wide = b.cast(from_tip, DType::F64);
    let wide = b.binary(PointOp::Mul, wide, 8.0)?;
    let wide = b.binary(PointOp::Add, wide, 1.0)?;
    let root = b.unary(PointOp::Sqrt, wide)?;
    let root = b.binary(PointOp::Sub, root, 1.0)?;
    let row = b.binary(PointOp::Mul, root, 0.5)?;
    let row = b.cast(row, DType::I64);
    let next = b.binary(PointOp::Add, row, 1i64)?;
    let first = b.binary(PointOp::Mul, row, next)?;
    let first = b.binary(PointOp::DivFloor, first, 2i64)?;
    let along = b.binary(PointOp::Sub, from_tip, first)?;
    let (row, col) = match upper {
        true => {
            let row = b.binary(PointOp::Sub, size_operand(&(&side - 1)), row)?;
            (row, b.binary(PointOp::Sub, size_operand(&(&cols - 1)), along)?)
        }
        false => (b.binary(PointOp::Add, row, size_operand(&gap))?, along),
    };
    let (row, col) = (b.unsqueeze(row, 0)?, b.unsqueeze(col, 0)?);
    let both = b.cat(&[row, col], 0)?;
    let dtype = a.opt_dtype("dtype")?.unwrap_or(DType::I64);
    Ok(b.cast(both, dtype).into())
}

fn eye(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    check_device(b, a, None)?;
    let rows = a.int("n")?;
    let cols = a.opt_int("m")?.unwrap_or(rows.clone());
    for size in [&rows, &cols] {
        if size.bounds().1 < 0 {
            return Err(OpError::runtime(format!("n must be greater or equal to 0, got {size}")));
        }
    }
    let dtype = a.opt_dtype("dtype")?.unwrap_or(b.default_dtype);
    let shape = [rows, cols];
    let (row, col) = (b.iota(&shape, 0)?, b.iota(&shape, 1)?);
    let mask = b.point(PointOp::Eq, &[row, col])?;
    Ok(b.cast(mask, dtype).into())
}

fn tensor(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    check_device(b, a, None)?;
    let dtype = a.opt_dtype("dtype")?;
    Ok(literal(b, a.value("data"), dtype)?.into())
}

/// More elements than this are not worth a node each.
const MAX_LITERAL: usize = 64;

/// Nested lists of numbers as a tensor.
pub(super) fn literal(b: &mut Builder, data: &Value, dtype: Option<DType>) -> OpResult<NodeId> {
    if let ValueOf::Tensor(x) = data {
        return Ok(dtype.map_or(*x, |dtype| b.cast(*x, dtype)));
    }
    let mut numbers = Vec::new();
    let shape = flatten(data, &mut numbers)?;
    let dtype = dtype.unwrap_or_else(|| match numbers.is_empty() {
        true => b.default_dtype,
        false => b.result_type(&numbers),
    });
    if dtype.is_int() {
        numbers.iter().try_for_each(|number| check_fits(b, number, dtype))?;
    }
    let alike = numbers.windows(2).all(|pair| pair[0] == pair[1]);
    if numbers.len() > MAX_LITERAL && !alike {
        return Err(OpError::unsupported("a long list as a tensor"));
    }
    if let (true, Some(Operand::Scalar(value))) = (alike, numbers.first()) {
        return Ok(b.full(*value, dtype, &shape));
    }
    if numbers.is_empty() {
        return Ok(b.full(Scalar::Int(0), dtype, &shape));
    }
    let mut parts = Vec::with_capacity(numbers.len());
    for number in &numbers {
        let part = b.materialise(number, dtype);
        parts.push(b.broadcast_to(part, &[Sym::ONE])?);
    }
    let flat = b.cat(&parts, 0)?;
    b.reshape(flat, &shape)
}

fn flatten(data: &Value, numbers: &mut Vec<Operand>) -> OpResult<Shape> {
    let Some(items) = data.items() else {
        numbers.push(match data {
            ValueOf::Int(sym) if sym.as_const().is_none() => Operand::Sym(sym.clone()),
            ValueOf::Number(node) => Operand::Number(*node),
            other => {
                Operand::Scalar(other.as_scalar().ok_or_else(|| OpError::unsupported("a tensor of other things than numbers"))?)
            }
        });
        return Ok(Shape::new());
    };
    let mut inner: Option<Shape> = None;
    for item in items {
        let shape = flatten(item, numbers)?;
        if inner.get_or_insert_with(|| shape.clone()) != &shape {
            return Err(OpError::value("expected sequences of equal lengths"));
        }
    }
    let mut shape = inner.unwrap_or_default();
    shape.insert(0, Sym::from(items.len()));
    Ok(shape)
}

/// `tril` keeps where column - row <= diagonal, `triu` where it is >=.
fn triangle(b: &mut Builder, a: &mut Bound, keep: PointOp) -> OpResult<Value> {
    let (x, diagonal) = (a.tensor("input")?, a.int("diagonal")?);
    let rank = b.rank(x);
    if rank < 2 {
        return Err(OpError::runtime("tril/triu: input tensor must have at least 2 dimensions"));
    }
    let shape = b.shape(x);
    let (row, col) = (b.iota(&shape, rank - 2)?, b.iota(&shape, rank - 1)?);
    let distance = b.point(PointOp::Sub, &[col, row])?;
    let mask = b.binary(keep, distance, size_operand(&diagonal))?;
    let zero = b.full_like(Scalar::Int(0), x);
    Ok(b.choose(mask, x, zero)?.into())
}

/// A scatter of ones, so that a class out of range is an error as in eager.
fn one_hot(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, classes) = (a.tensor("input")?, a.int("num_classes")?);
    if b.dtype(x) != DType::I64 {
        return Err(OpError::runtime("one_hot is only applicable to index tensor of type LongTensor."));
    }
    if !classes.is_positive() {
        return Err(OpError::unsupported("one_hot without the number of classes"));
    }
    let count = b.ty(x).numel();
    let flat = b.reshape(x, std::slice::from_ref(&count))?;
    let zeros = b.full(Scalar::Int(0), DType::I64, &[count.clone(), classes.clone()]);
    let row = b.iota(std::slice::from_ref(&count), 0)?;
    let ones = b.full(Scalar::Int(1), DType::I64, std::slice::from_ref(&count));
    let hot = b.index_put(zeros, &[row, flat], ones, (&[0, 1], 0, Bounds::RuntimeError), Combine::Set)?;
    let mut shape = b.shape(x);
    shape.push(classes);
    Ok(b.reshape(hot, &shape)?.into())
}
