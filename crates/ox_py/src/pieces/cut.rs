//! An FX graph into a row of FX graphs. The order of the nodes stays: neither writes nor random numbers change places.

use super::Tree;
use super::behind::tell_of_later_writes;
use super::places::{example, requires_grad};
use super::regions::{Region, have_gradients, is_result, may_be_written, regions};
use super::views::Views;
use crate::fx::{Layout, storages};
use crate::recorded::Recorded;
use crate::torch::Torch;
use ox_capture::SizeObject;
use ox_ir::Sym;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

type Node<'py> = Bound<'py, PyAny>;

/// A graph that was cut.
pub struct Cut<'py> {
    pub pieces: Vec<Piece<'py>>,
    pub values: usize,
    pub result: Tree,
    /// The arguments of the whole that lie in memory which pieces may write with a gradient.
    pub written: Vec<usize>,
}

pub struct Piece<'py> {
    /// The place of its first node in the whole.
    pub start: usize,
    /// The checkpointed parts that it belongs to, the outermost first.
    pub regions: Vec<Region>,
    /// Nothing but views, which torch makes.
    pub views: bool,
    pub module: Bound<'py, PyAny>,
    pub examples: Bound<'py, PyList>,
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
}

/// The nodes of a piece, by their places.
struct Part {
    range: Range<usize>,
    members: Vec<usize>,
    views: bool,
}

impl<'py> Piece<'py> {
    /// Writes down what is known of the sizes of values that other pieces give it.
    pub fn describe(&self, layouts: &FxHashMap<usize, Layout>) -> PyResult<()> {
        let py = self.module.py();
        for (node, value) in ordered(&self.module)?.iter().zip(&self.inputs) {
            if let Some(layout) = layouts.get(value) {
                let meta = node.getattr(intern!(py, "meta"))?;
                meta.set_item(intern!(py, "sizes"), noted(py, &layout.shape)?)?;
                meta.set_item(intern!(py, "strides"), noted(py, &layout.strides)?)?;
            }
        }
        Ok(())
    }
}

fn noted<'py>(py: Python<'py>, sizes: &[Sym]) -> PyResult<Bound<'py, PyTuple>> {
    let sizes = sizes.iter().map(|size| Bound::new(py, SizeObject(size.clone())));
    PyTuple::new(py, sizes.collect::<PyResult<Vec<_>>>()?)
}

/// What a node is to pieces that come behind its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An argument of the whole.
    Argument,
    /// A tensor: handed on.
    Tensor,
    /// A number, or a constant of the module: made again where it is needed.
    Plain,
    /// A group of tensors: its items are handed on.
    Group,
}

struct Cutter<'py> {
    py: Python<'py>,
    gm: Bound<'py, PyAny>,
    nodes: Vec<Node<'py>>,
    kinds: Vec<Kind>,
    places: FxHashMap<usize, usize>,
    /// Place of the value in the row of all values, by place of the node.
    values: FxHashMap<usize, usize>,
    examples: Bound<'py, PyAny>,
    /// The memory that the pieces so far may have written.
    written: FxHashSet<usize>,
}

/// Cuts in front of these nodes.
pub fn cut<'py>(gm: &Bound<'py, PyAny>, examples: &Bound<'py, PyAny>, at: &[usize]) -> PyResult<Cut<'py>> {
    let nodes = ordered(gm)?;
    Cutter::new(gm, examples, nodes)?.cut(at, false)
}

/// The same; views that others see are pieces of their own.
pub fn cut_with_views<'py>(gm: &Bound<'py, PyAny>, examples: &Bound<'py, PyAny>, at: &[usize]) -> PyResult<Cut<'py>> {
    let nodes = ordered(gm)?;
    Cutter::new(gm, examples, nodes)?.cut(at, true)
}

