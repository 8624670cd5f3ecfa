//! Large pages for arenas, which are kept from call to call. Not for results: memory that is mapped anew in each call was
//! faster in large pages as a rule (GPT-2: 66 ms, 75 without, eager 98), but on a virtual machine that has to get them from its host each time it was twice as
//! slow (132 ms).

/// The size of a large page.
pub const HUGE_PAGE: usize = 2 << 20;

/// Asks for large pages where an allocation has just been made, before anybody writes there. Only advice: a refusal does no harm.
pub fn advise(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        let end = (start as usize).saturating_add(bytes) / HUGE_PAGE * HUGE_PAGE;
        let begin = (start as usize).next_multiple_of(HUGE_PAGE);
        if begin < end {
            // SAFETY: whole pages inside of memory that we have been given.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}
