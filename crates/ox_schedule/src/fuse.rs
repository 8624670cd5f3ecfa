//! Which roots become one kernel.
//!
//! Every root that a kernel computes starts as a group of its own. Pairs of groups wait in a priority queue, priced by the bytes
//! that joining them saves; a pair is joined if the groups' spaces agree, no path leads from one to the other around them, and the
//! emitter finds every member where it is needed. An order in which the units could run is kept all the while, so that a path is
//! looked for only between the two.

use crate::Target;
use crate::cost::{bytes, estimate, numel};
use crate::emit::{Context, emit, has_shares};
use crate::roots::{Roots, needs_own_loop};
use crate::space::{Level, Space};
use indexmap::IndexSet;
use ox_ir::graph::{Node, ReduceOp, Shape};
use ox_ir::{Graph, NodeId, Op, Sym};
use rustc_hash::FxHashMap;
use std::collections::BinaryHeap;

const MOST_MEMBERS: usize = 32;
const MOST_PARAMS: usize = 32;
const MOST_INSTRUCTIONS: usize = 400;
/// How many groups a search for a path around a pair may visit before the pair is left alone.
const MOST_VISITED: usize = 2000;
/// A kernel that stores rows needs at least so many of them to keep the threads busy.
const FEWEST_ROWS: i64 = 16;
const LARGE: i64 = 1 << 15;
/// A GPU is done with so many elements before the next kernel can be launched.
const SMALL: i64 = 1 << 17;

/// One step of the schedule to be: nodes that one kernel computes, or one library call.
#[derive(Clone, Debug)]
pub struct Unit {
    pub members: Vec<NodeId>,
    pub space: Space,
    pub kind: UnitKind,
    /// Memory that the unit reads: roots, calls, inputs.
    reads: IndexSet<NodeId>,
}