/// The nodes of the graph.
pub fn ordered<'py>(gm: &Bound<'py, PyAny>) -> PyResult<Vec<Node<'py>>> {
    let py = gm.py();
    gm.getattr(intern!(py, "graph"))?.getattr(intern!(py, "nodes"))?.try_iter()?.collect()
}

fn id(node: &Node<'_>) -> usize {
    node.as_ptr() as usize
}

impl<'py> Cutter<'py> {
    fn new(gm: &Bound<'py, PyAny>, examples: &Bound<'py, PyAny>, nodes: Vec<Node<'py>>) -> PyResult<Cutter<'py>> {
        let places = nodes.iter().enumerate().map(|(n, node)| (id(node), n)).collect();
        let (mut kinds, mut values) = (Vec::with_capacity(nodes.len()), FxHashMap::default());
        for (place, node) in nodes.iter().enumerate() {
            let kind = kind_of(node)?;
            if kind == Kind::Argument {
                values.insert(place, values.len());
            }
            kinds.push(kind);
        }
        Ok(Cutter {
            py: gm.py(),
            gm: gm.clone(),
            nodes,
            kinds,
            places,
            values,
            examples: examples.clone(),
            written: FxHashSet::default(),
        })
    }

    fn args_of(&self, place: usize) -> PyResult<Vec<usize>> {
        let inputs = self.nodes[place].getattr(intern!(self.py, "all_input_nodes"))?;
        inputs.try_iter()?.map(|node| Ok(self.places[&id(&node?)])).collect()
    }

    fn cut(mut self, at: &[usize], views: bool) -> PyResult<Cut<'py>> {
        let end = self.nodes.len() - 1;
        let first = self.kinds.iter().position(|kind| *kind != Kind::Argument).unwrap_or(0);
        let mut bounds: Vec<usize> = std::iter::once(first).chain(at.iter().copied().filter(|at| *at > first)).collect();
        bounds.push(end);
        bounds.dedup();
        let ranges: Vec<Range<usize>> = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
        let mut parts = self.parts(&ranges)?;
        if views {
            parts = self.with_views(parts, end)?;
        }
        let crossing = self.crossing(&parts, end)?;
        let (mut pieces, mut writes) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        for (part, crossing) in parts.iter().zip(&crossing) {
            pieces.push(self.piece(part, crossing)?);
            let written = self.written_by(&part.members)?;
            self.written.extend(&written);
            writes.push(written);
        }
        tell_of_later_writes(&self.gm, &pieces, &writes)?;
        let returned = self.nodes[end].getattr(intern!(self.py, "args"))?.cast_into::<PyTuple>()?.get_item(0)?;
        let result = self.tree(&returned)?;
        let written = self.written_arguments()?;
        Ok(Cut { pieces, values: self.values.len(), result, written })
    }

    fn written_by(&self, members: &[usize]) -> PyResult<FxHashSet<usize>> {
        let mut written = FxHashSet::default();
        for place in members {
            for arg in may_be_written(&self.nodes[*place])? {
                written.extend(self.memory_of(self.places[&id(&arg)])?);
            }
        }
        Ok(written)
    }

    fn written_arguments(&self) -> PyResult<Vec<usize>> {
        let mut found = Vec::new();
        for place in (0..self.nodes.len()).filter(|place| self.kinds[*place] == Kind::Argument) {
            let has_grad = example(&self.nodes[place])?.is_some_and(|example| requires_grad(&example).unwrap_or(false));
            if has_grad && self.memory_of(place)?.iter().any(|memory| self.written.contains(memory)) {
                found.push(self.values[&place]);
            }
        }
        Ok(found)
    }

    /// Where the tensors lie that a node stands for: a view lies where its base does.
    fn memory_of(&self, place: usize) -> PyResult<Vec<usize>> {
        example(&self.nodes[place])?.map_or(Ok(Vec::new()), |example| storages(&example))
    }

