//! Functions that their authors marked with the words of `torch.compiler`.

use super::{Args, Called, R, Vm};
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, items_of, py};
use crate::record::{Shadow, Val};
use crate::source::{instance_dict, short};
use crate::vm::native::keywords;
use pyo3::ffi;
use pyo3::prelude::*;

#[derive(Clone, Debug)]
pub enum Mark {
    /// `disable`: Python runs it. With the author's reason.
    Disabled(Option<String>),
    /// `assume_constant_result`: what it returns once it always returns.
    Constant,
    /// `allow_in_graph`: one operation of the graph.
    InGraph,
    /// `torch.compile` has wrapped it, for itself: this is what it has wrapped.
    Compiled(Obj),
}

impl Mark {
    pub fn of(function: &Obj) -> Option<Mark> {
        let dict = instance_dict(function);
        let has = |name: &str| dict.as_ref().and_then(|d| dict_get(d, &Obj::str(name)));
        if has("_torchdynamo_disable").is_some_and(|mark| mark.truth().quiet().unwrap_or(false)) {
            let reason = has("_torchdynamo_disable_msg").filter(|m| !m.is_none());
            return Some(Mark::Disabled(reason.map(|m| m.to_string())));
        }
        if is_kept_from_dynamo(function) {
            return Some(Mark::Disabled(None));
        }
        // What is copied from one wrapper to another says so by the number.
        let is_own = |number: Obj| number.bind().extract::<usize>().quiet().is_some_and(|number| number == function.id());
        if has("_torchdynamo_wrapper_id").is_some_and(is_own) && has("_torchdynamo_inline").is_some() {
            return has("_torchdynamo_orig_callable").map(Mark::Compiled);
        }
        if has("_dynamo_marked_constant").is_some() {
            return Some(Mark::Constant);
        }
        is_allowed(function).quiet().unwrap_or(false).then_some(Mark::InGraph)
    }
}

/// torch keeps the functions that are allowed in graphs by their address. Nobody has named one before that module is loaded.
fn is_allowed(function: &Obj) -> PyResult<bool> {
    // SAFETY: a borrowed reference to a dict.
    let modules = unsafe { Obj::borrowed(ffi::PyImport_GetModuleDict()) };
    let Some(rules) = dict_get(&modules, &Obj::str("torch._dynamo.trace_rules")) else { return Ok(false) };
    let allowed = rules.attr("_allowed_callable_ids")?;
    // The set itself: asking the object that wraps it would fill in all of torch's functions.
    let Some(ids) = allowed.attr("function_ids").quiet() else { return Ok(false) };
    if ids.is_none() {
        return Ok(false);
    }
    ids.bind().contains((function.ptr() as usize).into_pyobject(py())?)
}

/// Whether torch has wrapped one of its own functions (`zero_grad`) so that TorchDynamo, which the first call loads for that, does not trace it. What
/// the wrapper keeps from then on is its own business: a trace that had looked at it would have to be made once more.
fn is_kept_from_dynamo(function: &Obj) -> bool {
    static WRAPPER: Found<usize> = Found::new();
    let wrapper = *WRAPPER.or_find(|| wrapping_code().quiet().unwrap_or(0));
    function.attr("__code__").quiet().is_some_and(|code| code.id() == wrapper)
}

/// The code of the wrappers that torch's decorator makes.
fn wrapping_code() -> PyResult<usize> {
    let decorator: Obj = py().import("torch._compile")?.getattr("_disable_dynamo")?.into();
    let constants = items_of(&decorator.attr("__code__")?.attr("co_consts")?);
    let is_code =
        |constant: &&Obj| constant.attr("co_name").quiet().is_some_and(|name| name.to_str().as_deref() == Some("inner"));
    Ok(constants.iter().find(is_code).map_or(0, Obj::id))
}

/// Once TorchDynamo is loaded it marks parts of torch's optimizers that it cannot trace itself. No author asked for that.
fn is_dynamos_own(function: &Obj) -> bool {
    let module = function.attr("__module__").quiet().and_then(|module| module.to_str());
    module.is_some_and(|module| module.starts_with("torch.optim."))
        && function.attr("_torchdynamo_orig_callable").quiet().is_some()
}

impl Vm {
    /// Calls a function the way its mark asks for. None if it has none.
    pub fn call_marked(&mut self, callable: &Val, args: &Args) -> R<Option<Called>> {
        let Some(mark) = Mark::of(&callable.obj) else { return Ok(None) };
        match mark {
            Mark::Disabled(_) if is_dynamos_own(&callable.obj) => {
                let original = callable.obj.attr("_torchdynamo_orig_callable")?;
                let original = self.pinned(original);
                self.call(&original, args.clone()).map(Some)
            }
            Mark::Disabled(reason) => {
                let name = short(&callable.obj);
                let reason = reason.map_or(String::new(), |r| format!(" ({r})"));
                let why = format!("{name}, which torch.compiler.disable keeps out{reason}");
                self.opaque_call(callable, args.clone(), &why).map(Some)
            }
            Mark::Constant => {
                let positional: Vec<Obj> = args.positional.iter().map(|a| self.settled(a)).collect();
                for (_, value) in &args.keywords {
                    self.settled(value);
                }
                let result = callable.obj.call(&positional, keywords(&args.keywords)?.as_ref())?;
                Ok(Some(Called::Value(self.pinned(result))))
            }
            Mark::InGraph if self.has_tensor(args) => {
                self.torch_call(Shadow::Function(callable.obj.clone()), callable, args.clone()).map(Some)
            }
            Mark::InGraph => Ok(None),
            Mark::Compiled(original) => {
                let original = self.pinned(original);
                self.call(&original, args.clone()).map(Some)
            }
        }
    }
}
