//! What the calls of a graph write that is not computed yet.

use super::graph::{NotRecorded, Recorded, Shadow, tensors_in};
use super::peek::{is_integer, name_of};
use super::{Recording, Val};
use crate::obj::{Obj, items_of};
use crate::types::types;
use ox_ops::surface::writes_first;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What is not yet what it will be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsettled {
    Nothing,
    /// Integers are never written.
    NoIntegers,
    Anything,
}

impl Shadow {
    pub(super) fn is_in_place(&self, name: &str, kwargs: &Bound<'_, PyDict>) -> bool {
        writes_first(name) || kwargs.contains("out").unwrap_or(false)
    }
}

/// The name without the mark of writing in place.
pub fn plain(name: &str) -> &str {
    if name.ends_with("__") { name } else { name.trim_end_matches('_') }
}

pub fn is_integer_type(dtype: &Obj) -> bool {
    let is = |what: &str| dtype.attr(what).and_then(|is| is.truth()).unwrap_or(false);
    !is("is_floating_point") && !is("is_complex")
}

impl Recording {
    pub(super) fn unsettled(&self) -> Unsettled {
        self.written_by_calls().unwrap_or(Unsettled::Anything)
    }

    /// None if nobody can say.
    fn written_by_calls(&self) -> Option<Unsettled> {
        let mut found = Unsettled::Nothing;
        for node in self.graph.fx.attr("nodes").ok()?.bind().try_iter().ok()? {
            let node = Obj::from(node.ok()?);
            if writes(&node)? {
                is_integer(&node).filter(|is| !is)?;
                found = Unsettled::NoIntegers;
            }
        }
        Some(found)
    }

    /// Whether a tensor that is no lazy one holds already what the graph will leave in it.
    pub fn is_settled(&self, tensor: &Obj) -> bool {
        match self.unsettled() {
            Unsettled::Nothing => true,
            Unsettled::NoIntegers => {
                tensor.attr("dtype").is_ok_and(|dtype| is_integer_type(&dtype)) && !self.graph.shares_what_is_written(tensor)
            }
            Unsettled::Anything => false,
        }
    }
}

/// Whether a node writes one of its arguments. None for an operator of the program's.
pub(super) fn writes(node: &Obj) -> Option<bool> {
    let (name, kwargs) = (name_of(node)?, node.attr("kwargs").ok()?);
    let kwargs = kwargs.bind().cast::<PyDict>().ok()?;
    Some(writes_first(&name) || kwargs.contains("out").ok()? || gives_back_by_flag(node, kwargs)?)
}

/// `relu(x, inplace=True)`, by name or by place: the result is the argument.
fn gives_back_by_flag(node: &Obj, kwargs: &Bound<'_, PyDict>) -> Option<bool> {
    let args = items_of(&node.attr("args").ok()?);
    let is_flag = |arg: &Obj| arg.class_is(types().bool) && arg.is(&Obj::bool(true));
    if !args.iter().any(is_flag) && !kwargs.values().iter().any(|value| is_flag(&value.into())) {
        return Some(false);
    }
    let example = |node: &Obj| node.attr("meta").ok()?.bind().get_item("example_value").ok().map(Obj::from);
    let result = example(node)?;
    let mut given = args.into_iter().chain(kwargs.values().iter().map(Obj::from));
    Some(given.any(|arg| example(&arg).is_some_and(|arg| arg.is(&result))))
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
    let first = args.first().cloned().or(kwargs.get_item("input")?.map(Obj::from));
    match first {
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
