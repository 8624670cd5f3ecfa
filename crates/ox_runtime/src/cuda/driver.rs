//! The functions of libcuda that we call.

use crate::error::{Exception, RunError};
use libloading::os::unix::Library;
use ox_ir::abi::GpuKernel;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Code = c_int;
type Handle = *mut c_void;
type Handles = *mut Handle;

macro_rules! driver {
    ($($field:ident $name:literal ($($arg:ty),*);)*) => {
        pub(crate) struct Driver {
            $($field: unsafe extern "C" fn($($arg),*) -> Code,)*
            images: Mutex<FxHashMap<usize, Image>>,
        }

        impl Driver {
            /// SAFETY: `library` must be libcuda, whose functions have the types given here.
            unsafe fn load(library: &Library) -> Result<Driver, String> {
                let missing = |name: &str| format!("this CUDA driver lacks {name} (one for CUDA 12 or later is needed)");
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(Driver {
                        $($field: *library.get(concat!($name, "\0").as_bytes()).map_err(|_| missing($name))?,)*
                        images: Mutex::default(),
                    })
                }
            }
        }
    };
}

driver! {
    init "cuInit" (c_uint);
    device_count "cuDeviceGetCount" (*mut c_int);
    attribute "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    error_text "cuGetErrorString" (Code, *mut *const c_char);
    current_context "cuCtxGetCurrent" (Handles);
    load_image "cuLibraryLoadData" (Handles, *const c_void, *mut c_int, *mut *mut c_void, c_uint, *mut c_int, *mut *mut c_void, c_uint);
    unload_image "cuLibraryUnload" (Handle);
    find_kernel "cuLibraryGetKernel" (Handles, Handle, *const c_char);
    set_attribute "cuKernelSetAttribute" (c_int, c_int, Handle, c_int);
    launch "cuLaunchKernel" (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
    host_memory "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    wait "cuStreamSynchronize" (Handle);
    wait_for_all "cuCtxSynchronize" ();
    graph_launch "cuGraphLaunch" (Handle, Handle);
    copy "cuMemcpyDtoDAsync_v2" (u64, u64, usize, Handle);
    copy_rows "cuMemcpy2DAsync_v2" (*const RowCopy, Handle);
    new_event "cuEventCreate" (Handles, c_uint);
    record_event "cuEventRecord" (Handle, Handle);
    wait_for_event "cuEventSynchronize" (Handle);
    stream_wait "cuStreamWaitEvent" (Handle, Handle, c_uint);
    is_capturing "cuStreamIsCapturing" (Handle, *mut c_int);
}

const MAJOR: c_int = 75;
const MINOR: c_int = 76;
const MULTIPROCESSORS: c_int = 16;
const DYNAMIC_SHARED: c_int = 8;
/// What a kernel may use without asking.
const PLAIN_SHARED: u32 = 48 << 10;
/// PORTABLE | DEVICEMAP: every context sees it, at the same address.
const MAPPED: c_uint = 1 | 2;
/// Faults of kernels: addresses, instructions, assertions, memory, time.
const LATE: [Code; 9] = [700, 702, 710, 714, 715, 716, 717, 718, 719];
const UNTIMED: c_uint = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stream(pub Handle);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event(pub Handle);

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Stream {}
unsafe impl Sync for Stream {}
unsafe impl Send for Event {}

/// `CUDA_MEMCPY2D`: one half for each side.
#[repr(C)]
struct RowCopy {
    from: RowPlace,
    to: RowPlace,
    bytes: usize,
    rows: usize,
}

#[repr(C)]
struct RowPlace {
    x: usize,
    y: usize,
    kind: c_uint,
    host: *const c_void,
    device: u64,
    array: *const c_void,
    pitch: usize,
}

impl RowPlace {
    fn on_device(rows: Rows) -> RowPlace {
        const DEVICE: c_uint = 2;
        RowPlace { x: 0, y: 0, kind: DEVICE, host: null(), device: rows.start as u64, array: null(), pitch: rows.pitch }
    }
}

/// Rows on the device: where the first begins, and the bytes from one to the next.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub start: *mut u8,
    pub pitch: usize,
}

/// What code generation must know of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Properties {
    /// Compute capability: 90 is 9.0.
    pub arch: u32,
    pub multiprocessors: u32,
}

/// The driver; an error says why there is none.
pub(crate) fn driver() -> Result<&'static Driver, RunError> {
    static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
    DRIVER.get_or_init(open).as_ref().map_err(|why| RunError::torch(why.clone()))
}

fn open() -> Result<Driver, String> {
    // SAFETY: libcuda's functions have the types that cuda.h declares; it stays loaded.
    unsafe {
        let library = Library::new("libcuda.so.1").map_err(|e| format!("no CUDA driver: {e}"))?;
        let driver = Driver::load(&library);
        std::mem::forget(library);
        let driver = driver?;
        driver.check((driver.init)(0), "cuInit").map_err(|e| e.to_string())?;
        Ok(driver)
    }
}

