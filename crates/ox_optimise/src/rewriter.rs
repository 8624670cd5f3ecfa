//! `Rewriter`: a Graph that is built anew, node by node. Every pass walks the old graph forwards, renames arguments and emits
//! into a Rewriter; since nodes are in topological order, arguments are always there before their users.
//!
//! Equal nodes are shared as they are emitted, so every pass removes common subexpressions on its way.

use crate::rules;
use indexmap::IndexMap;
use ox_ir::graph::{Alias, Args, Dims, Graph, Memory, Node, NodeId, Op, Shape, SliceDim};
use ox_ir::{DType, PointOp, Scalar, TensorType};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// Rules emit through the Rewriter, so that what they make is simplified too. A chain of rules longer than this
/// means that two rules undo each other.
const MAX_RULE_DEPTH: u32 = 64;

/// How often each rule was applied, in the order of first use.
pub type Fired = IndexMap<&'static str, u32, FxBuildHasher>;

pub struct Rewriter {
    graph: Graph,
    /// Nodes by the hash of what they compute. Equality is checked against the graph, so that no node is stored twice.
    shared: FxHashMap<u64, SmallVec<[NodeId; 1]>>,
    /// For each new node, how many uses the old nodes that it stands for had.
    uses: Vec<u32>,
    /// The location of the node that is being rewritten: new nodes stand for it.
    location: u32,
    simplify: bool,
    depth: u32,
    fired: Fired,
}

impl Rewriter {
    /// Copies and shares only.
    pub fn new() -> Rewriter {
        Rewriter {
            graph: Graph::default(),
            shared: FxHashMap::default(),
            uses: Vec::new(),
            location: 0,
            simplify: false,
            depth: 0,
            fired: Fired::default(),
        }
    }

    /// Applies the rules to every node on its way in.
    pub fn simplifying() -> Rewriter {
        Rewriter { simplify: true, ..Rewriter::new() }
    }

    /// Rebuilds `graph`: `step` gives each old node, its arguments already renamed, its place in the new graph.
    pub fn rebuild(mut self, old: Graph, mut step: impl FnMut(&mut Rewriter, Node) -> NodeId) -> (Graph, Fired) {
        let old_uses = count_uses(&old);
        let shown = if self.simplify { shown_memory(&old) } else { vec![false; old.nodes.len()] };
        let Graph { sizes, inputs, nodes, mut outputs, mut mutations, locations } = old;
        self.graph.nodes.reserve(nodes.len());
        let mut renamed: Vec<NodeId> = Vec::with_capacity(nodes.len());
        for (place, mut node) in nodes.into_iter().enumerate() {
            for arg in &mut node.args {
                *arg = renamed[arg.index()];
            }
            self.location = node.location;
            let new = if shown[place] { self.share(node) } else { step(&mut self, node) };
            self.uses.resize(self.graph.nodes.len(), 0);
            self.uses[new.index()] += old_uses[place];
            renamed.push(new);
        }
        outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
        mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
        let nodes = self.graph.nodes;
        (Graph { sizes, inputs, nodes, outputs, mutations, locations }, self.fired)
    }

    /// Rebuilds `graph`, replacing each node for which `rule` has something better.
    pub fn rebuild_with(
        self,
        name: &'static str,
        graph: Graph,
        rule: impl Fn(&mut Rewriter, &Node) -> Option<NodeId>,
    ) -> (Graph, Fired) {
        self.rebuild(graph, |new, node| match rule(new, &node) {
            Some(id) => new.fire(name, id),
            None => new.emit(node),
        })
    }

    /// Counts an application of a rule that made `id`.
    pub fn fire(&mut self, rule: &'static str, id: NodeId) -> NodeId {
        *self.fired.entry(rule).or_insert(0) += 1;
        id
    }

    pub fn node(&self, id: NodeId) -> &Node {
        self.graph.node(id)
    }

    pub fn op(&self, id: NodeId) -> &Op {
        &self.graph.node(id).op
    }

    pub fn ty(&self, id: NodeId) -> &TensorType {
        self.graph.ty(id)
    }

    /// The argument of a node that has exactly one.
    pub fn arg(&self, id: NodeId) -> NodeId {
        self.graph.node(id).args[0]
    }

    /// How many uses the node has, of those that were there before the pass; results of the graph count as one each.
    pub fn uses(&self, id: NodeId) -> u32 {
        self.uses.get(id.index()).copied().unwrap_or(0)
    }

    /// The value of a constant node.
    pub fn constant(&self, id: NodeId) -> Option<Scalar> {
        match self.op(id) {
            Op::Full(value) => Some(*value),
            _ => None,
        }
    }

