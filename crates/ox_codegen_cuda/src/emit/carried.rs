//! What passes leave for later ones where a thread has several columns: an array with an element for each of them.

use crate::geometry::{Geometry, Spread};
use ox_ir::kernel::{Inst, Kernel, Val};
use rustc_hash::FxHashSet;

#[derive(Default)]
pub struct Carried {
    values: FxHashSet<Val>,
    /// Those that the pass under construction has computed itself.
    own: FxHashSet<Val>,
}

impl Carried {
    pub fn of(kernel: &Kernel, g: &Geometry) -> Carried {
        let mut carried = Carried::default();
        if g.spread != Spread::Columns || g.lanes == 1 {
            return carried;
        }
        for pass in &kernel.passes {
            let own: FxHashSet<Val> = pass.body.iter().copied().collect();
            for val in &pass.body {
                let is_reduction = matches!(kernel.inst(*val).inst, Inst::Reduce { .. } | Inst::ReduceArg { .. });
                carried.values.extend((is_reduction && !pass.axes.is_empty()).then_some(*val));
                carried.values.extend(operands(&kernel.inst(*val).inst).into_iter().filter(|used| !own.contains(used)));
            }
        }
        carried
    }

    /// All of them, in order.
    pub fn values(&self) -> Vec<Val> {
        let mut all: Vec<Val> = self.values.iter().copied().collect();
        all.sort_unstable();
        all
    }

    pub fn begin_pass(&mut self) {
        self.own.clear();
    }

    /// Whether a value that is now there is needed later, too.
    pub fn found(&mut self, val: Val) -> bool {
        self.values.contains(&val) && self.own.insert(val)
    }

    pub fn comes_from_elsewhere(&self, val: Val) -> bool {
        self.values.contains(&val) && !self.own.contains(&val)
    }
}

pub fn operands(inst: &Inst) -> Vec<Val> {
    match inst {
        Inst::Const(_) | Inst::Index(_) => Vec::new(),
        Inst::Load { mask, .. } => mask.iter().map(|(m, _)| *m).collect(),
        Inst::Point(_, args) => args.iter().copied().collect(),
        Inst::Cast(value) | Inst::Reduce { value, .. } | Inst::ReduceArg { value, .. } => vec![*value],
        Inst::Scan { value, decay, .. } => std::iter::once(*value).chain(*decay).collect(),
        Inst::CheckIndex { value, .. } | Inst::CheckNonZero { value, .. } => vec![*value],
        Inst::Store { value, mask, .. } => std::iter::once(*value).chain(*mask).collect(),
    }
}
