//! Object code to a function that can be called.
//!
//! A kernel is a few pages: its code, its constants, and a stub for each function of the C library that it calls. Nothing is shared between
//! kernels, so that dropping one frees all of it. LLVM's own linkers were used before: their sessions held
//! 11 MB for five kernels.

mod arm;
mod elf;
mod link;
mod x86;

use crate::CodegenError;
use crate::error::broken;
use crate::math::libm;
use ox_ir::abi::KernelFn;
use std::ptr::null_mut;

/// The one symbol that an object defines.
pub const SYMBOL: &str = "ox_kernel";

/// Executable memory with one kernel.
pub struct Code {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: nobody writes it once it is loaded.
unsafe impl Send for Code {}
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: mapped by `Code::reserve`, with this size; whoever called the code has kept this.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

impl Code {
    /// Memory of its own, that may be written and not yet run.
    fn reserve(bytes: usize) -> Result<Code, CodegenError> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages, wherever there is room.
        let start = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(broken(format!("no memory for {bytes} bytes of code")));
        }
        Ok(Code { start: start.cast(), bytes })
    }

    /// From now on it may be run, and no longer written.
    fn fill(&self, image: &[u8]) -> Result<(), CodegenError> {
        assert!(image.len() <= self.bytes, "the image is as large as it said");
        // SAFETY: the pages are ours alone; they hold as many bytes.
        let changed = unsafe {
            self.start.copy_from_nonoverlapping(image.as_ptr(), image.len());
            libc::mprotect(self.start.cast(), self.bytes, libc::PROT_READ | libc::PROT_EXEC)
        };
        if changed != 0 {
            return Err(broken("the system does not let code run that was made in memory"));
        }
        self.make_visible();
        Ok(())
    }

    /// What was written as data is read as instructions.
    #[cfg(target_arch = "aarch64")]
    fn make_visible(&self) {
        unsafe extern "C" {
            fn __clear_cache(start: *mut u8, end: *mut u8);
        }
        // SAFETY: the bounds of our pages.
        unsafe { __clear_cache(self.start, self.start.add(self.bytes)) };
    }

    #[cfg(not(target_arch = "aarch64"))]
    fn make_visible(&self) {}
}

/// The machine that we run on.
const HOST: u16 = if cfg!(target_arch = "aarch64") { arm::NUMBER } else { x86::NUMBER };

pub fn load(object: &[u8]) -> Result<(KernelFn, Code), CodegenError> {
    let object = elf::parse(object)?;
    if object.machine != HOST {
        return Err(broken("code for another machine"));
    }
    let code = Code::reserve(link::size(&object)?.max(1))?;
    let image = link::link(&object, SYMBOL, code.start as u64, library_function)?;
    code.fill(&image.bytes)?;
    let entry = code.start.wrapping_add(image.entry);
    // SAFETY: the symbol was emitted with exactly this signature.
    let function = unsafe { std::mem::transmute::<*mut u8, KernelFn>(entry) };
    Ok((function, code))
}

/// Generated code may call what `libm::FUNCTIONS` lists and nothing else; the process's exports do not matter.
fn library_function(name: &str) -> Option<u64> {
    let found = libm::FUNCTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, address)| address() as u64)
}

/// The code as it must stand at an address, for a machine that may be another than this one; and where in it the kernel begins. What it
/// calls is found by name.
pub fn image_at(object: &[u8], base: u64, library: impl Fn(&str) -> Option<u64>) -> Result<(Vec<u8>, usize), CodegenError> {
    let image = link::link(&elf::parse(object)?, SYMBOL, base, library)?;
    Ok((image.bytes, image.entry))
}
