//! Questions whose answer the type gives.

use super::{Surface, fresh};
use crate::error::OpResult;
use crate::value::{Value, ValueOf};
use ox_ir::graph::Shape;

pub const ROWS: &[Surface] = &[
    fresh(&["Tensor.size", "aten.size", "aten.sym_size"], "input, dim=None", |b, a| {
        let x = a.tensor("input")?;
        let shape = b.shape(x);
        if !a.has("dim") {
            return sizes(shape);
        }
        let dim = a.dim("dim", shape.len())?;
        match shape.get(dim) {
            Some(size) => Ok(ValueOf::Int(size.clone())),
            None => Err(crate::error::OpError::index("Dimension specified as 0 but tensor has no dimensions")),
        }
    }),
    fresh(&["Tensor.shape"], "input", |b, a| sizes(b.shape(a.tensor("input")?))),
    fresh(&["Tensor.dim", "Tensor.ndim", "Tensor.ndimension"], "input", |b, a| Ok(Value::int(b.rank(a.tensor("input")?) as i64))),
    fresh(&["numel", "Tensor.nelement"], "input", |b, a| Ok(ValueOf::Int(b.ty(a.tensor("input")?).numel()))),
    fresh(&["operator.len"], "input", |b, a| match b.shape(a.tensor("input")?).first() {
        Some(size) => Ok(ValueOf::Int(size.clone())),
        None => Err(crate::error::OpError::type_error("len() of a 0-d tensor")),
    }),
    fresh(&["Tensor.dtype"], "input", |b, a| Ok(ValueOf::DType(b.dtype(a.tensor("input")?)))),
    fresh(&["Tensor.device"], "input", |b, a| Ok(ValueOf::Device(b.ty(a.tensor("input")?).device))),
    fresh(&["is_floating_point"], "input", |b, a| Ok(ValueOf::Bool(b.dtype(a.tensor("input")?).is_float()))),
    fresh(&["is_complex"], "input", |b, a| Ok(ValueOf::Bool(b.dtype(a.tensor("input")?).is_complex()))),
    fresh(&["_log_api_usage_once"], "*args", |_, _| Ok(ValueOf::None)),
];

fn sizes(shape: Shape) -> OpResult<Value> {
    Ok(ValueOf::Tuple(shape.into_iter().map(ValueOf::Int).collect()))
}
