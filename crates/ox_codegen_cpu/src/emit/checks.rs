//! Run-time checks: the first failure is reported, and the kernel goes on with something harmless.

use super::index::At;
use super::{Bound, Emitter, convert};
use crate::CodegenError;
use crate::ir::{Access, Elem, V};
use ox_ir::kernel::Val;
use ox_ir::sym::Var;
use ox_ir::{DType, Sym};

impl<'a> Emitter<'a> {
    pub fn check_index(&mut self, val: Val, var: &Var, extent: &Sym, wrap: bool, check: u32) -> Result<V<'a>, CodegenError> {
        let value = convert::convert(self.value(val)?, self.dtype(val), DType::I64);
        let size = self.sym(extent, At::Base, Elem::I64)?;
        if size.is_wide() {
            return Err(self.malformed("the extent of a checked index differs between lanes".into()));
        }
        let index = if wrap { value.lt(value.int(0)).select(value + size, value) } else { value };
        let good = index.below(size);
        self.report(!good, value, size, check);
        let index = good.select(index, index.int(0));
        let valid = (!extent.is_positive()).then(|| size.gt(size.int(0)));
        self.depth += 1;
        self.vars.insert(var.clone(), Bound { value: index, depth: self.depth, valid });
        Ok(index)
    }

    pub fn check_non_zero(&mut self, val: Val, check: u32) -> Result<(), CodegenError> {
        let value = convert::convert(self.value(val)?, self.dtype(val), DType::I64);
        self.report(value.eq(value.int(0)), value, self.ir.index(0), check);
        Ok(())
    }

    /// Reports the first bad lane that exists, unless something was reported before.
    fn report(&self, bad: V<'a>, value: V<'a>, extent: V<'a>, check: u32) {
        let bad = match self.lane_mask() {
            Some(mask) => bad & mask,
            None => bad,
        };
        let (ir, error) = (self.ir, self.error);
        ir.when_rarely(bad.any(), vec![], |none| {
            let (_, first) = error.compare_exchange(ir.index(0), ir.index(check as i64 + 1));
            let value = value.splat(bad.lanes.max(value.lanes)).extract(bad.first_true());
            ir.when_rarely(first, none, |none| {
                error.offset(Elem::I64, ir.index(1)).store(value, 8, Access::UNKNOWN);
                error.offset(Elem::I64, ir.index(2)).store(extent, 8, Access::UNKNOWN);
                none
            })
        });
    }
}
