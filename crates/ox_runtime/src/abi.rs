//! The C functions of torch's stable ABI, looked up once in the libtorch of this process.
//!
//! Python loads libtorch with RTLD_LOCAL, so that its symbols are not in the global scope: we open the file that is mapped
//! already. A function that every Plan needs is a plain field; one that some torch versions lack is an `Option`.

use crate::error::RunError;
use libloading::os::unix::Library;
use ox_ir::{DType, Device};
use rustc_hash::FxHasher;
use std::ffi::{c_char, c_int, c_void};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;

/// `AtenTensorHandle`: points to a slot that holds a TensorImpl pointer.
pub type Handle = *mut c_void;
/// 0 is success.
pub type Code = i32;
/// A value in a call through the dispatcher: an immediate, or a handle that the callee takes over.
pub type StableIValue = u64;

/// Called with the memory and the context when a storage goes.
pub type Deleter = unsafe extern "C" fn(*mut c_void, *mut c_void);

type ConstHandles = *const Handle;
type Ints = *const i64;
type Doubles = *const *const f64;
type Text = *const c_char;
type Texts = *const Text;

macro_rules! abi {
    (required { $($name:ident($($arg:ty),*) $(-> $ret:ty)?;)* } optional { $($opt:ident($($oarg:ty),*) $(-> $oret:ty)?;)* }) => {
        #[allow(non_snake_case)]
        pub struct Abi {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(pub $opt: Option<unsafe extern "C" fn($($oarg),*) $(-> $oret)?>,)*
            /// torch's numbers of `DType::ALL`.
            dtypes: [i32; 12],
            cpu: i32,
            cuda: i32,
            version: u64,
            cpp: Cpp,
            /// The CPU's.
            ops: Ops,
        }

        impl Abi {
            /// SAFETY: `library` must be libtorch_cpu, whose symbols have the types given here.
            #[allow(non_snake_case)]
            unsafe fn load(library: &Library) -> Result<Abi, String> {
                let mut missing: Vec<&str> = Vec::new();
                $(
                    // SAFETY: the symbol's type is the one that torch's header declares.
                    let $name = unsafe { library.get::<unsafe extern "C" fn($($arg),*) $(-> $ret)?>(concat!(stringify!($name), "\0").as_bytes()) };
                    if $name.is_err() { missing.push(stringify!($name)); }
                )*
                if !missing.is_empty() {
                    return Err(format!("this libtorch lacks {} (torch 2.10 or later is needed)", missing.join(", ")));
                }
                let mut abi = Abi {
                    $($name: *$name.expect("checked above"),)*
                    // SAFETY: as above.
                    $($opt: unsafe { library.get(concat!(stringify!($opt), "\0").as_bytes()) }.ok().map(|s| *s),)*
                    dtypes: [0; 12],
                    cpu: 0,
                    cuda: 1,
                    version: 0,
                    // SAFETY: passed on.
                    cpp: unsafe { Cpp::load(library) },
                    // SAFETY: passed on.
                    ops: unsafe { Ops::cpu(library) }.map_err(|e| e.to_string())?,
                };
                abi.read_constants();
                Ok(abi)
            }
        }
    };
}

