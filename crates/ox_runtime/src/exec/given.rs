//! Inputs that the caller gives away: the run holds the last reference to them, and drops it where the Plan says so.

use super::arena::Arena;
use super::frame::{Inputs, Run};
use super::prepare::{Buffer, Home};
use super::{Executable, check_inputs};
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};

pub enum Input<'a> {
    Lent(TensorRef<'a>),
    Given(Tensor),
}

impl Executable {
    /// As `run`; what is given is let go as soon as the Plan says that it is not needed any more.
    pub fn run_given(&self, inputs: Vec<Input<'_>>, sizes: &[i64]) -> Result<Vec<Tensor>, RunError> {
        let prepared = self.prepared(sizes)?;
        let (mut handles, mut held) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
        for input in inputs {
            handles.push(match &input {
                Input::Lent(tensor) => *tensor,
                // SAFETY: the run holds the tensor until the Plan drops it, and nothing behind that names it.
                Input::Given(tensor) => unsafe { TensorRef::from_handle(tensor.as_ref().handle()) },
            });
            held.push(if let Input::Given(tensor) = input { Some(tensor) } else { None });
        }
        check_inputs(self.abi, &prepared.inputs, self.device, &handles)?;
        self.run_prepared(&prepared, Inputs { all: &handles, given: &[] }, sizes, None, held)
    }
}

impl Run<'_> {
    /// Only of the run's own: an input that was lent stays the caller's, and a known one stays where it is from run to run.
    pub fn let_go(&mut self, buf: usize) {
        if let Home::Input(n) = self.prepared.buffers[buf].home
            && self.held.get_mut(n).and_then(Option::take).is_none()
        {
            return;
        }
        self.frame.forget(buf);
    }

    /// What the run holds now, in bytes: what it has made, and what it was given for good.
    pub fn held_bytes(&self) -> usize {
        let is_held = |(at, buffer): &(usize, &Buffer)| match buffer.home {
            Home::Owned => self.frame.owned[*at].is_some(),
            Home::Input(n) => self.held.get(n).is_some_and(Option::is_some),
            Home::Arena(_) => false,
        };
        let buffers = self.prepared.buffers.iter().enumerate().filter(is_held);
        buffers.map(|(_, buffer)| buffer.layout.bytes()).sum::<usize>() + self.arena.as_ref().map_or(0, Arena::bytes)
    }
}