    /// The nodes of each piece in order. Items of a group go with the group.
    fn parts(&self, ranges: &[Range<usize>]) -> PyResult<Vec<Part>> {
        let mut home = vec![usize::MAX; self.nodes.len()];
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); ranges.len()];
        for (n, range) in ranges.iter().enumerate() {
            for place in range.clone() {
                if self.kinds[place] == Kind::Argument {
                    continue;
                }
                let of_group = self.group_of(place)?.map(|group| home[group]).filter(|home| *home != usize::MAX);
                home[place] = of_group.unwrap_or(n);
                members[home[place]].push(place);
            }
        }
        members.iter_mut().for_each(|list| list.sort_unstable());
        let part = |(range, members): (&Range<usize>, _)| Part { range: range.clone(), members, views: false };
        Ok(ranges.iter().zip(members).map(part).collect())
    }

    /// Takes views that others see out of the pieces, into pieces behind them. What a piece itself makes of a view it makes of one of its own.
    fn with_views(&self, parts: Vec<Part>, end: usize) -> PyResult<Vec<Part>> {
        let (_, wanted) = self.wanted(&parts, end)?;
        let views = Views::of(&self.nodes)?.leading_to(&wanted);
        let mut all = Vec::with_capacity(parts.len());
        for Part { range, members, .. } in parts {
            let (shown, rest): (Vec<usize>, Vec<usize>) = members.into_iter().partition(|place| views.contains(place));
            let (Some(first), Some(last)) = (shown.first().copied(), shown.last().copied()) else {
                all.push(Part { range, members: rest, views: false });
                continue;
            };
            let members = self.with_own_views(rest, &shown)?;
            if !members.is_empty() {
                all.push(Part { range, members, views: false });
            }
            all.push(Part { range: first..last + 1, members: shown, views: true });
        }
        Ok(all)
    }

    /// These nodes, and those of the views that they are made of.
    fn with_own_views(&self, mut members: Vec<usize>, views: &[usize]) -> PyResult<Vec<usize>> {
        let mut queue = members.clone();
        while let Some(place) = queue.pop() {
            for arg in self.args_of(place)? {
                if views.contains(&arg) && !members.contains(&arg) {
                    members.push(arg);
                    queue.push(arg);
                }
            }
        }
        members.sort_unstable();
        Ok(members)
    }

    /// The group that the node is an item of.
    fn group_of(&self, place: usize) -> PyResult<Option<usize>> {
        let py = self.py;
        let target = self.nodes[place].getattr(intern!(py, "target"))?;
        if !target.is(&py.import(intern!(py, "operator"))?.getattr(intern!(py, "getitem"))?) {
            return Ok(None);
        }
        Ok(self.args_of(place)?.first().copied().filter(|group| self.kinds[*group] == Kind::Group))
    }

    /// For each piece the tensors that others, or the caller, want of it.
    fn crossing(&mut self, parts: &[Part], end: usize) -> PyResult<Vec<Vec<usize>>> {
        let (home, wanted) = self.wanted(parts, end)?;
        let mut crossing = vec![Vec::new(); parts.len()];
        for place in wanted {
            crossing[home[place]].push(place);
            let next = self.values.len();
            self.values.insert(place, next);
        }
        Ok(crossing)
    }

    /// For each node its piece, the last of several; and the nodes that others, or the caller, want.
    fn wanted(&self, parts: &[Part], end: usize) -> PyResult<(Vec<usize>, Vec<usize>)> {
        let mut home = vec![usize::MAX; self.nodes.len()];
        parts.iter().enumerate().for_each(|(n, part)| part.members.iter().for_each(|place| home[*place] = n));
        let mut wanted: FxHashSet<usize> = self.args_of(end)?.into_iter().collect();
        for (n, part) in parts.iter().enumerate() {
            for arg in self.needs(&part.members)? {
                if home[arg] != n {
                    wanted.insert(arg);
                }
            }
        }
        for place in parts.iter().flat_map(|part| &part.members) {
            if is_result(&self.nodes[*place])? {
                wanted.insert(*place);
            }
        }
        let mut wanted: Vec<usize> = wanted.into_iter().filter(|place| home[*place] != usize::MAX).collect();
        wanted.sort_unstable();
        Ok((home, wanted))
    }

    /// The tensors that these nodes need, with those that the numbers they use are made of.
    fn needs(&self, members: &[usize]) -> PyResult<Vec<usize>> {
        let (mut needs, mut seen) = (Vec::new(), FxHashSet::default());
        let own: FxHashSet<usize> = members.iter().copied().collect();
        let mut queue: Vec<usize> = members.to_vec();
        while let Some(place) = queue.pop() {
            for arg in self.args_of(place)? {
                if own.contains(&arg) || !seen.insert(arg) {
                    continue;
                }
                match self.kinds[arg] {
                    Kind::Plain => queue.push(arg),
                    _ => needs.push(arg),
                }
            }
        }
        needs.sort_unstable();
        Ok(needs)
    }

    /// What a piece is given. All of them get the sizes that are variables, which shapes of any value may be made of.
    fn inputs_of(&self, members: &[usize]) -> PyResult<Vec<usize>> {
        let mut inputs = self.needs(members)?;
        let sym_int = Torch::get(self.py)?.sym_int.bind(self.py);
        let is_size = |node: &Node<'py>| -> PyResult<bool> {
            let is_captured = node.getattr(intern!(self.py, "meta"))?.contains(intern!(self.py, "size"))?;
            Ok(is_captured || example(node)?.is_some_and(|example| example.is_instance(sym_int).unwrap_or(false)))
        };
        for (place, node) in self.nodes.iter().enumerate() {
            if self.kinds[place] == Kind::Argument && !inputs.contains(&place) && is_size(node)? {
                inputs.push(place);
            }
        }
        inputs.sort_unstable();
        Ok(inputs)
    }

    fn piece(&self, part: &Part, crossing: &[usize]) -> PyResult<Piece<'py>> {
        let py = self.py;
        let Part { range, members, views } = part;
        let graph = py.import(intern!(py, "torch.fx"))?.getattr(intern!(py, "Graph"))?.call0()?;
        let map = PyDict::new(py);
        let (mut inputs, examples) = (Vec::new(), PyList::empty(py));
        for place in self.inputs_of(members)? {
            let node = &self.nodes[place];
            let made = graph.call_method1(intern!(py, "placeholder"), (node.getattr(intern!(py, "name"))?,))?;
            self.describe_input(place, &made, &examples)?;
            map.set_item(node, made)?;
            inputs.push(self.values[&place]);
        }
        match views {
            true => self.copy_views(&graph, &map, members)?,
            false => {
                Modes::at(self, range.start)?.enter(self, &graph, &map)?;
                for place in self.with_numbers(members)? {
                    self.copy(&graph, &map, place)?;
                }
                Modes::at(self, range.end)?.leave(self, &graph, &map)?;
            }
        }
        let outputs: Vec<Bound<'py, PyAny>> = crossing
            .iter()
            .map(|place| map.get_item(&self.nodes[*place]).map(|n| n.expect("it was copied")))
            .collect::<PyResult<_>>()?;
        graph.call_method1(intern!(py, "output"), (PyTuple::new(py, outputs)?,))?;
        let module = Bound::new(py, Recorded::part_of(&self.gm, graph.unbind()))?.into_any();
        Ok(Piece {
            start: range.start,
            regions: if *views { Vec::new() } else { self.regions_of(members)? },
            views: *views,
            module,
            examples,
            inputs,
            outputs: crossing.iter().map(|place| self.values[place]).collect(),
        })
    }

    /// Each view in the grad mode in which the program makes it.
    fn copy_views(&self, graph: &Bound<'py, PyAny>, map: &Bound<'py, PyDict>, members: &[usize]) -> PyResult<()> {
        let mut now = None;
        for place in self.with_numbers(members)? {
            let mode = Modes::at(self, place)?.grad;
            if let Some(mode) = mode.filter(|_| mode != now) {
                set_grad(graph, mode)?;
            }
            now = mode;
            self.copy(graph, map, place)?;
        }
        Modes { grad: now, autocast: Vec::new() }.leave(self, graph, map)
    }

    /// Those of the first member that belongs to any. One that goes on behind the graph is done again as a whole.
    fn regions_of(&self, members: &[usize]) -> PyResult<Vec<Region>> {
        let open = regions(&self.nodes[self.nodes.len() - 1])?;
        let mut found = Vec::new();
        for place in members {
            found = regions(&self.nodes[*place])?;
            if !found.is_empty() {
                break;
            }
        }
        if !found.is_empty() && !have_gradients(&self.nodes, 0)? {
            return Ok(Vec::new());
        }
        for region in found.iter_mut().filter(|region| open.iter().any(|open| open.id == region.id)) {
            region.early_stop = false;
        }
        Ok(found)
    }

    /// The members, and the numbers of other pieces that they use.
    fn with_numbers(&self, members: &[usize]) -> PyResult<Vec<usize>> {
        let mut all: FxHashSet<usize> = members.iter().copied().collect();
        let mut queue: Vec<usize> = members.to_vec();
        while let Some(place) = queue.pop() {
            for arg in self.args_of(place)? {
                if self.kinds[arg] == Kind::Plain && all.insert(arg) {
                    queue.push(arg);
                }
            }
        }
        // Regions of autocast are opened by `Modes`.
        let own: FxHashSet<usize> = members.iter().copied().collect();
        let mut all: Vec<usize> =
            all.into_iter().filter(|place| own.contains(place) || !is_call(&self.nodes[*place], "_enter_autocast")).collect();
        all.sort_unstable();
        Ok(all)
    }

    fn describe_input(&self, place: usize, made: &Node<'py>, examples: &Bound<'py, PyList>) -> PyResult<()> {
        let py = self.py;
        let node = &self.nodes[place];
        let meta = made.getattr(intern!(py, "meta"))?.cast_into::<PyDict>()?;
        meta.update(node.getattr(intern!(py, "meta"))?.cast::<PyDict>()?.as_mapping())?;
        if let Some(source) = node.getattr_opt(intern!(py, "_dynamo_source"))? {
            made.setattr(intern!(py, "_dynamo_source"), source)?;
        }
        let shown = example(node)?;
        let given = if self.kinds[place] == Kind::Argument { self.examples.get_item(self.values[&place]).ok() } else { None };
        let value = given.or_else(|| shown.clone());
        if self.kinds[place] != Kind::Argument {
            meta.set_item(intern!(py, "handed_on"), true)?;
        }
        // What was written in front of the piece, itself or through a view, may require grad since then.
        let is_written = self.memory_of(place)?.iter().any(|memory| self.written.contains(memory));
        if is_written || !meta.contains(intern!(py, "requires_grad"))? {
            let now = if is_written { &shown } else { &value };
            let requires = now.as_ref().is_some_and(|value| requires_grad(value).unwrap_or(false));
            meta.set_item(intern!(py, "requires_grad"), requires)?;
        }
        examples.append(value)
    }

    fn copy(&self, graph: &Bound<'py, PyAny>, map: &Bound<'py, PyDict>, place: usize) -> PyResult<()> {
        let py = self.py;
        let known = map.clone().unbind();
        let look_up = PyCFunction::new_closure(py, None, None, move |args, _| -> PyResult<Py<PyAny>> {
            let node = args.get_item(0)?;
            Ok(known.bind(args.py()).get_item(&node)?.unwrap_or(node).unbind())
        })?;
        let made = graph.call_method1(intern!(py, "node_copy"), (&self.nodes[place], look_up))?;
        map.set_item(&self.nodes[place], made)
    }

    fn tree(&self, object: &Bound<'py, PyAny>) -> PyResult<Tree> {
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return Ok(Tree::Tuple(tuple.iter().map(|item| self.tree(&item)).collect::<PyResult<_>>()?));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Tree::List(list.iter().map(|item| self.tree(&item)).collect::<PyResult<_>>()?));
        }
        match self.places.get(&id(object)) {
            Some(place) => Ok(Tree::Value(self.values[place])),
            None => Ok(Tree::Object(object.clone().unbind())),
        }
    }
}

