//! Inner loops whose points do not depend on one another, made outer ones: then all of them run in parallel.
//!
//! Above all that is scatters. The CPU walks them in order, so that the last of several writes wins and sums are rounded in one order;
//! on a GPU eager does neither, and walking would take a thousand times longer.

use ox_ir::kernel::{Inst, Kernel, Lanes, Pass, Val};

/// The kernel with its one inner loop as outer axes, if nothing ties the loop's points together.
pub fn flatten(kernel: &Kernel) -> Option<Kernel> {
    let mut loops = kernel.passes.iter().filter(|pass| !pass.axes.is_empty());
    let inner = loops.next()?;
    let free = |val: &Val| !matches!(kernel.inst(*val).inst, Inst::Reduce { .. } | Inst::ReduceArg { .. } | Inst::Scan { .. });
    let stores = |pass: &Pass| pass.body.iter().any(|val| matches!(kernel.inst(*val).inst, Inst::Store { .. }));
    let rows = kernel.passes.iter().filter(|pass| pass.axes.is_empty());
    if loops.next().is_some() || !inner.body.iter().all(free) || rows.into_iter().any(stores) {
        return None;
    }
    // The axis along which neighbours lie side by side stays the last.
    let (first, last) = match kernel.lanes {
        Lanes::Outer => (&inner.axes, &kernel.axes),
        Lanes::Inner | Lanes::None => (&kernel.axes, &inner.axes),
    };
    let axes = first.iter().chain(last).cloned().collect();
    let body = kernel.passes.iter().flat_map(|pass| pass.body.iter().copied()).collect();
    let passes = vec![Pass { axes: Vec::new(), body }];
    Some(Kernel { axes, passes, lanes: Lanes::Outer, ..kernel.clone() })
}
