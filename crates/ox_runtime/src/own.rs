//! What this extension is to the system: its build, and whose process it is in.

/// The user whose rights the process has.
pub fn user() -> u32 {
    // SAFETY: asks for a number, and always succeeds.
    unsafe { libc::geteuid() }
}

/// What the linker has called the shared object, or program, that this function is a part of: another build has another. None where it has not
/// been told to.
#[cfg(target_os = "linux")]
pub fn build() -> Option<String> {
    let mut search = Search { own: build as *const () as usize, found: None };
    // SAFETY: `look` is what the function asks for, and reads nothing but what it is given.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(not(target_os = "linux"))]
pub fn build() -> Option<String> {
    None
}

#[cfg(target_os = "linux")]
struct Search {
    own: usize,
    found: Option<Vec<u8>>,
}

#[cfg(target_os = "linux")]
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut std::ffi::c_void) -> std::ffi::c_int {
    // SAFETY: the C library describes an object that is loaded, with as many headers as it says; `build` waits with its search.
    let (base, headers, search) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
        (info.dlpi_addr as usize, headers, &mut *search.cast::<Search>())
    };
    let start = |header: &libc::Elf64_Phdr| base + header.p_vaddr as usize;
    let is_own = |header: &libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && (start(header)..start(header) + header.p_memsz as usize).contains(&search.own)
    };
    if !headers.iter().any(is_own) {
        return 0;
    }
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    // SAFETY: such a segment lies in memory as the header says.
    let mut notes =
        notes.map(|header| unsafe { std::slice::from_raw_parts(start(header) as *const u8, header.p_memsz as usize) });
    search.found = notes.find_map(build_of);
    1
}

/// Among notes, each of which says how long its name and its content are, and of what kind it is.
#[cfg(any(target_os = "linux", test))]
fn build_of(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD: (u32, &[u8]) = (3, b"GNU\0");
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name_bytes, content_bytes) = (word(0) as usize, word(4) as usize);
        let (name, rest) = rest.split_at_checked(name_bytes.next_multiple_of(4))?;
        let content = rest.get(..content_bytes)?;
        if (word(8), name.get(..name_bytes)?) == BUILD {
            return Some(content.to_vec());
        }
        notes = rest.get(content_bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
        let padded =
            |bytes: &[u8]| bytes.iter().copied().chain([0; 3]).take(bytes.len().next_multiple_of(4)).collect::<Vec<u8>>();
        let words = [name.len() as u32, content.len() as u32, kind].map(u32::to_ne_bytes).concat();
        [words, padded(name), padded(content)].concat()
    }

    #[test]
    fn a_build_is_found_among_notes() {
        let (other, build) = (note(1, b"GNU\0", b"abcdef"), note(3, b"GNU\0", b"12345"));
        assert_eq!(
            build_of(&[other.clone(), note(3, b"Go\0", b"xx"), build.clone()].concat()).as_deref(),
            Some(b"12345".as_slice())
        );
        assert_eq!(build_of(&other), None);
        assert_eq!(build_of(&[]), None);
        assert_eq!(build_of(&build[..build.len() - 4]), None, "cut off");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_found_stays_the_same() {
        assert_eq!(build(), build());
    }
}
