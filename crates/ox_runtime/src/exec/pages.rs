//! Large pages for what a run writes: in memory that is mapped anew, each page costs a fault, and a large one costs hardly more than a small one.
//! The backward program of a Llama, which makes 200 MB of gradients in each step, took 280 ms of one core that way, and 230 in large pages.
//!
//! Large results of inference are kept for the next ones instead (`kept`): a virtual machine may have to get its pages from the host again, and
//! a large one takes as long then as all the small ones.

/// The size of a large page.
const HUGE_PAGE: usize = 2 << 20;
/// Less than this has hardly a whole one in it.
const WORTH: usize = 2 * HUGE_PAGE;

/// Asks for large pages where an allocation has just been made, before anybody writes there. Only advice: a refusal does no harm, and what
/// lies in large pages already stays there.
pub fn advise(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= WORTH {
        let end = (start as usize).saturating_add(bytes) / HUGE_PAGE * HUGE_PAGE;
        let begin = (start as usize).next_multiple_of(HUGE_PAGE);
        // SAFETY: whole pages inside of memory that we have been given.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}
