//! The memory order of a convolution's result: on the CPU the library decides, which the meta kernels do not know.

use super::Recording;
use crate::lazy::make_lazy;
use crate::obj::{Obj, items_of, list_of, py};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The parameters behind input and weight, in the order of torch's functions.
fn parameters(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "conv2d" | "conv3d" => Some(&["bias", "stride", "padding", "dilation", "groups"]),
        "conv_transpose2d" | "conv_transpose3d" => Some(&["bias", "stride", "padding", "output_padding", "groups", "dilation"]),
        _ => None,
    }
}

impl Recording {
    /// The shadow of a convolution's result with the strides that eager gives it.
    pub(super) fn convolution_order(&self, name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>, result: Obj) -> PyResult<Obj> {
        let Some(names) = parameters(name) else { return Ok(result) };
        let spatial = if name.ends_with('2') || name.ends_with("2d") { 2 } else { 3 };
        let value = |place: usize, name: &str| -> PyResult<Option<Obj>> {
            Ok(args.get(place).cloned().or(kwargs.get_item(name)?.map(Obj::from)).filter(|v| !v.is_none()))
        };
        let (Some(input), Some(weight)) = (value(0, "input")?, value(1, "weight")?) else { return Ok(result) };
        let rank: usize = input.attr("ndim")?.bind().extract()?;
        if rank != spatial + 2 {
            return Ok(result);
        }
        let (input, weight) = (make_lazy(&input, &self.device()?)?, make_lazy(&weight, &self.device()?)?);
        let find = |wanted: &str| -> PyResult<Option<Obj>> {
            let place = names.iter().position(|n| *n == wanted);
            place.map_or(Ok(None), |place| value(place + 2, wanted))
        };
        let mut lists = Vec::new();
        for (wanted, default) in [("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)] {
            let Some(list) = ints(find(wanted)?, default, spatial)? else { return Ok(result) };
            lists.push(list);
        }
        let groups = find("groups")?.unwrap_or_else(|| Obj::int(1));
        let options = PyDict::new(py());
        options.set_item("bias", py().None())?;
        for (name, list) in ["stride", "padding", "dilation", "output_padding"].iter().zip(&lists) {
            options.set_item(name, list.bind())?;
        }
        options.set_item("transposed", name.contains("transpose"))?;
        options.set_item("groups", groups.bind())?;
        options.set_item("bias_sizes", py().None())?;
        let core: Obj = py().import("torch._C")?.into();
        let _plain = core.attr("DisableTorchFunctionSubclass")?.call(&[], None)?;
        _plain.bind().call_method0("__enter__")?;
        let format = core
            .attr("_select_conv_backend")?
            .call(&[input.clone(), weight.clone()], Some(&options.into()))
            .and_then(|backend| core.attr("_conv_determine_backend_memory_format")?.call(&[input, weight, backend], None));
        _plain.bind().call_method1("__exit__", (py().None(), py().None(), py().None()))?;
        let options = PyDict::new(py());
        options.set_item("memory_format", format?.bind())?;
        result.attr("contiguous")?.call(&[], Some(&options.into()))
    }
}

/// A list of as many ints as there are dimensions. None for what is no number. How much padding "same" means does not matter to the order.
fn ints(value: Option<Obj>, default: i64, count: usize) -> PyResult<Option<Obj>> {
    let value = value.filter(|value| !value.class_is(types().str)).unwrap_or_else(|| Obj::int(default));
    let mut items = match value.is_instance_of(types().tuple) || value.is_instance_of(types().list) {
        true => items_of(&value),
        false => vec![value],
    };
    if items.iter().any(|item| !item.class_is(types().int)) {
        return Ok(None);
    }
    if items.len() == 1 {
        items = vec![items[0].clone(); count];
    }
    list_of(&items).map(Some)
}
