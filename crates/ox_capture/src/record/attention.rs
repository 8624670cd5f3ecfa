//! The memory order of attention's result: that of the queries where torch takes a fused kernel, which meta kernels never do.

use super::Recording;
use super::grad::requires_grad;
use super::quick::Tensor;
use crate::obj::{Obj, py};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The parameters of `scaled_dot_product_attention` that decide between its kernels, with their places.
const PARAMETERS: &[(usize, &str)] =
    &[(0, "query"), (1, "key"), (2, "value"), (3, "attn_mask"), (4, "dropout_p"), (5, "is_causal"), (7, "enable_gqa")];

impl Recording {
    /// The shadow of the result with the strides that eager gives it on a CPU.
    pub(super) fn attention_order(&mut self, args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Obj> {
        let Some(query) = args.first().cloned().or(kwargs.get_item("query")?.map(Obj::from)) else { return Ok(result) };
        // The setting that the choice goes by on a CPU.
        let flash = Obj::from(py().import("torch._C")?.getattr("_get_flash_sdp_enabled")?);
        let state = flash.call(&[], None)?;
        self.rely_on_state(&flash, &[], &state);
        if !is_fused(args, kwargs)? {
            return Ok(result);
        }
        let strides: Vec<i64> = match Tensor::of(&query)?.and_then(|query| query.strides_of_another()) {
            Some(strides) => strides,
            None => query.bind().call_method0("detach")?.call_method0("clone")?.call_method0("stride")?.extract()?,
        };
        // A copy of what fills its memory has its strides, and is no view.
        Ok(result.bind().call_method1("as_strided", (result.bind().getattr("shape")?, strides))?.call_method0("clone")?.into())
    }
}

/// Whether torch takes its fused kernel for these arguments.
fn is_fused(args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    let options = PyDict::new(py());
    for (place, name) in PARAMETERS {
        if let Some(value) = args.get(*place).cloned().or(kwargs.get_item(name)?.map(Obj::from)) {
            let value = if types().is_tensor(&value) { stand_in(&value)? } else { value };
            options.set_item(name, value.bind())?;
        }
    }
    let choice = py().import("torch")?.call_method("_fused_sdp_choice", (), Some(&options))?;
    Ok(choice.extract::<i64>()? != 0)
}

/// A real tensor for a shadow, of which only the last dimension has memory: torch asks for no other strides. That of a single element is no
/// matter of meta kernels.
fn stand_in(shadow: &Obj) -> PyResult<Obj> {
    let sizes: Vec<i64> = shadow.bind().getattr("shape")?.extract()?;
    let mut strides: Vec<i64> = shadow.bind().call_method0("stride")?.extract()?;
    if let [rest @ .., last] = &mut strides[..] {
        rest.fill(0);
        *last = if sizes.last() == Some(&1) { 1 } else { *last };
    }
    let options = PyDict::new(py());
    options.set_item("dtype", shadow.attr("dtype")?.bind())?;
    options.set_item("device", "cpu")?;
    options.set_item("requires_grad", requires_grad(shadow)?)?;
    Ok(py().import("torch")?.call_method("empty_strided", (sizes, strides), Some(&options))?.into())
}