    /// Emits a node: simplified if a rule applies, shared if an equal one exists.
    pub fn emit(&mut self, node: Node) -> NodeId {
        if self.simplify && self.depth < MAX_RULE_DEPTH {
            self.depth += 1;
            let replacement = rules::apply(self, &node);
            self.depth -= 1;
            if let Some((rule, id)) = replacement {
                let (dtype, shape) = (self.ty(id).dtype, &self.ty(id).shape);
                debug_assert!((dtype, shape) == (node.ty.dtype, &node.ty.shape), "rule {rule} changed the type of {node:?}");
                return self.fire(rule, id);
            }
        }
        self.share(node)
    }

    fn share(&mut self, node: Node) -> NodeId {
        if matches!(&node.op, Op::Library(library) if library.effect) {
            return self.graph.push(node);
        }
        let known = self.shared.entry(hash_of(&node)).or_default();
        if let Some(id) = known.iter().find(|id| computes_same(self.graph.node(**id), &node)) {
            return *id;
        }
        let id = self.graph.push(node);
        known.push(id);
        id
    }

    pub fn make(&mut self, op: Op, args: impl IntoIterator<Item = NodeId>, ty: TensorType) -> NodeId {
        self.emit(Node { op, args: args.into_iter().collect(), ty, location: self.location })
    }

    pub fn full(&mut self, value: Scalar, ty: TensorType) -> NodeId {
        self.make(Op::Full(value), [], ty)
    }

    /// Arguments of equal shape.
    pub fn point(&mut self, op: PointOp, args: &[NodeId]) -> NodeId {
        let last = self.ty(args[args.len() - 1]);
        let ty = last.with_dtype(op.result(last.dtype));
        self.make(Op::Point(op), args.iter().copied(), ty)
    }

    pub fn cast(&mut self, x: NodeId, dtype: DType) -> NodeId {
        let ty = self.ty(x).with_dtype(dtype);
        self.make(Op::Cast, [x], ty)
    }

    pub fn reshape(&mut self, x: NodeId, shape: Shape) -> NodeId {
        if self.ty(x).shape == shape {
            return x;
        }
        let ty = self.ty(x).with_shape(shape);
        self.make(Op::Reshape, [x], ty)
    }

    pub fn permute(&mut self, x: NodeId, perm: Dims) -> NodeId {
        let ty = self.ty(x);
        let ty = ty.with_shape(perm.iter().map(|p| ty.shape[*p].clone()).collect());
        self.make(Op::Permute(perm), [x], ty)
    }

    pub fn expand(&mut self, x: NodeId, shape: Shape) -> NodeId {
        if self.ty(x).shape == shape {
            return x;
        }
        let ty = self.ty(x).with_shape(shape);
        self.make(Op::Expand, [x], ty)
    }

    pub fn slice(&mut self, x: NodeId, dims: Vec<SliceDim>, shape: Shape) -> NodeId {
        let ty = self.ty(x).with_shape(shape);
        self.make(Op::Slice(dims), [x], ty)
    }
}

/// The memory that outputs share or are parts of, and the views through which the output that holds it looks at it: rules must leave these alone, since
/// a view of another making may look at less.
fn shown_memory(graph: &Graph) -> Vec<bool> {
    let mut shown = vec![false; graph.nodes.len()];
    for (n, output) in graph.outputs.iter().enumerate() {
        let holder = match &output.alias {
            Some(Alias::Output(holder, _)) => *holder as usize,
            _ if matches!(output.memory, Memory::Whole(_)) => n,
            _ => continue,
        };
        let mut id = graph.outputs[holder].value;
        shown[id.index()] = true;
        while graph.node(id).op.is_view() {
            id = graph.node(id).args[0];
            shown[id.index()] = true;
        }
    }
    shown
}

fn count_uses(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0; graph.nodes.len()];
    let args = graph.nodes.iter().flat_map(|n| &n.args).copied();
    args.chain(graph.roots()).for_each(|id| uses[id.index()] += 1);
    uses
}

/// The hash of what a node computes: not of its location, nor of the order of commutative arguments.
fn hash_of(node: &Node) -> u64 {
    let mut hasher = FxHasher::default();
    node.op.hash(&mut hasher);
    node.ty.hash(&mut hasher);
    match is_commutative(node) {
        true => sorted(&node.args).hash(&mut hasher),
        false => node.args.hash(&mut hasher),
    }
    hasher.finish()
}

fn computes_same(a: &Node, b: &Node) -> bool {
    let same_args = a.args == b.args || (is_commutative(a) && sorted(&a.args) == sorted(&b.args));
    same_args && a.op == b.op && a.ty == b.ty
}

fn is_commutative(node: &Node) -> bool {
    matches!(node.op, Op::Point(op) if op.is_commutative())
}

fn sorted(args: &Args) -> Args {
    let mut args = args.clone();
    args.sort_unstable();
    args
}
