//! CUDA text run on a CPU: compiled by g++ with a header that stands in for CUDA.

use libloading::{Library, Symbol};
use ox_codegen_cuda::{Source, assemble};
use ox_ir::abi::KernelError;
use ox_testing::InterpretError;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;

pub struct Emulator {
    library: Library,
    folder: PathBuf,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether this machine has what it takes.
pub fn is_possible() -> bool {
    Command::new("g++").arg("--version").output().is_ok_and(|out| out.status.success())
}

impl Emulator {
    /// Compiles the kernels, whose symbols must differ.
    pub fn new(name: &str, sources: &[Source]) -> Emulator {
        let folder = std::env::temp_dir().join(format!("ox-emulate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let entry = |s: &Source| {
            format!(
                "extern \"C\" void run_{0}(void** args, long long grid, unsigned threads) {{ emulate::launch({0}, args, grid, threads); }}\n",
                s.symbol
            )
        };
        let text =
            format!("{}\n{}\n{}", include_str!("cuda.h"), assemble(sources), sources.iter().map(entry).collect::<String>());
        let (file, library) = (folder.join("kernels.cpp"), folder.join("kernels.so"));
        std::fs::write(&file, text).unwrap();
        let flags = ["-std=c++17", "-w", "-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-shared", "-fPIC", "-o"];
        let out = Command::new("g++").args(flags).arg(&library).arg(&file).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        // SAFETY: our own library.
        Emulator { library: unsafe { Library::new(&library) }.unwrap(), folder }
    }

    /// Threads go in the reverse order from now on, or no more.
    #[allow(dead_code, reason = "not every test file cares")]
    pub fn reverse(&self, reversed: bool) {
        // SAFETY: one number of the library's, which nobody reads now.
        unsafe { *self.number("emulate_reversed") = c_int::from(reversed) };
    }

    fn number(&self, name: &str) -> *mut c_int {
        // SAFETY: numbers of the header's.
        unsafe { *self.library.get::<*mut c_int>(name.as_bytes()).unwrap() }
    }

    /// On copies of the buffers, behind which nothing can be read.
    pub fn run(&self, source: &Source, points: i64, bufs: &mut [&mut [u8]], sizes: &[i64]) -> Result<(), InterpretError> {
        self.run_at(&vec![0; bufs.len()], source, points, bufs, sizes)
    }

    /// Each of them so many bytes behind a multiple of 16.
    pub fn run_at(
        &self,
        behind: &[usize],
        source: &Source,
        points: i64,
        bufs: &mut [&mut [u8]],
        sizes: &[i64],
    ) -> Result<(), InterpretError> {
        let mut copies: Vec<Fenced> = bufs.iter().zip(behind).map(|(buf, behind)| Fenced::new(buf, *behind)).collect();
        let result = self.launch(source, points, &mut copies, sizes);
        bufs.iter_mut().zip(&copies).for_each(|(buf, copy)| buf.copy_from_slice(copy.bytes()));
        result
    }

    fn launch(&self, source: &Source, points: i64, bufs: &mut [Fenced], sizes: &[i64]) -> Result<(), InterpretError> {
        let mut error = KernelError::default();
        assert!(source.aligned.iter().all(|(place, bytes)| (bufs[*place].start as usize).is_multiple_of(*bytes)));
        let mut values: Vec<u64> = bufs.iter().map(|buf| buf.start as u64).collect();
        values.extend(sizes.iter().map(|n| *n as u64));
        values.push(&raw mut error as u64);
        let mut args: Vec<*mut c_void> = values.iter_mut().map(|v| (&raw mut *v).cast()).collect();
        let grid = (points + source.points_per_block - 1) / source.points_per_block;
        let name = format!("run_{}\0", source.symbol);
        // SAFETY: the function was written above with this signature; the buffers are as large as the plan says.
        let divergent = unsafe {
            let run: Symbol<unsafe extern "C" fn(*mut *mut c_void, i64, u32)> = self.library.get(name.as_bytes()).unwrap();
            run(args.as_mut_ptr(), grid, source.threads);
            *self.number("emulate_divergent")
        };
        assert_eq!(divergent, 0, "threads of a block wait at different lines:\n{}", source.text);
        let read = |x: &std::sync::atomic::AtomicI64| x.load(Ordering::Relaxed);
        match read(&error.check) {
            0 => Ok(()),
            n => Err(InterpretError::Check { check: n as u32 - 1, value: read(&error.value), extent: read(&error.extent) }),
        }
    }
}

/// Memory that ends where the process's does, but for what is left of 16 bytes: who reads behind it is stopped.
struct Fenced {
    start: *mut u8,
    bytes: usize,
    pages: *mut c_void,
    pages_bytes: usize,
}

const PAGE: usize = 4096;

impl Fenced {
    fn new(bytes: &[u8], behind: usize) -> Fenced {
        let inside = (bytes.len() + 32).next_multiple_of(PAGE);
        let pages_bytes = inside + PAGE;
        // SAFETY: fresh pages, of which the last cannot be touched; the bytes lie in the others.
        unsafe {
            let (free, none) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
            let pages = libc::mmap(none, pages_bytes, free, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.add(inside), PAGE, libc::PROT_NONE), 0);
            let start = pages.cast::<u8>().add((inside - bytes.len() - behind) / 16 * 16 + behind);
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Fenced { start, bytes: bytes.len(), pages, pages_bytes }
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: pages of our own.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: made by `new`, nobody has them any more.
        unsafe { libc::munmap(self.pages, self.pages_bytes) };
    }
}
