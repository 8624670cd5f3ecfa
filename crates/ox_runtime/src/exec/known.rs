//! Inputs that the caller knows: he sees to it that layout and memory stay what they are, so that a run need not ask torch.

use super::{Executable, check_input};
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};

pub struct Known {
    /// The memory of each input; None for those that may be others in the next run.
    data: Vec<Option<*mut u8>>,
    varying: Vec<usize>,
}

// SAFETY: addresses; the caller keeps what they point to.
unsafe impl Send for Known {}
unsafe impl Sync for Known {}

impl Known {
    pub(super) fn data(&self, input: usize) -> Option<*mut u8> {
        self.data.get(input).copied().flatten()
    }
}

impl Executable {
    /// Looks at the fixed inputs once, and not at the others. Of a Plan with sizes nothing can be known: None.
    pub fn know(&self, inputs: &[TensorRef<'_>], is_fixed: impl Fn(usize) -> bool) -> Result<Option<Known>, RunError> {
        if !self.plan.sizes.is_empty() {
            return Ok(None);
        }
        let prepared = self.prepared(&[])?;
        let data = |n| match is_fixed(n) {
            true => check_input(self.abi, &prepared.inputs, self.device, inputs, n).and_then(|()| inputs[n].data_ptr().map(Some)),
            false => Ok(None),
        };
        let varying = (0..inputs.len()).filter(|n| !is_fixed(*n)).collect();
        let data = (0..inputs.len()).map(data).collect::<Result<_, _>>()?;
        Ok(Some(Known { data, varying }))
    }

    /// # Safety
    /// The inputs that are known must have the layout and the memory that they had when `know` looked at them.
    pub unsafe fn run_known(&self, inputs: &[TensorRef<'_>], known: &Known) -> Result<Vec<Tensor>, RunError> {
        let prepared = self.prepared(&[])?;
        if inputs.len() < prepared.inputs.len() {
            return Err(RunError::bug("fewer inputs than were known"));
        }
        known.varying.iter().try_for_each(|at| check_input(self.abi, &prepared.inputs, self.device, inputs, *at))?;
        self.run_prepared(&prepared, inputs, &[], Some(known))
    }
}