abi! {
    required {
        aoti_torch_abi_version() -> u64;
        aoti_torch_dtype_bool() -> i32;
        aoti_torch_dtype_uint8() -> i32;
        aoti_torch_dtype_int8() -> i32;
        aoti_torch_dtype_int16() -> i32;
        aoti_torch_dtype_int32() -> i32;
        aoti_torch_dtype_int64() -> i32;
        aoti_torch_dtype_float16() -> i32;
        aoti_torch_dtype_bfloat16() -> i32;
        aoti_torch_dtype_float32() -> i32;
        aoti_torch_dtype_float64() -> i32;
        aoti_torch_dtype_complex64() -> i32;
        aoti_torch_dtype_complex128() -> i32;
        aoti_torch_device_type_cpu() -> i32;
        aoti_torch_device_type_cuda() -> i32;
        aoti_torch_grad_mode_is_enabled() -> bool;
        aoti_torch_grad_mode_set_enabled(bool);
        aoti_torch_delete_tensor_object(Handle) -> Code;
        aoti_torch_new_tensor_handle(Handle, *mut Handle) -> Code;
        aoti_torch_get_data_ptr(Handle, *mut *mut c_void) -> Code;
        aoti_torch_get_dim(Handle, *mut i64) -> Code;
        aoti_torch_get_numel(Handle, *mut i64) -> Code;
        aoti_torch_get_sizes(Handle, *mut *mut i64) -> Code;
        aoti_torch_get_strides(Handle, *mut *mut i64) -> Code;
        aoti_torch_get_dtype(Handle, *mut i32) -> Code;
        aoti_torch_get_device_type(Handle, *mut i32) -> Code;
        aoti_torch_get_device_index(Handle, *mut i32) -> Code;
        aoti_torch_get_storage_offset(Handle, *mut i64) -> Code;
        aoti_torch_empty_strided(i64, Ints, Ints, i32, i32, i32, *mut Handle) -> Code;
        aoti_torch_create_tensor_from_blob_v2(*mut c_void, i64, Ints, Ints, i64, i32, i32, i32, *mut Handle, i32, *const u8, i64) -> Code;
        aoti_torch__reinterpret_tensor(Handle, i64, Ints, Ints, i64, *mut Handle) -> Code;
        aoti_torch_clone_preserve_strides(Handle, *mut Handle) -> Code;
        aoti_torch_copy_(Handle, Handle, i32) -> Code;
        aoti_torch_call_dispatcher(Text, Text, *mut StableIValue) -> Code;
    }
    optional {
        aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu(
            Handle, Handle, Handle, f64, i32, ConstHandles, *const f64, *mut Handle, *mut Handle) -> Code;
        aoti_torch_cpu_mkldnn__convolution_pointwise(
            Handle, Handle, ConstHandles, Ints, i64, Ints, i64, Ints, i64, i64, Text, Doubles, i64, Texts, *mut Handle) -> Code;
        aoti_torch_cpu_mkldnn__convolution_pointwise_binary(
            Handle, Handle, Handle, ConstHandles, Ints, i64, Ints, i64, Ints, i64, i64, Text, *const f64, Texts, Doubles, i64, Texts,
            *mut Handle) -> Code;
        aoti_torch_cpu__linear_pointwise(Handle, Handle, ConstHandles, Text, Doubles, i64, Texts, *mut Handle) -> Code;
        cblas_sgemm_pack_get_size(i32, i32, i32, i32) -> usize;
        cblas_sgemm_pack(i32, i32, i32, i32, i32, i32, f32, *const f32, i32, *mut f32);
        cblas_sgemm_compute(i32, i32, i32, i32, i32, i32, *const f32, i32, *const f32, i32, f32, *mut f32, i32);
        aoti_torch_new_uninitialized_tensor(*mut Handle) -> Code;
        torch_call_dispatcher(Text, Text, *mut StableIValue, u64) -> Code;
        aoti_record_function_start(Text, *mut c_void, *const *mut c_void, u64, *mut *mut c_void) -> Code;
        aoti_record_function_end(*mut c_void) -> Code;
        torch_from_blob(
            *mut c_void, i64, Ints, Ints, i64, i32, i32, i32, *mut Handle, i32, *const u8, i64, Option<Deleter>, *mut c_void) -> Code;
        torch_parallel_for(i64, i64, i64, unsafe extern "C" fn(i64, i64, *mut c_void), *mut c_void) -> Code;
        torch_get_num_threads(*mut u32) -> Code;
        torch_new_list_reserve_size(usize, *mut *mut c_void) -> Code;
        torch_list_push_back(*mut c_void, StableIValue) -> Code;
        torch_list_size(*mut c_void, *mut usize) -> Code;
        torch_list_get_item(*mut c_void, usize, *mut StableIValue) -> Code;
        torch_delete_list(*mut c_void) -> Code;
        torch_new_string_handle(Text, usize, *mut *mut c_void) -> Code;
    }
}

