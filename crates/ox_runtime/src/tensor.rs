//! torch tensors: `Tensor` owns a handle, `TensorRef` borrows one.

use crate::abi::{Abi, Code, Handle, abi};
use crate::error::RunError;
use crate::exec::layout::Layout;
use ox_ir::{DType, Device};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::slice::from_raw_parts;

/// An owned `AtenTensorHandle`: one reference to a torch tensor.
#[derive(Debug)]
pub struct Tensor(Handle);

// SAFETY: a TensorImpl's reference count is atomic, and we never change one that another thread may see.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

/// A tensor that somebody else keeps alive for 'a.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    handle: Handle,
    life: PhantomData<&'a c_void>,
}

// SAFETY: as for Tensor.
unsafe impl Send for TensorRef<'_> {}
unsafe impl Sync for TensorRef<'_> {}

impl Drop for Tensor {
    fn drop(&mut self) {
        if let Ok(abi) = abi() {
            // SAFETY: we own the handle.
            unsafe { (abi.aoti_torch_delete_tensor_object)(self.0) };
        }
    }
}

/// Turns an error code into `RunError::Torch`.
pub(crate) fn check(code: Code, what: &str) -> Result<(), RunError> {
    if code == 0 { Ok(()) } else { Err(RunError::torch(format!("torch refused: {what}"))) }
}

/// Runs a call that returns one new tensor through a pointer.
pub(crate) fn make(what: &str, call: impl FnOnce(*mut Handle) -> Code) -> Result<Tensor, RunError> {
    let mut handle: Handle = null_mut();
    check(call(&mut handle), what)?;
    if handle.is_null() {
        return Err(RunError::bug(format!("{what} returned no tensor")));
    }
    Ok(Tensor(handle))
}

impl Tensor {
    /// Takes over a handle that torch's C ABI returned.
    ///
    /// # Safety
    /// `handle` must be a valid AtenTensorHandle that nobody else deletes.
    pub unsafe fn from_raw(handle: Handle) -> Tensor {
        Tensor(handle)
    }

    /// Gives the handle away; the caller must delete it.
    pub fn into_raw(self) -> Handle {
        let handle = self.0;
        std::mem::forget(self);
        handle
    }

    pub fn as_ref(&self) -> TensorRef<'_> {
        TensorRef { handle: self.0, life: PhantomData }
    }

    /// A new tensor in torch's own memory, not filled.
    pub fn empty_strided(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Tensor, RunError> {
        let abi = abi()?;
        let (kind, index) = abi.device(device).ok_or_else(|| RunError::bug("a tensor on a device that we do not know"))?;
        let (rank, of_torch) = (sizes.len() as i64, abi.dtype(dtype));
        // SAFETY: the arrays have `rank` elements.
        let made = make("empty_strided", |out| unsafe {
            (abi.aoti_torch_empty_strided)(rank, sizes.as_ptr(), strides.as_ptr(), of_torch, kind, index.max(0), out)
        });
        made.map_err(|error| match error {
            RunError::Torch { .. } => {
                let layout = Layout { dtype, sizes: sizes.into(), strides: strides.into() };
                RunError::Memory { bytes: layout.bytes(), device }
            }
            other => other,
        })
    }

    /// A 0-dimensional tensor on the CPU with these eight bytes.
    pub fn number(bits: u64, dtype: DType) -> Result<Tensor, RunError> {
        if dtype.size() != size_of::<u64>() {
            return Err(RunError::bug("a number of other than eight bytes"));
        }
        let tensor = Tensor::empty_strided(&[], &[], dtype, Device::Cpu)?;
        // SAFETY: one element of eight bytes, aligned as torch aligns all memory, that nobody else has seen.
        unsafe { tensor.as_ref().data_ptr()?.cast::<u64>().write(bits) };
        Ok(tensor)
    }

    /// A tensor on memory of a device that it does not own.
    ///
    /// # Safety
    /// The memory that sizes and strides span must be valid for as long as anything reads the tensor or an alias of it.
    pub unsafe fn from_memory(
        data: *mut u8,
        sizes: &[i64],
        strides: &[i64],
        dtype: DType,
        device: Device,
    ) -> Result<Tensor, RunError> {
        let abi = abi()?;
        let (kind, index) = abi.device(device).ok_or_else(|| RunError::bug("a tensor on a device that we do not know"))?;
        let (rank, dtype) = (sizes.len() as i64, abi.dtype(dtype));
        // SAFETY: the arrays have `rank` elements; layout 0 is strided; no opaque metadata.
        make("from_blob", |out| unsafe {
            (abi.aoti_torch_create_tensor_from_blob_v2)(
                data.cast(),
                rank,
                sizes.as_ptr(),
                strides.as_ptr(),
                0,
                dtype,
                kind,
                index.max(0),
                out,
                0,
                std::ptr::null(),
                0,
            )
        })
    }
}

