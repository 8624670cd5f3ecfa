//! A group of nodes to one Kernel.
//!
//! Emission is lazy: starting from what the group stores and reduces, the value of a node at given coordinates is asked for, and
//! asks for the values of its arguments. Views only change the coordinates. Everything that is not in memory and not
//! a member is thereby computed in place, and a member must be asked for at the very point that the group is working on:
//! otherwise the group is no legal fusion, and says so.

mod body;
mod combine;
mod index;
mod mask;
mod scatter;
mod scratch;
mod share;

use crate::space::{Level, Space};
use ox_ir::graph::{Combine, Shape};
use ox_ir::kernel::{Axis, BufParam, BufRole, Inst, Kernel, Lanes, Pass, TypedInst, Val};
use ox_ir::{DType, Graph, NodeId, Op, Sym, Var};
use rustc_hash::{FxHashMap, FxHashSet};

pub use scatter::emit_scatter;
pub use share::{emit_shares, has_shares, is_in_pieces};

/// What the emitter must know of the whole schedule.
pub struct Context<'a> {
    pub graph: &'a Graph,
    /// Nodes that have memory of their own (once their step has run).
    pub is_root: &'a [bool],
    pub strides: &'a dyn Fn(NodeId) -> Shape,
}

/// Why a group cannot be one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal(pub &'static str);

/// A kernel and the nodes whose memory its parameters are.
#[derive(Debug)]
pub struct Emitted {
    pub kernel: Kernel,
    pub params: Vec<NodeId>,
    /// Nodes with index or divisor checks, by check number.
    pub checks: Vec<(NodeId, CheckText)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckText {
    Index { dim: usize },
    ZeroDivision,
}

/// One of the two loops of a level: the code at the row, or the loop over the reduced axes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct PassId {
    level: usize,
    full: bool,
}

/// What a parameter of the kernel stands for.
#[derive(Clone, PartialEq, Eq)]
enum Param {
    Node(NodeId, BufRole),
    Scratch(DType, i64),
}

type Key = (NodeId, Shape, Option<Val>);

pub struct Emitter<'a> {
    ctx: &'a Context<'a>,
    space: Space,
    members: FxHashSet<NodeId>,
    canonical: FxHashMap<NodeId, (Shape, Level)>,
    stored: FxHashSet<NodeId>,
    /// How many reductions of the group must be finished before the node can be computed.
    needs: FxHashMap<NodeId, usize>,
    insts: Vec<TypedInst>,
    bodies: FxHashMap<PassId, Vec<Val>>,
    home: Vec<PassId>,
    params: Vec<Param>,
    /// Whether costly values may wait in scratch memory for a later pass.
    scratch: bool,
    values: FxHashMap<(PassId, Key), Val>,
    pure: FxHashMap<(PassId, Inst, DType), Val>,
    reduced: FxHashMap<NodeId, Val>,
    /// Variables that change inside the reduction loop.
    inner_vars: FxHashSet<Var>,
    /// Indices loaded at the row, with the level from which on they exist.
    loaded: FxHashMap<Var, usize>,
    checks: Vec<(NodeId, CheckText)>,
    current: usize,
    written: FxHashSet<NodeId>,
}

/// Emits `members` (in topological order) over `space`; those for which `stored` holds are written to memory.
/// With `scratch`, a costly value that several passes need is kept from one to the next; that takes lanes along the inner axis.
pub fn emit(
    ctx: &Context,
    members: &[NodeId],
    space: &Space,
    stored: &dyn Fn(NodeId) -> bool,
    scratch: bool,
) -> Result<Emitted, Illegal> {
    let mut e = Emitter::new(ctx, members, space)?;
    e.scratch = scratch;
    e.stored = members.iter().copied().filter(|id| stored(*id)).collect();
    let reductions: Vec<NodeId> = members.iter().copied().filter(|id| e.is_reduction(*id)).collect();
    let last = members.iter().map(|id| e.ready(*id)).max().unwrap_or(0);
    for level in 0..=last {
        e.current = level;
        for id in &reductions {
            if e.need(*id) == level {
                e.reduce(*id)?;
            }
        }
        for id in members {
            if e.ready(*id) == level && e.stored.contains(id) {
                e.store(*id)?;
            }
        }
    }
    Ok(e.finish())
}

