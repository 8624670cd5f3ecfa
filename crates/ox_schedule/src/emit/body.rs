//! The value of a node at given coordinates.

use super::{CheckText, Emitter, Illegal, PassId};
use crate::coords::view_coords;
use crate::layout::address;
use crate::space::Level;
use ox_ir::graph::{Node, Shape};
use ox_ir::kernel::{BufRole, Inst, Val};
use ox_ir::{DType, NodeId, Op, PointOp, Scalar, Sym};
use smallvec::SmallVec;

impl Emitter<'_> {
    /// The value of `id` at `coords`; where `mask` is false it may be anything, and no memory is touched.
    pub(super) fn value(&mut self, mut id: NodeId, mut coords: Shape, mask: Option<Val>) -> Result<Val, Illegal> {
        let graph = self.ctx.graph;
        while !self.in_memory(id) && !self.members.contains(&id) && graph.node(id).op.is_view() {
            let arg = graph.node(id).args[0];
            coords = view_coords(graph.node(id), &graph.ty(arg).shape, &coords);
            id = arg;
        }
        let mask = mask.filter(|_| !self.is_of_the_row(id, &coords));
        let pass = self.pass_for(id, &coords, mask);
        let key = (pass, (id, coords.clone(), mask));
        if let Some(val) = self.values.get(&key) {
            return Ok(*val);
        }
        let val = match self.kept_value(&key) {
            Some(val) => val,
            None => self.compute(id, coords, mask, pass)?,
        };
        self.values.insert(key, val);
        Ok(val)
    }

    /// Whether this is what the group computes once for each row, whatever is masked inside of it.
    fn is_of_the_row(&self, id: NodeId, coords: &[Sym]) -> bool {
        self.canonical.get(&id).is_some_and(|(point, level)| *level == Level::Row && point[..] == *coords)
    }

    /// The row, if nothing about the value changes inside the reduction loop; else the current loop.
    fn pass_for(&mut self, id: NodeId, coords: &[Sym], mask: Option<Val>) -> PassId {
        let inner = |s: &Sym| s.any_var(&mut |v| self.inner_vars.contains(v));
        let full = coords.iter().any(inner) || mask.is_some_and(|m| self.home[m.index()].full);
        if full {
            return PassId { level: self.current, full: true };
        }
        let mask_level = mask.map_or(0, |m| self.home[m.index()].level);
        PassId { level: self.ready(id).max(mask_level).max(self.loaded_level(coords)), full: false }
    }

    fn compute(&mut self, id: NodeId, coords: Shape, mask: Option<Val>, pass: PassId) -> Result<Val, Illegal> {
        if self.in_memory(id) {
            return Ok(self.load(id, &coords, mask, pass));
        }
        if self.members.contains(&id) {
            if self.canonical[&id].0 != coords {
                return Err(Illegal("a member is needed at another point than the one it is computed at"));
            }
            if let Some(val) = self.reduced.get(&id) {
                return Ok(*val);
            }
            if self.is_reduction(id) {
                return Err(Illegal("a reduction is needed before it is finished"));
            }
            if pass.full && self.written.contains(&id) && self.need(id) < self.current {
                return Ok(self.load(id, &coords, mask, pass));
            }
        }
        self.operate(id, coords, mask, pass)
    }

    fn operate(&mut self, id: NodeId, coords: Shape, mask: Option<Val>, pass: PassId) -> Result<Val, Illegal> {
        let graph = self.ctx.graph;
        let node = graph.node(id);
        let dtype = node.ty.dtype;
        match &node.op {
            Op::Full(value) => Ok(self.push_pure(pass, Inst::Const(*value), dtype)),
            Op::SymValue(sym) => Ok(self.index_value(sym.clone(), dtype, pass)),
            Op::Iota { dim } => Ok(self.index_value(coords[*dim].clone(), dtype, pass)),
            Op::Point(op) => self.point(id, *op, coords, mask, pass),
            Op::Cast => {
                let arg = self.value(node.args[0], coords, mask)?;
                Ok(self.convert(arg, dtype, pass))
            }
            Op::Pad { low, value } => self.pad(node, low, *value, coords, mask, pass),
            Op::Cat { dim } => self.cat(node, *dim, coords, mask, pass),
            Op::SliceScatter(dims) => self.slice_scatter(node, dims, coords, mask, pass),
            Op::Index { dims, at, .. } => self.gather(id, dims, *at, coords, mask),
            Op::Scan { op, .. } => {
                // It needs what came before, whatever is asked for.
                if mask.is_some() || self.canonical.get(&id).is_some_and(|(point, _)| *point != coords) {
                    return Err(Illegal("a part of a scan, or another order of it"));
                }
                let value = self.value(node.args[0], coords.clone(), mask)?;
                let decay = node.args.get(1).map(|decay| self.value(*decay, coords, mask)).transpose()?;
                Ok(self.push(pass, Inst::Scan { op: *op, value, decay }, dtype))
            }
            // A view that is a member: stored for its own sake.
            op if op.is_view() => {
                let arg = node.args[0];
                let coords = view_coords(node, &graph.ty(arg).shape, &coords);
                self.value(arg, coords, mask)
            }
            _ => Err(Illegal("a node that no kernel computes")),
        }
    }

    pub(super) fn convert(&mut self, val: Val, dtype: DType, pass: PassId) -> Val {
        if self.insts[val.index()].dtype == dtype { val } else { self.push_pure(pass, Inst::Cast(val), dtype) }
    }

    fn index_value(&mut self, sym: Sym, dtype: DType, pass: PassId) -> Val {
        let val = self.push_pure(pass, Inst::Index(sym), DType::I64);
        self.convert(val, dtype, pass)
    }

    pub(super) fn load(&mut self, id: NodeId, coords: &[Sym], mask: Option<Val>, pass: PassId) -> Val {
        let buf = self.param(id, BufRole::In);
        let index = address(coords, &(self.ctx.strides)(id));
        let mask = mask.map(|m| (m, Scalar::Int(0)));
        self.push_pure(pass, Inst::Load { buf, index, mask }, self.ctx.graph.ty(id).dtype)
    }

    pub(super) fn apply(&mut self, op: PointOp, args: &[Val], pass: PassId) -> Val {
        let dtype = op.result(self.insts[args[args.len() - 1].index()].dtype);
        self.push_pure(pass, Inst::Point(op, SmallVec::from_slice(args)), dtype)
    }

    fn point(&mut self, id: NodeId, op: PointOp, coords: Shape, mask: Option<Val>, pass: PassId) -> Result<Val, Illegal> {
        let node: &Node = self.ctx.graph.node(id);
        let mut args: SmallVec<[Val; 3]> = SmallVec::new();
        for arg in &node.args {
            args.push(self.value(*arg, coords.clone(), mask)?);
        }
        if op.is_division() && !self.insts[args[1].index()].dtype.is_float() && !self.is_nonzero_const(args[1]) {
            self.check_divisor(id, args[1], mask, pass);
        }
        Ok(self.push_pure(pass, Inst::Point(op, args), node.ty.dtype))
    }

    fn is_nonzero_const(&self, val: Val) -> bool {
        matches!(self.insts[val.index()].inst, Inst::Const(c) if c.as_i64() != 0)
    }

    /// A divisor outside the mask is not the program's: it is taken for 1.
    fn check_divisor(&mut self, id: NodeId, value: Val, mask: Option<Val>, pass: PassId) {
        let dtype = self.insts[value.index()].dtype;
        let value = match mask {
            None => value,
            Some(mask) => {
                let one = self.push_pure(pass, Inst::Const(Scalar::Int(1)), dtype);
                self.apply(PointOp::Where, &[mask, value, one], pass)
            }
        };
        let check = self.new_check(id, CheckText::ZeroDivision);
        self.push(pass, Inst::CheckNonZero { value, check }, dtype);
    }

    pub(super) fn new_check(&mut self, id: NodeId, text: CheckText) -> u32 {
        self.checks.push((id, text));
        self.checks.len() as u32 - 1
    }
}
