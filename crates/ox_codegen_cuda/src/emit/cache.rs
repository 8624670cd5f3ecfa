//! What a thread of a row kernel keeps in registers from pass to pass: elements that several passes read, and scratch memory.
//!
//! A thread comes back to the same places of the row in every pass, so it finds there what it read or wrote before.

use crate::geometry::{Geometry, Spread, is_pack, is_uniform};
use ox_ir::Sym;
use ox_ir::kernel::{Axis, BufRole, Inst, Kernel, Pass, Val};
use ox_ir::sym::VarKind;
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes that a thread may keep of what it loaded.
const MOST_BYTES: i64 = 256;

#[derive(Default)]
pub struct Cache {
    /// Loads of the same element share a slot; the first one fills it.
    slots: FxHashMap<Val, (usize, bool)>,
    registers: FxHashSet<u32>,
}

/// What a cached load does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cached {
    Fill(usize),
    Use(usize),
}

impl Cache {
    pub fn of(kernel: &Kernel, g: &Geometry) -> Cache {
        let mut cache = Cache::default();
        let (Spread::Rows, Some(items)) = (g.spread, g.items) else { return cache };
        if !is_uniform(&kernel.passes) {
            return cache;
        }
        let Some(axes) = kernel.passes.iter().map(|pass| &pass.axes).find(|axes| !axes.is_empty()) else { return cache };
        cache.keep_scratch(kernel, axes);
        cache.keep_loads(kernel, axes, g.lanes, items);
        cache
    }

    pub fn in_registers(&self, buf: u32) -> bool {
        self.registers.contains(&buf)
    }

    pub fn load(&self, val: Val) -> Option<Cached> {
        let (slot, fills) = self.slots.get(&val)?;
        Some(if *fills { Cached::Fill(*slot) } else { Cached::Use(*slot) })
    }

    /// One load of each slot, the one that fills it.
    pub fn filling(&self) -> Vec<(usize, Val)> {
        let mut all: Vec<_> = self.slots.iter().filter(|(_, (_, fills))| *fills).map(|(val, (slot, _))| (*slot, *val)).collect();
        all.sort();
        all
    }

    /// Scratch that is only ever looked at where the thread stands in the row.
    fn keep_scratch(&mut self, kernel: &Kernel, axes: &[Axis]) {
        let here = axes.iter().fold(Sym::ZERO, |at, axis| &(&at * &axis.extent) + &Sym::var(&axis.var));
        for (n, _) in kernel.bufs.iter().enumerate().filter(|(_, b)| matches!(b.role, BufRole::Scratch(_))) {
            let at_home = |pass: &Pass, val: &Val| match &kernel.inst(*val).inst {
                Inst::Load { buf, index, .. } | Inst::Store { buf, index, .. } if *buf == n as u32 => {
                    !pass.axes.is_empty() && *index == here
                }
                _ => true,
            };
            if kernel.passes.iter().all(|pass| pass.body.iter().all(|val| at_home(pass, val))) {
                self.registers.insert(n as u32);
            }
        }
    }

    fn keep_loads(&mut self, kernel: &Kernel, axes: &[Axis], lanes: i64, items: i64) {
        let last = &axes[axes.len() - 1].var;
        let mut found: Vec<(u32, &Sym, Vec<Val>)> = Vec::new();
        for val in kernel.passes.iter().filter(|pass| !pass.axes.is_empty()).flat_map(|pass| &pass.body) {
            let Inst::Load { buf, index, mask: None } = &kernel.inst(*val).inst else { continue };
            let by_loop = index.vars().iter().any(|v| axes.iter().any(|axis| axis.var == *v));
            let settled = index.vars().iter().all(|v| v.kind() != VarKind::Loaded);
            let memory = !matches!(kernel.bufs[*buf as usize].role, BufRole::Scratch(_));
            if !(by_loop && settled && memory && (lanes == 1 || is_pack(index, last, lanes)) && reads_come_first(kernel, *buf)) {
                continue;
            }
            match found.iter_mut().find(|(b, i, _)| b == buf && *i == index) {
                Some((_, _, vals)) => vals.push(*val),
                None => found.push((*buf, index, vec![*val])),
            }
        }
        let mut bytes = 0;
        for (buf, _, vals) in found.into_iter().filter(|(_, _, vals)| vals.len() > 1) {
            bytes += items * lanes * kernel.bufs[buf as usize].dtype.size() as i64;
            if bytes > MOST_BYTES {
                return;
            }
            let slot = self.filling().len();
            self.slots.extend(vals.iter().enumerate().map(|(n, val)| (*val, (slot, n == 0))));
        }
    }
}

/// Whether no load of the buffer comes after a store to it.
fn reads_come_first(kernel: &Kernel, buf: u32) -> bool {
    let mut written = false;
    kernel.passes.iter().flat_map(|pass| &pass.body).all(|val| match &kernel.inst(*val).inst {
        Inst::Store { buf: b, .. } if *b == buf => {
            written = true;
            true
        }
        Inst::Load { buf: b, .. } if *b == buf => !written,
        _ => true,
    })
}