impl Abi {
    fn read_constants(&mut self) {
        // SAFETY: functions without arguments that return constants.
        unsafe {
            self.dtypes = [
                (self.aoti_torch_dtype_bool)(),
                (self.aoti_torch_dtype_uint8)(),
                (self.aoti_torch_dtype_int8)(),
                (self.aoti_torch_dtype_int16)(),
                (self.aoti_torch_dtype_int32)(),
                (self.aoti_torch_dtype_int64)(),
                (self.aoti_torch_dtype_float16)(),
                (self.aoti_torch_dtype_bfloat16)(),
                (self.aoti_torch_dtype_float32)(),
                (self.aoti_torch_dtype_float64)(),
                (self.aoti_torch_dtype_complex64)(),
                (self.aoti_torch_dtype_complex128)(),
            ];
            self.cpu = (self.aoti_torch_device_type_cpu)();
            self.cuda = (self.aoti_torch_device_type_cuda)();
            self.version = (self.aoti_torch_abi_version)();
        }
    }

    /// torch's number of a dtype.
    pub fn dtype(&self, dtype: DType) -> i32 {
        self.dtypes[dtype as usize]
    }

    /// The dtype with torch's number `code`, if it is one of ours.
    pub fn dtype_from(&self, code: i32) -> Option<DType> {
        self.dtypes.iter().position(|&d| d == code).map(|at| DType::ALL[at])
    }

    /// torch's (type, index) of a device.
    pub fn device(&self, device: Device) -> Option<(i32, i32)> {
        match device {
            Device::Cpu => Some((self.cpu, -1)),
            Device::Cuda(index) => Some((self.cuda, index as i32)),
            Device::Other => None,
        }
    }

    /// Whether torch's (type, index) is this device.
    pub(crate) fn is_device(&self, device: Device, kind: i32, index: i32) -> bool {
        match device {
            Device::Cpu => kind == self.cpu,
            Device::Cuda(n) => kind == self.cuda && index == n as i32,
            Device::Other => false,
        }
    }

    /// The library functions for tensors on a device.
    pub(crate) fn ops(&self, device: Device) -> Result<&Ops, RunError> {
        match device {
            Device::Cpu => Ok(&self.ops),
            Device::Cuda(_) => Ok(&crate::cuda::cuda()?.ops),
            Device::Other => Err(RunError::bug("a plan for a device that we do not know")),
        }
    }

    pub(crate) fn device_from(&self, kind: i32, index: i32) -> Device {
        match kind {
            k if k == self.cpu => Device::Cpu,
            k if k == self.cuda => Device::Cuda(index.clamp(0, u8::MAX as i32) as u8),
            _ => Device::Other,
        }
    }

