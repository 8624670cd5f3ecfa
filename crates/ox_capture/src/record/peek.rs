//! Values of lazy tensors before their graph is computed, for those who must know at once whether an operation would fail.

use super::writes::{Write, example_of, is_integer_type};
use super::{Origin, Recording};
use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of, items_of, list_of, py, tuple_of};
use crate::record::grad::GradMode;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use rustc_hash::{FxHashMap, FxHashSet};

/// More operations are not done twice.
const FEW: usize = 64;
/// Parts of the names of operations that give another result the second time, or leave something behind.
const FICKLE: [&str; 17] = [
    "rand",
    "dropout",
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "exponential",
    "uniform",
    "cauchy",
    "geometric",
    "fractional",
    "lstm",
    "gru",
    "rrelu",
    "attention",
    "batch_norm",
    "instance_norm",
];

impl Recording {
    /// What the tensor will hold. None where computing it twice would show, or cost much.
    pub fn peek(&self, lazy: &Obj) -> Option<Obj> {
        let Origin::Lazy(n) = self.origin(lazy) else { return None };
        let _mode = GradMode::set(false).quiet()?;
        let (last, writes) = (&self.graph.lazies[n].node, self.writes()?);
        let mut peek = Peek { rec: self, writes, values: FxHashMap::default() };
        for node in peek.leading_to(last)? {
            let value = peek.value(&node)?;
            peek.values.insert(node.id(), value);
        }
        peek.values.remove(&last.id())
    }

    /// A tensor of the size and type of a lazy one, whose values are nobody's concern.
    pub fn stand_in(&self, lazy: &Obj) -> Option<Obj> {
        let Origin::Lazy(n) = self.origin(lazy) else { return None };
        like(&self.graph.lazies[n].shadow)
    }
}

fn like(shadow: &Obj) -> Option<Obj> {
    let kwargs = PyDict::new(py());
    kwargs.set_item("dtype", shadow.attr("dtype").quiet()?.bind()).quiet()?;
    let zero = py().import("torch").quiet()?.getattr("zeros").quiet()?.call(((),), Some(&kwargs)).quiet()?;
    zero.call_method1("expand", (shadow.attr("shape").quiet()?.bind(),)).quiet().map(Obj::from)
}

/// The name of what a node calls; empty for inputs. None for an operator of the program's.
pub(super) fn name_of(node: &Obj) -> Option<String> {
    let (op, target) = (node.attr("op").quiet()?.to_str()?, node.attr("target").quiet()?);
    match op.as_str() {
        "placeholder" => Some(String::new()),
        "call_method" => target.to_str(),
        "call_function" if !target.class_name().starts_with("OpOverload") => target.attr("__name__").quiet()?.to_str(),
        _ => None,
    }
}

/// Whether what a node gives is a tensor of integers.
fn is_integer(node: &Obj) -> Option<bool> {
    let dtype = example_of(node)?.attr("dtype").quiet()?;
    Some(is_integer_type(&dtype))
}

/// Whether only the size of what is no integer matters.
fn goes_by_size(name: &str) -> bool {
    name.ends_with("_as") || name.ends_with("_like") || name.starts_with("new_")
}

struct Peek<'a> {
    rec: &'a Recording,
    writes: Vec<Write>,
    /// By their nodes.
    values: FxHashMap<usize, Obj>,
}

