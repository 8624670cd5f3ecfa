//! What a Kernel means: one outer point after the other, one pass after the other, one element at a time.
//!
//! The outer points of a parallel kernel run from the last to the first: whatever depends on their order shows as a wrong number.

mod memory;

pub use memory::KernelMemory;

use crate::error::InterpretError;
use crate::graph::{Accumulator, Env};
use crate::scalar::{apply, convert};
use crate::tensor::indices;
use memory::Bound;
use ox_ir::graph::Combine;
use ox_ir::kernel::{Axis, Inst, Kernel, Pass, Val};
use ox_ir::{Scalar, Sym, Var};

type Result<T> = std::result::Result<T, InterpretError>;

/// Runs a kernel on the buffers that are not scratch, in order; `sizes` are the values of `kernel.sizes`.
pub fn interpret_kernel<M: KernelMemory + ?Sized>(kernel: &Kernel, memory: &mut M, sizes: &[i64]) -> Result<()> {
    let mut env = Env::new(&kernel.sizes, sizes)?;
    let shape = extents(&env, &kernel.axes)?;
    let mut points: Vec<Vec<usize>> = indices(&shape).collect();
    if kernel.parallel {
        points.reverse();
    }
    for point in points {
        bind(&mut env, &kernel.axes, &point);
        let mut run = Point {
            kernel,
            values: vec![None; kernel.insts.len()],
            loaded: Vec::new(),
            memory: Bound::new(kernel, memory),
            env: &mut env,
        };
        for pass in &kernel.passes {
            run.pass(pass)?;
        }
        let loaded = run.loaded;
        env.unbind(&loaded);
    }
    Ok(())
}

fn extents(env: &Env, axes: &[Axis]) -> Result<Vec<usize>> {
    axes.iter().map(|axis| Ok(env.eval(&axis.extent)?.max(0) as usize)).collect()
}

fn bind(env: &mut Env, axes: &[Axis], index: &[usize]) {
    for (axis, at) in axes.iter().zip(index) {
        env.0.insert(axis.var.clone(), *at as i64);
    }
}

/// The run of one outer point.
struct Point<'a, M: ?Sized> {
    kernel: &'a Kernel,
    /// What can be seen now.
    values: Vec<Option<Scalar>>,
    /// Loaded indices that have a value now.
    loaded: Vec<Var>,
    memory: Bound<'a, M>,
    env: &'a mut Env,
}

