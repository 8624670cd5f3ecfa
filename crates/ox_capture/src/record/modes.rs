//! Modes of torch's that a program changes on the way: the default type of new tensors, and inference mode.
//!
//! A graph runs as a whole where its segment begins, before anything that the program does to a mode is done again. So what depends on the
//! default type says its type in the graph, and a graph is in inference mode or it is not.

use super::calls::FACTORIES;
use super::graph::{NotRecorded, Recorded, Shadow, tensors_in};
use super::{Recording, grad};
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::state::{TorchState, default_dtype};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A default type, until it is dropped.
pub struct DefaultType {
    before: Obj,
}

impl DefaultType {
    pub fn set(dtype: &Obj) -> PyResult<DefaultType> {
        let before = default_dtype()?;
        if !before.is(dtype) {
            set_default(dtype)?;
        }
        Ok(DefaultType { before })
    }
}

impl Drop for DefaultType {
    fn drop(&mut self) {
        // It was the default before.
        let is_same = default_dtype().quiet().is_some_and(|now| now.is(&self.before));
        let _ = if is_same { Ok(()) } else { set_default(&self.before) };
    }
}

fn set_default(dtype: &Obj) -> PyResult<()> {
    py().import("torch._C")?.call_method1("_set_default_dtype", (dtype.bind(),)).map(drop)
}

/// No function modes, until it is dropped: what is computed for a graph's sake lies where it is told.
pub struct NoFunctionModes {
    guard: Obj,
}

impl NoFunctionModes {
    /// None if there are none.
    pub fn new(state: &TorchState) -> PyResult<Option<NoFunctionModes>> {
        let guard = || -> PyResult<NoFunctionModes> {
            let guard = py().import("torch._C")?.getattr("DisableTorchFunction")?.call0()?;
            guard.call_method0("__enter__")?;
            Ok(NoFunctionModes { guard: guard.into() })
        };
        state.default_device.as_ref().map(|_| guard()).transpose()
    }
}

impl Drop for NoFunctionModes {
    fn drop(&mut self) {
        // What was entered can be left.
        let _ = self.guard.bind().call_method1("__exit__", (py().None(), py().None(), py().None()));
    }
}

/// Inference mode on or off, until it is dropped.
pub struct InferenceMode {
    guard: Obj,
}

impl InferenceMode {
    pub fn set(enabled: bool) -> PyResult<InferenceMode> {
        let guard = guard_class()?.call(&[Obj::bool(enabled)], None)?;
        guard.bind().call_method0("__enter__")?;
        Ok(InferenceMode { guard })
    }

    /// None if it is so already.
    pub fn be(enabled: bool) -> PyResult<Option<InferenceMode>> {
        (is_enabled()? != enabled).then(|| InferenceMode::set(enabled)).transpose()
    }
}

impl Drop for InferenceMode {
    fn drop(&mut self) {
        // What was entered can be left.
        let _ = self.guard.bind().call_method1("__exit__", (py().None(), py().None(), py().None()));
    }
}

fn is_enabled() -> PyResult<bool> {
    py().import("torch")?.call_method0("is_inference_mode_enabled")?.is_truthy()
}

/// Where a shadow is made: in inference mode it would be no ordinary tensor.
pub fn ordinary_mode_for(tensor: &Obj) -> PyResult<Option<InferenceMode>> {
    if !is_enabled()? || tensor.bind().call_method0("is_inference")?.is_truthy()? {
        return Ok(None);
    }
    InferenceMode::be(false)
}

fn guard_class() -> PyResult<&'static Obj> {
    static CLASS: Found<Obj> = Found::new();
    CLASS.or_try_find(|| Ok(py().import("torch._C")?.getattr("_InferenceMode")?.into()))
}

/// What `torch.inference_mode` keeps while it is entered: it is made again where entering is done again.
pub fn is_inference_guard(object: &Obj) -> bool {
    guard_class().quiet().is_some_and(|class| object.class_is(class.ptr().cast()))
}

impl Recording {
    /// The next call is made in these modes.
    pub(super) fn enter_modes(&mut self, state: &TorchState) -> Recorded<()> {
        if *self.graph.inference.get_or_insert(state.inference) != state.inference {
            return Err(NotRecorded::Break("inference mode begins or ends between operations of one graph".into()));
        }
        if state.has_histories() && !self.graph.new_leaves.is_empty() {
            return Err(NotRecorded::Break("a tensor that requires grad from here on".into()));
        }
        self.enter_grad_mode(state.has_histories())
    }

    /// Where the program has changed the default type: a call whose result depends on it is told the type.
    pub(super) fn settle_type(
        &self,
        callee: &Shadow,
        result: &Obj,
        (args, named): (&[Obj], &Bound<'static, PyDict>),
        in_graph: &Bound<'_, PyDict>,
        state: &TorchState,
    ) -> Recorded<()> {
        let name = callee.name();
        if state.default_dtype.is(&self.state.default_dtype) || callee.is_in_place(&name, in_graph) {
            return Ok(());
        }
        let types_of = |result: &Obj| tensors_in(result).iter().map(|t| Ok(t.attr("dtype")?.id())).collect::<PyResult<Vec<_>>>();
        let first = {
            let _default = DefaultType::set(&self.state.default_dtype)?;
            self.do_on_shadows(callee, &name, args, named, state)
        };
        if first.quiet().is_some_and(|first| types_of(&first).quiet() == types_of(result).quiet()) {
            return Ok(());
        }
        if !FACTORIES.contains(&name.as_str()) || in_graph.contains("dtype")? {
            return Err(NotRecorded::Break(format!("{name} depends on a default type that is changed on the way")));
        }
        in_graph.set_item("dtype", result.attr("dtype")?.bind())?;
        Ok(())
    }

    /// A tensor of this trace's that requires grad from here on, as a leaf. It is told so when it is computed; what is computed of it under
    /// grad belongs to another graph.
    pub fn becomes_leaf(&mut self, tensor: &Obj) -> Recorded<()> {
        let (shadow, node) = self.shadow(tensor)?;
        // What the node computes does not require grad.
        let computed = shadow.bind().call_method0("detach")?;
        node.attr("meta")?.bind().set_item("example_value", computed)?;
        shadow.bind().call_method1("requires_grad_", (true,)).map_err(|error| NotRecorded::failed("requires_grad_: ", error))?;
        self.graph.new_leaves.push(tensor.clone());
        Ok(())
    }
}

/// The tensors that were lazy when the program made leaves of them.
pub fn make_leaves(tensors: &[Obj]) -> PyResult<()> {
    for tensor in tensors {
        if !grad::requires_grad(tensor)? {
            tensor.bind().call_method1("requires_grad_", (true,))?;
        }
    }
    Ok(())
}