    /// Calls an operator by name. The arguments on `stack` are taken over; the results replace them.
    ///
    /// SAFETY: `stack` must hold the arguments as the operator's schema says, with room for its results.
    pub(crate) unsafe fn call_dispatcher(&self, name: Text, overload: Text, stack: &mut [StableIValue]) -> Code {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.torch_call_dispatcher {
                Some(call) => call(name, overload, stack.as_mut_ptr(), self.version),
                None => (self.aoti_torch_call_dispatcher)(name, overload, stack.as_mut_ptr()),
            }
        }
    }

    pub(crate) fn in_inference_mode(&self) -> bool {
        // SAFETY: reads a thread-local flag.
        self.cpp.in_inference_mode.is_some_and(|f| unsafe { f() })
    }

    /// Whether somebody watches what this thread does.
    pub(crate) fn is_profiled(&self) -> bool {
        // SAFETY: reads flags.
        self.cpp.is_profiled.is_some_and(|f| unsafe { f() })
    }

    /// Whether it was on for the kind of device.
    pub(crate) fn disable_autocast(&self, device: Device) -> bool {
        let (Some(is_on), Some(set)) = (self.cpp.autocast_is_on, self.cpp.set_autocast) else { return false };
        let kind = self.device(device).map_or(self.cpu, |(kind, _)| kind) as i8;
        // SAFETY: read and write thread-local flags.
        unsafe {
            let on = is_on(kind);
            if on {
                set(kind, false);
            }
            on
        }
    }

    pub(crate) fn enable_autocast(&self, device: Device) {
        if let Some(set) = self.cpp.set_autocast {
            let kind = self.device(device).map_or(self.cpu, |(kind, _)| kind);
            // SAFETY: writes a thread-local flag.
            unsafe { set(kind as i8, true) };
        }
    }

    /// The severity below which torch logs nothing; None where the user chose it (TORCH_CPP_LOG_LEVEL), or it is not there.
    pub(crate) fn log_level(&self) -> Option<&'static AtomicI32> {
        self.cpp.log_level
    }

    /// The user's settings that decide which kernel eager takes for attention, as one number; None where they cannot be read.
    pub(crate) fn attention_settings(&self) -> Option<u64> {
        let context = self.cpp.context.as_ref()?;
        // SAFETY: the context is torch's own, and lives as long as the process; an array that is shorter leaves the rest alone.
        unsafe {
            let global = (context.global)();
            let mut hasher = FxHasher::default();
            context.flags.iter().for_each(|flag| flag(global).hash(&mut hasher));
            // Backends are few: behind them nothing was written.
            (context.order)(global).0[..BACKENDS].hash(&mut hasher);
            Some(hasher.finish())
        }
    }

    /// Those that decide how a convolution is done in 16 bits; likewise.
    pub(crate) fn convolution_settings(&self) -> Option<u64> {
        let context = self.cpp.context.as_ref()?;
        // SAFETY: as above.
        let bit = |flag: &Flag| unsafe { u64::from(flag((context.global)())) };
        Some(context.convolution.iter().fold(0, |bits, flag| 2 * bits + bit(flag)))
    }

    /// Those that decide what is recorded in a graph, as far as they can be read; likewise. They may be others when it is replayed.
    pub(crate) fn recording_settings(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (self.attention_settings(), self.convolution_settings()).hash(&mut hasher);
        let Some(context) = &self.cpp.context else { return hasher.finish() };
        // SAFETY: as above (likewise below).
        let global: *const c_void = unsafe { (context.global)() };
        context.levels.map(|level| level.map(|level| unsafe { level(global) })).hash(&mut hasher);
        context.carveout.and_then(|carveout| unsafe { carveout(global) }.number()).hash(&mut hasher);
        // SAFETY: numbers that this function knows.
        context
            .precision
            .map(|precision| PRECISION_OPS.map(|op| unsafe { precision(global, PRECISION_ON_CUDA, op) }))
            .hash(&mut hasher);
        hasher.finish()
    }

    /// Memory that C++ code in libtorch will `delete`.
    pub(crate) fn new_boxed(&self, value: StableIValue) -> Option<*mut StableIValue> {
        // SAFETY: operator new gives memory aligned for any scalar.
        let place = unsafe { self.cpp.new_bytes?(size_of::<StableIValue>()) } as *mut StableIValue;
        // SAFETY: fresh memory of the right size (operator new aborts rather than return null here).
        unsafe { place.write(value) };
        Some(place)
    }

    pub fn num_threads(&self) -> usize {
        let mut threads = 1u32;
        match self.torch_get_num_threads {
            // SAFETY: writes one u32.
            Some(get) if unsafe { get(&mut threads) } == 0 => threads as usize,
            _ => 1,
        }
    }
}

/// Of `at::Float32Backend`.
const PRECISION_ON_CUDA: c_int = 1;
/// Of `at::Float32Op`: convolutions, recurrent layers and products.
const PRECISION_OPS: [c_int; 3] = [1, 2, 3];

/// In the order of preference for attention: as many as every torch knows that we run on.
const BACKENDS: usize = 5;

macro_rules! ops {
    ($($field:ident $name:literal ($($arg:ty),*);)*) => {
        /// The library functions that exist once for each kind of device.
        pub struct Ops {
            $(pub $field: unsafe extern "C" fn($($arg),*) -> Code,)*
        }

        impl Ops {
            /// SAFETY: `library` must be libtorch_cpu.
            unsafe fn cpu(library: &Library) -> Result<Ops, libloading::Error> {
                // SAFETY: the symbols' types are those that torch's header declares.
                unsafe { Ok(Ops { $($field: *library.get(concat!("aoti_torch_cpu_", $name, "\0").as_bytes())?,)* }) }
            }

            /// SAFETY: `library` must be libtorch_cuda.
            pub(crate) unsafe fn cuda(library: &Library) -> Result<Ops, libloading::Error> {
                // SAFETY: as above.
                unsafe { Ok(Ops { $($field: *library.get(concat!("aoti_torch_cuda_", $name, "\0").as_bytes())?,)* }) }
            }
        }
    };
}

