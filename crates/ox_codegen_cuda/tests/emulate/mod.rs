//! CUDA text run on a CPU: compiled by g++ with a header that stands in for CUDA.

use libloading::{Library, Symbol};
use ox_codegen_cuda::{Source, assemble};
use ox_ir::abi::KernelError;
use ox_testing::InterpretError;
use std::ffi::c_void;
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

    pub fn run(&self, source: &Source, points: i64, bufs: &mut [&mut [u8]], sizes: &[i64]) -> Result<(), InterpretError> {
        let mut error = KernelError::default();
        // A kernel that asks for more than the interpreter's memory has works on memory of its own.
        let is_aligned = |(place, bytes): &(usize, usize)| (bufs[*place].as_ptr() as usize).is_multiple_of(*bytes);
        if !source.aligned.iter().all(is_aligned) {
            return self.run_at(&vec![0; bufs.len()], source, points, bufs, sizes);
        }
        let mut values: Vec<u64> = bufs.iter_mut().map(|b| b.as_mut_ptr() as u64).collect();
        values.extend(sizes.iter().map(|n| *n as u64));
        values.push(&raw mut error as u64);
        let mut args: Vec<*mut c_void> = values.iter_mut().map(|v| (&raw mut *v).cast()).collect();
        let grid = (points + source.points_per_block - 1) / source.points_per_block;
        let name = format!("run_{}\0", source.symbol);
        // SAFETY: the function was written above with this signature; the buffers are as large as the plan says.
        unsafe {
            let run: Symbol<unsafe extern "C" fn(*mut *mut c_void, i64, u32)> = self.library.get(name.as_bytes()).unwrap();
            run(args.as_mut_ptr(), grid, source.threads);
        }
        let read = |x: &std::sync::atomic::AtomicI64| x.load(Ordering::Relaxed);
        match read(&error.check) {
            0 => Ok(()),
            n => Err(InterpretError::Check { check: n as u32 - 1, value: read(&error.value), extent: read(&error.extent) }),
        }
    }

    /// On copies of the buffers, each of them so many bytes behind a multiple of 16.
    #[allow(dead_code, reason = "not every test file places buffers")]
    pub fn run_at(
        &self,
        behind: &[usize],
        source: &Source,
        points: i64,
        bufs: &mut [&mut [u8]],
        sizes: &[i64],
    ) -> Result<(), InterpretError> {
        let mut memory: Vec<Vec<u128>> = bufs.iter().map(|b| vec![0; b.len() / 16 + 2]).collect();
        let bytes = |((m, b), behind): ((&mut Vec<u128>, &&mut [u8]), &usize)| {
            // SAFETY: no more bytes than were allocated, of a type without invalid values.
            unsafe { std::slice::from_raw_parts_mut(m.as_mut_ptr().cast::<u8>().add(*behind), b.len()) }
        };
        let mut copies: Vec<&mut [u8]> = memory.iter_mut().zip(bufs.iter()).zip(behind).map(bytes).collect();
        copies.iter_mut().zip(bufs.iter()).for_each(|(copy, b)| copy.copy_from_slice(b));
        let result = self.run(source, points, &mut copies, sizes);
        bufs.iter_mut().zip(&copies).for_each(|(b, copy)| b.copy_from_slice(copy));
        result
    }
}
