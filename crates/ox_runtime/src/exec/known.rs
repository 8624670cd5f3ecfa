//! Inputs that the caller knows: he sees to it that layout and memory stay what they are, so that a run need not ask torch.

use super::prepare::Home;
use super::{Executable, check_input};
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};
use ox_ir::plan::Place;

pub struct Known {
    /// The first element of each buffer; null for those that may lie elsewhere in the next run.
    pub(super) buffers: Vec<*mut u8>,
    /// Those buffers.
    pub(super) placed_anew: Vec<usize>,
    /// Inputs that may be others in the next run.
    varying: Vec<usize>,
}

// SAFETY: addresses; the caller keeps what they point to.
unsafe impl Send for Known {}
unsafe impl Sync for Known {}

impl Executable {
    /// Looks at the fixed inputs once, and not at the others. `sizes` are those of some call; an input whose layout depends on them is
    /// not fixed.
    pub fn know(&self, inputs: &[TensorRef<'_>], sizes: &[i64], is_fixed: impl Fn(usize) -> bool) -> Result<Known, RunError> {
        let prepared = self.prepared(sizes)?;
        let is_fixed = |n: usize| is_fixed(n) && !self.depends_on_sizes(n);
        let (varying, fixed): (Vec<usize>, Vec<usize>) = (0..inputs.len()).partition(|n| !is_fixed(*n));
        fixed.iter().try_for_each(|n| check_input(self.abi, &prepared.inputs, self.device, inputs, *n))?;
        let mut buffers = vec![std::ptr::null_mut(); prepared.buffers.len()];
        let mut placed_anew = Vec::new();
        for (at, buffer) in prepared.buffers.iter().enumerate() {
            match buffer.home {
                Home::Input(n) if is_fixed(n) && !buffer.packed => buffers[at] = inputs[n].data_ptr()?,
                Home::Owned => {}
                _ => placed_anew.push(at),
            }
        }
        Ok(Known { buffers, placed_anew, varying })
    }

    fn depends_on_sizes(&self, input: usize) -> bool {
        let buffer = self.plan.buffers.iter().find(|buffer| buffer.place == Place::Input(input as u32));
        buffer.is_some_and(|buffer| buffer.shape.iter().chain(&buffer.strides).any(|size| size.as_const().is_none()))
    }

    /// # Safety
    /// The inputs that are known must have the layout and the memory that they had when `know` looked at them.
    pub unsafe fn run_known(&self, inputs: &[TensorRef<'_>], sizes: &[i64], known: &Known) -> Result<Vec<Tensor>, RunError> {
        let prepared = self.prepared(sizes)?;
        if inputs.len() < prepared.inputs.len() {
            return Err(RunError::bug("fewer inputs than were known"));
        }
        known.varying.iter().try_for_each(|at| check_input(self.abi, &prepared.inputs, self.device, inputs, *at))?;
        self.run_prepared(&prepared, inputs, sizes, Some(known))
    }
}