ops! {
    mm_out "mm_out" (Handle, Handle, Handle);
    addmm_out "addmm_out" (Handle, Handle, Handle, Handle, f64, f64);
    bmm_out "bmm_out" (Handle, Handle, Handle);
    baddbmm_out "baddbmm_out" (Handle, Handle, Handle, Handle, f64, f64);
    add "add_Tensor" (Handle, Handle, f64, *mut Handle);
    fill "fill__Scalar" (Handle, f64);
    convolution "convolution" (Handle, Handle, ConstHandles, Ints, i64, Ints, i64, Ints, i64, i32, Ints, i64, i64, *mut Handle);
}

/// C++ functions that the C ABI has no counterpart for. All may be missing: then we do without.
struct Cpp {
    /// `static bool c10::InferenceMode::is_enabled()`.
    in_inference_mode: Option<unsafe extern "C" fn() -> bool>,
    /// `bool at::autocast::is_autocast_enabled(c10::DeviceType)`.
    autocast_is_on: Option<unsafe extern "C" fn(i8) -> bool>,
    /// `void at::autocast::set_autocast_enabled(c10::DeviceType, bool)`.
    set_autocast: Option<unsafe extern "C" fn(i8, bool)>,
    /// `bool at::hasCallbacks()`.
    is_profiled: Option<unsafe extern "C" fn() -> bool>,
    /// `operator new(size_t)`.
    new_bytes: Option<unsafe extern "C" fn(usize) -> *mut c_void>,
    /// `int FLAGS_caffe2_log_level`.
    log_level: Option<&'static AtomicI32>,
    context: Option<Context>,
}

/// A member of `at::Context` without arguments.
type Flag = unsafe extern "C" fn(*const c_void) -> bool;

/// What `at::Context` says of attention and convolutions.
struct Context {
    /// `at::Context& at::globalContext()`.
    global: unsafe extern "C" fn() -> *mut c_void,
    /// `std::array<at::SDPBackend, n> at::Context::sDPPriorityOrder()`.
    order: unsafe extern "C" fn(*mut c_void) -> Order,
    /// Of attention.
    flags: [Flag; 6],
    convolution: [Flag; 4],
    /// How far products and attention in 16 bits may round on the way, and by which library or kernel they are done: a bool each, or an enumeration of few.
    levels: [Option<unsafe extern "C" fn(*const c_void) -> u8>; 6],
    /// `std::optional<int32_t> at::Context::_SMCarveout_EXPERIMENTAL() const`: how many of a GPU's processors products leave to others.
    carveout: Option<unsafe extern "C" fn(*const c_void) -> Optional>,
    /// `at::Float32Precision at::Context::float32Precision(at::Float32Backend, at::Float32Op) const`, from torch 2.9 on.
    precision: Option<unsafe extern "C" fn(*const c_void, c_int, c_int) -> c_int>,
}

/// `std::optional<int32_t>`, which is returned in a register.
#[repr(C)]
struct Optional {
    number: i32,
    is_there: u8,
}

impl Optional {
    fn number(self) -> Option<i32> {
        (self.is_there != 0).then_some(self.number)
    }
}

/// As long as any of its arrays: both are returned by way of memory of the caller's.
#[repr(C)]
struct Order([u32; 16]);

