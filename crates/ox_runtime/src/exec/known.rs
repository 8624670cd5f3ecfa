//! Inputs that the caller knows: he sees to it that layout and memory stay what they are, so that a run neither asks torch nor looks at
//! them one by one. What such a run costs depends on the other inputs alone.

use super::frame::{Idle, Inputs, Run};
use super::prepare::{Action, Home, Prepared};
use super::{Executable, check_input};
use crate::error::RunError;
use crate::graphs::Graphs;
use crate::tensor::{Tensor, TensorRef};
use ox_ir::plan::Place;
use std::sync::Arc;

pub struct Known {
    /// For the sizes of the call in which the inputs became known.
    prepared: Arc<Prepared>,
    sizes: Box<[i64]>,
    /// By number; those that each run is given are not used.
    inputs: Vec<TensorRef<'static>>,
    /// Inputs that may be others in the next run.
    varying: Vec<usize>,
    /// The first element of each buffer; null for those that may lie elsewhere in the next run.
    buffers: Vec<*mut u8>,
    /// Buffers that lie in varying inputs and in the arena.
    placed_anew: Vec<usize>,
    /// All buffers that may lie elsewhere.
    moving: Vec<usize>,
    /// By number of the launch: its arguments in such buffers, as place and buffer.
    moving_arguments: Vec<Vec<(usize, usize)>>,
    /// Idle frames in which everything else has its place.
    frames: Idle,
    /// Recordings for these inputs.
    graphs: Option<Graphs>,
}

// SAFETY: addresses; the caller keeps what they point to.
unsafe impl Send for Known {}
unsafe impl Sync for Known {}

impl Executable {
    /// Looks at the fixed inputs once, and not at the others. `sizes` are those of some call; an input whose layout depends on them is
    /// not fixed.
    ///
    /// # Safety
    /// The fixed inputs must live as long as the result.
    pub unsafe fn know(
        &self,
        inputs: Vec<TensorRef<'static>>,
        sizes: &[i64],
        is_fixed: impl Fn(usize) -> bool,
    ) -> Result<Known, RunError> {
        let prepared = self.prepared(sizes)?;
        if inputs.len() < prepared.inputs.len() {
            return Err(RunError::bug("fewer inputs than the plan has"));
        }
        let is_fixed = |n: usize| is_fixed(n) && !self.depends_on_sizes(n);
        let (varying, fixed): (Vec<usize>, Vec<usize>) = (0..inputs.len()).partition(|n| !is_fixed(*n));
        fixed.iter().try_for_each(|n| check_input(self.abi, &prepared.inputs, self.device, *n, inputs[*n]))?;
        let mut buffers = vec![std::ptr::null_mut(); prepared.buffers.len()];
        let (mut placed_anew, mut moving) = (Vec::new(), Vec::new());
        for (at, buffer) in prepared.buffers.iter().enumerate() {
            match buffer.home {
                Home::Input(n) if is_fixed(n) && !buffer.packed => buffers[at] = inputs[n].data_ptr()?,
                Home::Input(_) | Home::Arena(_) => placed_anew.push(at),
                // At other sizes it may lie in the arena: see `late`.
                Home::Owned if matches!(self.plan.buffers[at].place, Place::Arena(_)) => placed_anew.push(at),
                Home::Owned => moving.push(at),
            }
        }
        moving.extend(&placed_anew);
        let moving_arguments = moving_arguments(&prepared, |buf| buffers[buf].is_null());
        let (sizes, frames) = (sizes.into(), Idle::default());
        let graphs = self.graphs.as_ref().map(|graphs| graphs.bound(varying.clone()));
        Ok(Known { prepared, sizes, inputs, varying, buffers, placed_anew, moving, moving_arguments, frames, graphs })
    }

    fn depends_on_sizes(&self, input: usize) -> bool {
        let buffer = self.plan.buffers.iter().find(|buffer| buffer.place == Place::Input(input as u32));
        buffer.is_some_and(|buffer| buffer.shape.iter().chain(&buffer.strides).any(|size| size.as_const().is_none()))
    }