impl<M: KernelMemory + ?Sized> Point<'_, M> {
    fn pass(&mut self, pass: &Pass) -> Result<()> {
        let outer_vars = self.loaded.len();
        let mut accumulators = self.accumulators(pass);
        for index in indices(&extents(self.env, &pass.axes)?) {
            bind(self.env, &pass.axes, &index);
            if index.last().is_none_or(|last| *last == 0) {
                self.restart_scans(pass, &mut accumulators);
            }
            for (val, acc) in pass.body.iter().zip(&mut accumulators) {
                self.inst(*val, acc)?;
            }
        }
        self.leave(pass, outer_vars);
        for (val, acc) in pass.body.iter().zip(accumulators) {
            if let (Inst::Reduce { .. } | Inst::ReduceArg { .. }, Some(acc)) = (&self.kernel.inst(*val).inst, acc) {
                self.values[val.index()] = Some(convert(acc.result(), self.kernel.inst(*val).dtype));
            }
        }
        Ok(())
    }

    /// One for each instruction of the pass that keeps a running value.
    fn accumulators(&self, pass: &Pass) -> Vec<Option<Accumulator>> {
        let of = |val: &Val| {
            let typed = self.kernel.inst(*val);
            match &typed.inst {
                Inst::Reduce { op, .. } | Inst::Scan { op, .. } => Some(Accumulator::new(*op, typed.dtype)),
                Inst::ReduceArg { op, value, .. } => Some(Accumulator::new(*op, self.kernel.inst(*value).dtype)),
                _ => None,
            }
        };
        pass.body.iter().map(of).collect()
    }

    fn restart_scans(&self, pass: &Pass, accumulators: &mut [Option<Accumulator>]) {
        for ((val, acc), fresh) in pass.body.iter().zip(accumulators).zip(self.accumulators(pass)) {
            if matches!(self.kernel.inst(*val).inst, Inst::Scan { .. }) {
                *acc = fresh;
            }
        }
    }

    /// The values and variables of a pass with inner axes end with it.
    fn leave(&mut self, pass: &Pass, outer_vars: usize) {
        if pass.axes.is_empty() {
            return;
        }
        pass.body.iter().for_each(|val| self.values[val.index()] = None);
        self.env.unbind(&self.loaded.split_off(outer_vars));
        self.env.unbind(pass.axes.iter().map(|axis| &axis.var));
    }

    fn inst(&mut self, val: Val, acc: &mut Option<Accumulator>) -> Result<()> {
        let kernel = self.kernel;
        let typed = kernel.inst(val);
        let result = match &typed.inst {
            Inst::Const(value) => *value,
            Inst::Index(sym) => Scalar::Int(self.env.eval(sym)?),
            Inst::Load { mask: Some((mask, other)), .. } if !self.value(*mask)?.as_bool() => *other,
            Inst::Load { buf, index, .. } => self.memory.load(*buf, self.env.eval(index)?)?,
            Inst::Point(op, args) => {
                let dtype = kernel.inst(*args.last().ok_or_else(|| InterpretError::invalid("no arguments"))?).dtype;
                let args = args.iter().map(|arg| self.value(*arg)).collect::<Result<Vec<_>>>()?;
                // A division by zero goes on with 0; `CheckNonZero` is what reports it.
                apply(*op, dtype, &args).unwrap_or(Scalar::Int(0))
            }
            Inst::Cast(value) => self.value(*value)?,
            Inst::Reduce { value, .. } => return self.accumulate(acc, *value, &Sym::ZERO, typed.dtype).map(drop),
            Inst::ReduceArg { value, position, .. } => {
                return self.accumulate(acc, *value, position, kernel.inst(*value).dtype).map(drop);
            }
            Inst::Scan { value, decay, .. } => {
                if let Some(decay) = decay {
                    acc.as_mut().expect("made for every scan").decay(self.value(*decay)?);
                }
                self.accumulate(acc, *value, &Sym::ZERO, typed.dtype)?
            }
            Inst::CheckIndex { value, var, extent, wrap, check } => self.check_index(*value, var, extent, *wrap, *check)?,
            Inst::CheckNonZero { value, check } => {
                let value = self.value(*value)?.as_i64();
                return if value == 0 { Err(InterpretError::Check { check: *check, value, extent: 0 }) } else { Ok(()) };
            }
            Inst::Store { buf, index, value, combine, mask } => return self.store(*buf, index, *value, *combine, *mask),
        };
        self.values[val.index()] = Some(convert(result, typed.dtype));
        Ok(())
    }

    fn value(&self, val: Val) -> Result<Scalar> {
        self.values
            .get(val.index())
            .copied()
            .flatten()
            .ok_or_else(|| InterpretError::invalid(format!("{val} is not to be seen here")))
    }

    fn accumulate(&self, acc: &mut Option<Accumulator>, value: Val, position: &Sym, dtype: ox_ir::DType) -> Result<Scalar> {
        let acc = acc.as_mut().expect("made for every reduction");
        acc.push(convert(self.value(value)?, dtype), self.env.eval(position)?);
        Ok(acc.result())
    }

    fn check_index(&mut self, value: Val, var: &Var, extent: &Sym, wrap: bool, check: u32) -> Result<Scalar> {
        let (value, extent) = (self.value(value)?.as_i64(), self.env.eval(extent)?);
        let at = if wrap && value < 0 { value + extent } else { value };
        if !(0..extent).contains(&at) {
            return Err(InterpretError::Check { check, value, extent });
        }
        self.env.0.insert(var.clone(), at);
        self.loaded.push(var.clone());
        Ok(Scalar::Int(at))
    }

    fn store(&mut self, buf: u32, index: &Sym, value: Val, combine: Combine, mask: Option<Val>) -> Result<()> {
        if mask.map(|mask| self.value(mask)).transpose()?.is_some_and(|mask| !mask.as_bool()) {
            return Ok(());
        }
        let (at, value) = (self.env.eval(index)?, self.value(value)?);
        let dtype = self.memory.dtype(buf)?;
        let value = match combine {
            Combine::Set => convert(value, dtype),
            Combine::With(op) => {
                convert(Accumulator::combine(op, dtype, self.memory.load(buf, at)?, convert(value, dtype)), dtype)
            }
        };
        self.memory.store(buf, at, value)
    }
}

#[cfg(test)]
mod tests;
