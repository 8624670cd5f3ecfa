//! A compiled graph that capture has bound to the tensors that stay the same from call to call: the parameters of a model, mostly.

use crate::callable::{NativeCallable, Sizes};
use crate::fx::{OutTree, Slot};
use crate::rewind::Rewind;
use crate::tensor::Crossing;
use ox_capture::{BoundGraph, Obj, items_of, take_offer, tuple_of};
use ox_driver::Prepared;
use ox_runtime::{Known, TensorRef};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct BoundCallable {
    graph: Py<NativeCallable>,
    /// By argument; None for those that each call brings.
    inputs: Vec<Option<Obj>>,
    /// What each argument that varies is.
    places: Vec<Varying>,
    /// Borrows from `inputs`, from what is prepared and from the graph's constants, which this holds.
    known: Known,
    /// What was computed of frozen weights: inputs behind all others. It holds their memory, so that a portrait is of no other.
    _prepared: Arc<Prepared>,
    /// The call that binds goes on with code that no later one needs: the next one forgets it.
    is_new: AtomicBool,
}

/// What an argument that each call brings is to the graph.
#[derive(Clone, Copy)]
enum Varying {
    /// The place of its handle.
    Tensor(usize),
    Size,
    Ignored,
}

/// None for graphs that write inputs, take numbers, may not take all sizes, or were made for one memory: each of their calls is looked at as a whole. `sizes` are
/// those of the present call, by argument.
pub fn bind(callable: &Obj, known: Vec<Option<Obj>>, sizes: &[Option<i64>]) -> PyResult<Option<BoundCallable>> {
    let py = ox_capture::py();
    let Ok(bound) = callable.bind().cast::<NativeCallable>() else { return Ok(None) };
    let graph = bound.get();
    let is_particular = !graph.pinned.is_empty() || !graph.limits.is_empty();
    if !graph.graph.mutations.is_empty() || is_particular || known.len() != graph.slots.len() {
        return Ok(None);
    }
    let crossing = Crossing::get(py)?;
    let (mut handles, mut fixed, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (slot, input) in graph.slots.iter().zip(&known) {
        let place = match slot {
            Slot::Tensor => Varying::Tensor(handles.len()),
            Slot::Ignored => Varying::Ignored,
            Slot::Size if input.is_none() => Varying::Size,
            Slot::Size | Slot::Number(_) => return Ok(None),
        };
        if input.is_none() {
            places.push(place);
        }
        if *slot == Slot::Tensor {
            // SAFETY: the result holds the object; a handle that is not known is not used.
            handles.push(match input {
                Some(input) => unsafe { crossing.unwrap(input.bind())? },
                None => unsafe { TensorRef::from_handle(std::ptr::null_mut()) },
            });
            fixed.push(input.is_some());
        }
    }
    for constant in &graph.constants {
        // SAFETY: the graph holds it.
        handles.push(unsafe { crossing.unwrap(constant.bind(py))? });
        fixed.push(false);
    }
    let taken = graph.slots.iter().zip(sizes).filter(|(slot, _)| **slot == Slot::Size).map(|(_, size)| *size);
    let Some(sizes) = taken.collect::<Option<Vec<i64>>>() else { return Ok(None) };
    let Ok(Some(prepared)) = graph.program.prepare(&handles, |n| fixed[n]) else { return Ok(None) };
    // SAFETY: the result holds them.
    handles.extend(prepared.tensors().iter().map(|tensor| unsafe { TensorRef::from_handle(tensor.as_ref().handle()) }));
    fixed.resize(handles.len(), true);
    // SAFETY: the result holds them all.
    let Ok(data) = (unsafe { graph.program.main().know(handles, &sizes, |n| fixed[n]) }) else { return Ok(None) };
    let is_new = AtomicBool::new(ox_driver::forget_code_once());
    Ok(Some(BoundCallable { graph: bound.clone().unbind(), inputs: known, places, known: data, _prepared: prepared, is_new }))
}

impl BoundCallable {
    /// All arguments, for eager.
    fn arguments(&self, varying: &[Obj]) -> PyResult<Obj> {
        let mut varying = varying.iter();
        let all: Vec<Obj> = self.inputs.iter().filter_map(|input| input.as_ref().or_else(|| varying.next()).cloned()).collect();
        tuple_of(&all)
    }

    fn argument<'py>(&self, varying: &[Obj], n: usize) -> PyResult<Bound<'py, PyAny>> {
        self.arguments(varying)?.bind().get_item(n)
    }
}

impl BoundGraph for BoundCallable {
    fn call(&self, varying: &[Obj]) -> PyResult<Vec<Obj>> {
        let py = ox_capture::py();
        let (graph, crossing) = (self.graph.get(), Crossing::get(py)?);
        if graph.broken.load(Ordering::Relaxed) || graph.race.is_open() {
            let args = self.arguments(varying)?;
            return Ok(items_of(&graph.__call__(py, args.bind().cast()?)?.into()));
        }
        if self.is_new.load(Ordering::Relaxed) && self.is_new.swap(false, Ordering::Relaxed) {
            ox_driver::forget_code();
        }
        let undoable = take_offer();
        let mut given: SmallVec<[(usize, TensorRef<'_>); 8]> = SmallVec::new();
        let mut sizes = Sizes::new();
        for (place, input) in self.places.iter().zip(varying) {
            match place {
                // SAFETY: the caller holds the object while this runs.
                Varying::Tensor(place) => given.push((*place, unsafe { crossing.unwrap(input.bind())? })),
                Varying::Size => sizes.push(input.bind().extract()?),
                Varying::Ignored => {}
            }
        }
        let rewind = Rewind::new(py, graph.rewinds)?;
        // SAFETY: capture calls this only while the portraits of the known inputs hold.
        match py.detach(|| unsafe { graph.program.main().run_known(&given, &sizes, &self.known) }) {
            Ok(tensors) => {
                let argument = |n: usize| self.argument(varying, n);
                let pack = |tree: &OutTree| graph.pack(py, crossing, tree, &argument, &tensors, &sizes).map(Obj::from);
                match &graph.outputs {
                    OutTree::Tuple(children) => children.iter().map(pack).collect(),
                    other => Ok(items_of(&pack(other)?)),
                }
            }
            Err(error) => {
                let args = self.arguments(varying)?;
                Ok(items_of(&graph.recover(py, rewind.undo(error)?, args.bind().cast()?, undoable)?.into()))
            }
        }
    }
}
