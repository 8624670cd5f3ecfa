//! What libtorch_cuda has and libtorch_cpu has not.

use super::driver::{Driver, Stream};
use crate::abi::{Code, Ops, mapped, open};
use crate::calls::fused_attention::Functions;
use crate::error::RunError;
use libloading::os::unix::Library;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

pub(crate) struct Cuda {
    pub ops: Ops,
    pub attention: Functions,
    stream: unsafe extern "C" fn(i32, *mut *mut c_void) -> Code,
    new_guard: unsafe extern "C" fn(i32, *mut *mut c_void) -> Code,
    delete_guard: unsafe extern "C" fn(*mut c_void) -> Code,
    new_stream_guard: unsafe extern "C" fn(*mut c_void, i32, *mut *mut c_void) -> Code,
    delete_stream_guard: unsafe extern "C" fn(*mut c_void) -> Code,
}

/// The functions, if this torch was built with CUDA.
pub(crate) fn cuda() -> Result<&'static Cuda, RunError> {
    static CUDA: OnceLock<Result<Cuda, String>> = OnceLock::new();
    CUDA.get_or_init(find).as_ref().map_err(|why| RunError::torch(why.clone()))
}

fn find() -> Result<Cuda, String> {
    let missing = |e: libloading::Error| format!("this libtorch_cuda lacks a function: {e}");
    let file = mapped("/libtorch_cuda.so").ok_or("this torch was built without CUDA")?;
    let library: Library = open(&file, libc::RTLD_NOLOAD).map_err(|e| format!("cannot open {}: {e}", file.display()))?;
    // SAFETY: the file is libtorch_cuda, whose functions have the types that torch's header declares.
    let found = unsafe {
        Cuda {
            ops: Ops::cuda(&library).map_err(missing)?,
            attention: Functions::find(&library),
            stream: *library.get(b"aoti_torch_get_current_cuda_stream\0").map_err(missing)?,
            new_guard: *library.get(b"aoti_torch_create_cuda_guard\0").map_err(missing)?,
            delete_guard: *library.get(b"aoti_torch_delete_cuda_guard\0").map_err(missing)?,
            new_stream_guard: *library.get(b"aoti_torch_create_cuda_stream_guard\0").map_err(missing)?,
            delete_stream_guard: *library.get(b"aoti_torch_delete_cuda_stream_guard\0").map_err(missing)?,
        }
    };
    // The functions are used until the process ends.
    std::mem::forget(library);
    Ok(found)
}

impl Cuda {
    /// torch's current stream of this thread on a device.
    pub fn stream(&self, device: u8) -> Result<Stream, RunError> {
        let mut stream = null_mut();
        // SAFETY: one pointer is written.
        crate::tensor::check(unsafe { (self.stream)(device as i32, &mut stream) }, "the current stream")?;
        Ok(Stream(stream))
    }
}

/// While it lives, the device is this thread's current one.
pub(crate) struct CudaGuard(*mut c_void);

impl CudaGuard {
    /// None where there is nothing to do: one GPU, and this thread knows it.
    pub fn new(cuda: &Cuda, driver: &Driver, device: u8) -> Result<Option<CudaGuard>, RunError> {
        static SINGLE: OnceLock<bool> = OnceLock::new();
        if *SINGLE.get_or_init(|| driver.count() == 1) && driver.has_context() {
            return Ok(None);
        }
        let mut guard = null_mut();
        // SAFETY: one pointer is written.
        crate::tensor::check(unsafe { (cuda.new_guard)(device as i32, &mut guard) }, "a device guard")?;
        Ok(Some(CudaGuard(guard)))
    }
}

impl Drop for CudaGuard {
    fn drop(&mut self) {
        if let Ok(cuda) = cuda() {
            // SAFETY: made by `new_guard`, deleted once.
            unsafe { (cuda.delete_guard)(self.0) };
        }
    }
}

/// While it lives, the stream is torch's current one on this thread.
pub(crate) struct StreamGuard(*mut c_void);

impl StreamGuard {
    pub fn new(stream: Stream, device: u8) -> Result<StreamGuard, RunError> {
        let mut guard = null_mut();
        // SAFETY: a live stream of that device; one pointer is written.
        let code = unsafe { (cuda()?.new_stream_guard)(stream.0, device as i32, &mut guard) };
        crate::tensor::check(code, "a stream guard")?;
        Ok(StreamGuard(guard))
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if let Ok(cuda) = cuda() {
            // SAFETY: made by `new_stream_guard`, deleted once.
            unsafe { (cuda.delete_stream_guard)(self.0) };
        }
    }
}