impl<'a> TensorRef<'a> {
    /// Borrows the tensor whose TensorImpl pointer `slot` holds (`Tensor._cdata` in Python).
    ///
    /// # Safety
    /// `*slot` must be a live TensorImpl for 'a.
    pub unsafe fn from_impl_slot(slot: &'a *const c_void) -> TensorRef<'a> {
        TensorRef { handle: slot as *const *const c_void as Handle, life: PhantomData }
    }

    /// # Safety
    /// `handle` must be a valid AtenTensorHandle for 'a.
    pub unsafe fn from_handle(handle: Handle) -> TensorRef<'a> {
        TensorRef { handle, life: PhantomData }
    }

    pub fn handle(self) -> Handle {
        self.handle
    }

    /// The TensorImpl that the handle refers to.
    pub fn impl_ptr(self) -> *const c_void {
        // SAFETY: a handle points to a slot that holds the TensorImpl pointer.
        unsafe { *(self.handle as *const *const c_void) }
    }

    fn get<T: Default>(self, what: &str, read: impl FnOnce(&Abi, Handle, *mut T) -> Code) -> Result<T, RunError> {
        let mut value = T::default();
        check(read(abi()?, self.handle, &mut value), what)?;
        Ok(value)
    }

    pub fn data_ptr(self) -> Result<*mut u8, RunError> {
        let mut data: *mut c_void = null_mut();
        // SAFETY: a valid handle; one pointer is written.
        check(unsafe { (abi()?.aoti_torch_get_data_ptr)(self.handle, &mut data) }, "data_ptr")?;
        Ok(data.cast())
    }

    pub fn numel(self) -> Result<i64, RunError> {
        // SAFETY: a valid handle; one i64 is written (likewise below).
        self.get("numel", |abi, h, out| unsafe { (abi.aoti_torch_get_numel)(h, out) })
    }

    pub fn storage_offset(self) -> Result<i64, RunError> {
        self.get("storage_offset", |abi, h, out| unsafe { (abi.aoti_torch_get_storage_offset)(h, out) })
    }

    /// None for a type that we have no name for.
    pub fn dtype(self) -> Result<Option<DType>, RunError> {
        let code = self.get("dtype", |abi, h, out| unsafe { (abi.aoti_torch_get_dtype)(h, out) })?;
        Ok(abi()?.dtype_from(code))
    }

    pub fn device(self) -> Result<Device, RunError> {
        let kind = self.get("device type", |abi, h, out| unsafe { (abi.aoti_torch_get_device_type)(h, out) })?;
        let index = self.get("device index", |abi, h, out| unsafe { (abi.aoti_torch_get_device_index)(h, out) })?;
        Ok(abi()?.device_from(kind, index))
    }

