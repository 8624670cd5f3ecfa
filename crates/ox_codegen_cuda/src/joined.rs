//! Rows of an odd length that are written one behind the other, as one long row: then whole vectors are written. What lies otherwise is found by
//! division, which costs less than the many small stores.

use ox_ir::graph::Combine;
use ox_ir::kernel::{Axis, Inst, Kernel};
use ox_ir::{Sym, Var};

/// Elements that are written at once. Of larger ones fewer fit, and single stores are not that small.
const LANES: i64 = 8;
const LARGEST: usize = 2;
/// Below that a kernel is short of threads.
const LEAST_POINTS: i64 = 1 << 20;

/// The kernel over one axis, if that is better.
pub fn joined(kernel: &Kernel) -> Option<Kernel> {
    let (last, _) = kernel.axes.split_last().filter(|(_, others)| !others.is_empty())?;
    let points = kernel.points().as_const().filter(|points| *points >= LEAST_POINTS && points % LANES == 0)?;
    if last.extent.is_multiple_of(2) || kernel.passes.iter().any(|pass| !pass.axes.is_empty()) {
        return None;
    }
    let dense = dense(&kernel.axes)?;
    if !kernel.insts.iter().all(|i| is_fit(&i.inst, i.dtype.size(), &dense)) {
        return None;
    }
    let flat = Var::axis(last.var.id(), Sym::from(points));
    let mut out = kernel.clone();
    for inst in &mut out.insts {
        if let Inst::Load { index, .. } | Inst::Store { index, .. } | Inst::Index(index) = &mut inst.inst {
            *index = along(index, &dense, &flat, &kernel.axes);
        }
    }
    out.axes = vec![Axis { extent: Sym::from(points), var: flat }];
    Some(out)
}

/// The place of a point if all of them lie one behind the other.
fn dense(axes: &[Axis]) -> Option<Sym> {
    let (mut place, mut step) = (Sym::ZERO, 1);
    for axis in axes.iter().rev() {
        place = &place + &(&Sym::var(&axis.var) * step);
        step *= axis.extent.as_const()?;
    }
    Some(place)
}

/// Stores lie one behind the other. What else is there does not care for the axes.
fn is_fit(inst: &Inst, size: usize, dense: &Sym) -> bool {
    match inst {
        Inst::Store { index, mask: None, combine: Combine::Set, .. } => index == dense && size <= LARGEST,
        Inst::Store { .. } | Inst::CheckIndex { .. } | Inst::CheckNonZero { .. } | Inst::ReduceArg { .. } => false,
        _ => true,
    }
}

fn along(index: &Sym, dense: &Sym, flat: &Var, axes: &[Axis]) -> Sym {
    if index == dense {
        return Sym::var(flat);
    }
    let mut rest = Sym::var(flat);
    let mut places: Vec<(&Var, Sym)> = Vec::new();
    for (n, axis) in axes.iter().enumerate().rev() {
        places.push((&axis.var, if n == 0 { rest.clone() } else { rest.rem(&axis.extent) }));
        rest = rest.div(&axis.extent);
    }
    index.subst(&|var| places.iter().find(|(known, _)| *known == var).map(|(_, place)| place.clone()))
}
