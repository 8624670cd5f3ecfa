//! Costly values that a later pass needs again, kept in memory private to the row.

use super::{Emitter, Key, Param, PassId};
use crate::cost::op_cost;
use ox_ir::graph::Combine;
use ox_ir::kernel::{Inst, Val};
use ox_ir::{NodeId, Sym};

/// Computing again is cheaper than a store and a load up to this cost.
const COSTLY: i64 = 10;
/// Elements of one scratch buffer: what surely stays in the first-level cache.
const MOST_ELEMENTS: i64 = 8192;

impl Emitter<'_> {
    /// The value from an earlier pass, if it was computed there and is worth keeping.
    pub(super) fn kept_value(&mut self, key: &(PassId, Key)) -> Option<Val> {
        let (pass, inner) = key;
        if !self.scratch || !pass.full || inner.2.is_some() || self.in_memory(inner.0) {
            return None;
        }
        let early = (0..pass.level).find_map(|level| {
            let early = PassId { level, full: true };
            Some((early, *self.values.get(&(early, inner.clone()))?))
        });
        let (early, val) = early?;
        let len = self.row_length()?;
        if self.expression_cost(inner.0) < COSTLY {
            return None;
        }
        let dtype = self.insts[val.index()].dtype;
        let index = self.row_position();
        let buf = match self.stored_at(early, val) {
            Some(buf) => buf,
            None => {
                self.params.push(Param::Scratch(dtype, len));
                let buf = self.params.len() as u32 - 1;
                let store = Inst::Store { buf, index: index.clone(), value: val, combine: Combine::Set, mask: None };
                self.push(early, store, dtype);
                buf
            }
        };
        Some(self.push(*pass, Inst::Load { buf, index, mask: None }, dtype))
    }

    /// The scratch buffer that a pass already keeps a value in.
    fn stored_at(&self, pass: PassId, val: Val) -> Option<u32> {
        self.bodies[&pass].iter().find_map(|v| match &self.insts[v.index()].inst {
            Inst::Store { buf, value, .. } if *value == val && matches!(self.params[*buf as usize], Param::Scratch(..)) => {
                Some(*buf)
            }
            _ => None,
        })
    }

    fn row_length(&self) -> Option<i64> {
        let reduced = self.space.axes.iter().filter(|a| a.reduced).map(|a| &a.extent);
        reduced.product::<Sym>().as_const().filter(|n| *n <= MOST_ELEMENTS)
    }

    fn row_position(&self) -> Sym {
        let axes = self.space.axes.iter().zip(self.space.vars()).filter(|(a, _)| a.reduced);
        axes.fold(Sym::ZERO, |acc, (a, v)| &(&acc * &a.extent) + &Sym::var(&v))
    }

    /// What computing a node in place costs, counted until it is clear that it is much.
    fn expression_cost(&self, id: NodeId) -> i64 {
        let (mut cost, mut stack) = (0, vec![id]);
        while let Some(id) = stack.pop() {
            if cost >= COSTLY {
                break;
            }
            if !self.in_memory(id) && !self.is_member_reduction(id) {
                cost += op_cost(self.ctx.graph, id);
                stack.extend(self.ctx.graph.node(id).args.iter().copied());
            }
        }
        cost
    }
}
