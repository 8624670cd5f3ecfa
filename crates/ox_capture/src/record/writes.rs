//! What the calls of a graph write that is not computed yet.

use super::graph::{InputEntry, NotRecorded, Recorded, Shadow, tensors_in};
use super::memory::memory_of;
use super::peek::name_of;
use super::{Recording, Val};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of};
use crate::types::types;
use ox_ops::surface::{first_argument, writes_first};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A call of a graph that writes.
pub(super) struct Write {
    pub node: Obj,
    /// The nodes of what is written.
    pub targets: Vec<Obj>,
    /// Where they lie, as shadows name it.
    memories: Vec<usize>,
}

impl Write {
    /// None if nobody can say what it writes: `out=`, or else its first argument.
    fn by(node: Obj) -> Option<Write> {
        let (args, kwargs) = (items_of(&node.attr("args").quiet()?), node.attr("kwargs").quiet()?);
        let named = |name: &str| kwargs.bind().get_item(name).quiet().map(Obj::from);
        let targets = nodes_in(&named("out").or_else(|| first_argument(args.first().cloned(), named))?);
        let shadows = targets.iter().map(example_of).collect::<Option<Vec<Obj>>>()?;
        let memories =
            shadows.iter().flat_map(tensors_in).map(|tensor| memory_of(&tensor).quiet()).collect::<Option<Vec<usize>>>()?;
        (!memories.is_empty()).then_some(Write { node, targets, memories })
    }

    pub fn is_to(&self, shadow: &Obj) -> bool {
        tensors_in(shadow).iter().any(|tensor| memory_of(tensor).quiet().is_some_and(|memory| self.memories.contains(&memory)))
    }
}

impl Shadow {
    pub(super) fn is_in_place(&self, name: &str, kwargs: &Bound<'_, PyDict>) -> bool {
        writes_first(name) || kwargs.contains("out").quiet().unwrap_or(false)
    }
}

/// The name without the mark of writing in place.
pub fn plain(name: &str) -> &str {
    if name.ends_with("__") { name } else { name.trim_end_matches('_') }
}

pub fn is_integer_type(dtype: &Obj) -> bool {
    let is = |what: &str| dtype.attr(what).and_then(|is| is.truth()).quiet().unwrap_or(false);
    !is("is_floating_point") && !is("is_complex")
}

impl Recording {
    /// In their order. None if nobody can say.
    pub(super) fn writes(&self) -> Option<Vec<Write>> {
        let mut found = Vec::new();
        for node in self.graph.fx.attr("nodes").quiet()?.bind().try_iter().quiet()? {
            let node = Obj::from(node.quiet()?);
            if writes(&node)? {
                found.push(Write::by(node)?);
            }
        }
        Some(found)
    }

    /// Whether a tensor that is no lazy one holds already what the graph will leave in it.
    pub fn is_settled(&self, tensor: &Obj) -> bool {
        self.writes().is_some_and(|writes| self.is_beside(tensor, &writes))
    }

    /// Whether it shares no memory with an input that is written. A view of another type does with what it is a view of.
    pub(super) fn is_beside(&self, tensor: &Obj, writes: &[Write]) -> bool {
        let is_written = |input: &&InputEntry| writes.iter().any(|write| write.is_to(&input.shadow));
        writes.is_empty() || !self.lies_in(tensor, self.graph.inputs.iter().filter(is_written))
    }

    /// Whether it shares memory with one of the inputs.
    pub(super) fn is_of_inputs(&self, tensor: &Obj) -> bool {
        self.lies_in(tensor, self.graph.inputs.iter())
    }

    fn lies_in<'a>(&self, tensor: &Obj, mut inputs: impl Iterator<Item = &'a InputEntry>) -> bool {
        let Some(memory) = memory_of(tensor).quiet() else { return true };
        inputs.any(|input| memory_of(&input.object).quiet().is_some_and(|other| other == memory))
    }
}

