//! What a run leaves behind: results of library calls, tensors for the caller, writes into inputs.

use super::frame::Run;
use super::layout::Layout;
use super::pages::advise;
use super::prepare::{Buffer, Home, Output, Window};
use crate::abi::Handle;
use crate::calls::dispatch;
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};
use ox_ir::{DType, Device};

impl Run<'_> {
    pub fn allocate(&mut self, buf: usize) -> Result<(), RunError> {
        let Buffer { layout, returned, .. } = &self.prepared.buffers[buf];
        let Layout { dtype, sizes, strides } = layout;
        let tensor = match self.keeper.filter(|_| *returned) {
            Some(keeper) => keeper.empty_strided(layout, self.prepared.keepable_bytes)?,
            None => Tensor::empty_strided(sizes, strides, *dtype, self.device)?,
        };
        if self.keeper.is_none() && self.device == Device::Cpu {
            advise(tensor.as_ref().data_ptr()?, layout.bytes());
        }
        self.adopt(buf, tensor)
    }

    /// For a call that has nothing to compute.
    pub fn allocate_if_missing(&mut self, buf: usize) -> Result<(), RunError> {
        let missing = self.prepared.buffers[buf].home == Home::Owned && self.frame.owned[buf].is_none();
        if missing { self.allocate(buf) } else { Ok(()) }
    }

    fn adopt(&mut self, buf: usize, tensor: Tensor) -> Result<(), RunError> {
        self.frame.data[buf] = tensor.as_ref().data_ptr()?;
        self.frame.owned[buf] = Some(tensor);
        Ok(())
    }

    /// Puts a tensor that a library call returned into its buffer: as it is if the buffer has no memory yet and the strides are
    /// those planned, else by a copy.
    pub fn deliver(&mut self, buf: usize, result: Tensor) -> Result<(), RunError> {
        let layout = &self.prepared.buffers[buf].layout;
        // Of what operators return besides their result, torch's word is sometimes another than its kernels'.
        if !self.prepared.buffers[buf].read {
            return Ok(());
        }
        // What a call was told to leave out comes back undefined: without a type, and without memory.
        if layout.sizes[..] == [0] && result.as_ref().dtype()?.is_none() {
            return Ok(());
        }
        self.check_result(buf, layout, result.as_ref())?;
        if self.prepared.buffers[buf].home == Home::Owned && self.frame.owned[buf].is_none() {
            if layout.is_like(result.as_ref().sizes()?, result.as_ref().strides()?) {
                return self.adopt(buf, result);
            }
            self.allocate(buf)?;
        }
        let whole = Window { buf, offset: 0, layout: layout.clone() };
        // SAFETY: the buffer's memory is valid here, and the tensor does not outlive this function.
        let target =
            unsafe { Tensor::from_memory(self.address(&whole), &layout.sizes, &layout.strides, layout.dtype, self.device)? };
        target.as_ref().copy_from(result.as_ref())
    }

    /// Whether a result that lies so is taken as it is.
    pub fn adopts(&self, buf: usize, result: &Layout) -> bool {
        let buffer = &self.prepared.buffers[buf];
        let is_free = buffer.read && buffer.home == Home::Owned && self.frame.owned[buf].is_none();
        is_free && buffer.layout.dtype == result.dtype && buffer.layout.is_like(&result.sizes, &result.strides)
    }

    /// Keeps a packed weight; there is nothing to be known of its memory.
    pub fn deliver_packed(&mut self, buf: usize, packed: Tensor) {
        self.frame.owned[buf] = Some(packed);
    }

    fn check_result(&self, buf: usize, layout: &Layout, result: TensorRef<'_>) -> Result<(), RunError> {
        let (sizes, dtype) = (result.sizes()?, result.dtype()?);
        if sizes != layout.sizes.as_slice() || dtype != Some(layout.dtype) {
            let dtype = dtype.map_or("an unknown type".to_string(), |dtype| dtype.to_string());
            return Err(RunError::bug(format!(
                "buffer {buf} was planned as {} {:?}, but torch returned {dtype} {sizes:?}",
                layout.dtype, layout.sizes
            )));
        }
        Ok(())
    }

    /// Whether `data` lies in memory that this run borrows: then a tensor there must not outlive the run.
    pub fn is_borrowed(&self, data: *const u8) -> bool {
        if self.arena.as_ref().is_some_and(|a| a.contains(data)) {
            return true;
        }
        let within = |(start, buffer): (&*mut u8, &super::prepare::Buffer)| {
            let bytes = buffer.layout.bytes();
            (*start as usize..*start as usize + bytes).contains(&(data as usize))
        };
        self.frame.data.iter().zip(&self.prepared.buffers).any(within)
    }

    pub fn write_back(&mut self) -> Result<(), RunError> {
        let prepared = self.prepared;
        let left = || prepared.write_backs.iter().filter(|write| !write.done);
        let mut sources = Vec::new();
        for write in left() {
            let handle = self.operand(write.from)?;
            // SAFETY: the handle lives in the frame.
            let source = unsafe { TensorRef::from_handle(handle) };
            sources.push(if write.early { Some(source.duplicate()?) } else { None });
        }
        self.spent |= !sources.is_empty();
        let mut copies: Vec<(DType, Handle, Handle)> = Vec::with_capacity(sources.len());
        for (write, early) in left().zip(&sources) {
            let value = match early {
                Some(source) => source.as_ref().handle(),
                None => self.operand(write.from)?,
            };
            let dtype = prepared.windows[write.from.0 as usize].layout.dtype;
            copies.push((dtype, self.inputs.get(write.input).handle(), value));
        }
        // On a GPU a copy of its own for every small buffer would cost more than all of them together; torch does those of one type at once.
        if self.device != Device::Cpu && copies.len() > 1 {
            copies.sort_by_key(|(dtype, ..)| *dtype as usize);
            return copies.chunk_by(|a, b| a.0 == b.0).try_for_each(|alike| {
                let (targets, values): (Vec<Handle>, Vec<Handle>) =
                    alike.iter().map(|(_, target, value)| (*target, *value)).unzip();
                dispatch::copy_each(&targets, &values)
            });
        }
        for (_, target, value) in copies {
            // SAFETY: the handles live in the frame, and in `sources`.
            unsafe { TensorRef::from_handle(target).copy_from(TensorRef::from_handle(value))? };
        }
        Ok(())
    }

    /// The tensors for the caller. Runs in the caller's grad mode, because a view remembers the mode that it was made in.
    pub fn results(&mut self) -> Result<Vec<Tensor>, RunError> {
        self.prepared.outputs.iter().map(|output| self.result(output)).collect()
    }

    /// Those that are views of inputs once more, where inputs were written behind the first of them: a view remembers the version that its base had.
    pub fn renew_views(&mut self, results: &mut [Tensor]) -> Result<(), RunError> {
        let outputs = self.prepared.outputs.iter().zip(results);
        for (output, result) in outputs.filter(|(output, _)| self.shows_input(output)) {
            *result = self.result(output)?;
        }
        Ok(())
    }

    /// Whether inputs are written when the results are there, and one of those is a view of an input.
    pub fn outdates_views(&self) -> bool {
        self.prepared.write_backs.iter().any(|write| !write.done)
            && self.prepared.outputs.iter().any(|output| self.shows_input(output))
    }

    fn shows_input(&self, output: &Output) -> bool {
        match output {
            Output::Buffer(_) => false,
            Output::InputView { .. } => true,
            Output::View { window, .. } => matches!(self.prepared.buffers[window.buf].home, Home::Input(_)),
        }
    }

    fn result(&self, output: &Output) -> Result<Tensor, RunError> {
        match output {
            Output::Buffer(buf) => match self.prepared.buffers[*buf].home {
                Home::Input(n) => self.inputs.get(n).to_owned(),
                _ => self.owned(*buf)?.to_owned(),
            },
            Output::InputView { input, layout, offset } => {
                let input = self.inputs.get(*input);
                alias(input, layout, input.storage_offset()? + offset)
            }
            Output::View { window, shared } => {
                let home = self.prepared.buffers[window.buf].home;
                let base = if let Home::Input(n) = home { self.inputs.get(n) } else { self.owned(window.buf)? };
                let layout = &window.layout;
                if *shared || matches!(home, Home::Input(_)) {
                    return alias(base, layout, base.storage_offset()? + window.offset);
                }
                base.reinterpret(&layout.sizes, &layout.strides, window.offset)
            }
        }
    }
}

/// A true view, with the base's version counter.
fn alias(base: TensorRef<'_>, layout: &Layout, offset: i64) -> Result<Tensor, RunError> {
    dispatch::as_strided(base, &layout.sizes, &layout.strides, offset)
}