/// Of the n-th GPU that this process sees.
pub fn properties(device: u8) -> Result<Properties, RunError> {
    let driver = driver()?;
    let get = |what: c_int| {
        let mut value = 0;
        // SAFETY: one int is written.
        driver.check(unsafe { (driver.attribute)(&mut value, what, device as c_int) }, "cuDeviceGetAttribute")?;
        Ok::<_, RunError>(value as u32)
    };
    Ok(Properties { arch: 10 * get(MAJOR)? + get(MINOR)?, multiprocessors: get(MULTIPROCESSORS)? })
}

/// A loaded image. Kernels of one image share it.
struct Image {
    library: Handle,
    users: usize,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Image {}

/// Makes the same kernel for arguments that lie anywhere.
pub type Careful = Box<dyn Fn() -> Result<GpuKernel, RunError> + Send + Sync>;

/// A kernel that can be launched on any GPU of its architecture.
pub struct GpuFunction {
    pub kernel: GpuKernel,
    handle: Handle,
    careful: Careful,
    /// What `careful` has made, or why it could not: few programs ever need it.
    made: OnceLock<Result<Arc<GpuFunction>, String>>,
}

// SAFETY: as above.
unsafe impl Send for GpuFunction {}
unsafe impl Sync for GpuFunction {}

impl GpuFunction {
    pub fn load(kernel: GpuKernel, careful: Careful) -> Result<Arc<GpuFunction>, RunError> {
        let driver = driver()?;
        let library = driver.share_image(&kernel)?;
        let name = CString::new(kernel.symbol.as_str()).map_err(|_| RunError::bug("a symbol with a NUL"))?;
        let mut handle = null_mut();
        let mut function = GpuFunction { kernel, handle, careful, made: OnceLock::new() };
        // SAFETY: a loaded library; the name ends in NUL.
        driver.check(unsafe { (driver.find_kernel)(&mut handle, library, name.as_ptr()) }, &function.kernel.symbol)?;
        function.handle = handle;
        function.allow_shared(driver)?;
        Ok(Arc::new(function))
    }

    fn allow_shared(&self, driver: &Driver) -> Result<(), RunError> {
        if self.kernel.shared_bytes <= PLAIN_SHARED {
            return Ok(());
        }
        let (mut count, bytes) = (0, self.kernel.shared_bytes as c_int);
        // SAFETY: a live kernel; devices below the count exist.
        unsafe {
            driver.check((driver.device_count)(&mut count), "cuDeviceGetCount")?;
            (0..count).try_for_each(|device| {
                driver.check((driver.set_attribute)(DYNAMIC_SHARED, bytes, self.handle, device), &self.kernel.symbol)
            })
        }
    }

    /// The kernel for these arguments, if it must be another one.
    pub(crate) fn other_for(&self, args: &[*mut u8]) -> Result<Option<&Arc<GpuFunction>>, RunError> {
        if self.kernel.aligned.iter().all(|(place, bytes)| (args[*place] as usize).is_multiple_of(*bytes)) {
            return Ok(None);
        }
        let never = || Err(RunError::bug("a careful kernel takes all arguments"));
        let make = || (self.careful)().and_then(|kernel| GpuFunction::load(kernel, Box::new(never)));
        match self.made.get_or_init(|| make().map_err(|error| error.to_string())) {
            Ok(made) => Ok(Some(made)),
            Err(why) => Err(RunError::bug(why)),
        }
    }

    /// Starts the kernel behind what the stream has to do already.
    ///
    /// SAFETY: `args` must be the kernel's arguments, one word each.
    pub(crate) unsafe fn launch(&self, driver: &Driver, grid: u32, stream: Stream, args: &mut [*mut u8]) -> Result<(), RunError> {
        let GpuKernel { threads, shared_bytes, .. } = self.kernel;
        let mut places: SmallVec<[*mut c_void; 24]> = args.iter_mut().map(|word| (&raw mut *word).cast()).collect();
        // SAFETY: the caller's promise.
        let code = unsafe {
            (driver.launch)(self.handle, grid, 1, 1, threads, 1, 1, shared_bytes, stream.0, places.as_mut_ptr(), null_mut())
        };
        driver.check(code, &self.kernel.symbol)
    }
}

impl Drop for GpuFunction {
    fn drop(&mut self) {
        if let Ok(driver) = driver() {
            driver.release_image(&self.kernel);
        }
    }
}

impl Driver {
    fn share_image(&self, kernel: &GpuKernel) -> Result<Handle, RunError> {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = images.get_mut(&(kernel.image.as_ptr() as usize)) {
            image.users += 1;
            return Ok(image.library);
        }
        let mut library = null_mut();
        let none = (null_mut(), null_mut());
        // SAFETY: the image is a whole cubin; there are no options.
        let code = unsafe {
            (self.load_image)(&mut library, kernel.image.as_ptr().cast(), none.0, none.1, 0, null_mut(), null_mut(), 0)
        };
        self.check(code, &kernel.symbol)?;
        images.insert(kernel.image.as_ptr() as usize, Image { library, users: 1 });
        Ok(library)
    }