/// The node, or those of a list.
fn nodes_in(arg: &Obj) -> Vec<Obj> {
    match arg.class_name().as_str() {
        "Node" => vec![arg.clone()],
        _ if arg.is_instance_of(types().tuple) || arg.is_instance_of(types().list) => {
            items_of(arg).iter().flat_map(nodes_in).collect()
        }
        _ => Vec::new(),
    }
}

/// The shadow of what a node stands for.
pub(super) fn example_of(node: &Obj) -> Option<Obj> {
    node.attr("meta").quiet()?.bind().get_item("example_value").quiet().map(Obj::from)
}

/// Whether a node writes one of its arguments. None for an operator of the program's.
pub(super) fn writes(node: &Obj) -> Option<bool> {
    let (name, kwargs) = (name_of(node)?, node.attr("kwargs").quiet()?);
    let kwargs = kwargs.bind().cast::<PyDict>().ok()?;
    Some(writes_first(&name) || kwargs.contains("out").quiet()? || gives_back_by_flag(node, kwargs)?)
}

/// `relu(x, inplace=True)`, by name or by place: the result is the argument.
fn gives_back_by_flag(node: &Obj, kwargs: &Bound<'_, PyDict>) -> Option<bool> {
    let args = items_of(&node.attr("args").quiet()?);
    let is_flag = |arg: &Obj| arg.class_is(types().bool) && arg.is(&Obj::bool(true));
    if !args.iter().any(is_flag) && !kwargs.values().iter().any(|value| is_flag(&value.into())) {
        return Some(false);
    }
    let result = example_of(node)?;
    let mut given = args.into_iter().chain(kwargs.values().iter().map(Obj::from));
    Some(given.any(|arg| example_of(&arg).is_some_and(|arg| arg.is(&result))))
}

/// The tensors that a call writes.
pub(super) fn written(callee: &Shadow, name: &str, args: &[Obj], kwargs: &Bound<'_, PyDict>) -> PyResult<Vec<Obj>> {
    if let Some(out) = kwargs.get_item("out")? {
        return Ok(tensors_in(&out.into()));
    }
    let is_flagged = || -> PyResult<bool> {
        let by_place = flag_place(callee)?.and_then(|place| args.get(place).cloned());
        let flag = by_place.or(kwargs.get_item("inplace")?.map(Obj::from));
        Ok(flag.is_some_and(|flag| flag.is(&Obj::bool(true))))
    };
    let named = |name: &str| kwargs.get_item(name).quiet().flatten().map(Obj::from);
    match first_argument(args.first().cloned(), named) {
        Some(first) if writes_first(name) || is_flagged()? => Ok(tensors_in(&first)),
        _ => Ok(Vec::new()),
    }
}

/// Where a function of Python's has its parameter `inplace`.
fn flag_place(callee: &Shadow) -> PyResult<Option<usize>> {
    let Shadow::Function(function) = callee else { return Ok(None) };
    if !function.class_is(types().function) {
        return Ok(None);
    }
    let names = items_of(&function.attr("__code__")?.attr("co_varnames")?);
    Ok(names.iter().position(|name| name.to_str().as_deref() == Some("inplace")))
}

/// `relu(x, inplace=1)`: whoever reads the graph takes True for a flag, and nothing else.
pub(super) fn refuse_odd_flag(callee: &Shadow, args: &[Val], kwargs: &[(Obj, Val)]) -> Recorded<()> {
    if args.len() + kwargs.len() < 2 {
        return Ok(());
    }
    let Some(place) = flag_place(callee)? else { return Ok(()) };
    let named = kwargs.iter().find(|(key, _)| key.to_str().as_deref() == Some("inplace")).map(|(_, value)| value);
    match args.get(place).or(named) {
        Some(flag) if !flag.obj.class_is(types().bool) => {
            Err(NotRecorded::Break("inplace= that is neither True nor False".into()))
        }
        _ => Ok(()),
    }
}
