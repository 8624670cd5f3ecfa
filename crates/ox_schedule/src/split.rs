//! Reductions with too few rows for the threads, cut into two: many partial results, then one over them.

use crate::Target;
use crate::deviations::{self, deviations};
use crate::layout::resolve;
use crate::prepare::Prepared;
use crate::usual::Usual;
use ox_ir::graph::{Dims, Node, Shape, contiguous_strides};
use ox_ir::{Graph, NodeId, Op, Sym};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// Below so many elements a second kernel costs more than it saves.
const WORTH_SPLITTING: i64 = 1 << 16;
/// Blocks that keep a GPU busy, with as many threads as they can have.
const BLOCKS: i64 = 264;
/// Of columns: a block has several neighbours for each of its threads, and fewer threads than it can have.
const BLOCKS_OF_COLUMNS: i64 = 6 * BLOCKS;
/// Columns that a block of a GPU has side by side.
const COLUMNS: i64 = 32;
/// Elements of a partial result, along a row and down a column: fewer do not outweigh what it costs to join them.
const SHORTEST: (i64, i64) = (2048, 128);

/// Into which parts a reduction is cut: the dimensions that stay as they are in the first half, and one that is cut in so many. If these are not
/// equal, the last ones are filled up with what changes no result.
struct Cut {
    whole: Dims,
    cut: Option<(usize, i64)>,
    /// These follow the one that is cut in memory: they become a part of it first.
    joined: Dims,
}

/// A reduction that was cut.
pub struct Halves {
    /// What is reduced, and the same with dimensions of the parts, between which it may have been filled up.
    pub whole: NodeId,
    pub parts: NodeId,
    /// The dimension that is cut: it is two of the parts.
    pub cut: Option<usize>,
    /// The results of the parts, and what was made of those.
    pub first: NodeId,
    pub second: NodeId,
}

pub fn split_reductions(prepared: Prepared, target: Target, usual: &Usual) -> Prepared {
    let empty = Graph { nodes: Vec::with_capacity(prepared.graph.nodes.len()), ..prepared.graph.clone() };
    let mut out = Prepared::empty(empty);
    let mut renamed: Vec<NodeId> = Vec::with_capacity(prepared.graph.nodes.len());
    let reads = Reads { prepared: &prepared, usual, known: RefCell::default() };
    let mut halves: FxHashMap<NodeId, Halves> = FxHashMap::default();
    for id in prepared.graph.ids() {
        let mut node = prepared.graph.node(id).clone();
        node.args.iter_mut().for_each(|a| *a = renamed[a.index()]);
        let strides = prepared.strides(id);
        // A CPU has few threads, and parts that are long: its sums stay as they are spelt.
        let found = deviations(&prepared.graph, id).filter(|_| target == Target::Gpu);
        let found = found.filter(|found| prepared.strides(found.sum) == strides);
        let joint = found.and_then(|found| Some((halves.get(&found.sum)?, renamed[found.mean.index()])));
        let made = match (joint, cut(&reads, id, target)) {
            (Some((sum, mean)), _) => deviations::push(&mut out, &node, sum, mean, strides),
            (None, Some(cut)) => {
                let (made, cut) = push_split(&mut out, node, cut, strides);
                halves.insert(id, cut);
                made
            }
            (None, None) => out.push(node, strides),
        };
        renamed.push(made);
    }
    out.graph.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
    out.graph.mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
    out
}

fn cut(reads: &Reads<'_>, id: NodeId, target: Target) -> Option<Cut> {
    let graph = &reads.prepared.graph;
    let node = graph.node(id);
    let Op::Reduce { op, dims } = &node.op else { return None };
    let shape = &graph.ty(node.args[0]).shape;
    let usual = reads.usual;
    let (rows, all) = (usual.value(&node.ty.numel()), usual.value(&shape.iter().product()));
    if op.is_arg() || all < WORTH_SPLITTING {
        return None;
    }
    match target {
        Target::Cpu if rows >= 16 => None,
        // Parts that must be filled up cost two threads more than they bring.
        Target::Cpu => {
            let single = |(dim, parts)| Cut { whole: Dims::new(), cut: Some((dim, parts)), joined: Dims::new() };
            dims.iter().find_map(|d| Some((*d, divisor(shape[*d].as_const()?, 8..=128)?))).map(single)
        }
        Target::Gpu => {
            let strides = reads.strides(node.args[0], DEEPEST);
            let run = run(shape, &strides, dims, usual);
            let along = run >= COLUMNS;
            // A short run is so many columns more, which are joined with the parts.
            let columns = if along { rows } else { rows * run };
            let blocks = if along { rows } else { (columns + COLUMNS - 1) / COLUMNS };
            let shortest = if along { SHORTEST.0 } else { SHORTEST.1 };
            let enough = if along { 2 * BLOCKS } else { BLOCKS_OF_COLUMNS };
            let most = (all / columns.max(1) / shortest).min(enough / blocks.max(1));
            let most = most * columns / rows.max(1);
            match dims.iter().all(|dim| shape[*dim].as_const().is_some()) {
                _ if blocks >= BLOCKS || most < 2 => None,
                true => many(shape, dims, most),
                false => longest(shape, &strides, dims, most, usual),
            }
        }
    }
}