    /// Whether this is a tensor on the device with this dtype, these sizes and strides. Every input of every run is asked, so it is
    /// written for speed.
    pub(crate) fn has_layout(self, abi: &Abi, layout: &Layout, device: Device) -> Result<bool, RunError> {
        let (mut rank, mut dtype, mut kind, mut index) = (0i64, 0i32, 0i32, 0i32);
        let (mut sizes, mut strides): (*mut i64, *mut i64) = (null_mut(), null_mut());
        // SAFETY: a valid handle; each function writes one value.
        let code = unsafe {
            (abi.aoti_torch_get_dim)(self.handle, &mut rank)
                | (abi.aoti_torch_get_sizes)(self.handle, &mut sizes)
                | (abi.aoti_torch_get_strides)(self.handle, &mut strides)
                | (abi.aoti_torch_get_dtype)(self.handle, &mut dtype)
                | (abi.aoti_torch_get_device_type)(self.handle, &mut kind)
                | if device == Device::Cpu { 0 } else { (abi.aoti_torch_get_device_index)(self.handle, &mut index) }
        };
        check(code, "the layout of an input")?;
        if rank as usize != layout.rank() || dtype != abi.dtype(layout.dtype) || !abi.is_device(device, kind, index) {
            return Ok(false);
        }
        // SAFETY: torch returned pointers to `rank` numbers each (of a tensor without dimensions none is read).
        Ok(rank == 0 || unsafe { layout.is_like(from_raw_parts(sizes, rank as usize), from_raw_parts(strides, rank as usize)) })
    }

    fn dims(self, read: impl FnOnce(&Abi, Handle, *mut *mut i64) -> Code) -> Result<&'a [i64], RunError> {
        let rank: i64 = self.get("dim", |abi, h, out| unsafe { (abi.aoti_torch_get_dim)(h, out) })?;
        let mut data: *mut i64 = null_mut();
        check(read(abi()?, self.handle, &mut data), "sizes or strides")?;
        if rank == 0 {
            return Ok(&[]);
        }
        // SAFETY: torch returned a pointer to `rank` numbers that live as long as the tensor.
        Ok(unsafe { from_raw_parts(data, rank as usize) })
    }

    pub fn sizes(self) -> Result<&'a [i64], RunError> {
        self.dims(|abi, h, out| unsafe { (abi.aoti_torch_get_sizes)(h, out) })
    }

    pub fn strides(self) -> Result<&'a [i64], RunError> {
        self.dims(|abi, h, out| unsafe { (abi.aoti_torch_get_strides)(h, out) })
    }

    /// Both, asking for the rank once.
    pub fn sizes_and_strides(self) -> Result<(&'a [i64], &'a [i64]), RunError> {
        let sizes = self.sizes()?;
        let mut data: *mut i64 = null_mut();
        // SAFETY: a valid handle; one pointer is written.
        check(unsafe { (abi()?.aoti_torch_get_strides)(self.handle, &mut data) }, "strides")?;
        // SAFETY: as many as there are sizes, which live as long as the tensor.
        Ok((sizes, if sizes.is_empty() { &[] } else { unsafe { from_raw_parts(data, sizes.len()) } }))
    }

    /// Another reference to the same tensor.
    pub fn to_owned(self) -> Result<Tensor, RunError> {
        let abi = abi()?;
        // SAFETY: a valid handle.
        make("new_tensor_handle", |out| unsafe { (abi.aoti_torch_new_tensor_handle)(self.handle, out) })
    }

    /// A view of the same storage that begins `offset` elements behind this tensor's first one.
    pub fn reinterpret(self, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Tensor, RunError> {
        let abi = abi()?;
        // SAFETY: the arrays have `sizes.len()` elements.
        make("reinterpret_tensor", |out| unsafe {
            (abi.aoti_torch__reinterpret_tensor)(self.handle, sizes.len() as i64, sizes.as_ptr(), strides.as_ptr(), offset, out)
        })
    }

    /// A copy in new memory with the same strides, also where elements overlap.
    pub fn duplicate(self) -> Result<Tensor, RunError> {
        let abi = abi()?;
        // SAFETY: a valid handle.
        make("clone", |out| unsafe { (abi.aoti_torch_clone_preserve_strides)(self.handle, out) })
    }

    /// Overwrites this tensor with `from`, converting and broadcasting as `Tensor.copy_` does.
    pub fn copy_from(self, from: TensorRef<'_>) -> Result<(), RunError> {
        // SAFETY: valid handles.
        check(unsafe { (abi()?.aoti_torch_copy_)(self.handle, from.handle, 0) }, "copy_")
    }
}
