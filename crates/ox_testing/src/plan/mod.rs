//! What a Plan means: its steps in order, on memory as the plan lays it out. All arena buffers really share one arena, and bytes
//! that nobody has written cannot be read, so that a mistake of the memory plan shows as an error or as wrong numbers.

mod memory;
mod native;

pub use native::NativeKernels;

use crate::error::InterpretError;
use crate::graph::{Env, Matmul, attention, conv, matmul};
use crate::kernel::{KernelMemory, interpret_kernel};
use crate::scalar::convert;
use crate::tensor::TensorData;
use memory::{Memory, Window};
use ox_ir::kernel::BufRole;
use ox_ir::plan::{BufId, Call, CheckKind, Plan, PlanOutput, Step, View};
use ox_ir::{Scalar, Sym};

type Result<T> = std::result::Result<T, InterpretError>;

#[derive(Clone, PartialEq, Debug)]
pub struct PlanResult {
    pub outputs: Vec<TensorData>,
    /// What each input holds afterwards; None for one that was given to the plan and let go.
    pub inputs: Vec<Option<TensorData>>,
}

/// Runs a plan on its inputs, which are laid out as the plan's input buffers say; `sizes` are the values of `plan.sizes`.
pub fn interpret_plan(plan: &Plan, inputs: &[TensorData], sizes: &[i64]) -> Result<PlanResult> {
    run_plan(plan, inputs, sizes, None)
}

/// The same with the kernels as machine code. A failed check is returned by `native` as `InterpretError::Check`.
pub fn interpret_plan_with(
    plan: &Plan,
    inputs: &[TensorData],
    sizes: &[i64],
    native: &mut NativeKernels<'_>,
) -> Result<PlanResult> {
    run_plan(plan, inputs, sizes, Some(native))
}

fn run_plan(plan: &Plan, inputs: &[TensorData], sizes: &[i64], native: Option<&mut NativeKernels<'_>>) -> Result<PlanResult> {
    let env = Env::new(&plan.sizes, sizes)?;
    let memory = Memory::new(plan, inputs, &env)?;
    let mut run = Run { plan, env, memory, native };
    for (n, step) in plan.steps.iter().enumerate() {
        run.step(step).map_err(|e| e.at_step(n))?;
    }
    for write in &plan.write_backs {
        let value = run.read(&write.from)?;
        run.memory.write_input(write.input, &value)?;
    }
    let outputs = plan.outputs.iter().map(|output| run.output(output)).collect::<Result<_>>()?;
    Ok(PlanResult { outputs, inputs: run.memory.read_inputs()? })
}

impl InterpretError {
    fn at_step(self, n: usize) -> InterpretError {
        match self {
            InterpretError::Invalid(message) => InterpretError::Invalid(format!("step {n}: {message}")),
            other => other,
        }
    }
}

struct Run<'a, 'n> {
    plan: &'a Plan,
    env: Env,
    memory: Memory,
    native: Option<&'a mut NativeKernels<'n>>,
}

