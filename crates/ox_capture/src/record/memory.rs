//! Which memory tensors lie in, as far as shadows tell.

use super::graph::{LazyEntry, NotRecorded, Recorded};
use super::{Origin, Recording};
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, items_of, tuple_of};
use crate::types::types;
use pyo3::prelude::*;

impl Recording {
    /// What tells of the type and the rank of a tensor: a lazy one cannot be asked.
    pub fn seen_as(&self, tensor: &Obj) -> Obj {
        match self.origin(tensor) {
            Origin::Lazy(n) => self.graph.lazies[n].shadow.clone(),
            _ => tensor.clone(),
        }
    }

    /// A result of a part that is computed again: the graph shows it.
    pub fn mark_result(&self, tensor: &Obj) -> PyResult<()> {
        match self.origin(tensor) {
            Origin::Lazy(n) => self.graph.lazies[n].node.attr("meta")?.bind().set_item("checkpoint_result", true),
            _ => Ok(()),
        }
    }

    /// An argument of a part that is computed again: torch keeps it, and refuses what was written to it since.
    pub fn mark_argument(&mut self, tensor: &Obj, region: &Obj) -> PyResult<()> {
        const ARGUMENTS: &str = "checkpoint_arguments";
        let Ok((_, node)) = self.shadow(tensor) else { return Ok(()) };
        let meta = node.attr("meta")?;
        let regions = match dict_get(&meta, &Obj::str(ARGUMENTS)) {
            Some(known) => items_of(&known),
            None => Vec::new(),
        };
        meta.bind().set_item(ARGUMENTS, tuple_of(&[&regions[..], std::slice::from_ref(region)].concat())?.bind())
    }

    /// Whether other tensors of this graph that somebody holds lie in the same memory: autograd tells them when one of them becomes a leaf.
    /// `about_to_go`: the address of an object that somebody will hold no more.
    pub fn has_views(&self, tensor: &Obj, about_to_go: Option<usize>) -> bool {
        let Origin::Lazy(n) = self.origin(tensor) else { return false };
        let lazies = &self.graph.lazies;
        let Some(memory) = memory_of(&lazies[n].shadow).quiet() else { return false };
        let known = |lazy: &LazyEntry| 1 + isize::from(Some(lazy.object.id()) == about_to_go);
        // SAFETY: reads the count of a live object. One reference is the record's own.
        let is_held = |lazy: &LazyEntry| unsafe { pyo3::ffi::Py_REFCNT(lazy.object.ptr()) > known(lazy) };
        let is_view = |lazy: &LazyEntry| is_held(lazy) && memory_of(&lazy.shadow).quiet().is_some_and(|other| other == memory);
        lazies.iter().enumerate().any(|(other, lazy)| other != n && is_view(lazy))
    }

    /// The shadow of a lazy tensor that lies in memory of this trace's. One in the memory of an input tells nothing of how much that is; nor does a
    /// part of another one where sizes vary, of what part it is in later calls.
    pub fn shadow_of_its_own(&self, tensor: &Obj) -> PyResult<Option<Obj>> {
        let Some(shadow) = self.shadow_beside_inputs(tensor)? else { return Ok(None) };
        let is_settled = !self.sizing.is_in_use() || !may_be_view(&shadow);
        Ok(is_settled.then_some(shadow))
    }

    /// Of a tensor that is not computed yet.
    pub fn shadow_of(&self, tensor: &Obj) -> Option<Obj> {
        let Origin::Lazy(n) = self.origin(tensor) else { return None };
        Some(self.graph.lazies[n].shadow.clone())
    }

    pub(super) fn shadow_beside_inputs(&self, tensor: &Obj) -> PyResult<Option<Obj>> {
        let Origin::Lazy(n) = self.origin(tensor) else { return Ok(None) };
        let shadow = &self.graph.lazies[n].shadow;
        let memory = memory_of(shadow)?;
        // Sizes are inputs, too.
        for input in self.graph.inputs.iter().filter(|input| types().is_tensor(&input.shadow)) {
            if memory_of(&input.shadow)? == memory {
                return Ok(None);
            }
        }
        Ok(Some(shadow.clone()))
    }
}

/// Those of inference mode do not tell.
fn may_be_view(tensor: &Obj) -> bool {
    tensor.bind().call_method0("_is_view").and_then(|is_view| is_view.is_truthy()).quiet().unwrap_or(true)
}

/// What tells it from other memory.
pub(super) fn memory_of(tensor: &Obj) -> PyResult<usize> {
    tensor.bind().call_method0("untyped_storage")?.getattr("_cdata")?.extract()
}

/// More bytes than a process can address.
const BEYOND: u64 = 1 << 47;

/// A tensor that eager cannot make: eager says so, even where nobody would look at its elements. Views may be as large as they like.
pub(super) fn refuse_beyond_memory(name: &str, tensors: &[Obj]) -> Recorded<()> {
    let bytes = |object: &Bound<'_, PyAny>| object.getattr("nbytes")?.extract::<u64>();
    for tensor in tensors {
        // A number of bytes that no integer holds is too large as well.
        if bytes(tensor.bind()).quiet().unwrap_or(BEYOND) < BEYOND {
            continue;
        }
        let storage = tensor.bind().call_method0("untyped_storage")?;
        let memory = storage.call_method0("nbytes").and_then(|bytes| bytes.extract::<u64>());
        if memory.quiet().unwrap_or(BEYOND) >= BEYOND {
            return Err(NotRecorded::Break(format!("{name} makes a tensor that no memory holds")));
        }
    }
    Ok(())
}
