//! Values of lazy tensors before their graph is computed, for those who must know at once whether an operation would fail.

use super::graph::GraphRecord;
use super::writes::Unsettled;
use super::{Origin, Recording};
use crate::obj::{Obj, entries_of, items_of, list_of, py, tuple_of};
use crate::record::grad::GradMode;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use rustc_hash::FxHashMap;

/// More operations are not done twice.
const FEW: usize = 32;
/// Parts of the names of operations that give another result the second time, or leave something behind.
const FICKLE: [&str; 12] = [
    "rand",
    "dropout",
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "exponential",
    "empty",
    "rrelu",
    "attention",
    "batch_norm",
    "instance_norm",
];

impl Recording {
    /// What the tensor will hold. None where computing it twice would show, or cost much.
    pub fn peek(&self, lazy: &Obj) -> Option<Obj> {
        let Origin::Lazy(n) = self.origin(lazy) else { return None };
        let _mode = GradMode::set(false).ok()?;
        let graph = &self.graph;
        let of_integers = match self.unsettled() {
            Unsettled::Nothing => false,
            Unsettled::NoIntegers => true,
            Unsettled::Anything => return None,
        };
        Peek { graph, of_integers, values: FxHashMap::default() }.value(&graph.lazies[n].node)
    }

    /// A tensor of the size and type of a lazy one, whose values are nobody's concern.
    pub fn stand_in(&self, lazy: &Obj) -> Option<Obj> {
        let Origin::Lazy(n) = self.origin(lazy) else { return None };
        like(&self.graph.lazies[n].shadow)
    }
}

fn like(shadow: &Obj) -> Option<Obj> {
    let kwargs = PyDict::new(py());
    kwargs.set_item("dtype", shadow.attr("dtype").ok()?.bind()).ok()?;
    let zero = py().import("torch").ok()?.getattr("zeros").ok()?.call(((),), Some(&kwargs)).ok()?;
    zero.call_method1("expand", (shadow.attr("shape").ok()?.bind(),)).ok().map(Obj::from)
}

/// The name of what a node calls; empty for inputs. None for an operator of the program's.
pub(super) fn name_of(node: &Obj) -> Option<String> {
    let (op, target) = (node.attr("op").ok()?.to_str()?, node.attr("target").ok()?);
    match op.as_str() {
        "placeholder" => Some(String::new()),
        "call_method" => target.to_str(),
        "call_function" if !target.class_name().starts_with("OpOverload") => target.attr("__name__").ok()?.to_str(),
        _ => None,
    }
}

/// Whether what a node gives is a tensor of integers.
pub(super) fn is_integer(node: &Obj) -> Option<bool> {
    let dtype = node.attr("meta").ok()?.bind().get_item("example_value").ok()?.getattr("dtype").ok()?;
    Some(!dtype.getattr("is_floating_point").ok()?.is_truthy().ok()? && !dtype.getattr("is_complex").ok()?.is_truthy().ok()?)
}

struct Peek<'a> {
    graph: &'a GraphRecord,
    /// Other tensors may have been written.
    of_integers: bool,
    /// By their nodes.
    values: FxHashMap<usize, Obj>,
}

impl Peek<'_> {
    fn value(&mut self, node: &Obj) -> Option<Obj> {
        if let Some(known) = self.values.get(&node.id()) {
            return Some(known.clone());
        }
        let name = name_of(node)?;
        let is_fickle = FICKLE.iter().any(|part| name.contains(part));
        if self.values.len() == FEW || is_fickle || (self.of_integers && is_integer(node) != Some(true)) {
            return None;
        }
        let value = match name.is_empty() {
            true => self.input(node)?,
            false => self.called(node, &name)?,
        };
        self.values.insert(node.id(), value.clone());
        Some(value)
    }

    fn input(&self, node: &Obj) -> Option<Obj> {
        let input = &self.graph.inputs.iter().find(|input| input.node.is(node))?.object;
        let is_settled = !self.of_integers || !self.graph.shares_what_is_written(input);
        is_settled.then(|| input.clone())
    }

    fn called(&mut self, node: &Obj, name: &str) -> Option<Obj> {
        let by_size = name.ends_with("_as") || name.ends_with("_like") || name.starts_with("new_");
        let mut args = items_of(&self.filled(&node.attr("args").ok()?, by_size)?);
        let kwargs = self.filled(&node.attr("kwargs").ok()?, by_size)?;
        let function = match node.attr("op").ok()?.to_str().as_deref() {
            Some("call_method") if !args.is_empty() => args.remove(0).attr(name).ok()?,
            _ => node.attr("target").ok()?,
        };
        function.call(&args, Some(&kwargs)).ok()
    }

    /// With the values of nodes in their places. `by_size`: of those that are no integers only the size matters.
    fn filled(&mut self, object: &Obj, by_size: bool) -> Option<Obj> {
        let types = types();
        let mut each = |items: Vec<Obj>| items.iter().map(|item| self.filled(item, by_size)).collect::<Option<Vec<Obj>>>();
        if object.is_instance_of(types.tuple) {
            return tuple_of(&each(items_of(object))?).ok();
        }
        if object.is_instance_of(types.list) {
            return list_of(&each(items_of(object))?).ok();
        }
        if object.bind().is_instance_of::<PyDict>() {
            let (names, items): (Vec<Obj>, Vec<Obj>) = entries_of(object).into_iter().unzip();
            let dict = PyDict::new(py());
            names.iter().zip(each(items)?).try_for_each(|(name, item)| dict.set_item(name.bind(), item.bind())).ok()?;
            return Some(dict.into());
        }
        if object.bind().is_instance_of::<PySlice>() {
            let parts = ["start", "stop", "step"].iter().map(|name| object.attr(name).ok()).collect::<Option<Vec<Obj>>>()?;
            let slice: Obj = py().get_type::<PySlice>().into_any().into();
            return slice.call(&each(parts)?, None).ok();
        }
        match object.class_name() == "Node" {
            true if by_size && is_integer(object) == Some(false) => {
                like(&object.attr("meta").ok()?.bind().get_item("example_value").ok()?.into())
            }
            true => self.value(object),
            false => Some(object.clone()),
        }
    }
}
