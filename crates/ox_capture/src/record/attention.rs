//! The memory order of attention's result: that of the kernel that torch takes, which is never a fused one where meta kernels choose.

use super::Recording;
use super::grad::requires_grad;
use super::order::dims_of;
use super::quick::{self, Tensor};
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The parameters of `scaled_dot_product_attention` that decide between its kernels, with their places.
const PARAMETERS: &[(usize, &str)] =
    &[(0, "query"), (1, "key"), (2, "value"), (3, "attn_mask"), (4, "dropout_p"), (5, "is_causal"), (7, "enable_gqa")];

/// The settings that the choice goes by: the first one on a CPU, all of them on a GPU.
const SETTINGS: &[&str] = &[
    "_get_flash_sdp_enabled",
    "_get_mem_efficient_sdp_enabled",
    "_get_cudnn_sdp_enabled",
    "_get_math_sdp_enabled",
    "_get_sdp_priority_order",
];

/// torch's numbers of its kernels (`torch.nn.attention.SDPBackend`).
const MATH: i64 = 0;
const EFFICIENT: i64 = 2;

/// Rows of a GPU's fused kernels are a multiple of so many elements; others are made longer, and the result is a part of what they give.
const STEP: i64 = 8;

impl Recording {
    /// The shadow of the result with the strides that eager gives it.
    pub(super) fn attention_order(&mut self, args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Obj> {
        let Some(query) = args.first().cloned().or(kwargs.get_item("query")?.map(Obj::from)) else { return Ok(result) };
        let is_on_cpu = self.is_on_cpu()?;
        // Before the settings are asked: in the first choice of a process torch sets the order of its kernels to what it prefers on the GPU at hand.
        let chosen = choice(args, kwargs, &self.device()?)?;
        for setting in if is_on_cpu { &SETTINGS[..1] } else { SETTINGS } {
            let function = Obj::from(py().import("torch._C")?.getattr(setting)?);
            let state = function.call(&[], None)?;
            self.rely_on_state(&function, &[], &state);
        }
        let (sizes, strides) = dims_of(&result)?;
        match fused_strides(chosen, &query, &sizes, is_on_cpu)? {
            None => Ok(result),
            Some(eagers) if strides == eagers && !result.bind().call_method0("_is_view")?.is_truthy()? => Ok(result),
            // A copy of what fills its memory has its strides, and is no view.
            Some(eagers) => Ok(result.bind().call_method1("as_strided", (sizes, eagers))?.call_method0("clone")?.into()),
        }
    }

    /// The shadow of a fused kernel's result that gradients flow through. Meta kernels decompose the call, and save what fused ones do not.
    pub(super) fn fused_attention(&self, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Option<Obj>> {
        let Some(query) = args.first().filter(|_| quick::is_attention_with_gradients(args, kwargs).quiet().unwrap_or(false))
        else {
            return Ok(None);
        };
        let (sizes, _) = dims_of(query)?;
        match fused_strides(choice(args, kwargs, &self.device()?)?, query, &sizes, self.is_on_cpu()?)? {
            Some(strides) => quick::attention_with_gradients(args, kwargs, &sizes, &strides),
            None => Ok(None),
        }
    }
}

/// The strides of a fused kernel's result. None where meta kernels know them, or nobody does.
fn fused_strides(chosen: i64, query: &Obj, sizes: &[i64], is_on_cpu: bool) -> PyResult<Option<Vec<i64>>> {
    Ok(match chosen {
        MATH => None,
        EFFICIENT => Some(heads_inside(sizes)),
        _ if !is_on_cpu && (sizes != dims_of(query)?.0 || sizes.last().is_some_and(|size| size % STEP != 0)) => None,
        _ => match Tensor::of(query)?.and_then(|query| query.strides_of_another()) {
            Some(strides) => Some(strides),
            None => Some(query.bind().call_method0("detach")?.call_method0("clone")?.call_method0("stride")?.extract()?),
        },
    })
}

/// Of batch, heads, sequence and features the heads lie inside of the sequence.
fn heads_inside(sizes: &[i64]) -> Vec<i64> {
    let [batch @ .., heads, sequence, features] = sizes else { return Vec::new() };
    let mut strides: Vec<i64> = batch.iter().map(|_| heads * sequence * features).collect();
    strides.extend([*features, heads * features, 1]);
    strides
}

/// The kernel that torch takes for these arguments on this device.
fn choice(args: &[Obj], kwargs: &Bound<'_, PyDict>, device: &Obj) -> PyResult<i64> {
    let options = PyDict::new(py());
    for (place, name) in PARAMETERS {
        if let Some(value) = args.get(*place).cloned().or(kwargs.get_item(name)?.map(Obj::from)) {
            let value = if types().is_tensor(&value) { stand_in(&value, device)? } else { value };
            options.set_item(name, value.bind())?;
        }
    }
    py().import("torch")?.call_method("_fused_sdp_choice", (), Some(&options))?.extract()
}

/// A real tensor for a shadow. On a CPU only the last dimension has memory: torch asks for no other strides there. That of a single element is no
/// matter of meta kernels.
fn stand_in(shadow: &Obj, device: &Obj) -> PyResult<Obj> {
    let (sizes, mut strides) = dims_of(shadow)?;
    let is_on_cpu = device.attr("type")?.to_str().as_deref() == Some("cpu");
    if let [rest @ .., last] = &mut strides[..] {
        if is_on_cpu {
            rest.fill(0);
        }
        *last = if sizes.last() == Some(&1) { 1 } else { *last };
    }
    let options = PyDict::new(py());
    options.set_item("dtype", shadow.attr("dtype")?.bind())?;
    options.set_item("device", device.bind())?;
    options.set_item("requires_grad", requires_grad(shadow)?)?;
    Ok(py().import("torch")?.call_method("empty_strided", (sizes, strides), Some(&options))?.into())
}
