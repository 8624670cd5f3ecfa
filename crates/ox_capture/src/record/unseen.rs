//! Operations of which nobody sees the result, but the exception: they are part of the graph all the same.

use super::graph::GraphRecord;
use super::writes::writes;
use super::{Origin, Recording};
use crate::obj::Obj;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

impl Recording {
    /// The operation that gives this tensor fails for some values.
    pub fn must_run(&mut self, result: &Obj) {
        if let Origin::Lazy(n) = self.origin(result) {
            self.graph.risky.push(n);
        }
    }
}

impl GraphRecord {
    /// The nodes that may fail and that nothing which is computed depends on.
    pub(super) fn unseen(&self, is_held: impl Fn(&Obj) -> bool) -> PyResult<FxHashSet<usize>> {
        if self.risky.is_empty() {
            return Ok(FxHashSet::default());
        }
        let held = self.lazies.iter().filter(|lazy| is_held(&lazy.object)).map(|lazy| lazy.node.id());
        let mut search = Search { computed: held.collect(), idle: FxHashSet::default() };
        let mut unseen = FxHashSet::default();
        for n in &self.risky {
            let node = &self.lazies[*n].node;
            if !search.is_computed(node)? {
                unseen.insert(node.id());
            }
        }
        Ok(unseen)
    }
}

/// Nodes by what becomes of them.
struct Search {
    computed: FxHashSet<usize>,
    idle: FxHashSet<usize>,
}

impl Search {
    /// Whether something that is computed depends on the node: what writes is, and so is an operator of the program's. The way from user to
    /// user is walked without recursion: graphs are deep.
    fn is_computed(&mut self, node: &Obj) -> PyResult<bool> {
        let first = node.id();
        let (mut left, mut passed) = (vec![node.clone()], FxHashSet::default());
        while let Some(node) = left.pop() {
            if self.computed.contains(&node.id()) || writes(&node).unwrap_or(true) {
                self.computed.insert(first);
                return Ok(true);
            }
            if !self.idle.contains(&node.id()) && passed.insert(node.id()) {
                for user in node.attr("users")?.bind().try_iter()? {
                    left.push(user?.into());
                }
            }
        }
        self.idle.extend(passed);
        Ok(false)
    }
}