impl Peek<'_> {
    /// What must be computed, in the order of the graph: what a node is made of, and all that is written to memory where some of that lies.
    fn leading_to(&self, last: &Obj) -> Option<Vec<Obj>> {
        let (mut open, mut found) = (vec![last.clone()], FxHashSet::default());
        while let Some(node) = open.pop() {
            if !found.insert(node.id()) {
                continue;
            }
            if found.len() > FEW {
                return None;
            }
            open.extend(self.needed_by(&node)?);
            if !self.writes.is_empty() {
                let example = example_of(&node)?;
                open.extend(self.writes.iter().filter(|write| write.is_to(&example)).map(|write| write.node.clone()));
            }
        }
        let nodes = self.rec.graph.fx.attr("nodes").quiet()?;
        let all = nodes.bind().try_iter().quiet()?.map(|node| node.quiet().map(Obj::from)).collect::<Option<Vec<Obj>>>()?;
        Some(all.into_iter().filter(|node| found.contains(&node.id())).collect())
    }

    /// The nodes whose values it reads. None if it is not done twice.
    fn needed_by(&self, node: &Obj) -> Option<Vec<Obj>> {
        let name = name_of(node)?;
        if FICKLE.iter().any(|part| name.contains(part)) {
            return None;
        }
        let mut needed = items_of(&node.attr("all_input_nodes").quiet()?);
        needed.retain(|arg| !(goes_by_size(&name) && is_integer(arg) == Some(false)));
        Some(needed)
    }

    fn value(&self, node: &Obj) -> Option<Obj> {
        let name = name_of(node)?;
        if name.is_empty() {
            return self.input(node);
        }
        let is_ours = |target: &Obj| self.values.get(&target.id()).is_some_and(|tensor| !self.rec.is_of_inputs(tensor));
        let write = self.writes.iter().find(|write| write.node.is(node));
        let may_run = write.is_none_or(|write| write.targets.iter().all(is_ours));
        if may_run { self.called(node, &name) } else { None }
    }

    fn input(&self, node: &Obj) -> Option<Obj> {
        let input = &self.rec.graph.inputs.iter().find(|input| input.node.is(node))?.object;
        let is_settled = !types().is_tensor(input) || self.rec.is_beside(input, &self.writes);
        is_settled.then(|| input.clone())
    }

    fn called(&self, node: &Obj, name: &str) -> Option<Obj> {
        let by_size = goes_by_size(name);
        let mut args = items_of(&self.filled(&node.attr("args").quiet()?, by_size)?);
        let kwargs = self.filled(&node.attr("kwargs").quiet()?, by_size)?;
        let function = match node.attr("op").quiet()?.to_str().as_deref() {
            Some("call_method") if !args.is_empty() => args.remove(0).attr(name).quiet()?,
            _ => node.attr("target").quiet()?,
        };
        let value = function.call(&args, Some(&kwargs)).quiet()?;
        // Where it is not filled later any value would do.
        if name.contains("empty") { value.attr("zero_").quiet()?.call(&[], None).quiet() } else { Some(value) }
    }

    /// With the values of nodes in their places. `by_size`: of those that are no integers only the size matters.
    fn filled(&self, object: &Obj, by_size: bool) -> Option<Obj> {
        let types = types();
        let each = |items: Vec<Obj>| items.iter().map(|item| self.filled(item, by_size)).collect::<Option<Vec<Obj>>>();
        if object.is_instance_of(types.tuple) {
            return tuple_of(&each(items_of(object))?).quiet();
        }
        if object.is_instance_of(types.list) {
            return list_of(&each(items_of(object))?).quiet();
        }
        if object.bind().is_instance_of::<PyDict>() {
            let (names, items): (Vec<Obj>, Vec<Obj>) = entries_of(object).into_iter().unzip();
            let dict = PyDict::new(py());
            names.iter().zip(each(items)?).try_for_each(|(name, item)| dict.set_item(name.bind(), item.bind())).quiet()?;
            return Some(dict.into());
        }
        if object.bind().is_instance_of::<PySlice>() {
            let parts = ["start", "stop", "step"].iter().map(|name| object.attr(name).quiet()).collect::<Option<Vec<Obj>>>()?;
            let slice: Obj = py().get_type::<PySlice>().into_any().into();
            return slice.call(&each(parts)?, None).quiet();
        }
        match object.class_name() == "Node" {
            true if by_size && is_integer(object) == Some(false) => like(&example_of(object)?),
            true => self.values.get(&object.id()).cloned(),
            false => Some(object.clone()),
        }
    }
}
