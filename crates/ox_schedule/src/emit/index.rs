//! Indexing by values from memory.

use super::{CheckText, Emitter, Illegal, PassId};
use ox_ir::graph::{Bounds, Dims, Shape};
use ox_ir::kernel::{Inst, Val};
use ox_ir::{DType, NodeId, Op, PointOp, Scalar, Sym, Var};

impl Emitter<'_> {
    pub(super) fn gather(
        &mut self,
        id: NodeId,
        dims: &Dims,
        at: usize,
        coords: Shape,
        mask: Option<Val>,
    ) -> Result<Val, Illegal> {
        let inner = self.indexed_coords(id, dims, at, &coords, mask)?;
        let source = self.ctx.graph.node(id).args[0];
        // Where the source has no elements at all nothing may be read; the check has reported it.
        self.value(source, inner, mask)
    }

    /// Coordinates in the first argument of an `Index` or `IndexPut` for `coords` in the indexed result.
    pub(super) fn indexed_coords(
        &mut self,
        id: NodeId,
        dims: &Dims,
        at: usize,
        coords: &[Sym],
        mask: Option<Val>,
    ) -> Result<Shape, Illegal> {
        let graph = self.ctx.graph;
        let node = graph.node(id);
        let source = &graph.ty(node.args[0]).shape;
        let rank = graph.ty(node.args[1]).rank();
        let index_coords: Shape = coords[at..at + rank].iter().cloned().collect();
        let mut others = coords[..at].iter().chain(&coords[at + rank..]);
        let mut inner: Shape = source.iter().map(|_| Sym::ZERO).collect();
        for (d, slot) in inner.iter_mut().enumerate() {
            if !dims.contains(&d) {
                *slot = others.next().cloned().ok_or(Illegal("an index of the wrong rank"))?;
            }
        }
        for (k, d) in dims.iter().enumerate() {
            let value = self.value(node.args[1 + k], index_coords.clone(), mask)?;
            inner[*d] = self.checked_index(id, *d, value, &source[*d], mask);
        }
        Ok(inner)
    }

    /// An index value as an expression: itself where it is one that is known to be in range, else a variable behind a check.
    /// An index outside the mask is not the program's: it is taken for 0.
    fn checked_index(&mut self, id: NodeId, dim: usize, value: Val, extent: &Sym, mask: Option<Val>) -> Sym {
        let mut pass = self.seen_from(value);
        let mut value = self.convert(value, DType::I64, pass);
        if let Inst::Index(e) = &self.insts[value.index()].inst
            && e.is_nonneg()
            && (&(extent - e) - 1).is_nonneg()
        {
            return e.clone();
        }
        if let Some(mask) = mask {
            pass = self.later(pass, mask);
            let zero = self.push_pure(pass, Inst::Const(Scalar::Int(0)), DType::I64);
            value = self.apply(PointOp::Where, &[mask, value, zero], pass);
        }
        let wraps = self.wraps(id);
        let known = self.bodies.get(&pass).into_iter().flatten().find_map(|v| match &self.insts[v.index()].inst {
            Inst::CheckIndex { value: v, var, extent: n, wrap, .. } if (*v, n, *wrap) == (value, extent, wraps) => {
                Some(var.clone())
            }
            _ => None,
        });
        Sym::var(&known.unwrap_or_else(|| self.new_index(id, dim, value, extent, pass)))
    }

    /// The first pass that can use a value: what a reduction makes is there behind its loop.
    fn seen_from(&self, value: Val) -> PassId {
        let home = self.home[value.index()];
        match self.insts[value.index()].inst {
            Inst::Reduce { .. } | Inst::ReduceArg { .. } => PassId { level: home.level + 1, full: false },
            _ => home,
        }
    }

    /// Whether negative indices count from the end.
    fn wraps(&self, id: NodeId) -> bool {
        let op = &self.ctx.graph.node(id).op;
        matches!(op, Op::Index { bounds: Bounds::Wrap, .. } | Op::IndexPut { bounds: Bounds::Wrap, .. })
    }

    fn new_index(&mut self, id: NodeId, dim: usize, value: Val, extent: &Sym, pass: PassId) -> Var {
        let var = Var::loaded(self.loaded.len() as u32, extent.clone());
        self.loaded.insert(var.clone(), pass.level);
        if pass.full {
            self.inner_vars.insert(var.clone());
        }
        let check = self.new_check(id, CheckText::Index { dim });
        let wrap = self.wraps(id);
        self.push(pass, Inst::CheckIndex { value, var: var.clone(), extent: extent.clone(), wrap, check }, DType::I64);
        var
    }
}
