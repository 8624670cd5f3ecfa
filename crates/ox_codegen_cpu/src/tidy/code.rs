//! The code and constants of shared objects.

use super::pages;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::ops::{ControlFlow, Range};

/// The pages of the shared object that this function is a part of: those that are as the file has them.
pub fn forget() {
    let own = forget as *const () as usize;
    each_object(&mut |object| {
        let is_own = object.loaded().any(|(_, range)| range.contains(&own));
        if !is_own {
            return ControlFlow::Continue(());
        }
        object.constant().for_each(pages::forget);
        ControlFlow::Break(())
    });
}

/// Those of all shared objects. The others are not ours: what somebody has written there for himself (a breakpoint, a function that is led elsewhere, code that
/// was copied to larger pages) is asked for, and stays.
pub fn forget_all() {
    /// Smaller ones are not worth asking.
    const LEAST: usize = 1 << 16;

    let Ok(map) = File::open("/proc/self/pagemap") else { return };
    each_object(&mut |object| {
        object.constant().filter(|range| range.len() >= LEAST).for_each(|range| pages::forget_unwritten(&map, range));
        ControlFlow::Continue(())
    });
}

struct Object<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

impl Object<'_> {
    /// What of it is in memory, and whether it may be written.
    fn loaded(&self) -> impl Iterator<Item = (bool, Range<usize>)> {
        self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let start = self.base + header.p_vaddr as usize;
            (header.p_flags & libc::PF_W != 0, start..start + header.p_memsz as usize)
        })
    }

    fn constant(&self) -> impl Iterator<Item = Range<usize>> {
        self.loaded().filter(|(written, _)| !written).map(|(_, range)| range)
    }
}

type Visit<'a> = &'a mut dyn FnMut(Object<'_>) -> ControlFlow<()>;

/// While objects are visited none is loaded or unloaded: the C library holds its lock.
fn each_object(mut visit: Visit<'_>) {
    // SAFETY: `look` is what the function asks for; `visit` outlives the call, and is used by nobody else meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut visit).cast()) };
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, visit: *mut c_void) -> c_int {
    // SAFETY: the C library describes an object that is loaded, with as many headers as it says; `visit` is what `each_object` has given.
    let (object, visit) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
        (Object { base: info.dlpi_addr as usize, headers }, &mut *visit.cast::<Visit<'_>>())
    };
    visit(object).is_break() as c_int
}
