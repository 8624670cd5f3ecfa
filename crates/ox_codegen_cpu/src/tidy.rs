//! What a compile leaves behind in the process is given back when it is done: a process that runs for days compiles for a second.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something was compiled since the code was last forgotten for good.
static COMPILED: AtomicBool = AtomicBool::new(false);

/// LLVM makes and frees millions of small objects, which the C library keeps for more of them, in heaps of threads that are gone; and the
/// pages of LLVM's own code, which are read from the file again if they are needed again.
pub fn give_back() {
    free_idle_heap();
    forget_code();
    COMPILED.store(true, Ordering::Relaxed);
}

/// When what was compiled is in use, and calls take the short way: what captured, planned and loaded it is not needed any more, once for each
/// compile. Says whether this was the time.
pub fn forget_code_once() -> bool {
    let is_time = COMPILED.swap(false, Ordering::Relaxed);
    if is_time {
        forget_code();
    }
    is_time
}

/// The pages of the shared object that this is a part of, as far as they are as the file has them.
pub fn forget_code() {
    #[cfg(target_os = "linux")]
    code::forget();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn free_idle_heap() {
    // SAFETY: may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn free_idle_heap() {}

#[cfg(target_os = "linux")]
mod code {
    use std::ffi::{c_int, c_void};

    /// The pages of the shared object that this function is a part of: those that are as the file has them, code and constants.
    pub fn forget() {
        let own = forget as *const () as usize;
        // SAFETY: `look` is what the function asks for, and reads nothing but what it is given.
        unsafe { libc::dl_iterate_phdr(Some(look), own as *mut c_void) };
    }

    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, own: *mut c_void) -> c_int {
        // SAFETY: the C library describes an object that is loaded, with as many headers as it says.
        let (base, headers) = unsafe {
            let info = &*info;
            (info.dlpi_addr as usize, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize))
        };
        let range = |header: &libc::Elf64_Phdr| {
            let start = base + header.p_vaddr as usize;
            start..start + header.p_memsz as usize
        };
        let loaded = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD;
        if !headers.iter().filter(loaded).any(|header| range(header).contains(&(own as usize))) {
            return 0;
        }
        for header in headers.iter().filter(loaded).filter(|header| header.p_flags & libc::PF_W == 0) {
            forget_pages(range(header));
        }
        1
    }

    fn forget_pages(range: std::ops::Range<usize>) {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let (start, end) = (range.start.next_multiple_of(page), range.end / page * page);
        if start < end {
            // SAFETY: whole pages that are mapped from a file and that nobody may write: whoever touches one gets the same again.
            unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
        }
    }
}
