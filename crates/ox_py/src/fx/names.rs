//! The name of what an FX node calls: a namespace and a function, as the surface table spells them.

use crate::torch::Torch;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// What TorchDynamo calls for `x.data`.
pub const DATA: &str = "_get_data_attr";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    pub namespace: String,
    pub name: String,
    /// Of an ATen overload: `Tensor`, `dim_IntList`.
    pub overload: String,
}

impl Name {
    fn new(namespace: &str, name: &str) -> Name {
        Name { namespace: namespace.to_string(), name: name.to_string(), overload: String::new() }
    }

    pub fn method(name: &str) -> Name {
        Name::new("Tensor", name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "F" => write!(f, "torch.nn.functional.{}", self.name),
            "special" | "linalg" | "fft" => write!(f, "torch.{}.{}", self.namespace, self.name),
            namespace => write!(f, "{namespace}.{}", self.name),
        }?;
        if self.overload.is_empty() { Ok(()) } else { write!(f, ".{}", self.overload) }
    }
}

/// Names by the address of the called object. The graph keeps the objects alive while it is read.
#[derive(Default)]
pub struct Names(FxHashMap<usize, Rc<Name>>);

impl Names {
    pub fn of_function(&mut self, torch: &Torch, target: &Bound<'_, PyAny>) -> PyResult<Rc<Name>> {
        let key = target.as_ptr() as usize;
        if let Some(name) = self.0.get(&key) {
            return Ok(name.clone());
        }
        let name = Rc::new(name_of(torch, target)?);
        self.0.insert(key, name.clone());
        Ok(name)
    }
}

fn name_of(torch: &Torch, target: &Bound<'_, PyAny>) -> PyResult<Name> {
    let py = target.py();
    let text = |attribute: &Bound<'_, PyString>| -> Option<String> { target.getattr(attribute).ok()?.extract::<String>().ok() };
    if target.is_instance(torch.op_overload.bind(py))? {
        let (namespace, name) = (text(intern!(py, "namespace")), text(intern!(py, "_opname")));
        let overload = text(intern!(py, "_overloadname")).filter(|o| o != "default").unwrap_or_default();
        return Ok(Name { overload, ..Name::new(&namespace.unwrap_or_default(), &name.unwrap_or_default()) });
    }
    if target.is_instance(torch.op_overload_packet.bind(py))? {
        let qualified = text(intern!(py, "_qualified_op_name")).unwrap_or_default();
        let (namespace, name) = qualified.split_once("::").unwrap_or(("", &qualified));
        return Ok(Name::new(namespace, name));
    }
    let name = text(intern!(py, "__name__")).unwrap_or_else(|| target.get_type().to_string());
    if target.hasattr(intern!(py, "__objclass__"))? {
        return Ok(Name::method(&name));
    }
    if name == DATA {
        return Ok(Name::method("data"));
    }
    let module = text(intern!(py, "__module__")).unwrap_or_default();
    Ok(match module.as_str() {
        "torch" | "torch.functional" | "torch._VF" | "torch._C._VariableFunctions" => Name::new("torch", &name),
        "torch.nn.functional" | "torch._C._nn" => Name::new("F", &name),
        "_operator" | "operator" | "builtins" | "math" => Name::new("operator", &name),
        "torch._tensor" => Name::method(&name),
        "torch._C._special" | "torch.special" => Name::new("special", name.trim_start_matches("special_")),
        "torch._C._linalg" | "torch.linalg" => Name::new("linalg", name.trim_start_matches("linalg_")),
        "torch._C._fft" | "torch.fft" => Name::new("fft", name.trim_start_matches("fft_")),
        other => Name::new(other, &name),
    })
}