impl<'a> Emitter<'a> {
    fn new(ctx: &'a Context<'a>, members: &[NodeId], space: &Space) -> Result<Emitter<'a>, Illegal> {
        let vars = space.vars();
        let inner = space.axes.iter().zip(&vars).filter(|(a, _)| a.reduced).map(|(_, v)| v.clone()).collect();
        let mut e = Emitter {
            ctx,
            space: space.clone(),
            members: members.iter().copied().collect(),
            canonical: FxHashMap::default(),
            stored: FxHashSet::default(),
            needs: FxHashMap::default(),
            insts: Vec::new(),
            bodies: FxHashMap::default(),
            home: Vec::new(),
            params: Vec::new(),
            scratch: false,
            values: FxHashMap::default(),
            pure: FxHashMap::default(),
            reduced: FxHashMap::default(),
            inner_vars: inner,
            loaded: FxHashMap::default(),
            checks: Vec::new(),
            current: 0,
            written: FxHashSet::default(),
        };
        for id in members {
            let shape = &ctx.graph.ty(*id).shape;
            let level = if e.is_reduction(*id) { Some(Level::Row) } else { space.level_of(shape) };
            let level = level.ok_or(Illegal("a member does not fit the space"))?;
            let coords = space.coords(&vars, shape, level).ok_or(Illegal("the space is not fine enough for a member"))?;
            e.canonical.insert(*id, (coords, level));
        }
        Ok(e)
    }

    fn is_reduction(&self, id: NodeId) -> bool {
        matches!(self.ctx.graph.node(id).op, Op::Reduce { .. })
    }

    fn is_member_reduction(&self, id: NodeId) -> bool {
        self.members.contains(&id) && self.is_reduction(id)
    }

    /// Whether a value is read from memory that another step has filled.
    fn in_memory(&self, id: NodeId) -> bool {
        let op = &self.ctx.graph.node(id).op;
        crate::layout::is_memory(op) || (self.ctx.is_root[id.index()] && !self.members.contains(&id))
    }

    /// How many levels of reductions come before this node's own computation.
    fn need(&mut self, id: NodeId) -> usize {
        if let Some(n) = self.needs.get(&id) {
            return *n;
        }
        let args = if self.in_memory(id) { Default::default() } else { self.ctx.graph.node(id).args.clone() };
        let n = args.iter().map(|a| self.ready(*a)).max().unwrap_or(0);
        self.needs.insert(id, n);
        n
    }

    /// The first level at which the node's value can be used.
    fn ready(&mut self, id: NodeId) -> usize {
        self.need(id) + self.is_member_reduction(id) as usize
    }

    fn full_coords(&self, shape: &[Sym]) -> Result<Shape, Illegal> {
        let coords = self.space.coords(&self.space.vars(), shape, Level::Full);
        coords.ok_or(Illegal("the space is not fine enough for a reduction"))
    }

    fn reduce(&mut self, id: NodeId) -> Result<(), Illegal> {
        let node = self.ctx.graph.node(id);
        let Op::Reduce { op, dims } = &node.op else { unreachable!("only reductions are reduced") };
        let arg = node.args[0];
        let coords = self.full_coords(&self.ctx.graph.ty(arg).shape)?;
        let pass = PassId { level: self.current, full: true };
        let value = self.value(arg, coords.clone(), None)?;
        let inst = if op.is_arg() {
            Inst::ReduceArg { op: *op, value, position: coords[dims[0]].clone() }
        } else {
            Inst::Reduce { op: *op, value }
        };
        let result = self.push(pass, inst, node.ty.dtype);
        self.reduced.insert(id, result);
        Ok(())
    }

    fn store(&mut self, id: NodeId) -> Result<(), Illegal> {
        let (coords, level) = self.canonical[&id].clone();
        let value = match self.reduced.get(&id) {
            Some(v) => *v,
            None => self.value(id, coords.clone(), None)?,
        };
        let buf = self.param(id, BufRole::Out);
        let index = crate::layout::address(&coords, &(self.ctx.strides)(id));
        let full = level == Level::Full && self.space.has_reduction();
        let pass = PassId { level: self.current, full };
        let inst = Inst::Store { buf, index, value, combine: Combine::Set, mask: None };
        self.push(pass, inst, self.ctx.graph.ty(id).dtype);
        self.written.insert(id);
        Ok(())
    }

    /// The number of the parameter for a node's memory.
    fn param(&mut self, id: NodeId, role: BufRole) -> u32 {
        let known = self.params.iter().position(|p| matches!(p, Param::Node(n, _) if *n == id));
        let at = known.unwrap_or(self.params.len());
        match self.params.get_mut(at) {
            Some(Param::Node(_, old)) if *old != role => *old = BufRole::InOut,
            Some(_) => {}
            None => self.params.push(Param::Node(id, role)),
        }
        at as u32
    }

    fn push(&mut self, pass: PassId, inst: Inst, dtype: DType) -> Val {
        let val = Val(self.insts.len() as u32);
        self.insts.push(TypedInst { inst, dtype });
        self.home.push(pass);
        self.bodies.entry(pass).or_default().push(val);
        val
    }

    /// As `push`, but an equal instruction that is already there serves again.
    fn push_pure(&mut self, pass: PassId, inst: Inst, dtype: DType) -> Val {
        let key = (pass, inst.clone(), dtype);
        if let Some(val) = self.pure.get(&key) {
            return *val;
        }
        let val = self.push(pass, inst, dtype);
        self.pure.insert(key, val);
        val
    }

    fn finish(mut self) -> Emitted {
        let axes = |reduced: bool| {
            let all = self.space.axes.iter().zip(self.space.vars());
            all.filter(|(a, _)| a.reduced == reduced).map(|(a, var)| Axis { var, extent: a.extent.clone() }).collect::<Vec<_>>()
        };
        let (outer, inner) = (axes(false), axes(true));
        let mut order: Vec<PassId> = self.bodies.keys().copied().collect();
        order.sort_by_key(|p| (p.level, p.full));
        let passes = order.iter().map(|p| Pass {
            axes: if p.full { inner.clone() } else { Vec::new() },
            body: self.bodies.remove(p).unwrap_or_default(),
        });
        let kernel = Kernel {
            name: String::new(),
            sizes: Vec::new(),
            passes: passes.collect(),
            bufs: self.params.iter().map(|p| self.buf_param(p)).collect(),
            axes: outer,
            insts: std::mem::take(&mut self.insts),
            lanes: Lanes::None,
            parallel: true,
            usual: Default::default(),
        };
        let nodes = self.params.iter().filter_map(|p| match p {
            Param::Node(id, _) => Some(*id),
            Param::Scratch(..) => None,
        });
        Emitted { kernel, params: nodes.collect(), checks: std::mem::take(&mut self.checks) }
    }

    fn buf_param(&self, param: &Param) -> BufParam {
        match param {
            Param::Node(id, role) => BufParam { dtype: self.ctx.graph.ty(*id).dtype, role: role.clone() },
            Param::Scratch(dtype, len) => BufParam { dtype: *dtype, role: BufRole::Scratch(*len) },
        }
    }
}
