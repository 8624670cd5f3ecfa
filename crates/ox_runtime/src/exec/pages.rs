//! Large pages for large memory. The C library maps what is large anew every time, and to fault it in by small pages costs about as much as to
//! write it twice.

/// The size of a large page.
pub const HUGE_PAGE: usize = 2 << 20;
/// From here on the C library maps memory of its own for an allocation; what is smaller lies in a heap that is warm already.
const MAPPED: usize = 32 << 20;

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

/// As `advise`, for a tensor of torch's.
pub fn advise_tensor(start: *mut u8, bytes: usize) {
    if bytes >= MAPPED {
        advise(start, bytes);
    }
}
