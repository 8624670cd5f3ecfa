//! What must hold for a Kernel.

use super::{Check, VerifyError, at, ensure};
use crate::dtype::DType;
use crate::graph::{Combine, ReduceOp};
use crate::kernel::{Axis, BufParam, BufRole, Inst, Kernel, Lanes, Pass, Val};
use crate::point::{PointClass, PointOp};
use crate::sym::{Sym, Var, VarKind};

impl Kernel {
    /// Checks that every value and variable is used where it can be seen, the roles of the buffers, and the types.
    pub fn verify(&self) -> Result<(), VerifyError> {
        let mut scope = Scope {
            kernel: self,
            visible: vec![false; self.insts.len()],
            placed: vec![false; self.insts.len()],
            vars: self.sizes.clone(),
        };
        at(&self.name, scope.enter_axes(&self.axes))?;
        let outer_lanes = self.lanes == Lanes::Outer;
        at(&self.name, ensure(!outer_lanes || !self.axes.is_empty(), || "lanes along an outer axis, but there is none".into()))?;
        for pass in &self.passes {
            scope.pass(pass)?;
        }
        match scope.placed.iter().position(|placed| !placed) {
            Some(n) => at(Val(n as u32), Err("it is in no pass".into())),
            None => Ok(()),
        }
    }
}

struct Scope<'a> {
    kernel: &'a Kernel,
    /// Values that can be used now.
    visible: Vec<bool>,
    placed: Vec<bool>,
    /// Variables that have a value now.
    vars: Vec<Var>,
}

