//! What lies on a stream, as data.

use super::driver::{Stream, driver};
use super::watch::{Code, END, Functions, Handle, LENGTH, MEMORY, functions};
use crate::error::RunError;
use ox_ir::failure::is_refused;
use std::ffi::{CStr, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute {
    pub id: u32,
    pub pad: u32,
    pub value: [u64; 8],
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Geometry {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub shared_bytes: u32,
}

/// One thing on a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launched {
    pub what: What,
    /// The kernel's parameters; where the memory lies that is filled.
    pub words: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Kernel { function: usize, geometry: Geometry, attributes: Vec<Attribute>, bytes: usize },
    Fill { value: u32, element: u32, count: usize },
}

const INVALID_VALUE: Code = 1;

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct Config {
    blocks: [c_uint; 3],
    threads: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: *const Attribute,
    count: c_uint,
}

/// All parameters of a kernel in one piece, as the driver takes them.
pub(super) fn extra(words: &mut [u64], bytes: &mut usize) -> [*mut c_void; 5] {
    let bytes: *mut usize = bytes;
    [MEMORY as _, words.as_mut_ptr().cast(), LENGTH as _, bytes.cast(), END as _]
}

/// Puts it on a stream.
///
/// SAFETY: the words must be what the kernel expects, and the memory that they name must live until the stream has done it.
pub(super) unsafe fn launch(launched: &mut Launched, stream: Stream) -> Result<(), RunError> {
    let functions = functions().ok_or_else(|| RunError::bug("this driver does not tell what is launched"))?;
    // SAFETY: the caller's promise.
    let code = if is_refused("launch") { INVALID_VALUE } else { unsafe { put(functions, launched, stream) } };
    if code == 0 { Ok(()) } else { driver()?.check(code, &described(functions, launched)) }
}

/// SAFETY: as for `launch`.
unsafe fn put(functions: &Functions, Launched { what, words }: &mut Launched, stream: Stream) -> Code {
    // SAFETY: the caller's promise.
    unsafe {
        match what {
            What::Fill { value, element: 1, count } => (functions.fill_bytes)(words[0], *value as u8, *count, stream.0),
            What::Fill { value, count, .. } => (functions.fill_words)(words[0], *value, *count, stream.0),
            What::Kernel { function, geometry, attributes, bytes } => {
                let config = Config {
                    blocks: geometry.blocks,
                    threads: geometry.threads,
                    shared_bytes: geometry.shared_bytes,
                    stream: stream.0,
                    attributes: attributes.as_ptr(),
                    count: attributes.len() as c_uint,
                };
                let mut extra = extra(words, bytes);
                (functions.launch)(&config, *function as Handle, null_mut(), extra.as_mut_ptr())
            }
        }
    }
}

/// For people.
fn described(functions: &Functions, Launched { what, words }: &Launched) -> String {
    let What::Kernel { function, geometry, attributes, bytes } = what else {
        return format!("filling memory as it was filled before ({what:?} at {words:?})");
    };
    let mut name = null();
    // SAFETY: the driver's own text, which is constant.
    let name = unsafe {
        (functions.name)(&mut name, *function as Handle);
        if name.is_null() { "a kernel without a name".into() } else { CStr::from_ptr(name).to_string_lossy() }
    };
    format!("{name}, which was launched before ({geometry:?}, {attributes:?}, {bytes} bytes of arguments)")
}

/// While it lives nobody else launches what is learned. Products of several launches work in memory that the same product works in when another thread asks for it: none may come in
/// between.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static LAUNCHING: Mutex<()> = Mutex::new(());
    LAUNCHING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver did not take a launch.
pub struct Refused {
    /// So many before it are on the stream, and none behind it.
    pub done: usize,
    pub error: RunError,
}

/// One after the other.
///
/// SAFETY: as for `launch`.
pub(super) unsafe fn in_order<'a>(launches: impl Iterator<Item = &'a mut Launched>, stream: Stream) -> Result<(), Refused> {
    for (done, launched) in launches.enumerate() {
        // SAFETY: the caller's promise.
        unsafe { launch(launched, stream) }.map_err(|error| Refused { done, error })?;
    }
    Ok(())
}

/// The same, alone.
///
/// SAFETY: as for `launch`.
pub unsafe fn launch_each(launches: &mut [Launched], stream: Stream) -> Result<(), Refused> {
    let _alone = alone();
    // SAFETY: the caller's promise.
    unsafe { in_order(launches.iter_mut(), stream) }
}
