//! Slices of tensors whose bounds are tensors: Python asks each bound for its `__index__`. All of one index are read together, between two
//! graphs, and the slice is recorded with numbers.

use super::operators::is_tensor;
use super::{R, Vm, library};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::record::{Recording, Val};
use crate::types::types;
use pyo3::prelude::*;

const PARTS: [&str; 3] = ["start", "stop", "step"];
const READ: &str = "bounds_read";

impl Vm {
    /// For an instruction with a tensor and an index on top of the stack: if bounds have to be read, it comes again with the numbers.
    pub(super) fn read_bounds_first(&mut self) -> R<bool> {
        let [.., Some(object), Some(key)] = &self.frame().stack[..] else { return Ok(false) };
        let (object, key) = (object.obj.clone(), key.clone());
        if !is_tensor(&object) {
            return Ok(false);
        }
        if let Some((key, numbers)) = with_numbers(&key.obj)? {
            self.pop();
            let key = self.numbered(&key, &numbers)?;
            self.push(key);
            return Ok(false);
        }
        let bounds = self.bounds_to_read(&key.obj);
        if bounds.is_empty() {
            return Ok(false);
        }
        self.pop();
        let stack = self.pinned(py().import("torch")?.getattr("stack")?.into());
        let bounds = self.tuple(bounds.into_iter().map(Val::from).collect())?;
        let called = self.call_library(READ, vec![key, stack, bounds])?;
        self.again(called)?;
        Ok(true)
    }

    /// The same for a place that is written. What a gradient flows through is written in a break: a graph that writes an argument with a
    /// gradient is computed in pieces, and relies on each number.
    pub(super) fn read_bounds_of_store(&mut self) -> R<bool> {
        let [.., Some(value), Some(object), Some(key)] = &self.frame().stack[..] else { return Ok(false) };
        let (written, key) = ([value.obj.clone(), object.obj.clone()], key.obj.clone());
        let has_gradient = |rec: &Recording| written.iter().any(|object| requires_grad(&rec.seen_as(object)));
        match self.rec.as_ref().is_some_and(|rec| has_gradient(rec)) && with_numbers(&key)?.is_none() {
            true => Ok(false),
            false => self.read_bounds_first(),
        }
    }

    /// None where they cannot be put into one tensor.
    fn bounds_to_read(&self, key: &Obj) -> Vec<Obj> {
        if self.waiting > 0 {
            return Vec::new();
        }
        let Some(rec) = &self.rec else { return Vec::new() };
        let bounds: Vec<Obj> = slices_of(key).iter().flat_map(parts_of).filter(is_tensor).collect();
        let kinds: Vec<_> = bounds.iter().map(|bound| kind_of(&rec.seen_as(bound))).collect();
        match kinds.iter().all(|kind| kind.is_some() && *kind == kinds[0]) {
            true => bounds,
            false => Vec::new(),
        }
    }

    /// The index with one number after the other in the place of the tensors.
    fn numbered(&mut self, key: &Obj, numbers: &Obj) -> R<Val> {
        let mut at = 0;
        if !key.class_is(types().tuple) {
            return self.numbered_slice(key, numbers, &mut at);
        }
        let mut items = self.items_made_here(key);
        for item in &mut items {
            if item.obj.class_is(types().slice) {
                *item = self.numbered_slice(&item.obj, numbers, &mut at)?;
            }
        }
        self.tuple(items)
    }

    fn numbered_slice(&mut self, slice: &Obj, numbers: &Obj, at: &mut i64) -> R<Val> {
        let mut values = Vec::with_capacity(PARTS.len());
        for (name, part) in PARTS.iter().zip(parts_of(slice)) {
            if is_tensor(&part) {
                let number = (numbers.clone().into(), Obj::int(*at).into());
                values.push(self.now(|vm| vm.load_item(&number.0, &number.1))?);
                *at += 1;
                continue;
            }
            let free = self.rec.as_ref().and_then(|rec| rec.stowed_at(slice, &Obj::str(name), &part));
            values.push(Val { obj: part, free });
        }
        self.slice(&values)
    }
}

/// The index and the numbers, if that is what the library has left on the stack.
fn with_numbers(key: &Obj) -> R<Option<(Obj, Obj)>> {
    if !key.class_is(types().tuple) {
        return Ok(None);
    }
    match &items_of(key)[..] {
        [mark, key, numbers] if mark.is(&library::function(READ)?) => Ok(Some((key.clone(), numbers.clone()))),
        _ => Ok(None),
    }
}

fn slices_of(key: &Obj) -> Vec<Obj> {
    let items = if key.class_is(types().tuple) { items_of(key) } else { vec![key.clone()] };
    items.into_iter().filter(|item| item.class_is(types().slice)).collect()
}

fn parts_of(slice: &Obj) -> Vec<Obj> {
    PARTS.iter().filter_map(|name| slice.attr(name).quiet()).collect()
}

/// The type and device of a whole number; None for any other tensor.
fn kind_of(tensor: &Obj) -> Option<(String, String)> {
    let rank: i64 = tensor.bind().call_method0("dim").quiet()?.extract().quiet()?;
    let dtype = tensor.attr("dtype").quiet()?.text();
    let is_whole = matches!(dtype.as_str(), "torch.int8" | "torch.int16" | "torch.int32" | "torch.int64");
    (rank == 0 && is_whole).then(|| Some((dtype, tensor.attr("device").quiet()?.text())))?
}

fn requires_grad(object: &Obj) -> bool {
    is_tensor(object) && object.attr("requires_grad").quiet().is_some_and(|yes| yes.truth().quiet().unwrap_or(true))
}
