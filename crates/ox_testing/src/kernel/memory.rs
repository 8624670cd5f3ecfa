//! The memory that a kernel sees.

use super::Result;
use crate::error::InterpretError;
use crate::tensor::TensorData;
use ox_ir::Scalar;
use ox_ir::kernel::{BufRole, Kernel};

/// The buffers that are passed to a kernel, by their place among the parameters that are not scratch.
pub trait KernelMemory {
    fn load(&self, buf: usize, at: i64) -> Result<Scalar>;
    fn store(&mut self, buf: usize, at: i64, value: Scalar) -> Result<()>;
}

/// Tensors as flat memory, in row-major order.
impl KernelMemory for [TensorData] {
    fn load(&self, buf: usize, at: i64) -> Result<Scalar> {
        let data = &self.get(buf).ok_or_else(|| no_buffer(buf))?.data;
        usize::try_from(at).ok().and_then(|at| data.get(at).copied()).ok_or_else(|| outside(buf, at, data.len()))
    }

    fn store(&mut self, buf: usize, at: i64, value: Scalar) -> Result<()> {
        let data = &mut self.get_mut(buf).ok_or_else(|| no_buffer(buf))?.data;
        let len = data.len();
        let slot = usize::try_from(at).ok().and_then(|at| data.get_mut(at)).ok_or_else(|| outside(buf, at, len))?;
        *slot = value;
        Ok(())
    }
}

fn no_buffer(buf: usize) -> InterpretError {
    InterpretError::invalid(format!("buffer {buf} was not passed"))
}

pub(crate) fn outside(buf: usize, at: i64, len: usize) -> InterpretError {
    InterpretError::invalid(format!("element {at} of buffer {buf} with {len} elements"))
}

/// The parameters of a kernel at one outer point: what was passed, and fresh scratch buffers.
pub(super) struct Bound<'a, M: ?Sized> {
    kernel: &'a Kernel,
    /// For each parameter: the place in the memory, or None for scratch.
    passed: Vec<Option<usize>>,
    scratch: Vec<Vec<Option<Scalar>>>,
    memory: &'a mut M,
}

impl<'a, M: KernelMemory + ?Sized> Bound<'a, M> {
    pub fn new(kernel: &'a Kernel, memory: &'a mut M) -> Bound<'a, M> {
        let mut count = 0;
        let mut passed = Vec::new();
        let mut scratch = Vec::new();
        for param in &kernel.bufs {
            let len = if let BufRole::Scratch(len) = param.role { len.max(0) as usize } else { 0 };
            let is_passed = !matches!(param.role, BufRole::Scratch(_));
            passed.push(is_passed.then_some(count));
            count += usize::from(is_passed);
            scratch.push(vec![None; len]);
        }
        Bound { kernel, passed, scratch, memory }
    }

    pub fn dtype(&self, buf: u32) -> Result<ox_ir::DType> {
        self.kernel.bufs.get(buf as usize).map(|b| b.dtype).ok_or_else(|| no_buffer(buf as usize))
    }

    pub fn load(&self, buf: u32, at: i64) -> Result<Scalar> {
        let buf = buf as usize;
        match self.passed.get(buf).ok_or_else(|| no_buffer(buf))? {
            Some(place) => self.memory.load(*place, at),
            None => {
                let data = &self.scratch[buf];
                let value = usize::try_from(at).ok().and_then(|at| data.get(at)).ok_or_else(|| outside(buf, at, data.len()))?;
                value.ok_or_else(|| {
                    InterpretError::invalid(format!("element {at} of scratch buffer {buf} is read before it is written"))
                })
            }
        }
    }

    pub fn store(&mut self, buf: u32, at: i64, value: Scalar) -> Result<()> {
        let buf = buf as usize;
        if self.kernel.bufs.get(buf).is_none_or(|b| b.role == BufRole::In) {
            return Err(InterpretError::invalid(format!("buffer {buf} is not to be written")));
        }
        match self.passed[buf] {
            Some(place) => self.memory.store(place, at, value),
            None => {
                let len = self.scratch[buf].len();
                let slot =
                    usize::try_from(at).ok().and_then(|at| self.scratch[buf].get_mut(at)).ok_or_else(|| outside(buf, at, len))?;
                *slot = Some(value);
                Ok(())
            }
        }
    }
}
