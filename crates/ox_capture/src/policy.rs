//! What is done with a call that no trace fits: `torch.compiler.set_stance`, and the settings of `oxytorch.config`.

use crate::obj::{Obj, dict_get, py};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `torch.compiler.set_stance`, by what it means here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stance {
    Default,
    /// Nothing compiled is used.
    ForceEager,
    /// What is compiled is used; nothing new is.
    EagerOnRecompile,
    FailOnRecompile,
    /// The first call of each function is plain Python.
    EagerThenCompile,
}

/// The namespace of the module of torch's that keeps the stance. Nobody has set one before it is loaded.
fn stance_keeper() -> Option<Obj> {
    static KEEPER: PyOnceLock<Obj> = PyOnceLock::new();
    if let Some(keeper) = KEEPER.get(py()) {
        return Some(keeper.clone());
    }
    // SAFETY: both calls give borrowed or new references as documented.
    let modules = unsafe { Obj::borrowed(ffi::PyImport_GetModuleDict()) };
    let module = dict_get(&modules, &Obj::str("torch._dynamo.eval_frame"))?;
    let keeper = module.attr("__dict__").ok()?;
    Some(KEEPER.get_or_init(py(), || keeper).clone())
}

impl Stance {
    pub fn now() -> Stance {
        Stance::read().unwrap_or(Stance::Default)
    }

    fn read() -> Option<Stance> {
        let stance = dict_get(&stance_keeper()?, &Obj::str("_stance"))?.attr("stance").ok()?;
        Some(match stance.bind().extract::<&str>().ok()? {
            "force_eager" => Stance::ForceEager,
            "eager_on_recompile" => Stance::EagerOnRecompile,
            "fail_on_recompile" => Stance::FailOnRecompile,
            "eager_then_compile" | "aot_eager_then_compile" => Stance::EagerThenCompile,
            _ => Stance::Default,
        })
    }
}
