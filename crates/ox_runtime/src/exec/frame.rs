//! The state of one run.

use super::arena::Room;
use super::known::Known;
use super::layout::Env;
use super::prepare::{Home, Operand, Prepared, Window};
use crate::abi::{Abi, Handle, Ops};
use crate::calls::library::HostCalls;
use crate::cuda::Stream;
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};
use ox_ir::{Device, Plan};
use std::ptr::null_mut;

/// What is kept from one run to the next of the same Prepared: above all the tensor handles of operands. Such a handle only
/// describes memory, it does not own it, so it stays right for as long as the memory is at the same address.
pub struct Frame {
    /// The first element of each buffer; null before it is made.
    pub data: Vec<*mut u8>,
    /// The tensors of owned buffers.
    pub owned: Vec<Option<Tensor>>,
    operands: Vec<(*mut u8, Option<Tensor>)>,
}

// SAFETY: the pointers are addresses that are set anew in every run.
unsafe impl Send for Frame {}

impl Frame {
    pub fn new(buffers: usize, operands: usize) -> Frame {
        let operands = (0..operands).map(|_| (null_mut(), None)).collect();
        Frame { data: vec![null_mut(); buffers], owned: (0..buffers).map(|_| None).collect(), operands }
    }

    /// Forgets the buffers of the last run.
    pub fn clear(&mut self) {
        self.owned.iter_mut().for_each(|t| *t = None);
        self.data.iter_mut().for_each(|p| *p = null_mut());
    }
}

pub struct Run<'a> {
    pub abi: &'static Abi,
    pub plan: &'a Plan,
    pub prepared: &'a Prepared,
    pub device: Device,
    pub ops: &'static Ops,
    /// On a GPU: what kernels are launched on.
    pub stream: Option<Stream>,
    pub host: &'a dyn HostCalls,
    pub inputs: &'a [TensorRef<'a>],
    pub known: Option<&'a Known>,
    pub env: Env<'a>,
    pub threads: usize,
    pub frame: Frame,
    pub arena: Option<Room>,
    /// Something was done that must not be done twice.
    pub spent: bool,
}

impl Run<'_> {
    /// Points the buffers that lie in inputs and in the arena to their memory.
    pub fn place_buffers(&mut self) -> Result<(), RunError> {
        let Some(known) = self.known.filter(|known| known.buffers.len() == self.frame.data.len()) else {
            return (0..self.frame.data.len()).try_for_each(|at| self.place_buffer(at));
        };
        self.frame.data.copy_from_slice(&known.buffers);
        known.placed_anew.iter().try_for_each(|at| self.place_buffer(*at))
    }

    fn place_buffer(&mut self, at: usize) -> Result<(), RunError> {
        let buffer = &self.prepared.buffers[at];
        self.frame.data[at] = match buffer.home {
            Home::Input(_) if buffer.packed => null_mut(),
            Home::Input(n) => self.inputs[n].data_ptr()?,
            Home::Arena(offset) => self.arena.as_ref().map_or(null_mut(), |arena| arena.start()).wrapping_add(offset),
            Home::Owned => null_mut(),
        };
        Ok(())
    }

    pub fn address(&self, window: &Window) -> *mut u8 {
        self.frame.data[window.buf].wrapping_offset(window.offset as isize * window.layout.dtype.size() as isize)
    }

    /// The operand as a tensor that does not own its memory: for callees that keep nothing.
    pub fn operand(&mut self, operand: Operand) -> Result<Handle, RunError> {
        let window = &self.prepared.windows[operand.0 as usize];
        let data = self.address(window);
        let (at, tensor) = &mut self.frame.operands[operand.0 as usize];
        match tensor {
            Some(tensor) if *at == data => Ok(tensor.as_ref().handle()),
            _ => {
                let Window { layout, .. } = window;
                // SAFETY: the window lies inside of its buffer (checked when prepared), which lives until the run ends; the handle is
                // used again only for the same address.
                let fresh = unsafe { Tensor::from_memory(data, &layout.sizes, &layout.strides, layout.dtype, self.device)? };
                *at = data;
                Ok(tensor.insert(fresh).as_ref().handle())
            }
        }
    }

    /// The operand as a tensor that owns (or shares) its memory: for callees that may keep it. What lies in the arena is copied.
    pub fn lasting_operand(&mut self, operand: Operand) -> Result<Tensor, RunError> {
        let window = &self.prepared.windows[operand.0 as usize];
        let base = match self.prepared.buffers[window.buf].home {
            Home::Input(n) => self.inputs[n],
            Home::Owned => self.owned(window.buf)?,
            Home::Arena(_) => {
                let handle = self.operand(operand)?;
                // SAFETY: the handle lives in the frame.
                return unsafe { TensorRef::from_handle(handle) }.duplicate();
            }
        };
        let Window { layout, offset, .. } = window;
        if *offset == 0 && layout.sizes.as_slice() == base.sizes()? && layout.strides.as_slice() == base.strides()? {
            return base.to_owned();
        }
        base.reinterpret(&layout.sizes, &layout.strides, base.storage_offset()? + offset)
    }

    /// The tensor of a packed buffer, as the library made it.
    pub fn packed(&self, buf: usize) -> Result<TensorRef<'_>, RunError> {
        match self.prepared.buffers[buf].home {
            Home::Input(n) => Ok(self.inputs[n]),
            _ => self.owned(buf),
        }
    }

    pub fn owned(&self, buf: usize) -> Result<TensorRef<'_>, RunError> {
        self.frame.owned[buf]
            .as_ref()
            .map(Tensor::as_ref)
            .ok_or_else(|| RunError::bug(format!("buffer {buf} is used before it is made")))
    }
}
