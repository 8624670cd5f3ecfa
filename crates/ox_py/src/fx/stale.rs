//! `unsqueeze_` and its like change the shape of a tensor that there is already, and with it the example that the tensor's node has
//! carried all along. Until the last such call the example shows what the tensor is not yet.
//!
//! So it is with calls that change more than a shape: `set_` (`x.data = y` is one behind Dynamo) gives a tensor other memory, and `detach_` takes its
//! history. What lay where in front of them, or had a gradient, no example tells.

use super::detached::called;
use super::importer::Importer;
use super::names::Name;
use super::refusal::Import;
use crate::pieces::{example, is_computed};
use ox_ops::surface::{Sharing, lookup};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::{FxHashMap, FxHashSet};

pub const RESHAPED_LATER: &str = "a tensor that is given another shape later";

const OTHER_MEMORY: &str = "a tensor that gets other memory";

/// By the address of an example, the last node that changes its shape.
#[derive(Default)]
pub(super) struct Stale(FxHashMap<usize, usize>);

impl Stale {
    /// From this node on, what it changed is as its example shows.
    pub fn arrive(&mut self, node: &Bound<'_, PyAny>) {
        self.0.retain(|_, last| *last != node.as_ptr() as usize);
    }

    pub fn contains(&self, example: &Bound<'_, PyAny>) -> bool {
        self.0.contains_key(&(example.as_ptr() as usize))
    }
}

/// The call behind which the examples are of no use for what stands before it, in words. Our own capture does such calls for real, behind the graph.
pub fn restated(nodes: &[Bound<'_, PyAny>]) -> PyResult<Option<&'static str>> {
    for (place, node) in nodes.iter().enumerate() {
        match called(node)?.as_deref() {
            Some("set_") => return Ok(Some(OTHER_MEMORY)),
            Some("detach_") if !is_first_use(node, &nodes[..place])? => {
                return Ok(Some("detach_ of a tensor that was used before"));
            }
            _ if has_other_memory_later(node)? => return Ok(Some(OTHER_MEMORY)),
            _ => {}
        }
    }
    Ok(None)
}

/// Of the end of a graph of our own capture: whether one of its inputs gets other memory behind it.
fn has_other_memory_later(node: &Bound<'_, PyAny>) -> PyResult<bool> {
    node.getattr(intern!(node.py(), "meta"))?.contains(intern!(node.py(), "restated"))
}

/// Whether one of these rows of nodes changes the shape of a tensor that a row before it has: the examples that stand there show what it becomes.
pub fn reshapes_earlier(rows: &[Vec<Bound<'_, PyAny>>]) -> PyResult<bool> {
    let mut earlier: FxHashSet<usize> = FxHashSet::default();
    for nodes in rows {
        for node in nodes {
            let is_earlier = |example: Bound<'_, PyAny>| earlier.contains(&(example.as_ptr() as usize));
            if called(node)?.is_some_and(|name| is_reshape_in_place("Tensor", &name)) && example(node)?.is_some_and(is_earlier) {
                return Ok(true);
            }
        }
        for node in nodes {
            earlier.extend(example(node)?.map(|example| example.as_ptr() as usize));
        }
    }
    Ok(false)
}

fn is_reshape_in_place(namespace: &str, name: &str) -> bool {
    let row = name.strip_suffix('_').and_then(|stem| lookup(namespace, stem));
    row.is_some_and(|row| row.sharing == Sharing::View)
}

/// Whether what a call is made of is a value that nobody has used before.
fn is_first_use(node: &Bound<'_, PyAny>, before: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    let py = node.py();
    let argument = node.getattr(intern!(py, "args"))?.get_item(0)?;
    let is_view =
        example(&argument)?.is_some_and(|example| example.getattr(intern!(py, "_base")).is_ok_and(|base| !base.is_none()));
    if is_view || !is_computed(&argument)? {
        return Ok(false);
    }
    let users = argument.getattr(intern!(py, "users"))?;
    for user in before {
        if users.contains(user)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<'py> Importer<'py> {
    pub(super) fn find_stale(&mut self, nodes: &[Bound<'py, PyAny>]) -> Import<Stale> {
        let mut stale = Stale::default();
        for node in nodes {
            if self.reshapes_in_place(node)?
                && let Some(example) = self.meta(node)?
            {
                stale.0.insert(example.as_ptr() as usize, node.as_ptr() as usize);
            }
        }
        Ok(stale)
    }

    fn reshapes_in_place(&mut self, node: &Bound<'py, PyAny>) -> Import<bool> {
        let py = self.py;
        let (op, target) = (node.getattr(intern!(py, "op"))?, node.getattr(intern!(py, "target"))?);
        let (namespace, name) = match op.extract::<&str>()? {
            "call_method" => ("Tensor".to_string(), target.extract::<String>()?),
            "call_function" => {
                let Name { namespace, name, .. } = &*self.names.of_function(self.torch, &target)?;
                (namespace.clone(), name.clone())
            }
            _ => return Ok(false),
        };
        let has_arguments = !node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?.is_empty();
        Ok(has_arguments && is_reshape_in_place(&namespace, &name))
    }
}