/// How many of the elements that are reduced lie side by side; 1 if what stays does. As many as there can be where nothing is read.
fn run(shape: &Shape, strides: &Shape, dims: &Dims, usual: &Usual) -> i64 {
    let next = |step: &Sym| (0..shape.len()).rev().find(|d| strides[*d] == *step && !shape[*d].is_one());
    let (mut step, mut at) = (Sym::ONE, next(&Sym::ONE));
    if at.is_none() {
        return i64::MAX;
    }
    while let Some(dim) = at.filter(|dim| dims.contains(dim)) {
        step = &step * &shape[dim];
        at = next(&step);
    }
    usual.value(&step)
}

/// How many operations are looked through for the memory that a value is computed from.
const DEEPEST: u32 = 32;

/// How values that are computed lie in the memory that they are read from.
struct Reads<'p> {
    prepared: &'p Prepared,
    usual: &'p Usual,
    /// Each is found once: what is read in several ways would be walked as often as there are paths to it.
    known: RefCell<FxHashMap<NodeId, Shape>>,
}

impl Reads<'_> {
    /// The strides with which a value is read where it is computed from memory of its own size; otherwise those that it would be stored with.
    fn strides(&self, id: NodeId, depth: u32) -> Shape {
        if let Some(known) = self.known.borrow().get(&id) {
            return known.clone();
        }
        let found = if depth == 0 { None } else { self.read(id, depth) };
        let strides = found.unwrap_or_else(|| self.prepared.strides(id));
        self.known.borrow_mut().insert(id, strides.clone());
        strides
    }

    fn read(&self, id: NodeId, depth: u32) -> Option<Shape> {
        let graph = &self.prepared.graph;
        let node = graph.node(id);
        let base = |base: NodeId| self.strides(base, depth - 1);
        let is_not_broadcast =
            |strides: &Shape| strides.iter().zip(&node.ty.shape).all(|(step, size)| size.is_one() || !step.is_zero());
        let through = |id: NodeId| resolve(graph, id, &base).map(|strided| strided.strides).filter(is_not_broadcast);
        match &node.op {
            Op::Point(_) | Op::Cast => {
                node.args.iter().filter(|arg| graph.ty(**arg).shape == node.ty.shape).find_map(|arg| through(*arg))
            }
            op if op.is_view() => through(id),
            _ => None,
        }
    }
}

/// Where sizes vary the longest is cut: there are no more parts at any size. Dimensions that lie as one are one.
fn longest(shape: &Shape, strides: &Shape, dims: &Dims, most: i64, usual: &Usual) -> Option<Cut> {
    let is_real = |d: &usize| !shape[*d].is_one() && !strides[*d].is_zero();
    let next = |dim: usize| dims.iter().copied().filter(is_real).find(|d| strides[dim] == &strides[*d] * &shape[*d]);
    let joined = |dim: usize| -> Dims { std::iter::successors(next(dim), |d| next(*d)).take(dims.len() - 1).collect() };
    let size = |dim: usize| usual.value(&joined(dim).iter().fold(shape[dim].clone(), |all, d| &all * &shape[*d]));
    let longest = dims.iter().copied().max_by_key(|dim| size(*dim))?;
    let parts = most.min(size(longest));
    (parts >= 2).then(|| Cut { whole: Dims::new(), cut: Some((longest, parts)), joined: joined(longest) })
}

/// The outer dimensions as long as they make no more than `most` parts, and what then fits of the next.
fn many(shape: &Shape, dims: &Dims, most: i64) -> Option<Cut> {
    let (mut found, mut left) = (Cut { whole: Dims::new(), cut: None, joined: Dims::new() }, most);
    for (n, dim) in dims.iter().enumerate() {
        let size = shape[*dim].as_const()?;
        if size <= left && n + 1 < dims.len() {
            found.whole.push(*dim);
            left /= size.max(1);
            continue;
        }
        let even = divisor(size, 2..=left.min(size));
        found.cut = even.or(Some(left.min(size)).filter(|parts| *parts >= 2)).map(|parts| (*dim, parts));
        break;
    }
    (found.cut.is_some() || found.whole.iter().any(|d| !shape[*d].is_one())).then_some(found)
}

/// The largest useful number of equal parts.
fn divisor(n: i64, parts: std::ops::RangeInclusive<i64>) -> Option<i64> {
    parts.rev().find(|k| n % k == 0)
}

