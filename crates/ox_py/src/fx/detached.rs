//! What `detach` and `.data` give shares memory, but no gradient, with what it was made of. A Graph says of memory what it holds, and with it where the
//! gradient comes from: it has one word for both.

use super::fake::storages;
use super::grad::{Grad, grad_mode};
use super::names::DATA;
use crate::pieces::{example, is_computed, may_be_written, requires_grad};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::{FxHashMap, FxHashSet};

type Node<'py> = Bound<'py, PyAny>;

/// The places of calls that detach, as far as a Graph has to know.
#[derive(Default)]
pub struct Places {
    /// Nobody else looks at the memory afterwards: they may as well give a tensor of its own.
    pub alone: FxHashSet<usize>,
    /// What they are detached from has a gradient written to it, and they are seen afterwards.
    pub beside: FxHashSet<usize>,
}

impl Places {
    pub fn of(nodes: &[Node<'_>]) -> PyResult<Places> {
        let (mut places, all) = (Places::default(), all(nodes)?);
        if all.is_empty() {
            return Ok(places);
        }
        let (memory, writes) = (Memory::of(nodes)?, writes_with_grad(nodes)?);
        for place in all {
            let detached = memory.detached(place);
            if detached.is_alone(&memory) {
                places.alone.insert(place);
            } else if detached.sees_writes(&memory, &writes) {
                places.beside.insert(place);
            }
        }
        Ok(places)
    }
}

/// Whether a gradient is written to a detached tensor whose memory others look at, too: theirs is another one.
pub fn writes_beside_detached(nodes: &[Node<'_>]) -> PyResult<bool> {
    let places = all(nodes)?;
    if places.is_empty() {
        return Ok(false);
    }
    let (memory, writes) = (Memory::of(nodes)?, writes_with_grad(nodes)?);
    let is_written = |place| {
        let detached = memory.detached(place);
        detached.is_written(&writes) && !detached.is_alone(&memory)
    };
    Ok(!writes.is_empty() && places.into_iter().any(is_written))
}

fn all(nodes: &[Node<'_>]) -> PyResult<Vec<usize>> {
    let mut found = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        if is_detach(node)? {
            found.push(place);
        }
    }
    Ok(found)
}

/// What lies where in a graph, by the places of nodes.
struct Memory {
    arguments: Vec<Vec<usize>>,
    is_computed: Vec<bool>,
    /// The last place that has the node as an argument, its own if none.
    last_use: Vec<usize>,
    storages: Vec<Vec<usize>>,
    /// By storage, those that lie in it.
    members: FxHashMap<usize, Vec<usize>>,
}

impl Memory {
    fn of(nodes: &[Node<'_>]) -> PyResult<Memory> {
        let places: FxHashMap<usize, usize> = nodes.iter().enumerate().map(|(place, node)| (address(node), place)).collect();
        let (mut arguments, mut is_computed, mut storages) = (Vec::new(), Vec::new(), Vec::new());
        let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut last_use: Vec<usize> = (0..nodes.len()).collect();
        for (place, node) in nodes.iter().enumerate() {
            let used = node.getattr(intern!(node.py(), "all_input_nodes"))?.try_iter()?;
            let used = used.map(|arg| Ok(places[&address(&arg?)])).collect::<PyResult<Vec<_>>>()?;
            used.iter().for_each(|arg| last_use[*arg] = place);
            let lies_in = example(node)?.map_or(Ok(Vec::new()), |example| self::storages(&example))?;
            lies_in.iter().for_each(|storage| members.entry(*storage).or_default().push(place));
            arguments.push(used);
            storages.push(lies_in);
            is_computed.push(self::is_computed(node)?);
        }
        Ok(Memory { arguments, is_computed, last_use, storages, members })
    }

    fn detached(&self, place: usize) -> Detached {
        let (mut own, mut others) = (FxHashSet::default(), FxHashSet::default());
        let mut members: Vec<usize> = self.storages[place].iter().flat_map(|storage| &self.members[storage]).copied().collect();
        members.sort_unstable();
        for member in members {
            let is_own = member == place || self.arguments[member].iter().any(|arg| own.contains(arg));
            if is_own {
                own.insert(member)
            } else {
                others.insert(member)
            };
        }
        Detached { place, own, others }
    }

    /// Whether one of these is an argument behind a place.
    fn uses(&self, of: &FxHashSet<usize>, behind: usize) -> bool {
        of.iter().any(|member| self.last_use[*member] > behind)
    }
}

/// One such call: what shares its memory through it, and what does so beside it.
struct Detached {
    place: usize,
    own: FxHashSet<usize>,
    others: FxHashSet<usize>,
}

impl Detached {
    fn is_alone(&self, memory: &Memory) -> bool {
        let is_of_argument = self.own.iter().chain(&self.others).any(|member| !memory.is_computed[*member]);
        !is_of_argument && !memory.uses(&self.others, self.place)
    }

    /// `writes`: by what is written, where.
    fn is_written(&self, writes: &Writes) -> bool {
        self.own.iter().any(|member| self.behind(writes, *member).next().is_some())
    }

    /// Whether it is looked at when something else was written.
    fn sees_writes(&self, memory: &Memory, writes: &Writes) -> bool {
        self.others.iter().flat_map(|member| self.behind(writes, *member)).any(|at| memory.uses(&self.own, at))
    }

    fn behind<'a>(&self, writes: &'a Writes, member: usize) -> impl Iterator<Item = usize> + 'a {
        let place = self.place;
        writes.get(&member).into_iter().flatten().copied().filter(move |at| *at > place)
    }
}

type Writes = FxHashMap<usize, Vec<usize>>;

/// By what is written so that it may have a gradient of it: where. What is written without grad has the gradient that it had.
fn writes_with_grad(nodes: &[Node<'_>]) -> PyResult<Writes> {
    let Some(first) = nodes.first() else { return Ok(Writes::default()) };
    let mut enabled = Grad::ambient(first.py())?.enabled;
    let places: FxHashMap<usize, usize> = nodes.iter().enumerate().map(|(place, node)| (address(node), place)).collect();
    let mut found = Writes::default();
    for (place, node) in nodes.iter().enumerate() {
        enabled = grad_mode(node)?.unwrap_or(enabled);
        for written in if enabled { may_be_written(node)? } else { Vec::new() } {
            if example(&written)?.is_some_and(|example| requires_grad(&example).unwrap_or(false)) {
                found.entry(places[&address(&written)]).or_default().push(place);
            }
        }
    }
    Ok(found)
}

fn address(node: &Node<'_>) -> usize {
    node.as_ptr() as usize
}

/// `x.detach()`, `x.data`
pub fn is_detach(node: &Node<'_>) -> PyResult<bool> {
    Ok(called(node)?.is_some_and(|name| name == "detach" || name == "data"))
}

/// The name of the method, function or attribute that a node calls.
pub fn called(node: &Node<'_>) -> PyResult<Option<String>> {
    let py = node.py();
    if !is_computed(node)? {
        return Ok(None);
    }
    let target = node.getattr(intern!(py, "target"))?;
    let is_aten =
        target.getattr_opt(intern!(py, "namespace"))?.is_some_and(|of| of.extract::<&str>().is_ok_and(|of| of == "aten"));
    let target = if is_aten { target.getattr(intern!(py, "overloadpacket"))? } else { target };
    let name = target.getattr_opt(intern!(py, "__name__"))?.unwrap_or(target);
    let Ok(name) = name.extract::<String>() else { return Ok(None) };
    match name.as_str() {
        DATA => return Ok(Some("data".to_string())),
        "getattr" => {}
        _ => return Ok(Some(name)),
    }
    let args = node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
    Ok(args.get_item(1).ok().and_then(|asked| asked.extract().ok()))
}
