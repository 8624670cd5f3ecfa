//! Inputs that autograd knows as views of one tensor. Their shadows lie apart: what is written through one of them with a gradient gives all of them
//! one, and the shadows of the others would not tell. So no graph writes what another of its inputs shares, nor takes such an input behind the write:
//! torch does that call between two graphs, on the tensors themselves. So it does with writes to elements that share their places.

use super::graph::{InputEntry, NotRecorded, Recorded};
use super::order::dims_of;
use super::{Recording, grad};
use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::types::types;
use pyo3::prelude::*;

/// Why torch does a call.
const SHARED: &str = "of what is written by way of another tensor that shares its memory and its gradient";
const OVERLAPPING: &str = "which writes elements that share their places";

/// Where elements of a tensor share their places (`expand`) torch refuses most writes, and shadows, which have none, accept them.
pub(super) fn refuse_overlapping_writes(written: &[Obj]) -> Recorded<()> {
    for tensor in written {
        let (sizes, strides) = dims_of(tensor)?;
        if sizes.iter().zip(&strides).any(|(size, stride)| *size > 1 && *stride == 0) {
            return Err(NotRecorded::ByTorch(OVERLAPPING));
        }
    }
    Ok(())
}

impl Recording {
    /// Whether gradients matter to the graph of this segment.
    pub fn knows_grad(&self) -> bool {
        self.state.has_histories() || self.graph.grad.is_some_and(|(first, now)| first || now)
    }

    /// To be called before a tensor gets other memory. What eager's graph has saved of it may be the tensor or what lay in the old memory: eager knows.
    pub fn restate(&mut self, tensor: &Obj) {
        self.graph.is_restated |= self.knows_grad() && self.graph.inputs.iter().any(|input| input.object.is(tensor));
    }

    /// To be called before a tensor becomes an input, and when it is known to be a plain one: others hear what is asked of them.
    pub(super) fn refuse_written_elsewhere(&self, tensor: &Obj) -> Recorded<()> {
        if !self.knows_grad() {
            return Ok(());
        }
        let Some(kin) = self.graph.by_base.get(&base_of(tensor).id()) else { return Ok(()) };
        match kin.iter().any(|n| has_new_gradient(&self.graph.inputs[*n])) {
            true => Err(NotRecorded::ByTorch(SHARED)),
            false => Ok(()),
        }
    }

    /// To be called when the shadows have done a call.
    pub(super) fn refuse_shared_writes(&self) -> Recorded<()> {
        if !self.graph.has_kin || !self.knows_grad() {
            return Ok(());
        }
        let mut shared = self.graph.by_base.values().filter(|kin| kin.len() > 1).flatten();
        match shared.any(|n| has_new_gradient(&self.graph.inputs[*n])) {
            true => Err(NotRecorded::ByTorch(SHARED)),
            false => Ok(()),
        }
    }

    /// The last input.
    pub(super) fn note_kin(&mut self) {
        let graph = &mut self.graph;
        let Some(n) = graph.inputs.len().checked_sub(1) else { return };
        let kin = graph.by_base.entry(base_of(&graph.inputs[n].object).id()).or_default();
        kin.push(n);
        graph.has_kin |= kin.len() > 1;
    }
}

/// What a tensor is a view of, itself if of nothing.
fn base_of(tensor: &Obj) -> Obj {
    tensor.attr("_base").quiet().filter(|base| types().is_tensor(base)).unwrap_or_else(|| tensor.clone())
}

/// How often a shadow was written; those of inference mode do not tell, and no gradient flows through them.
pub(super) fn version_of(shadow: &Obj) -> Option<u64> {
    shadow.attr("_version").quiet()?.bind().extract().quiet()
}

/// Whether the graph writes it so far, and it has a gradient with that. What is written without one tells the others nothing.
fn has_new_gradient(input: &InputEntry) -> bool {
    let is_written = || version_of(&input.shadow) != input.version;
    types().is_tensor(&input.shadow) && is_written() && grad::requires_grad(&input.shadow).quiet().unwrap_or(true)
}