fn push_split(out: &mut Prepared, node: Node, Cut { whole, cut, joined }: Cut, strides: Shape) -> (NodeId, Halves) {
    if let Some((dim, parts)) = cut.filter(|_| !joined.is_empty()) {
        let (ty, location) = (node.ty.clone(), node.location);
        let (node, single, dim) = join(out, node, &strides, dim, &joined);
        let (reduced, halves) = push_split(out, node, Cut { whole, cut: Some((dim, parts)), joined: Dims::new() }, single);
        let made = out.push(Node { op: Op::Reshape, args: [reduced].into_iter().collect(), ty, location }, strides);
        return (made, halves);
    }
    let Op::Reduce { op, dims } = &node.op else { unreachable!("only reductions are cut") };
    let given = out.graph.ty(node.args[0]).clone();
    // Behind the dimension that is cut there is one more.
    let moved = |d: usize| d + usize::from(cut.is_some_and(|(dim, _)| d >= dim));
    let (mut shape, mut filled) = (given.shape.clone(), given.shape.clone());
    if let Some((dim, parts)) = cut {
        let (parts, size) = (Sym::from(parts), &given.shape[dim]);
        let length = (&(size + &parts) - &Sym::ONE).div(&parts);
        filled[dim] = if &size.div(&parts) * &parts == *size { size.clone() } else { &length * &parts };
        shape[dim] = parts;
        shape.insert(dim + 1, length);
    }
    let inner: Dims = dims.iter().filter(|d| !whole.contains(d)).map(|d| moved(*d)).collect();
    let outer: Dims = whole.iter().map(|d| moved(*d)).chain(cut.map(|(dim, _)| dim)).collect();
    let ones = |shape: &Shape, dims: &Dims| -> Shape {
        shape.iter().enumerate().map(|(d, size)| if dims.contains(&d) { Sym::ONE } else { size.clone() }).collect()
    };
    let (partial, single) = (ones(&shape, &inner), ones(&ones(&shape, &inner), &outer));
    let location = node.location;
    let mut push = |op: Op, arg: NodeId, ty: ox_ir::TensorType, strides: Shape| {
        out.push(Node { op, args: [arg].into_iter().collect(), ty, location }, strides)
    };
    // The memory is that of the second reduction: it lies as the result is to lie.
    let mut wanted = strides.clone();
    if let Some((dim, _)) = cut {
        wanted.insert(dim + 1, strides[dim].clone());
    }
    let mut whole = node.args[0];
    if filled != given.shape {
        let fill = Op::Pad { low: given.shape.iter().map(|_| Sym::ZERO).collect(), value: op.neutral(given.dtype) };
        let dense = contiguous_strides(&filled);
        whole = push(fill, whole, given.with_shape(filled), dense);
    }
    let dense = contiguous_strides(&shape);
    let parts = push(Op::Reshape, whole, given.with_shape(shape), dense);
    let dense = contiguous_strides(&partial);
    let first = push(Op::Reduce { op: *op, dims: inner }, parts, node.ty.with_shape(partial), dense);
    let second = push(Op::Reduce { op: *op, dims: sorted(outer) }, first, node.ty.with_shape(single), wanted);
    (
        push(Op::Reshape, second, node.ty.clone(), strides),
        Halves { whole: node.args[0], parts, cut: cut.map(|(dim, _)| dim), first, second },
    )
}

/// The same reduction with `joined` as a part of `dim`, the strides of its result, and where that dimension stands.
fn join(out: &mut Prepared, node: Node, strides: &Shape, dim: usize, joined: &Dims) -> (Node, Shape, usize) {
    let Op::Reduce { op, dims } = node.op else { unreachable!("only reductions are cut") };
    let left: Dims = (0..strides.len()).filter(|d| !joined.contains(d)).collect();
    let place = |d: usize| left.iter().position(|other| *other == d);
    let at = place(dim).unwrap_or(0);
    let mut order = left.clone();
    order.insert_many(at + 1, joined.iter().copied());
    let of = |all: &Shape, dims: &Dims| -> Shape { dims.iter().map(|d| all[*d].clone()).collect() };
    let given = out.graph.ty(node.args[0]).clone();
    let (turned, mut shape) = (of(&given.shape, &order), of(&given.shape, &left));
    shape[at] = turned[at..=at + joined.len()].iter().product();
    let mut push = |op: Op, arg: NodeId, shape: Shape| {
        let (ty, dense) = (given.with_shape(shape.clone()), contiguous_strides(&shape));
        out.push(Node { op, args: [arg].into_iter().collect(), ty, location: node.location }, dense)
    };
    let mut whole = node.args[0];
    if order != sorted(order.clone()) {
        whole = push(Op::Permute(order), whole, turned);
    }
    whole = push(Op::Reshape, whole, shape);
    let dims = dims.iter().filter_map(|d| place(*d)).collect();
    let ty = node.ty.with_shape(of(&node.ty.shape, &left));
    (
        Node { op: Op::Reduce { op, dims }, args: [whole].into_iter().collect(), ty, location: node.location },
        of(strides, &left),
        at,
    )
}

fn sorted(mut dims: Dims) -> Dims {
    dims.sort_unstable();
    dims
}