impl Context {
    /// SAFETY: as for `Cpp::load`.
    unsafe fn load(library: &Library) -> Option<Context> {
        // SAFETY: the mangled names give the types above.
        unsafe {
            let flag = |name: &[u8]| library.get(name).ok().map(|s| *s);
            let level = |name: &[u8]| library.get(name).ok().map(|s| *s);
            Some(Context {
                global: *library.get(b"_ZN2at13globalContextEv\0").ok()?,
                order: *library.get(b"_ZN2at7Context16sDPPriorityOrderEv\0").ok()?,
                flags: [
                    flag(b"_ZNK2at7Context19userEnabledCuDNNSDPEv\0")?,
                    flag(b"_ZNK2at7Context19userEnabledFlashSDPEv\0")?,
                    flag(b"_ZNK2at7Context26userEnabledMemEfficientSDPEv\0")?,
                    flag(b"_ZNK2at7Context18userEnabledMathSDPEv\0")?,
                    flag(b"_ZNK2at7Context26userEnabledOverrideableSDPEv\0")?,
                    flag(b"_ZNK2at7Context23deterministicAlgorithmsEv\0")?,
                ],
                convolution: [
                    flag(b"_ZNK2at7Context16userEnabledCuDNNEv\0")?,
                    flag(b"_ZNK2at7Context14benchmarkCuDNNEv\0")?,
                    flag(b"_ZNK2at7Context18deterministicCuDNNEv\0")?,
                    flag(b"_ZNK2at7Context23deterministicAlgorithmsEv\0")?,
                ],
                levels: [
                    level(b"_ZNK2at7Context24allowFP16ReductionCuBLASEv\0"),
                    level(b"_ZNK2at7Context24allowBF16ReductionCuBLASEv\0"),
                    level(b"_ZNK2at7Context27allowFP16AccumulationCuBLASEv\0"),
                    level(b"_ZNK2at7Context29allowFP16BF16ReductionMathSDPEv\0"),
                    level(b"_ZNK2at7Context17userEnabledFA3SDPEv\0"),
                    level(b"_ZN2at7Context20blasPreferredBackendEv\0"),
                ],
                carveout: library.get(b"_ZNK2at7Context24_SMCarveout_EXPERIMENTALEv\0").ok().map(|s| *s),
                precision: library
                    .get(b"_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE\0")
                    .ok()
                    .map(|s| *s),
            })
        }
    }
}

impl Cpp {
    /// SAFETY: `library` must be libtorch_cpu, and stay loaded.
    unsafe fn load(library: &Library) -> Cpp {
        // SAFETY: the mangled names give the types above.
        unsafe {
            let log_level = library.get::<*mut AtomicI32>(b"FLAGS_caffe2_log_level\0").ok().map(|level| &**level);
            Cpp {
                in_inference_mode: library.get(b"_ZN3c1013InferenceMode10is_enabledEv\0").ok().map(|s| *s),
                autocast_is_on: library.get(b"_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE\0").ok().map(|s| *s),
                set_autocast: library.get(b"_ZN2at8autocast20set_autocast_enabledEN3c1010DeviceTypeEb\0").ok().map(|s| *s),
                is_profiled: library.get(b"_ZN2at12hasCallbacksEv\0").ok().map(|s| *s),
                new_bytes: library.get(b"_Znwm\0").ok().map(|s| *s),
                log_level: log_level.filter(|_| std::env::var_os("TORCH_CPP_LOG_LEVEL").is_none()),
                context: Context::load(library),
            }
        }
    }
}

static ABI: OnceLock<Result<Abi, String>> = OnceLock::new();

/// Finds libtorch: at `path` if given, else where this process has mapped it. The first call decides.
pub fn init(path: Option<&Path>) -> Result<&'static Abi, RunError> {
    ABI.get_or_init(|| find(path)).as_ref().map_err(|e| RunError::torch(e.clone()))
}

/// The functions, looked up on first use.
pub fn abi() -> Result<&'static Abi, RunError> {
    init(None)
}

fn find(path: Option<&Path>) -> Result<Abi, String> {
    let library = match path {
        Some(path) => open(path, 0).map_err(|e| format!("cannot open {}: {e}", path.display()))?,
        None => {
            let file = mapped("/libtorch_cpu.so").unwrap_or_else(|| PathBuf::from("libtorch_cpu.so"));
            open(&file, libc::RTLD_NOLOAD)
                .map_err(|_| "libtorch is not loaded in this process: import torch first".to_string())?
        }
    };
    // SAFETY: the file is libtorch_cpu.
    let abi = unsafe { Abi::load(&library) };
    // The functions are used until the process ends, so the library must stay.
    std::mem::forget(library);
    abi
}

pub(crate) fn open(path: &Path, flags: i32) -> Result<Library, libloading::Error> {
    // SAFETY: libtorch's initialisers are those that `import torch` runs.
    unsafe { Library::open(Some(path), libc::RTLD_NOW | flags) }
}

/// The file with this end of a path that is mapped into the process.
pub(crate) fn mapped(end: &str) -> Option<PathBuf> {
    mapped_where(|path| path.ends_with(end))
}

/// The library of this name that is mapped into the process, whatever its version.
pub(crate) fn mapped_library(name: &str) -> Option<PathBuf> {
    mapped_where(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)))
}

fn mapped_where(is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).find(|path| is_it(path))?;
    Some(PathBuf::from(path))
}