fn kind_of(node: &Node<'_>) -> PyResult<Kind> {
    let py = node.py();
    match node.getattr(intern!(py, "op"))?.extract::<&str>()? {
        "placeholder" => return Ok(Kind::Argument),
        "get_attr" => return Ok(Kind::Plain),
        _ => {}
    }
    let Some(example) = example(node)? else { return Ok(Kind::Plain) };
    if example.is_instance(Torch::get(py)?.tensor.bind(py))? {
        return Ok(Kind::Tensor);
    }
    // A shape is numbers.
    let is_shape = example.get_type().is(&py.import(intern!(py, "torch"))?.getattr(intern!(py, "Size"))?);
    let is_group = !is_shape && (example.is_instance_of::<PyTuple>() || example.is_instance_of::<PyList>());
    Ok(if is_group { Kind::Group } else { Kind::Plain })
}

fn is_call(node: &Node<'_>, name: &str) -> bool {
    let py = node.py();
    let target = node.getattr(intern!(py, "target")).and_then(|t| t.getattr(intern!(py, "__name__")));
    target.is_ok_and(|found| found.extract::<&str>().is_ok_and(|found| found == name))
}

/// The grad mode and the regions of autocast at a place of the graph.
struct Modes {
    grad: Option<bool>,
    /// The nodes that opened the regions, the outermost first.
    autocast: Vec<usize>,
}