    fn release_image(&self, kernel: &GpuKernel) {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let key = kernel.image.as_ptr() as usize;
        let Some(image) = images.get_mut(&key) else { return };
        image.users -= 1;
        if image.users == 0 {
            // SAFETY: loaded once, and nobody has a kernel of it any more; launches under way are waited for.
            unsafe {
                (self.wait_for_all)();
                (self.unload_image)(image.library);
            }
            images.remove(&key);
        }
    }

    /// Memory of ours that kernels can write. It is never freed.
    pub fn mapped_memory(&self, bytes: usize) -> Result<*mut u8, RunError> {
        let mut start = null_mut();
        // SAFETY: one pointer is written.
        self.check(unsafe { (self.host_memory)(&mut start, bytes, MAPPED) }, "cuMemHostAlloc")?;
        Ok(start.cast())
    }

    pub fn wait(&self, stream: Stream) -> Result<(), RunError> {
        // SAFETY: a live stream.
        self.check(unsafe { (self.wait)(stream.0) }, "cuStreamSynchronize")
    }

    /// Starts a recorded graph behind what the stream has to do already.
    ///
    /// SAFETY: `graph` must be a live instantiated graph, whose memory is there.
    pub unsafe fn launch_graph(&self, graph: Handle, stream: Stream, what: &str) -> Result<(), RunError> {
        // SAFETY: the caller's promise.
        self.check(unsafe { (self.graph_launch)(graph, stream.0) }, what)
    }

    /// From one place on the device to another.
    ///
    /// SAFETY: both must be valid for so many bytes until the stream has done it.
    pub unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize, stream: Stream) -> Result<(), RunError> {
        // SAFETY: the caller's promise.
        self.check(unsafe { (self.copy)(to as u64, from as u64, bytes, stream.0) }, "cuMemcpyDtoDAsync")
    }

    /// So many bytes of so many rows.
    ///
    /// SAFETY: as for `copy`.
    pub unsafe fn copy_rows(&self, to: Rows, from: Rows, bytes: usize, rows: usize, stream: Stream) -> Result<(), RunError> {
        let copy = RowCopy { from: RowPlace::on_device(from), to: RowPlace::on_device(to), bytes, rows };
        // SAFETY: the caller's promise.
        self.check(unsafe { (self.copy_rows)(&copy, stream.0) }, "cuMemcpy2DAsync")
    }

    /// An event of the current device, without a time. It is never destroyed.
    pub fn new_event(&self) -> Result<Event, RunError> {
        let mut event = null_mut();
        // SAFETY: one pointer is written.
        self.check(unsafe { (self.new_event)(&mut event, UNTIMED) }, "cuEventCreate")?;
        Ok(Event(event))
    }

    pub fn record(&self, event: Event, stream: Stream) -> Result<(), RunError> {
        // SAFETY: live handles (likewise below).
        self.check(unsafe { (self.record_event)(event.0, stream.0) }, "cuEventRecord")
    }

    /// What comes on the stream from now on waits for the event.
    pub fn order(&self, stream: Stream, event: Event) -> Result<(), RunError> {
        self.check(unsafe { (self.stream_wait)(stream.0, event.0, 0) }, "cuStreamWaitEvent")
    }

    /// Waits here.
    pub fn wait_for(&self, event: Event) {
        unsafe { (self.wait_for_event)(event.0) };
    }

    /// Whether somebody records what is launched on the stream.
    pub fn is_capturing(&self, stream: Stream) -> bool {
        let mut status = 0;
        unsafe { (self.is_capturing)(stream.0, &mut status) != 0 || status != 0 }
    }

    /// Whether this thread has ever used CUDA.
    pub fn has_context(&self) -> bool {
        let mut context = null_mut();
        // SAFETY: one pointer is written.
        unsafe { (self.current_context)(&mut context) == 0 && !context.is_null() }
    }

    pub fn count(&self) -> c_int {
        let mut count = 0;
        // SAFETY: one int is written.
        unsafe { (self.device_count)(&mut count) };
        count
    }

    /// An error of the device is one of the program that runs there: it is raised, and names where it showed.
    fn check(&self, code: Code, what: &str) -> Result<(), RunError> {
        if code == 0 {
            return Ok(());
        }
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the text is the driver's own, and constant.
        let text = unsafe {
            (self.error_text)(code, &mut text);
            if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        // What a kernel does wrong shows when the next thing is asked for.
        let earlier = if LATE.contains(&code) { " (it, or a kernel before it)" } else { "" };
        let message = format!("CUDA error {code} in {what}{earlier}: {text}");
        Err(RunError::User { kind: Exception::RuntimeError, message, location: String::new() })
    }
}
