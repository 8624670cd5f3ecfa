//! What `detach` and `.data` give shares memory, but no gradient, with what it was made of. A Graph says of memory what it holds, and with it where the
//! gradient comes from: it has one word for both.

use super::fake::storages;
use crate::pieces::{example, is_computed, may_be_written, requires_grad};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::FxHashSet;

type Node<'py> = Bound<'py, PyAny>;

/// One such call: what shares its memory through it, and what does so beside it.
struct Detached<'a, 'py> {
    nodes: &'a [Node<'py>],
    place: usize,
    own: FxHashSet<usize>,
    others: FxHashSet<usize>,
    of_argument: bool,
}

/// The places of calls whose memory nobody else looks at afterwards: they may as well give a tensor of its own.
pub fn detached_alone(nodes: &[Node<'_>]) -> PyResult<FxHashSet<usize>> {
    let mut found = FxHashSet::default();
    for detached in all(nodes)? {
        if detached.is_alone()? {
            found.insert(detached.place);
        }
    }
    Ok(found)
}

/// Whether a gradient is written to memory in which a tensor lies that has none of it, or another one, and both are seen.
pub fn writes_beside_detached(nodes: &[Node<'_>]) -> PyResult<bool> {
    for detached in all(nodes)? {
        if !detached.is_alone()? && detached.is_parted()? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn all<'a, 'py>(nodes: &'a [Node<'py>]) -> PyResult<Vec<Detached<'a, 'py>>> {
    let mut found = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        if is_detach(node)? {
            found.push(Detached::at(nodes, place)?);
        }
    }
    Ok(found)
}

impl<'a, 'py> Detached<'a, 'py> {
    fn at(nodes: &'a [Node<'py>], place: usize) -> PyResult<Detached<'a, 'py>> {
        let memory = memory(&nodes[place])?;
        let (mut own, mut others, mut of_argument) = (FxHashSet::default(), FxHashSet::default(), false);
        for (n, node) in nodes.iter().enumerate() {
            if !self::memory(node)?.iter().any(|part| memory.contains(part)) {
                continue;
            }
            let is_own = n == place || arguments(node)?.iter().any(|arg| own.contains(&address(arg)));
            if is_own {
                own.insert(address(node))
            } else {
                others.insert(address(node))
            };
            of_argument |= !is_computed(node)?;
        }
        Ok(Detached { nodes, place, own, others, of_argument })
    }

    fn is_alone(&self) -> PyResult<bool> {
        Ok(!self.of_argument && !uses(&self.nodes[self.place + 1..], &self.others)?)
    }

    /// Whether one side is written with what requires grad, and the other is seen afterwards.
    fn is_parted(&self) -> PyResult<bool> {
        for (place, node) in self.nodes.iter().enumerate().skip(self.place + 1) {
            for written in may_be_written(node)? {
                let has_grad = example(&written)?.is_some_and(|example| requires_grad(&example).unwrap_or(false));
                let is_own = self.own.contains(&address(&written));
                let is_seen = || uses(&self.nodes[place + 1..], &self.own);
                if has_grad && (is_own || self.others.contains(&address(&written)) && is_seen()?) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Whether one of the nodes has one of these as an argument.
fn uses(nodes: &[Node<'_>], of: &FxHashSet<usize>) -> PyResult<bool> {
    for node in nodes {
        if arguments(node)?.iter().any(|arg| of.contains(&address(arg))) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn address(node: &Node<'_>) -> usize {
    node.as_ptr() as usize
}

fn arguments<'py>(node: &Node<'py>) -> PyResult<Vec<Node<'py>>> {
    node.getattr(intern!(node.py(), "all_input_nodes"))?.try_iter()?.collect()
}

fn memory(node: &Node<'_>) -> PyResult<Vec<usize>> {
    example(node)?.map_or(Ok(Vec::new()), |example| storages(&example))
}

/// `x.detach()`, `x.data`
pub(super) fn is_detach(node: &Node<'_>) -> PyResult<bool> {
    Ok(called(node)?.is_some_and(|name| name == "detach" || name == "data"))
}

/// The name of the method, function or attribute that a node calls.
pub(super) fn called(node: &Node<'_>) -> PyResult<Option<String>> {
    let py = node.py();
    if !is_computed(node)? {
        return Ok(None);
    }
    let target = node.getattr(intern!(py, "target"))?;
    let name = target.getattr_opt(intern!(py, "__name__"))?.unwrap_or(target);
    let Ok(name) = name.extract::<String>() else { return Ok(None) };
    if name != "getattr" {
        return Ok(Some(name));
    }
    let args = node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
    Ok(args.get_item(1).ok().and_then(|asked| asked.extract().ok()))
}
