//! Pages that are mapped from a file.

use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The whole pages in it, none of which differs from its file.
pub fn forget(range: Range<usize>) {
    let page = page_size();
    let (start, end) = (range.start.next_multiple_of(page), range.end / page * page);
    if start < end {
        // SAFETY: whole pages that are mapped from a file and that nobody may write: whoever touches one gets the same again.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
    }
}

/// Those of them that are the file's, by the system's word (`/proc/self/pagemap`).
pub fn forget_unwritten(map: &File, range: Range<usize>) {
    /// So many are asked for at once.
    const MOST: usize = 4096;

    let page = page_size();
    let (mut first, end) = (range.start.div_ceil(page), range.end / page);
    let mut entries = vec![0; MOST * ENTRY];
    while first < end {
        let count = MOST.min(end - first);
        let entries = &mut entries[..count * ENTRY];
        if map.read_exact_at(entries, (first * ENTRY) as u64).is_err() {
            return;
        }
        let own: Vec<bool> = entries.chunks_exact(ENTRY).map(is_own).collect();
        let mut from = first;
        for run in own.chunk_by(|a, b| a == b) {
            if !run[0] {
                forget(from * page..(from + run.len()) * page);
            }
            from += run.len();
        }
        first += count;
    }
}

/// What the system says of a page, in bytes.
const ENTRY: usize = 8;

/// Whether the process has this page for itself, in memory or swapped out, and not from a file.
fn is_own(entry: &[u8]) -> bool {
    const OF_FILE: u64 = 1 << 61;
    const SWAPPED: u64 = 1 << 62;
    const PRESENT: u64 = 1 << 63;

    let bits = entry.try_into().map_or(PRESENT, u64::from_ne_bytes);
    bits & SWAPPED != 0 || bits & PRESENT != 0 && bits & OF_FILE == 0
}

fn page_size() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    /// As many pages of a file, mapped as a shared object is, all of them in memory.
    fn mapped(pages: usize) -> &'static mut [u8] {
        let path = std::env::temp_dir().join(format!("oxytorch-pages-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let size = pages * page_size();
        file.write_all(&vec![1; size]).unwrap();
        std::fs::remove_file(path).unwrap();
        // SAFETY: a new mapping of a file that is as long, never unmapped.
        let all = unsafe {
            let how = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let start = libc::mmap(std::ptr::null_mut(), size, how.0, how.1, file.as_raw_fd(), 0);
            assert_ne!(start, libc::MAP_FAILED);
            std::slice::from_raw_parts_mut(start.cast::<u8>(), size)
        };
        assert!(all.iter().step_by(page_size()).all(|byte| *byte == 1));
        all
    }

    fn in_memory(map: &File, pages: &[u8]) -> usize {
        let mut entries = vec![0; pages.len() / page_size() * ENTRY];
        map.read_exact_at(&mut entries, (pages.as_ptr() as usize / page_size() * ENTRY) as u64).unwrap();
        entries.chunks_exact(ENTRY).filter(|entry| entry[ENTRY - 1] >> 7 == 1).count()
    }

    #[test]
    fn what_somebody_has_written_stays() {
        let map = File::open("/proc/self/pagemap").unwrap();
        let all = mapped(5000);
        let range = all.as_ptr_range();
        let written = [0, 17, 18, 4095, 4096, 4999];
        written.iter().for_each(|page| all[page * page_size()] = 2);
        forget_unwritten(&map, range.start as usize..range.end as usize);
        assert_eq!(in_memory(&map, all), written.len());
        let expected = |page| if written.contains(&page) { 2 } else { 1 };
        assert!((0..5000).all(|page| all[page * page_size()] == expected(page)));
    }
}
