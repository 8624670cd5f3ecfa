//! Scatters down columns, a row at a time.
//!
//! All points of a row go down their columns by the same steps, and nothing is carried from step to step but what is in memory. So each step is done for
//! the whole row: what is read and written lies side by side, where a few columns after the others would touch a line of each row, all of them in a few sets
//! of the cache if rows are powers of two.

use super::Emitter;
use super::index::At;
use crate::CodegenError;
use crate::ir::{Elem, V};
use ox_ir::Sym;
use ox_ir::kernel::{Axis, BufRole, Inst, Kernel, Pass, Val};
use ox_ir::sym::{Var, VarKind};

/// Lines so far apart share few sets of the caches.
const FAR: i64 = 1024;

impl<'a> Emitter<'a> {
    /// The points `from..to` of a row, step by step, if they are a scatter; else each with all of its steps.
    pub fn row(&mut self, axis: &'a Axis, from: V<'a>, to: V<'a>) -> Result<(), CodegenError> {
        let Some(steps) = steps_of_scatter(self.kernel) else { return self.row_of_points(axis, from, to) };
        let ir = self.ir;
        let extent = self.sym(&steps.extent, At::Base, Elem::I64)?;
        ir.for_loop(ir.index(0), extent, 1, vec![], |step, none| {
            self.bind(&steps.var, step);
            self.in_step = true;
            self.row_of_points(axis, from, to)?;
            self.in_step = false;
            Ok::<_, CodegenError>(none)
        })?;
        Ok(())
    }

    /// Whether the innermost loop of the pass is the one over the lanes.
    pub fn is_flat(&self, pass: &Pass) -> bool {
        pass.axes.is_empty() || self.in_step
    }
}

/// The axis of the only loop of a kernel, if that is a scatter and nothing else, and of those that gain.
fn steps_of_scatter(kernel: &Kernel) -> Option<&Axis> {
    let mut loops = kernel.passes.iter().filter(|pass| !pass.axes.is_empty());
    let (Some(Pass { axes, body, .. }), None) = (loops.next(), loops.next()) else { return None };
    let [steps] = axes.as_slice() else { return None };
    let mut before = kernel.passes.iter().filter(|pass| pass.axes.is_empty()).flat_map(|pass| &pass.body);
    let carries = |inst: &Inst| matches!(inst, Inst::Reduce { .. } | Inst::ReduceArg { .. } | Inst::Scan { .. });
    let acts = |inst: &Inst| matches!(inst, Inst::Store { .. } | Inst::CheckIndex { .. } | Inst::CheckNonZero { .. });
    let has_scratch = kernel.bufs.iter().any(|buf| matches!(buf.role, BufRole::Scratch(_)));
    let is_free = kernel.parallel && !has_scratch && !kernel.insts.iter().any(|typed| carries(&typed.inst));
    let is_all = !before.any(|val| acts(&kernel.inst(*val).inst));
    (is_free && is_all && body.iter().any(|val| gains(kernel, &kernel.inst(*val).inst))).then_some(steps)
}

/// Whether a store to places that were found finds the same row for all columns; or rows so far apart that they share few sets of the caches. Otherwise a
/// few columns are better: they stay in the cache, whichever rows they find.
fn gains(kernel: &Kernel, inst: &Inst) -> bool {
    let Inst::Store { buf, index, .. } = inst else { return false };
    let bytes = kernel.bufs[*buf as usize].dtype.size() as i64;
    let is_far = |var: &Var| index.coeff(var).and_then(|row| row.as_const()).is_some_and(|row| row * bytes % FAR == 0);
    let varying = varying_places(kernel);
    let places: Vec<Var> = index.vars().into_iter().filter(|var| var.kind() == VarKind::Loaded).collect();
    !places.is_empty() && places.iter().all(|var| !varying.contains(var) || is_far(var))
}

/// The places that differ from column to column.
fn varying_places(kernel: &Kernel) -> Vec<Var> {
    let Some(axis) = kernel.axes.last() else { return vec![] };
    let mut places = Vec::new();
    let mut varies: Vec<bool> = Vec::with_capacity(kernel.insts.len());
    for typed in &kernel.insts {
        let of = |val: &Val| varies[val.index()];
        let along = |index: &Sym| index.vars().iter().any(|var| *var == axis.var || places.contains(var));
        let differs = match &typed.inst {
            Inst::Const(_) => false,
            Inst::Index(index) => along(index),
            Inst::Load { index, mask, .. } => along(index) || mask.is_some(),
            Inst::Point(_, args) => args.iter().any(of),
            Inst::Cast(arg) | Inst::CheckIndex { value: arg, .. } => of(arg),
            _ => true,
        };
        if let (Inst::CheckIndex { var, .. }, true) = (&typed.inst, differs) {
            places.push(var.clone());
        }
        varies.push(differs);
    }
    places
}
