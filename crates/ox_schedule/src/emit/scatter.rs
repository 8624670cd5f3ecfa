//! `IndexPut` as two kernels: one that copies the base, one that writes the values over it.
//!
//! Writes to one place must stay in order, so the axes whose positions come from memory are walked by one thread, in order; the axes
//! that stand in the address as themselves never meet and are free to run in parallel.

use super::{Context, Emitted, Emitter, Illegal, PassId};
use crate::layout::address;
use crate::space::{Space, SpaceAxis};
use ox_ir::graph::{Combine, Shape};
use ox_ir::kernel::{BufRole, Inst};
use ox_ir::{NodeId, Op, Sym};

/// The kernel that fills the result with the base, and the one that scatters into it.
pub fn emit_scatter(ctx: &Context, id: NodeId) -> Result<[Emitted; 2], Illegal> {
    let sequential = sequential_axes(ctx, id)?;
    Ok([copy_base(ctx, id)?, scatter(ctx, id, &sequential)?])
}

fn copy_base(ctx: &Context, id: NodeId) -> Result<Emitted, Illegal> {
    let space = Space::new(&ctx.graph.ty(id).shape, &[]);
    let mut e = Emitter::new(ctx, &[], &space)?;
    let coords = e.full_coords(&ctx.graph.ty(id).shape)?;
    let value = e.value(ctx.graph.node(id).args[0], coords.clone(), None)?;
    e.write(id, &coords, value, BufRole::Out, Combine::Set, false);
    Ok(e.finish())
}

fn scatter(ctx: &Context, id: NodeId, sequential: &[bool]) -> Result<Emitted, Illegal> {
    let node = ctx.graph.node(id);
    let Op::IndexPut { combine, .. } = &node.op else { unreachable!("only IndexPut scatters") };
    let values = node.args[node.args.len() - 1];
    let axis = |(n, s): (&Sym, &bool)| SpaceAxis { extent: n.clone(), reduced: *s };
    let shape = &ctx.graph.ty(values).shape;
    let space = Space { axes: shape.iter().zip(sequential).map(axis).filter(|a| !a.extent.is_one()).collect() };
    let mut e = Emitter::new(ctx, &[], &space)?;
    let (target, coords) = e.targets(id, shape)?;
    let value = e.value(values, coords, None)?;
    let full = space.has_reduction();
    e.write(id, &target, value, BufRole::InOut, *combine, full);
    Ok(e.finish())
}

/// For each dimension of the values: whether it must be walked in order.
fn sequential_axes(ctx: &Context, id: NodeId) -> Result<Vec<bool>, Illegal> {
    let node = ctx.graph.node(id);
    let shape = &ctx.graph.ty(node.args[node.args.len() - 1]).shape;
    let mut e = Emitter::new(ctx, &[], &Space::new(shape, &[]))?;
    let (target, coords) = e.targets(id, shape)?;
    Ok(coords.iter().map(|c| !target.contains(c) || c.as_const().is_some()).collect())
}

impl Emitter<'_> {
    /// Where the value at the current point goes, and that point in the values' own coordinates.
    fn targets(&mut self, id: NodeId, shape: &[Sym]) -> Result<(Shape, Shape), Illegal> {
        let Op::IndexPut { dims, at, .. } = &self.ctx.graph.node(id).op else { unreachable!("only IndexPut scatters") };
        let coords = self.full_coords(shape)?;
        Ok((self.indexed_coords(id, dims, *at, &coords, None)?, coords))
    }

    pub(super) fn write(
        &mut self,
        id: NodeId,
        coords: &[Sym],
        value: ox_ir::kernel::Val,
        role: BufRole,
        combine: Combine,
        full: bool,
    ) {
        let buf = self.param(id, role);
        let index = address(coords, &(self.ctx.strides)(id));
        let inst = Inst::Store { buf, index, value, combine, mask: None };
        self.push(PassId { level: 0, full }, inst, self.ctx.graph.ty(id).dtype);
    }
}
