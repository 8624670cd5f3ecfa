//! `unsqueeze_` and its like change the shape of a tensor that there is already, and with it the example that the tensor's node has
//! carried all along. Until the last such call the example shows what the tensor is not yet.

use super::importer::Importer;
use super::names::Name;
use super::refusal::Import;
use ox_ops::surface::{Sharing, lookup};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::FxHashMap;

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
        let row = name.strip_suffix('_').and_then(|stem| lookup(&namespace, stem));
        let has_arguments = !node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?.is_empty();
        Ok(has_arguments && row.is_some_and(|row| row.sharing == Sharing::View))
    }
}
