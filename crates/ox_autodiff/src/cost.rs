//! What saving a value costs, and what may be computed again.

use crate::flow::INFINITE;
use ox_ir::graph::{Node, NodeId, Op};
use ox_ir::{Graph, Sym, TensorType};

/// The size that is assumed for a dimension that is not known.
const GUESS: i64 = 256;
/// A value behind more operations than this is not computed again from their start.
const LONGEST_CHAIN: u32 = 32;

/// Fewer bytes than these are written in no time beside a launch.
pub const SMALL: u64 = 1 << 16;

fn estimate(size: &Sym) -> u64 {
    let guess = size.eval(&|v| Some(GUESS.clamp(v.lo(), v.hi().max(v.lo())))).unwrap_or(i64::MAX >> 20);
    guess.max(1) as u64
}

pub fn bytes(ty: &TensorType) -> u64 {
    estimate(&ty.numel()).saturating_mul(ty.dtype.size() as u64).min(INFINITE >> 8)
}

pub fn is_small(ty: &TensorType) -> bool {
    bytes(ty) < SMALL
}

/// What a value is to the forward graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// In memory whether it is saved or not.
    Written,
    /// Computed on the way to something else.
    Passing,
    /// Only gradients need it.
    Foreign,
}

/// What it costs to keep a value until the backward graph runs: its memory, and the time to write it if nobody else does. A view is
/// not kept: what it looks at is.
pub fn saving(node: &Node, standing: Standing) -> u64 {
    let per_byte = match standing {
        Standing::Written => 4,
        Standing::Passing => 5,
        Standing::Foreign => 6,
    };
    match &node.op {
        Op::Library(_) => INFINITE,
        Op::Slice(_) => bytes(&node.ty) * 6 + 64,
        op if op.is_view() => INFINITE,
        _ => bytes(&node.ty) * per_byte,
    }
}

/// Which values are never computed again: those of library calls, of whole reductions, and those that both graphs would write to
/// memory for a call to read.
pub struct Fixed<'a> {
    graph: &'a Graph,
    /// Read by a call among the primal nodes, and by one among the others; through views.
    read_before: Vec<bool>,
    read_behind: Vec<bool>,
    /// Made by a kernel of the forward graph, and read by another behind a call.
    carried: Vec<bool>,
    depth: Vec<u32>,
    /// Made of a reduction, one number of it for one of theirs.
    statistic: Vec<bool>,
    level: Level,
}

/// What may be computed again, each level more than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Only what costs no time worth speaking of.
    Cheap,
    /// Values that calls read, too.
    Kernels,
    /// Reductions, too.
    Reductions,
    /// All that has no effect: as if nothing but inputs were kept.
    Everything,
}

impl Level {
    pub const ALL: [Level; 4] = [Level::Cheap, Level::Kernels, Level::Reductions, Level::Everything];
}

impl<'a> Fixed<'a> {
    /// `forward`: the nodes that the user's results are made of.
    pub fn new(graph: &'a Graph, primal: &[bool], forward: &[bool], level: Level) -> Fixed<'a> {
        let count = graph.nodes.len();
        let none = || vec![false; count];
        let carried = carried(graph, forward);
        let statistic = statistics(graph);
        let mut fixed =
            Fixed { graph, read_before: none(), read_behind: none(), carried, depth: vec![0; count], statistic, level };
        for id in graph.ids().filter(|id| graph.node(*id).op.is_call()) {
            for arg in &graph.node(id).args {
                let base = view_base(graph, *arg).index();
                if primal[id.index()] { fixed.read_before[base] = true } else { fixed.read_behind[base] = true }
            }
        }
        for output in &graph.outputs {
            let base = view_base(graph, output.value);
            fixed.read_before[base.index()] |= primal[base.index()];
        }
        for id in graph.ids() {
            fixed.depth[id.index()] = fixed.depth_of(id);
        }
        fixed
    }

    fn depth_of(&self, id: NodeId) -> u32 {
        let node = self.graph.node(id);
        // A single number costs nothing to compute, however it came about.
        if node.args.is_empty() || self.is_computed_once(id) || node.ty.numel().is_one() {
            return 0;
        }
        let below = node.args.iter().map(|arg| self.depth[arg.index()]).max().unwrap_or(0);
        if node.op.is_view() { below } else { below + 1 }
    }

    /// Whether a node that the forward graph computes ends in memory.
    pub fn is_written(&self, id: NodeId) -> bool {
        let op = &self.graph.node(id).op;
        let in_memory = op.is_call() || matches!(op, Op::Project(_) | Op::Reduce { .. } | Op::Scan { .. } | Op::IndexPut { .. });
        in_memory || self.read_before[id.index()] || self.carried[id.index()] || self.is_statistic(id)
    }

    /// Whether a value is a few numbers that the kernel of a reduction has at hand when it ends: to compute it again takes another.
    fn is_statistic(&self, id: NodeId) -> bool {
        self.statistic[id.index()] && is_small(self.graph.ty(id))
    }

    pub fn is_fixed(&self, id: NodeId) -> bool {
        // What a view looks at is as deep. It is kept instead: a view that is neither made again nor kept would leave no way to cut.
        let is_deep = || self.depth[id.index()] > LONGEST_CHAIN && !self.graph.node(id).op.is_view();
        self.is_computed_once(id) || (self.level == Level::Cheap && is_deep())
    }

    fn is_computed_once(&self, id: NodeId) -> bool {
        let node = self.graph.node(id);
        match &node.op {
            Op::Library(library) if library.effect => true,
            Op::Project(_) => self.is_computed_once(node.args[0]),
            op if op.is_call() => self.level < Level::Everything,
            Op::Reduce { .. } | Op::Scan { .. } | Op::IndexPut { .. } => self.level < Level::Reductions,
            op if op.is_view() => false,
            _ => self.level == Level::Cheap && self.read_before[id.index()] && self.read_behind[id.index()],
        }
    }
}

/// Reductions, and what is made of them, number by number.
fn statistics(graph: &Graph) -> Vec<bool> {
    let mut found = vec![false; graph.nodes.len()];
    for id in graph.ids() {
        let node = graph.node(id);
        let of_one = || node.args.iter().any(|arg| found[arg.index()]);
        found[id.index()] = match &node.op {
            Op::Reduce { .. } => true,
            Op::Point(_) | Op::Cast | Op::Reshape | Op::Permute(_) => of_one(),
            _ => false,
        };
    }
    found
}

/// A sum that layer after layer is added to is in memory, though no call reads it.
fn carried(graph: &Graph, forward: &[bool]) -> Vec<bool> {
    let mut carried = vec![false; graph.nodes.len()];
    // Calls on the longest way to a value.
    let mut calls = vec![0u32; graph.nodes.len()];
    for id in graph.ids() {
        let node = graph.node(id);
        let before = node.args.iter().map(|arg| calls[arg.index()]).max().unwrap_or(0);
        calls[id.index()] = before + u32::from(node.op.is_call());
        if !forward[id.index()] || node.op.is_view() {
            continue;
        }
        for base in node.args.iter().map(|arg| view_base(graph, *arg)) {
            carried[base.index()] |= before > calls[base.index()];
        }
    }
    carried
}

/// What a view looks at.
pub fn view_base(graph: &Graph, mut id: NodeId) -> NodeId {
    while graph.node(id).op.is_view() {
        id = graph.node(id).args[0];
    }
    id
}