impl Modes {
    fn at(cutter: &Cutter<'_>, place: usize) -> PyResult<Modes> {
        let py = cutter.py;
        let mut modes = Modes { grad: None, autocast: Vec::new() };
        for (n, node) in cutter.nodes[..place].iter().enumerate() {
            if is_call(node, "_set_grad_enabled") {
                let args = node.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
                modes.grad = Some(args.get_item(0)?.is_truthy()?);
            } else if is_call(node, "_enter_autocast") {
                modes.autocast.push(n);
            } else if is_call(node, "_exit_autocast") {
                modes.autocast.pop();
            }
        }
        Ok(modes)
    }

    fn enter<'py>(&self, cutter: &Cutter<'py>, graph: &Bound<'py, PyAny>, map: &Bound<'py, PyDict>) -> PyResult<()> {
        if let Some(mode) = self.grad {
            set_grad(graph, mode)?;
        }
        self.autocast.iter().try_for_each(|place| cutter.copy(graph, map, *place))
    }

    /// Back to what was around the whole.
    fn leave<'py>(&self, cutter: &Cutter<'py>, graph: &Bound<'py, PyAny>, map: &Bound<'py, PyDict>) -> PyResult<()> {
        let py = cutter.py;
        for place in self.autocast.iter().rev() {
            let exit = py.import(intern!(py, "torch.amp"))?.getattr(intern!(py, "_exit_autocast"))?;
            let opened = map.get_item(&cutter.nodes[*place])?;
            graph.call_method1(intern!(py, "call_function"), (exit, (opened,)))?;
        }
        if self.grad.is_some() {
            let around = py.import(intern!(py, "torch"))?.call_method0(intern!(py, "is_grad_enabled"))?.is_truthy()?;
            set_grad(graph, around)?;
        }
        Ok(())
    }
}

fn set_grad(graph: &Bound<'_, PyAny>, mode: bool) -> PyResult<()> {
    let py = graph.py();
    let function = py.import(intern!(py, "torch._C"))?.getattr(intern!(py, "_set_grad_enabled"))?;
    graph.call_method1(intern!(py, "call_function"), (function, (mode,))).map(drop)
}
