//! Conversions and copies.

use super::{Bound, Surface, fresh, maybe, view};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::{Value, ValueOf};
use ox_ir::graph::NodeId;
use ox_ir::{DType, Device, Scalar};

macro_rules! cast_to {
    ($($name:literal)|+ => $dtype:ident) => {
        maybe(&[$($name),+], "input, memory_format=None", |b, a| {
            let x = a.tensor("input")?;
            Ok(b.cast(x, DType::$dtype).into())
        })
    };
}

pub const ROWS: &[Surface] = &[
    maybe(&["to"], "input, *args, dtype=None, device=None, non_blocking=False, copy=False, layout=None, memory_format=None", to),
    fresh(
        &["_to_copy"],
        "input, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None",
        |b, a| convert(b, a.tensor("input")?, a.value("dtype").clone(), a.value("device").clone()),
    ),
    cast_to!("Tensor.bool" => Bool),
    cast_to!("Tensor.byte" => U8),
    cast_to!("Tensor.char" => I8),
    cast_to!("Tensor.short" => I16),
    cast_to!("Tensor.int" => I32),
    cast_to!("Tensor.long" => I64),
    cast_to!("Tensor.half" => F16),
    cast_to!("Tensor.bfloat16" => BF16),
    cast_to!("Tensor.float" => F32),
    cast_to!("Tensor.double" => F64),
    maybe(&["Tensor.type"], "input, dtype, non_blocking=False", |b, a| {
        convert(b, a.tensor("input")?, a.value("dtype").clone(), ValueOf::None)
    }),
    maybe(&["Tensor.type_as"], "input, other", |b, a| {
        let (x, other) = (a.tensor("input")?, a.tensor("other")?);
        same_device(b, x, b.ty(other).device)?;
        Ok(b.cast(x, b.dtype(other)).into())
    }),
    maybe(&["Tensor.cpu"], "input, memory_format=None", |b, a| {
        let x = a.tensor("input")?;
        same_device(b, x, Device::Cpu)?;
        Ok(x.into())
    }),
    maybe(&["contiguous"], "input, memory_format=None", |_, a| Ok(a.tensor("input")?.into())),
    maybe(&["conj", "resolve_conj", "resolve_neg", "conj_physical"], "input", |b, a| real(b, a.tensor("input")?)),
    view(&["real"], "input", |b, a| real(b, a.tensor("input")?)),
    fresh(&["clone"], "input, *, memory_format=None", |_, a| Ok(a.tensor("input")?.into())),
    view(&["detach", "alias", "data"], "input", |_, a| Ok(a.tensor("input")?.into())),
    fresh(&["copy"], "input, src, non_blocking=False", copy),
    fresh(&["fill"], "input, value", fill),
    fresh(&["zero"], "input", |b, a| {
        let x = a.tensor("input")?;
        Ok(b.full_like(Scalar::Int(0), x).into())
    }),
];

/// What torch calls `cpu`, `cuda` or `cuda:1`.
pub fn device_named(text: &str) -> Option<Device> {
    match text.strip_prefix("cuda") {
        None => (text == "cpu").then_some(Device::Cpu),
        Some("") => Some(Device::Cuda(0)),
        Some(number) => number.strip_prefix(':')?.parse().ok().map(Device::Cuda),
    }
}

fn same_device(b: &Builder, x: NodeId, device: Device) -> OpResult<()> {
    if b.ty(x).device == device { Ok(()) } else { Err(OpError::unsupported("a copy to another device")) }
}

/// `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`, each followed by non_blocking and copy.
fn to(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let x = a.tensor("input")?;
    let (mut dtype, mut device) = (a.value("dtype").clone(), a.value("device").clone());
    for arg in a.value("args").items().unwrap_or_default() {
        match arg {
            ValueOf::DType(_) => dtype = arg.clone(),
            ValueOf::Device(_) => device = arg.clone(),
            ValueOf::Tensor(other) => {
                dtype = ValueOf::DType(b.dtype(*other));
                device = ValueOf::Device(b.ty(*other).device);
            }
            ValueOf::Bool(_) | ValueOf::None | ValueOf::MemoryFormat(_) => {}
            ValueOf::Str(text) if device_named(text).is_some() => device = arg.clone(),
            other => return Err(OpError::unsupported(format!("Tensor.to with {}", other.kind()))),
        }
    }
    convert(b, x, dtype, device)
}

fn convert(b: &mut Builder, x: NodeId, dtype: Value, device: Value) -> OpResult<Value> {
    match device {
        ValueOf::None => {}
        ValueOf::Device(device) => same_device(b, x, device)?,
        ValueOf::Str(text) => match device_named(&text) {
            Some(device) => same_device(b, x, device)?,
            None => return Err(OpError::unsupported("a copy to another device")),
        },
        _ => return Err(OpError::unsupported("a copy to another device")),
    }
    match dtype {
        ValueOf::None => Ok(x.into()),
        ValueOf::DType(dtype) if dtype.is_complex() != b.dtype(x).is_complex() => {
            Err(OpError::unsupported("conversion to or from complex numbers"))
        }
        ValueOf::DType(dtype) => Ok(b.cast(x, dtype).into()),
        other => Err(OpError::unsupported(format!("a dtype given as {}", other.kind()))),
    }
}

/// Real numbers are their own conjugates.
fn real(b: &mut Builder, x: NodeId) -> OpResult<Value> {
    if b.dtype(x).is_complex() { Err(OpError::unsupported("complex numbers")) } else { Ok(x.into()) }
}

/// `input.copy_(src)` as a function: src in the shape and type of input.
fn copy(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, src) = (a.tensor("input")?, a.tensor("src")?);
    let shape = b.shape(x);
    let src = b.cast(src, b.dtype(x));
    Ok(b.broadcast_to(src, &shape)?.into())
}

fn fill(b: &mut Builder, a: &mut Bound) -> OpResult<Value> {
    let (x, value) = (a.tensor("input")?, a.operand("value")?);
    let value = b.materialise(&value, b.dtype(x));
    if b.rank(value) > 0 {
        let rank = b.rank(value);
        let message = format!("fill_ only supports 0-dimension value tensor but got tensor with {rank} dimensions.");
        return Err(OpError::runtime(message));
    }
    let shape = b.shape(x);
    Ok(b.broadcast_to(value, &shape)?.into())
}