impl Unit {
    pub fn reads(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.reads.iter().copied()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitKind {
    /// Pointwise and row work that may be fused.
    Loop,
    Scan,
    Scatter,
    /// A concatenation of many parts.
    Shares,
    Call,
}

pub struct Fusion<'a> {
    ctx: &'a Context<'a>,
    roots: &'a Roots,
    target: Target,
    units: Vec<Option<Unit>>,
    /// The unit that now holds what unit k held.
    parent: Vec<usize>,
    unit_of: FxHashMap<NodeId, usize>,
    readers: FxHashMap<NodeId, IndexSet<usize>>,
    /// Units in an order in which they could run, with holes where units were joined; and where each stands in it.
    order: Vec<Option<usize>>,
    rank: Vec<usize>,
    /// Calls with effects, in the order in which they must run.
    effects: IndexSet<usize>,
    queue: BinaryHeap<(i64, std::cmp::Reverse<(usize, usize)>)>,
}

/// The units in an order in which they can run.
pub fn fuse(ctx: &Context, roots: &Roots, target: Target) -> Vec<Unit> {
    let mut fusion = Fusion::new(ctx, roots, target);
    fusion.enqueue_all();
    while let Some((_, std::cmp::Reverse((a, b)))) = fusion.queue.pop() {
        let (a, b) = (fusion.find(a), fusion.find(b));
        if a != b && fusion.try_join(a, b) {
            let joined = fusion.find(a);
            fusion.enqueue_neighbours(joined);
        }
    }
    if target == Target::Gpu {
        fusion.join_small();
        fusion.delay_copies();
    }
    fusion.into_order()
}

impl<'a> Fusion<'a> {
    fn new(ctx: &'a Context<'a>, roots: &'a Roots, target: Target) -> Fusion<'a> {
        let mut fusion = Fusion {
            ctx,
            roots,
            target,
            units: Vec::new(),
            parent: Vec::new(),
            unit_of: FxHashMap::default(),
            readers: FxHashMap::default(),
            order: Vec::new(),
            rank: Vec::new(),
            effects: IndexSet::new(),
            queue: BinaryHeap::new(),
        };
        for id in ctx.graph.ids() {
            if let Some(unit) = fusion.unit_for(id) {
                let number = fusion.units.len();
                for read in &unit.reads {
                    fusion.readers.entry(*read).or_default().insert(number);
                }
                if matches!(&ctx.graph.node(id).op, Op::Library(l) if l.effect) {
                    fusion.effects.insert(number);
                }
                fusion.unit_of.insert(id, number);
                fusion.units.push(Some(unit));
                fusion.parent.push(number);
                fusion.order.push(Some(number));
                fusion.rank.push(number);
            }
        }
        fusion
    }

    fn unit_for(&self, id: NodeId) -> Option<Unit> {
        let graph = self.ctx.graph;
        let node = graph.node(id);
        let kind = match &node.op {
            Op::Input(_) | Op::Project(_) => return None,
            op if op.is_call() => UnitKind::Call,
            _ if !self.roots.is_root[id.index()] => return None,
            Op::Scan { .. } => UnitKind::Scan,
            Op::IndexPut { .. } => UnitKind::Scatter,
            _ if has_shares(graph, node, self.roots.required[id.index()]) => UnitKind::Shares,
            _ => UnitKind::Loop,
        };
        let space = match &node.op {
            Op::Reduce { dims, .. } => Space::new(&graph.ty(node.args[0]).shape, dims),
            Op::Scan { dim, .. } => Space::new(&node.ty.shape, &[*dim]),
            _ => Space::new(&node.ty.shape, &[]),
        };
        let mut reads = IndexSet::new();
        node.args.iter().for_each(|a| collect_reads(graph, self.roots, *a, &mut reads));
        Some(Unit { members: vec![id], space, kind, reads })
    }

    fn find(&mut self, mut k: usize) -> usize {
        while self.parent[k] != k {
            self.parent[k] = self.parent[self.parent[k]];
            k = self.parent[k];
        }
        k
    }

    fn unit(&self, k: usize) -> &Unit {
        self.units[k].as_ref().expect("a joined unit is reached through find")
    }

    /// The unit that computes what `read` holds; None for an input.
    fn producer(&mut self, read: NodeId) -> Option<usize> {
        let graph = self.ctx.graph;
        let id = if matches!(graph.node(read).op, Op::Project(_)) { graph.node(read).args[0] } else { read };
        let k = *self.unit_of.get(&id)?;
        Some(self.find(k))
    }

    fn enqueue_all(&mut self) {
        for k in 0..self.units.len() {
            self.enqueue_neighbours(k);
        }
    }

    /// Offers the unit's joins with the units it reads from, those that read from it, and those that read what it reads.
    fn enqueue_neighbours(&mut self, k: usize) {
        if !matches!(self.unit(k).kind, UnitKind::Loop | UnitKind::Scan) {
            return;
        }
        let (reads, members) = (self.unit(k).reads.clone(), self.unit(k).members.clone());
        let mut pairs: IndexSet<usize> = IndexSet::new();
        for read in &reads {
            pairs.extend(self.producer(*read));
            pairs.extend(self.near_readers(*read, k));
        }
        for member in &members {
            pairs.extend(self.near_readers(*member, k));
        }
        for other in pairs {
            let other = self.find(other);
            if other != k && matches!(self.unit(other).kind, UnitKind::Loop | UnitKind::Scan) {
                let (a, b) = (k.min(other), k.max(other));
                let gain = self.gain(a, b);
                if gain > 0 {
                    self.queue.push((gain, std::cmp::Reverse((a, b))));
                }
            }
        }
    }

    /// What the two would be.
    fn joined_kind(&self, a: &Unit, b: &Unit) -> Option<UnitKind> {
        match (a.kind, b.kind) {
            (UnitKind::Loop, UnitKind::Loop) => Some(UnitKind::Loop),
            (UnitKind::Scan, UnitKind::Loop) => self.may_follow(a, b).then_some(UnitKind::Scan),
            (UnitKind::Loop, UnitKind::Scan) => self.may_follow(b, a).then_some(UnitKind::Scan),
            _ => None,
        }
    }

    /// Whether what a scan gives may be gone on with in its own loop, as is done with a sum in f64 of what is f32. A scan that goes one by one would
    /// take the lanes from what is joined to it: another type is all that it may become.
    fn may_follow(&self, scan: &Unit, next: &Unit) -> bool {
        let graph = self.ctx.graph;
        let reads = scan.members.iter().any(|id| next.reads.contains(id));
        let is_widened = |id: NodeId| {
            let node = graph.node(id);
            node.op == Op::Cast && node.ty.dtype.is_roomier_than(graph.ty(node.args[0]).dtype)
        };
        let goes_one_by_one = |id: &NodeId| match graph.node(*id) {
            Node { op: Op::Scan { op, .. }, args, ty, .. } if ty.dtype.is_float() => match op {
                ReduceOp::Max | ReduceOp::Min => false,
                ReduceOp::Sum => args.len() > 1 || !is_widened(args[0]),
                _ => true,
            },
            _ => false,
        };
        let is_cast = |id: &NodeId| graph.node(*id).op == Op::Cast;
        let is_fast = next.members.iter().all(is_cast) || !scan.members.iter().any(goes_one_by_one);
        self.target == Target::Cpu && reads && is_fast && !next.space.has_reduction()
    }

    /// The readers of a node that stand next to unit `k` among all its readers; a weight that all layers read does not pair them all.
    fn near_readers(&mut self, read: NodeId, k: usize) -> Vec<usize> {
        let Some(readers) = self.readers.get(&read) else { return Vec::new() };
        if readers.len() <= 8 {
            return readers.iter().copied().collect();
        }
        let at = readers.get_index_of(&k).unwrap_or(0);
        readers.iter().skip(at.saturating_sub(2)).take(5).copied().collect()
    }

    /// Bytes that need not be moved if the two are one.
    fn gain(&self, a: usize, b: usize) -> i64 {
        let graph = self.ctx.graph;
        let (a, b) = (self.unit(a), self.unit(b));
        let passed = |from: &Unit, to: &Unit| -> i64 {
            from.members.iter().filter(|m| to.reads.contains(*m)).map(|m| bytes(graph.ty(*m)).saturating_mul(2)).sum()
        };
        // That two read one number is no reason: an optimizer's learning rate would tie all of its parameters together.
        let is_many = |r: &&NodeId| numel(graph.ty(**r)) > 1;
        let shared: i64 = a.reads.iter().filter(|r| b.reads.contains(*r)).filter(is_many).map(|r| bytes(graph.ty(*r))).sum();
        passed(a, b) + passed(b, a) + shared
    }

    fn try_join(&mut self, a: usize, b: usize) -> bool {
        let Some(joined) = self.joined(a, b) else { return false };
        let (first, second) = if self.rank[a] < self.rank[b] { (a, b) } else { (b, a) };
        let Some(behind) = self.behind(first, second) else { return false };
        let stored = |_: NodeId| true;
        match emit(self.ctx, &joined.members, &joined.space, &stored, false) {
            Ok(e) if self.has_room(a, b, &joined, e.params.len()) && e.kernel.insts.len() <= MOST_INSTRUCTIONS => {
                self.reorder(first, second, &behind, a);
                self.join(a, b, joined);
                true
            }
            _ => false,
        }
    }

    /// An expression that is large by itself may have more parameters; what reads nothing else does not add to them.
    fn has_room(&self, a: usize, b: usize, joined: &Unit, params: usize) -> bool {
        let alone = self.unit(a).reads.len().max(self.unit(b).reads.len());
        params <= MOST_PARAMS || joined.reads.len() <= alone
    }

    /// The unit that the two would make.
    fn joined(&self, a: usize, b: usize) -> Option<Unit> {
        let (a, b) = (self.unit(a), self.unit(b));
        if a.members.len() + b.members.len() > MOST_MEMBERS {
            return None;
        }
        let kind = self.joined_kind(a, b)?;
        let space = self.common_space(a, b)?;
        // What a scan runs along stays one axis.
        if kind == UnitKind::Scan && space.axes.iter().filter(|axis| axis.reduced).count() > 1 {
            return None;
        }
        let mut members: Vec<NodeId> = a.members.iter().chain(&b.members).copied().collect();
        members.sort_unstable();
        let reads: IndexSet<NodeId> = a.reads.union(&b.reads).filter(|r| !members.contains(r)).copied().collect();
        Some(Unit { members, space, kind, reads })
    }

    fn common_space(&self, a: &Unit, b: &Unit) -> Option<Space> {
        let (host, guest) = if a.space.has_reduction() || !b.space.has_reduction() { (a, b) } else { (b, a) };
        if guest.space.has_reduction() {
            return host.space.unified(&guest.space);
        }
        let shape: Shape = guest.space.axes.iter().map(|x| x.extent.clone()).collect();
        let level = host.space.level_of(&shape)?;
        if level == Level::Full && starves_threads(&host.space) {
            return None;
        }
        let mut space = host.space.refined(&shape, level)?;
        for id in host.members.iter().chain(&guest.members) {
            let shape = &self.ctx.graph.ty(*id).shape;
            let is_reduction = matches!(self.ctx.graph.node(*id).op, Op::Reduce { .. });
            let level = if is_reduction { Level::Row } else { space.level_of(shape)? };
            space = space.refined(shape, level)?;
        }
        Some(space)
    }

    /// The units before `second` that need `first`; None if one of them is needed by `second`, so that the two cannot be one.
    fn behind(&mut self, first: usize, second: usize) -> Option<IndexSet<usize>> {
        let mut stack = self.successors(first);
        stack.retain(|k| *k != second);
        let mut behind = IndexSet::new();
        while let Some(k) = stack.pop() {
            if k == second || behind.len() > MOST_VISITED {
                return None;
            }
            if self.rank[k] < self.rank[second] && behind.insert(k) {
                stack.extend(self.successors(k));
            }
        }
        Some(behind)
    }

    /// Puts the joined unit behind all that it may need and in front of what needs it; the order stays one that can run.
    fn reorder(&mut self, first: usize, second: usize, behind: &IndexSet<usize>, joined: usize) {
        let (from, to) = (self.rank[first], self.rank[second]);
        let between: Vec<usize> = self.order[from + 1..to].iter().flatten().copied().collect();
        let (after, before): (Vec<usize>, Vec<usize>) = between.into_iter().partition(|k| behind.contains(k));
        let window: Vec<usize> = before.into_iter().chain([joined]).chain(after).collect();
        self.order[from..=to].fill(None);
        for (at, k) in (from..).zip(window) {
            self.order[at] = Some(k);
            self.rank[k] = at;
        }
    }

    fn successors(&mut self, k: usize) -> Vec<usize> {
        let members = self.unit(k).members.clone();
        let mut out = IndexSet::new();
        for m in members {
            let mut results = vec![m];
            if self.unit(k).kind == UnitKind::Call {
                results.extend(self.projects(m));
            }
            for r in results {
                let readers: Vec<usize> = self.readers.get(&r).map(|s| s.iter().copied().collect()).unwrap_or_default();
                out.extend(readers.into_iter().map(|x| self.find(x)));
            }
        }
        let effect = self.effects.get_index_of(&k).and_then(|at| self.effects.get_index(at + 1));
        out.extend(effect);
        out.shift_remove(&k);
        out.into_iter().collect()
    }

    fn projects(&self, call: NodeId) -> Vec<NodeId> {
        let graph = self.ctx.graph;
        let after = (call.0 + 1..graph.nodes.len() as u32).map(NodeId);
        after.take_while(|id| matches!(graph.node(*id).op, Op::Project(_)) && graph.node(*id).args[0] == call).collect()
    }

    fn join(&mut self, a: usize, b: usize, joined: Unit) {
        for read in self.unit(b).reads.clone() {
            let readers = self.readers.entry(read).or_default();
            readers.shift_remove(&b);
            readers.insert(a);
        }
        self.units[b] = None;
        self.units[a] = Some(joined);
        self.parent[b] = a;
    }

    /// Small kernels over one space that do not need one another: a launch costs more than what they do.
    fn join_small(&mut self) {
        let mut last: FxHashMap<Vec<(Sym, bool)>, usize> = FxHashMap::default();
        for k in self.order.clone().into_iter().flatten() {
            let unit = self.unit(k);
            if unit.kind != UnitKind::Loop || estimate(&unit.space.numel(Level::Full)) > SMALL {
                continue;
            }
            let space = unit.space.axes.iter().map(|axis| (axis.extent.clone(), axis.reduced)).collect();
            let before = last.get(&space).copied();
            let joined = before.is_some_and(|before| self.try_join(before, k));
            last.insert(space, if joined { before.unwrap_or(k) } else { k });
        }
    }

    /// What is made of inputs alone waits for whoever needs it. Kernels that were joined over a distance have sent it to the front, where it would hold its
    /// memory all the while: the weights of all convolutions, brought into their order.
    fn delay_copies(&mut self) {
        let order: Vec<usize> = std::mem::take(&mut self.order).into_iter().flatten().collect();
        let mut waiting: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for k in &order {
            let needed = if self.needs_nothing(*k) { self.successors(*k) } else { Vec::new() };
            if let Some(first) = needed.into_iter().min_by_key(|next| self.rank[*next]) {
                waiting.entry(first).or_default().push(*k);
            }
        }
        let late: IndexSet<usize> = waiting.values().flatten().copied().collect();
        let ordered = order.into_iter().filter(|k| !late.contains(k));
        self.order = ordered.flat_map(|k| waiting.remove(&k).unwrap_or_default().into_iter().chain([k])).map(Some).collect();
    }

    fn needs_nothing(&self, k: usize) -> bool {
        let unit = self.unit(k);
        unit.kind == UnitKind::Loop && unit.reads.iter().all(|id| matches!(self.ctx.graph.node(*id).op, Op::Input(_)))
    }

    fn into_order(mut self) -> Vec<Unit> {
        let order = std::mem::take(&mut self.order);
        order.into_iter().flatten().map(|k| self.units[k].take().expect("each unit stands in the order once")).collect()
    }
}

/// Few rows and much work in each: storing the rows' elements here would leave threads idle.
fn starves_threads(space: &Space) -> bool {
    space.has_reduction() && estimate(&space.numel(Level::Row)) < FEWEST_ROWS && estimate(&space.numel(Level::Full)) > LARGE
}

/// The memory that computing `id` in place would read.
fn collect_reads(graph: &Graph, roots: &Roots, id: NodeId, reads: &mut IndexSet<NodeId>) {
    let mut stack = vec![id];
    while let Some(id) = stack.pop() {
        let node = graph.node(id);
        if roots.is_root[id.index()] || matches!(node.op, Op::Input(_)) {
            reads.insert(id);
        } else {
            debug_assert!(!needs_own_loop(&node.op));
            stack.extend(node.args.iter().copied());
        }
    }
}