impl Scope<'_> {
    fn enter_axes(&mut self, axes: &[Axis]) -> Check {
        for axis in axes {
            ensure(axis.var.kind() == VarKind::Axis, || format!("{} is not an axis", axis.var))?;
            ensure(!self.vars.contains(&axis.var), || format!("{} is an axis already", axis.var))?;
            ensure(axis.var.extent() == Some(&axis.extent), || format!("{} has another extent", axis.var))?;
            for var in axis.extent.vars() {
                ensure(self.kernel.sizes.contains(&var), || format!("the extent of {} needs {var}", axis.var))?;
            }
            self.vars.push(axis.var.clone());
        }
        Ok(())
    }

    fn pass(&mut self, pass: &Pass) -> Result<(), VerifyError> {
        let outer_vars = self.vars.len();
        at(&self.kernel.name, self.enter_axes(&pass.axes))?;
        for val in &pass.body {
            let place = || format!("{val} ({})", self.kernel.insts.get(val.index()).map_or("?".into(), |i| i.inst.to_string()));
            let place = place();
            at(&place, self.place(*val))?;
            at(&place, self.inst(*val))?;
            let inst = &self.kernel.inst(*val).inst;
            if let Inst::CheckIndex { var, .. } = inst {
                self.vars.push(var.clone());
            }
            let later = matches!(inst, Inst::Reduce { .. } | Inst::ReduceArg { .. });
            let no_value = matches!(inst, Inst::Store { .. } | Inst::CheckNonZero { .. });
            self.visible[val.index()] = !later && !no_value;
        }
        self.leave(pass, outer_vars);
        Ok(())
    }

    fn place(&mut self, val: Val) -> Check {
        ensure(val.index() < self.placed.len(), || "there is no such instruction".into())?;
        ensure(!std::mem::replace(&mut self.placed[val.index()], true), || "it is in two places".into())
    }

    /// Reductions are seen from here on; what a pass with inner axes computed otherwise is not.
    fn leave(&mut self, pass: &Pass, outer_vars: usize) {
        for val in &pass.body {
            let reduced = matches!(self.kernel.inst(*val).inst, Inst::Reduce { .. } | Inst::ReduceArg { .. });
            let kept = reduced || (pass.axes.is_empty() && self.visible[val.index()]);
            self.visible[val.index()] = kept;
        }
        if !pass.axes.is_empty() {
            self.vars.truncate(outer_vars);
        }
    }

    fn inst(&self, val: Val) -> Check {
        let typed = self.kernel.inst(val);
        let is = |dtype: DType| ensure(typed.dtype == dtype, || format!("its type is {}, not {dtype}", typed.dtype));
        match &typed.inst {
            Inst::Const(_) => Ok(()),
            Inst::Index(sym) => {
                self.seen(sym)?;
                is(DType::I64)
            }
            Inst::Load { buf, index, mask } => {
                let param = self.buf(*buf)?;
                ensure(param.role != BufRole::Out, || format!("b{buf} is only written"))?;
                self.seen(index)?;
                mask.iter().try_for_each(|(mask, _)| self.mask(*mask))?;
                is(param.dtype)
            }
            Inst::Point(op, args) => self.point(*op, args, typed.dtype),
            Inst::Cast(value) => self.value(*value).map(drop),
            Inst::Reduce { op, value } => {
                self.value(*value)?;
                ensure(!op.is_arg(), || "a position needs `at`".into())
            }
            Inst::ReduceArg { op, value, position } => {
                self.value(*value)?;
                self.seen(position)?;
                ensure(op.is_arg(), || "only positions have `at`".into())?;
                is(DType::I64)
            }
            Inst::Scan { op, value, decay } => {
                self.value(*value)?;
                let running = matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min);
                ensure(running, || format!("there is no running {}", op.name()))?;
                let Some(decay) = decay else { return Ok(()) };
                ensure(*op == ReduceOp::Sum, || "only sums decay".into())?;
                ensure(self.value(*decay)? == typed.dtype, || "a sum decays by numbers of its type".into())
            }
            Inst::CheckIndex { value, var, extent, .. } => {
                self.seen(extent)?;
                ensure(self.value(*value)?.is_int(), || "an index is an integer".into())?;
                let fresh = var.kind() == VarKind::Loaded && var.extent() == Some(extent) && !self.vars.contains(var);
                ensure(fresh, || format!("{var} is not a fresh index below {extent}"))?;
                is(DType::I64)
            }
            Inst::CheckNonZero { value, .. } => ensure(self.value(*value)?.is_int(), || "only integers are checked".into()),
            Inst::Store { buf, index, value, combine, mask } => self.store(*buf, index, *value, *combine, *mask),
        }
    }

    fn store(&self, buf: u32, index: &Sym, value: Val, combine: Combine, mask: Option<Val>) -> Check {
        let param = self.buf(buf)?;
        ensure(param.role != BufRole::In, || format!("b{buf} is only read"))?;
        ensure(combine == Combine::Set || param.role != BufRole::Out, || format!("b{buf} is combined with, so it is read too"))?;
        self.seen(index)?;
        mask.iter().try_for_each(|mask| self.mask(*mask))?;
        let dtype = self.value(value)?;
        ensure(dtype == param.dtype, || format!("a value of type {dtype} into b{buf}: {param}"))
    }

    fn point(&self, op: PointOp, args: &[Val], result: DType) -> Check {
        ensure(args.len() == op.arity(), || format!("{} arguments", args.len()))?;
        let dtypes = args.iter().map(|arg| self.value(*arg)).collect::<Result<Vec<_>, _>>()?;
        let dtype = dtypes[dtypes.len() - 1];
        let first = usize::from(op.class() == PointClass::Select);
        ensure(first == 0 || dtypes[0] == DType::Bool, || "the condition is not bool".into())?;
        ensure(dtypes[first..].iter().all(|d| *d == dtype), || format!("arguments of types {dtypes:?}"))?;
        ensure(op.accepts(dtype), || format!("it is not defined on {dtype}"))?;
        ensure(result == op.result(dtype), || format!("its type is {result}, not {}", op.result(dtype)))
    }

    fn buf(&self, buf: u32) -> Result<&BufParam, String> {
        self.kernel.bufs.get(buf as usize).ok_or_else(|| format!("there is no b{buf}"))
    }

    /// The type of a value that can be used here.
    fn value(&self, val: Val) -> Result<DType, String> {
        ensure(self.visible.get(val.index()).copied().unwrap_or(false), || format!("{val} is not to be seen here"))?;
        Ok(self.kernel.inst(val).dtype)
    }

    fn mask(&self, val: Val) -> Check {
        ensure(self.value(val)? == DType::Bool, || format!("the mask {val} is not bool"))
    }

    fn seen(&self, sym: &Sym) -> Check {
        sym.vars().iter().try_for_each(|var| ensure(self.vars.contains(var), || format!("{var} has no value here")))
    }
}
