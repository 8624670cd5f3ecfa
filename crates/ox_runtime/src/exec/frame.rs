//! The state of one run.

use super::arena::Arena;
use super::kept::Keeper;
use super::known::Known;
use super::layout::Env;
use super::prepare::{Home, Operand, Prepared, Window};
use crate::abi::{Abi, Handle, Ops};
use crate::calls::library::HostCalls;
use crate::cuda::Stream;
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};
use ox_ir::{DType, Device, Plan};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// What is kept from one run to the next of the same Prepared: above all the tensor handles of operands. Such a handle only
/// describes memory, it does not own it, so it stays right for as long as the memory is at the same address.
#[derive(Default)]
pub struct Frame {
    /// The first element of each buffer; null before it is made.
    pub data: Vec<*mut u8>,
    /// The tensors of owned buffers.
    pub owned: Vec<Option<Tensor>>,
    operands: Vec<(*mut u8, Option<Tensor>)>,
    /// What kernels are called with, by number of the launch.
    pub arguments: Vec<Vec<*mut u8>>,
    /// Whether the buffers of known inputs have their places, which stay (see `known`).
    pub is_settled: bool,
}

// SAFETY: the pointers are addresses that are set anew in every run.
unsafe impl Send for Frame {}

impl Frame {
    pub fn new(prepared: &Prepared) -> Frame {
        let buffers = prepared.buffers.len();
        Frame {
            data: vec![null_mut(); buffers],
            owned: (0..buffers).map(|_| None).collect(),
            operands: prepared.windows.iter().map(|_| (null_mut(), None)).collect(),
            arguments: vec![Vec::new(); prepared.launches],
            is_settled: false,
        }
    }

    pub fn forget(&mut self, buffer: usize) {
        self.owned[buffer] = None;
        self.data[buffer] = null_mut();
    }

    /// Forgets the buffers of the last run.
    pub fn clear(&mut self) {
        self.owned.iter_mut().for_each(|t| *t = None);
        self.data.iter_mut().for_each(|p| *p = null_mut());
    }
}

/// Frames that no run uses now, by inference mode.
#[derive(Default)]
pub struct Idle([Mutex<Vec<Frame>>; 2]);

/// Kept of each kind.
const KEEP_FRAMES: usize = 4;

impl Idle {
    pub fn take(&self, inference: bool) -> Option<Frame> {
        self.0[inference as usize].lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub fn give(&self, inference: bool, frame: Frame) {
        let mut frames = self.0[inference as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if frames.len() < KEEP_FRAMES {
            frames.push(frame);
        }
    }
}

/// The tensors that a run works on, by number.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub all: &'a [TensorRef<'a>],
    /// Few, which take the place of some of them.
    pub given: &'a [(usize, TensorRef<'a>)],
}

impl<'a> Inputs<'a> {
    pub fn get(self, n: usize) -> TensorRef<'a> {
        let given = self.given.iter().find(|(at, _)| *at == n);
        given.map_or_else(|| self.all[n], |(_, tensor)| *tensor)
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
    pub inputs: Inputs<'a>,
    /// Those inputs that the run holds itself, until it is done with them.
    pub held: Vec<Option<Tensor>>,
    pub known: Option<&'a Known>,
    pub env: Env<'a>,
    pub threads: usize,
    pub frame: Frame,
    pub arena: Option<Arena>,
    pub keeper: Option<&'a Keeper>,
    /// What launches that are not on the stream yet work in, one after the other, with its bytes.
    pub scratch: Vec<(usize, Tensor)>,
    /// Something was done that must not be done twice.
    pub spent: bool,
    /// A profiler is at work, and wants to know what is launched.
    pub profiled: bool,
    /// It makes large tensors: see `heap::keep_ends_together`.
    pub large: bool,
    /// Later runs are recorded: what can only be found out by launching must be known before.
    pub recorded_later: bool,
}

impl Run<'_> {
    /// Where a launch may work in so many bytes. Launches that have been put on the stream leave theirs: see `forget_scratch`.
    pub fn scratch(&mut self, bytes: usize) -> Result<u64, RunError> {
        if let Some((_, tensor)) = self.scratch.iter().find(|(size, _)| *size >= bytes) {
            return Ok(tensor.as_ref().data_ptr()? as u64);
        }
        let tensor = Tensor::empty_strided(&[bytes as i64], &[1], DType::U8, self.device)?;
        let start = tensor.as_ref().data_ptr()? as u64;
        self.scratch.push((bytes, tensor));
        Ok(start)
    }

    pub fn scratch_bytes(&self) -> usize {
        self.scratch.iter().map(|(bytes, _)| bytes).sum()
    }

    /// All launches are on the stream: whoever gets the memory next comes later on it.
    pub fn forget_scratch(&mut self) {
        self.scratch.clear();
    }

    pub fn place_buffer(&mut self, at: usize) -> Result<(), RunError> {
        let buffer = &self.prepared.buffers[at];
        self.frame.data[at] = match buffer.home {
            Home::Input(_) if buffer.packed => null_mut(),
            Home::Input(n) => self.inputs.get(n).data_ptr()?,
            Home::Arena(offset) => self.arena.as_ref().map_or(null_mut(), |arena| arena.start()).wrapping_add(offset),
            Home::Owned => null_mut(),
        };
        Ok(())
    }

    pub fn address(&self, window: &Window) -> *mut u8 {
        self.frame.data[window.buf].wrapping_offset(window.offset as isize * window.layout.dtype.size() as isize)
    }

    /// Where an operand begins.
    pub fn address_of(&self, operand: Operand) -> *mut u8 {
        self.address(&self.prepared.windows[operand.0 as usize])
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

    /// Makes what this frame keeps for the runs to come before there is anything large: made in between, it would lie in the way of all that come
    /// (see `heap`).
    pub fn make_lasting_handles(&mut self) -> Result<(), RunError> {
        self.place_buffers()?;
        for at in 0..self.prepared.windows.len() {
            let window = &self.prepared.windows[at];
            let buffer = &self.prepared.buffers[window.buf];
            if matches!(buffer.home, Home::Input(_)) && !buffer.packed {
                self.operand(Operand(at as u32))?;
            }
        }
        Ok(())
    }

    /// Drops the tensors of operands that may lie elsewhere in the next run: kept, they would lie in the way of what is large (see `heap`).
    pub fn forget_moving_operands(&mut self) {
        let released = self.arena.is_none();
        for (window, (at, tensor)) in self.prepared.windows.iter().zip(&mut self.frame.operands) {
            let moves = match self.prepared.buffers[window.buf].home {
                Home::Owned => true,
                Home::Arena(_) => released,
                Home::Input(_) => false,
            };
            if moves {
                (*at, *tensor) = (null_mut(), None);
            }
        }
    }

    /// The operand as a tensor that owns (or shares) its memory: for callees that may keep it. What lies in the arena is copied.
    pub fn lasting_operand(&mut self, operand: Operand) -> Result<Tensor, RunError> {
        let window = &self.prepared.windows[operand.0 as usize];
        let base = match self.prepared.buffers[window.buf].home {
            Home::Input(n) => self.inputs.get(n),
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
        base.reinterpret(&layout.sizes, &layout.strides, *offset)
    }

    /// The tensor of a packed buffer, as the library made it.
    pub fn packed(&self, buf: usize) -> Result<TensorRef<'_>, RunError> {
        match self.prepared.buffers[buf].home {
            Home::Input(n) => Ok(self.inputs.get(n)),
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