impl Run<'_, '_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Launch { kernel, bufs, checks } => self.launch(*kernel, bufs).map_err(|e| self.failed_check(e, *checks)),
            Step::Call { call, ins, outs, .. } => self.call(call, ins, outs),
            Step::Copy { from, to } => {
                let value = self.read(from)?;
                let to = self.window(to)?;
                self.memory.write(&to, &value)
            }
            Step::Drop(buf) => self.memory.drop_buffer(*buf),
            Step::Release => {
                self.memory.release();
                Ok(())
            }
        }
    }

    fn launch(&mut self, number: u32, bufs: &[BufId]) -> Result<()> {
        let kernel = self.plan.kernels.get(number as usize);
        let kernel = kernel.ok_or_else(|| InterpretError::invalid(format!("no kernel {number}")))?;
        let sizes = kernel.sizes.iter().map(|v| self.env.eval(&Sym::var(v))).collect::<Result<Vec<_>>>()?;
        let params: Vec<_> = kernel.bufs.iter().filter(|b| !matches!(b.role, BufRole::Scratch(_))).collect();
        let fits = params.len() == bufs.len() && params.iter().zip(bufs).all(|(p, b)| self.memory.dtype(*b) == Some(p.dtype));
        if !fits {
            return Err(InterpretError::invalid(format!("the buffers do not fit the parameters of {}", kernel.name)));
        }
        if let Some(native) = &mut self.native {
            return native::launch(&mut self.memory, number, kernel, bufs, &sizes, *native);
        }
        interpret_kernel(kernel, &mut Launched { memory: &mut self.memory, bufs }, &sizes)
    }

    /// Says what the failed check of a launch means; its checks start at `first`.
    fn failed_check(&self, error: InterpretError, first: u32) -> InterpretError {
        let InterpretError::Check { check, value, extent } = error else { return error };
        match self.plan.checks.get((first + check) as usize).map(|c| &c.kind) {
            Some(CheckKind::IndexError(_)) => InterpretError::IndexError { value, extent },
            Some(CheckKind::RuntimeError(_)) => InterpretError::RuntimeError { value, extent },
            Some(CheckKind::ZeroDivision(_)) => InterpretError::ZeroDivision,
            None => InterpretError::invalid(format!("there is no check {first} + {check}")),
        }
    }

    fn call(&mut self, call: &Call, ins: &[View], outs: &[BufId]) -> Result<()> {
        let [out] = outs else { return Err(InterpretError::Unsupported(format!("a call with {} outputs", outs.len()))) };
        let ins = ins.iter().map(|view| self.read(view)).collect::<Result<Vec<_>>>()?;
        let ins: Vec<&TensorData> = ins.iter().collect();
        let window = self.memory.whole(*out)?;
        let dtype = window.dtype;
        let value = match call {
            Call::Matmul { bias, add, alpha, beta, post } => {
                matmul(&Matmul { bias: *bias, add: *add, alpha: *alpha, beta: *beta, post }, &ins, dtype)?
            }
            Call::Conv(attrs) => conv(attrs, &ins, dtype, &window.shape, &self.env)?,
            Call::Pack(_) => ins[0].clone(),
            Call::Attention(attrs) => attention(attrs, &ins, dtype)?,
            Call::Library(_) => return Err(InterpretError::Unsupported("library calls".into())),
        };
        self.memory.write(&window, &value)
    }

    fn window(&self, view: &View) -> Result<Window> {
        let (shape, strides, offset) =
            (self.env.shape(&view.shape)?, self.env.evals(&view.strides)?, self.env.eval(&view.offset)?);
        Ok(self.memory.whole(view.buf)?.with_layout(shape, strides, offset))
    }

    fn read(&self, view: &View) -> Result<TensorData> {
        self.memory.read(&self.window(view)?)
    }

    fn output(&self, output: &PlanOutput) -> Result<TensorData> {
        match output {
            PlanOutput::Buffer(buf) => self.memory.read(&self.memory.whole(*buf)?),
            PlanOutput::View(view) => self.read(view),
            PlanOutput::InputView { input, shape, strides, offset } => {
                let (shape, strides, offset) = (self.env.shape(shape)?, self.env.evals(strides)?, self.env.eval(offset)?);
                self.memory.read(&self.memory.input(*input)?.with_layout(shape, strides, offset))
            }
        }
    }
}

/// The buffers of one launch.
struct Launched<'a> {
    memory: &'a mut Memory,
    bufs: &'a [BufId],
}

impl KernelMemory for Launched<'_> {
    fn load(&self, buf: usize, at: i64) -> Result<Scalar> {
        let window = self.memory.whole(self.bufs[buf])?;
        self.memory.load(&window, at)
    }

    fn store(&mut self, buf: usize, at: i64, value: Scalar) -> Result<()> {
        let window = self.memory.whole(self.bufs[buf])?;
        self.memory.store(&window, at, convert(value, window.dtype))
    }
}

#[cfg(test)]
mod tests;