    /// `given` are at least all inputs that were not fixed, by number.
    ///
    /// # Safety
    /// The inputs that are known must have the layout and the memory that they had when `know` looked at them.
    pub unsafe fn run_known(
        &self,
        given: &[(usize, TensorRef<'_>)],
        sizes: &[i64],
        known: &Known,
    ) -> Result<Vec<Tensor>, RunError> {
        let inputs = Inputs { all: &known.inputs, given };
        let other = if *known.sizes == *sizes { None } else { Some(self.prepared(sizes)?) };
        let prepared = other.as_ref().unwrap_or(&known.prepared);
        for at in &known.varying {
            check_input(self.abi, &prepared.inputs, self.device, *at, inputs.get(*at))?;
        }
        self.run_prepared(prepared, inputs, sizes, Some(known), Vec::new())
    }
}

fn moving_arguments(prepared: &Prepared, is_moving: impl Fn(usize) -> bool) -> Vec<Vec<(usize, usize)>> {
    let mut by_launch = vec![Vec::new(); prepared.launches];
    for action in &prepared.actions {
        let (number, bufs) = match action {
            Action::Launch(launch) => (launch.number, &launch.bufs),
            Action::GpuLaunch(launch) => (launch.number, &launch.bufs),
            _ => continue,
        };
        let places = bufs.iter().map(|buf| *buf as usize).enumerate();
        by_launch[number] = places.filter(|(_, buf)| is_moving(*buf)).collect();
    }
    by_launch
}

impl Known {
    /// Where the frames of a run come from, and go to.
    pub(super) fn frames_for<'a>(known: Option<&'a Known>, prepared: &'a Prepared) -> &'a Idle {
        known.filter(|known| known.is_for(prepared)).map_or(&prepared.frames, |known| &known.frames)
    }

    pub(super) fn graphs(&self) -> Option<&Graphs> {
        self.graphs.as_ref()
    }

    fn is_for(&self, prepared: &Prepared) -> bool {
        std::ptr::eq(&*self.prepared, prepared)
    }
}

impl Run<'_> {
    /// Points the buffers that lie in inputs and in the arena to their memory.
    pub fn place_buffers(&mut self) -> Result<(), RunError> {
        let Some(known) = self.known.filter(|known| known.buffers.len() == self.frame.data.len()) else {
            return (0..self.frame.data.len()).try_for_each(|at| self.place_buffer(at));
        };
        if !self.frame.is_settled {
            self.frame.data.copy_from_slice(&known.buffers);
            self.frame.is_settled = known.is_for(self.prepared);
        }
        known.placed_anew.iter().try_for_each(|at| self.place_buffer(*at))
    }

    /// What a kernel is called with: the memory of its buffers, and `rest`, which never changes. To be given back (`Frame::arguments`): what
    /// stays where it is need not be looked up again.
    pub fn arguments(&mut self, number: usize, bufs: &[u32], rest: &[*mut u8]) -> Vec<*mut u8> {
        let mut arguments = std::mem::take(&mut self.frame.arguments[number]);
        match self.known.filter(|_| self.frame.is_settled && arguments.len() == bufs.len() + rest.len()) {
            Some(known) => {
                for (at, buf) in &known.moving_arguments[number] {
                    arguments[*at] = self.frame.data[*buf];
                }
            }
            None => {
                arguments.clear();
                arguments.extend(bufs.iter().map(|buf| self.frame.data[*buf as usize]));
                arguments.extend_from_slice(rest);
            }
        }
        arguments
    }

    /// Forgets what this run has put into the frame.
    pub fn clear_frame(&mut self) {
        if self.large {
            self.forget_moving_operands();
        }
        match self.known.filter(|_| self.frame.is_settled) {
            Some(known) => known.moving.iter().for_each(|at| self.frame.forget(*at)),
            None => self.frame.clear(),
        }
    }
}
