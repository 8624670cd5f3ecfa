//! The functions of libcuda that we call.

use crate::error::{Exception, RunError};
use libloading::os::unix::Library as SharedObject;
use smallvec::SmallVec;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

type Code = c_int;
type Handle = *mut c_void;
type Handles = *mut Handle;

macro_rules! driver {
    ($($field:ident $name:literal ($($arg:ty),*);)*) => {
        pub(crate) struct Driver {
            $($field: unsafe extern "C" fn($($arg),*) -> Code,)*
        }

        /// What a stand-in for the driver must have.
        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];

        impl Driver {
            /// SAFETY: `library` must be libcuda, whose functions have the types given here.
            unsafe fn load(library: &SharedObject) -> Result<Driver, String> {
                let missing = |name: &str| format!("this CUDA driver lacks {name} (one for CUDA 12 or later is needed)");
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(Driver {
                        $($field: *library.get(concat!($name, "\0").as_bytes()).map_err(|_| missing($name))?,)*
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
    context_state "cuDevicePrimaryCtxGetState" (c_int, *mut c_uint, *mut c_int);
    retain_context "cuDevicePrimaryCtxRetain" (Handles, c_int);
    release_context "cuDevicePrimaryCtxRelease_v2" (c_int);
    push_context "cuCtxPushCurrent_v2" (Handle);
    pop_context "cuCtxPopCurrent_v2" (Handles);
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
    read "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    new_event "cuEventCreate" (Handles, c_uint);
    record_event "cuEventRecord" (Handle, Handle);
    delete_event "cuEventDestroy_v2" (Handle);
    elapsed "cuEventElapsedTime" (*mut f32, Handle, Handle);
    wait_for_event "cuEventSynchronize" (Handle);
    stream_wait "cuStreamWaitEvent" (Handle, Handle, c_uint);
    is_capturing "cuStreamIsCapturing" (Handle, *mut c_int);
    exchange_mode "cuThreadExchangeStreamCaptureMode" (*mut c_int);
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
const NO_MEMORY: Code = 2;
const UNTIMED: c_uint = 2;
/// Of the modes of captures.
const RELAXED: c_int = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stream(pub Handle);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event(pub Handle);

/// An event of the current device that knows when the stream came to it.
pub(crate) struct TimedEvent {
    driver: &'static Driver,
    event: Event,
}

impl TimedEvent {
    pub fn new(driver: &'static Driver) -> Result<TimedEvent, RunError> {
        Ok(TimedEvent { driver, event: driver.make_event(0)? })
    }

    pub fn record(&self, stream: Stream) -> Result<(), RunError> {
        self.driver.record(self.event, stream)
    }

    /// Milliseconds from this one to a later one; both must have come.
    pub fn until(&self, later: &TimedEvent) -> Result<f32, RunError> {
        let mut time = 0.0;
        // SAFETY: live events; one number is written.
        self.driver.check(unsafe { (self.driver.elapsed)(&mut time, self.event.0, later.event.0) }, "cuEventElapsedTime")?;
        Ok(time)
    }
}

impl Drop for TimedEvent {
    fn drop(&mut self) {
        // SAFETY: made by the driver, destroyed once.
        unsafe { (self.driver.delete_event)(self.event.0) };
    }
}

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
        let library = SharedObject::new("libcuda.so.1").map_err(|e| format!("no CUDA driver: {e}"))?;
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

/// Several kernels, loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Library(Handle);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(Handle);

impl Function {
    pub fn as_word(self) -> usize {
        self.0 as usize
    }
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Library {}
unsafe impl Send for Function {}
unsafe impl Sync for Function {}

/// A grid of one dimension.
pub(crate) struct Grid {
    pub blocks: u32,
    pub threads: u32,
    pub shared_bytes: u32,
}

impl Driver {
    /// For all GPUs of the process; no context has to be current.
    pub fn load_image(&self, cubin: &[u8], what: &str) -> Result<Library, RunError> {
        let mut library = null_mut();
        let none = (null_mut(), null_mut());
        // SAFETY: a whole cubin; there are no options.
        let load =
            || unsafe { (self.load_image)(&mut library, cubin.as_ptr().cast(), none.0, none.1, 0, null_mut(), null_mut(), 0) };
        let code = self.beside_captures(load);
        self.check(code, what).map(|()| Library(library))
    }

    /// Does what has nothing to do with any stream: a capture that somebody has begun in the mode "global", torch's default, goes on.
    pub(super) fn beside_captures<T>(&self, f: impl FnOnce() -> T) -> T {
        let mut mode = RELAXED;
        // SAFETY: one int is exchanged, of this thread alone.
        unsafe { (self.exchange_mode)(&mut mode) };
        let done = f();
        // SAFETY: as above.
        unsafe { (self.exchange_mode)(&mut mode) };
        done
    }

    /// Launches under way are waited for: on any device, since the image is that of all, and whether this thread has used CUDA or not. Where that is
    /// refused, they may still run, and the image stays.
    ///
    /// SAFETY: nobody may have a kernel of it any more.
    pub unsafe fn unload(&self, library: Library) {
        self.beside_captures(|| {
            if (0..self.count()).all(|device| self.wait_for_device(device)) {
                // SAFETY: the caller's promise.
                unsafe { (self.unload_image)(library.0) };
            }
        });
    }

    /// Whether nothing runs there any more. Nobody need have made the device current; one that the process does not use has nothing to do.
    fn wait_for_device(&self, device: c_int) -> bool {
        let (mut flags, mut is_used, mut context) = (0, 0, null_mut());
        // SAFETY: two numbers and a pointer are written; the context lives until it is released, and is current in between.
        unsafe {
            let known = (self.context_state)(device, &mut flags, &mut is_used) == 0 && is_used != 0;
            if !known {
                return true;
            }
            if (self.retain_context)(&mut context, device) != 0 {
                return false;
            }
            let mut is_idle = false;
            if (self.push_context)(context) == 0 {
                is_idle = (self.wait_for_all)() == 0;
                (self.pop_context)(&mut context);
            }
            (self.release_context)(device);
            is_idle
        }
    }

    /// The kernel of that name, with so much shared memory.
    pub fn find(&self, library: Library, symbol: &str, shared_bytes: u32) -> Result<Function, RunError> {
        let name = CString::new(symbol).map_err(|_| RunError::bug("a symbol with a NUL"))?;
        let mut handle = null_mut();
        // SAFETY: a loaded library; the name ends in NUL.
        self.check(unsafe { (self.find_kernel)(&mut handle, library.0, name.as_ptr()) }, symbol)?;
        if shared_bytes > PLAIN_SHARED {
            // SAFETY: a live kernel; devices below the count exist.
            let set = |device| unsafe { (self.set_attribute)(DYNAMIC_SHARED, shared_bytes as c_int, handle, device) };
            let set: Vec<Code> = (0..self.count()).map(set).collect();
            // A smaller GPU beside the one that it was made for may refuse.
            if !set.contains(&0) {
                set.into_iter().try_for_each(|code| self.check(code, symbol))?;
            }
        }
        Ok(Function(handle))
    }

    /// Starts a kernel behind what the stream has to do already.
    ///
    /// SAFETY: `args` must be the kernel's arguments, one word each.
    pub unsafe fn launch(
        &self,
        function: Function,
        grid: Grid,
        stream: Stream,
        args: &mut [*mut u8],
        what: &str,
    ) -> Result<(), RunError> {
        let Grid { blocks, threads, shared_bytes } = grid;
        let mut places: SmallVec<[*mut c_void; 24]> = args.iter_mut().map(|word| (&raw mut *word).cast()).collect();
        // SAFETY: the caller's promise.
        let code = unsafe {
            (self.launch)(function.0, blocks, 1, 1, threads, 1, 1, shared_bytes, stream.0, places.as_mut_ptr(), null_mut())
        };
        self.check(code, what)
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

    /// Memory of the device, when the stream has come so far.
    ///
    /// SAFETY: so many bytes of the device must begin there.
    pub unsafe fn read(&self, from: *const u8, bytes: usize, stream: Stream) -> Result<Vec<u8>, RunError> {
        let mut into = vec![0u8; bytes];
        // SAFETY: the caller's promise; there is room for all bytes, until the stream is waited for.
        let code = unsafe { (self.read)(into.as_mut_ptr().cast(), from as u64, bytes, stream.0) };
        self.wait(stream)?;
        self.check(code, "cuMemcpyDtoHAsync")?;
        Ok(into)
    }

    /// An event of the current device, without a time. It is never destroyed.
    pub fn new_event(&self) -> Result<Event, RunError> {
        self.make_event(UNTIMED)
    }

    fn make_event(&self, flags: c_uint) -> Result<Event, RunError> {
        let mut event = null_mut();
        // SAFETY: one pointer is written.
        self.check(unsafe { (self.new_event)(&mut event, flags) }, "cuEventCreate")?;
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
        !self.context().is_null()
    }

    /// The current one of this thread; null where there is none.
    pub fn context(&self) -> Handle {
        let mut context = null_mut();
        // SAFETY: one pointer is written.
        unsafe { (self.current_context)(&mut context) };
        context
    }

    pub fn count(&self) -> c_int {
        let mut count = 0;
        // SAFETY: one int is written.
        unsafe { (self.device_count)(&mut count) };
        count
    }

    /// An error of the device is one of the program that runs there: it is raised, and names where it showed.
    pub(super) fn check(&self, code: Code, what: &str) -> Result<(), RunError> {
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
        // Nothing has been launched, and eager works in memory that torch has already.
        if code == NO_MEMORY {
            return Err(RunError::torch(message));
        }
        Err(RunError::User { kind: Exception::RuntimeError, message, location: String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Every function writes its name into a list; some say more of what they are asked for.
    const STAND_IN: &str = r#"
        #include <string.h>
        static char said[4096];
        const char* what_was_said(void) { return said; }
        static int say(const char* what) { strcat(strcat(said, what), "\n"); return 0; }
        int cuDeviceGetCount(int* count) { *count = 3; return 0; }
        int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* used) { *used = device != 1; return 0; }
        int cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)(long)(device + 1); return 0; }
        int cuCtxPushCurrent_v2(void* context) { return say(context == (void*)1 ? "on 0" : "on 2"); }
        int cuThreadExchangeStreamCaptureMode(int* mode) { return 0; }
        static int refusal = 0;
        void refuse_to_wait(void) { refusal = 900; }
        int cuCtxSynchronize(void) { say("cuCtxSynchronize"); return refusal; }
        int cuGetErrorString(int code, const char** text) { *text = "in words"; return 0; }
    "#;

    struct StandIn {
        driver: Driver,
        library: SharedObject,
    }

    impl StandIn {
        /// None where there is no compiler of C.
        fn new() -> Option<StandIn> {
            let others = NAMES.iter().filter(|name| !STAND_IN.contains(&format!("{name}(")));
            let plain: String = others.map(|name| format!("int {name}() {{ return say(\"{name}\"); }}\n")).collect();
            static MADE: AtomicUsize = AtomicUsize::new(0);
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("ox-driver-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&folder).ok()?;
            let (source, made) = (folder.join("driver.c"), folder.join("driver.so"));
            std::fs::write(&source, format!("{STAND_IN}{plain}")).ok()?;
            let done = Command::new("cc").args(["-w", "-shared", "-fPIC", "-o"]).arg(&made).arg(&source).status();
            let library = done.ok().filter(|status| status.success()).map(|_| {
                // SAFETY: our own library.
                unsafe { SharedObject::new(&made) }.unwrap_or_else(|error| panic!("{error}"))
            });
            let _ = std::fs::remove_dir_all(&folder);
            let library = library?;
            // SAFETY: its functions take what the driver's do, and look at little of it.
            let driver = unsafe { Driver::load(&library) }.unwrap_or_else(|error| panic!("{error}"));
            Some(StandIn { driver, library })
        }

        fn said(&self) -> Vec<String> {
            // SAFETY: a function of the stand-in's, and a text of its own.
            let text = unsafe {
                let said = self.library.get::<unsafe extern "C" fn() -> *const c_char>(b"what_was_said\0");
                CStr::from_ptr(said.unwrap_or_else(|error| panic!("{error}"))())
            };
            text.to_string_lossy().lines().map(str::to_string).collect()
        }
    }

    /// A thread that has never used CUDA may be the one that drops the last kernel of an image, and its launches may be on any device.
    #[test]
    fn all_devices_that_are_used_are_waited_for_before_an_image_goes() {
        let Some(stand_in) = StandIn::new() else { return eprintln!("skipped: there is no compiler of C") };
        // SAFETY: nothing is loaded.
        unsafe { stand_in.driver.unload(Library(null_mut())) };
        let wait = ["cuCtxSynchronize", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2"];
        let expected = [&["on 0"][..], &wait, &["on 2"], &wait, &["cuLibraryUnload"]].concat();
        assert_eq!(stand_in.said(), expected);
    }

    /// Not even a device that is captured from is idle.
    #[test]
    fn an_image_stays_where_nobody_can_wait() {
        let Some(stand_in) = StandIn::new() else { return eprintln!("skipped: there is no compiler of C") };
        // SAFETY: a function of the stand-in's without arguments; nothing is loaded.
        unsafe {
            let refuse = stand_in.library.get::<unsafe extern "C" fn()>(b"refuse_to_wait\0");
            refuse.unwrap_or_else(|error| panic!("{error}"))();
            stand_in.driver.unload(Library(null_mut()));
        }
        assert_eq!(stand_in.said(), ["on 0", "cuCtxSynchronize", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2"]);
    }

    #[test]
    fn eager_may_have_room_where_the_driver_has_none() {
        let Some(stand_in) = StandIn::new() else { return eprintln!("skipped: there is no compiler of C") };
        let driver = &stand_in.driver;
        assert!(
            matches!(driver.check(NO_MEMORY, "k"), Err(RunError::Torch { message, .. }) if message.contains("error 2 in k: in words"))
        );
        assert!(
            matches!(driver.check(700, "k"), Err(RunError::User { message, .. }) if message.contains("or a kernel before it"))
        );
    }
}
