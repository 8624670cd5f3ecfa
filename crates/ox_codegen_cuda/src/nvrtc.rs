//! NVIDIA's run-time compiler, found at run time: torch's wheels bring it along.

use crate::CodegenError;
use crate::error::nvrtc;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

type Program = *mut c_void;
type Code = c_int;

/// The functions of one libnvrtc. Many threads may compile at once.
pub struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    error_text: unsafe extern "C" fn(Code) -> *const c_char,
    is_minimal: bool,
    /// Which one it is: its version, and how large its files are, since builds of one version are told apart by nothing else. None if it was found by
    /// name alone, so that nobody knows where.
    version: Option<String>,
    /// The compute capabilities that it compiles for, in order; none where it does not say.
    archs: Vec<u32>,
    _libraries: (Library, Vec<Library>),
}

/// Contraction would round once where eager rounds twice.
const OPTIONS: [&CStr; 3] = [c"--fmad=false", c"--std=c++17", c"--device-as-default-execution-space"];
/// Without what we do not use (textures, launches from kernels), which every unit would read first. Not all versions know it.
const MINIMAL: &CStr = c"--minimal";
const KNOWS_MINIMAL: c_int = 13;
/// The versions that torch has been built with, newest first.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

impl Nvrtc {
    /// Looks where `OXYTORCH_NVRTC` says, in the folders given, beside the torch of this process, and where the system looks.
    pub fn find(folders: &[PathBuf]) -> Result<Nvrtc, CodegenError> {
        let given = std::env::var_os("OXYTORCH_NVRTC").map(PathBuf::from);
        let beside = packages_of_torch().into_iter().chain(folders.iter().cloned()).flat_map(|folder| in_packages(&folder));
        let plain = NAMES.iter().map(PathBuf::from);
        let mut why = String::from("no file by that name");
        for path in given.into_iter().chain(beside).chain(plain) {
            match Nvrtc::open(&path) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(error) => why = error.to_string(),
            }
        }
        Err(CodegenError::Missing(format!(
            "NVRTC, which compiles for CUDA, was not found ({why}); torch's CUDA wheels bring it along"
        )))
    }

    fn open(path: &Path) -> Result<Nvrtc, libloading::Error> {
        // SAFETY: libnvrtc runs no code of ours when it is loaded, and its functions have the types that nvrtc.h declares.
        unsafe {
            let builtins = path
                .parent()
                .into_iter()
                .flat_map(builtins)
                .filter_map(|path| Library::open(Some(path), RTLD_NOW | RTLD_LOCAL).ok());
            let builtins = builtins.collect();
            let library = Library::open(Some(path), RTLD_NOW | RTLD_LOCAL)?;
            let version = *library.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code>(b"nvrtcVersion\0")?;
            let (mut major, mut minor) = (0, 0);
            let is_minimal = version(&mut major, &mut minor) == 0 && major >= KNOWS_MINIMAL;
            Ok(Nvrtc {
                create: *library.get(b"nvrtcCreateProgram\0")?,
                destroy: *library.get(b"nvrtcDestroyProgram\0")?,
                compile: *library.get(b"nvrtcCompileProgram\0")?,
                log_size: *library.get(b"nvrtcGetProgramLogSize\0")?,
                log: *library.get(b"nvrtcGetProgramLog\0")?,
                cubin_size: *library.get(b"nvrtcGetCUBINSize\0")?,
                cubin: *library.get(b"nvrtcGetCUBIN\0")?,
                error_text: *library.get(b"nvrtcGetErrorString\0")?,
                is_minimal,
                version: path.is_absolute().then(|| format!("NVRTC {major}.{minor} of {:?} bytes", bytes_of(path))),
                archs: archs(&library),
                _libraries: (library, builtins),
            })
        }
    }

    /// What it makes of a text depends on this, and on what it compiles for.
    pub fn maker(&self) -> Option<String> {
        let options: Vec<_> = self.options().map(|option| option.to_string_lossy()).collect();
        Some(format!("{} {}", self.version.as_ref()?, options.join(" ")))
    }

    fn options(&self) -> impl Iterator<Item = &'static CStr> {
        OPTIONS.into_iter().chain(self.is_minimal.then_some(MINIMAL))
    }

    /// What to compile for: that of the GPU or, for one that is newer than this compiler, the latest before it whose code it runs. None where there is none.
    pub fn target(&self, arch: u32) -> Option<u32> {
        target(&self.archs, arch)
    }

    /// CUDA C++ to a cubin for GPUs of compute capability `arch` (90 is 9.0).
    pub fn cubin(&self, text: &str, arch: u32) -> Result<Vec<u8>, CodegenError> {
        let text = CString::new(text).map_err(|_| nvrtc("the text has a NUL"))?;
        let target = CString::new(format!("--gpu-architecture=sm_{arch}")).expect("no NUL");
        let options: Vec<*const c_char> = self.options().map(CStr::as_ptr).chain([target.as_ptr()]).collect();
        let mut program: Program = null_mut();
        // SAFETY: the strings live through the call; there are no headers.
        self.check(unsafe { (self.create)(&mut program, text.as_ptr(), c"oxytorch.cu".as_ptr(), 0, null(), null()) })?;
        let program = Owned { nvrtc: self, program };
        // SAFETY: a live program; as many options as said.
        if unsafe { (self.compile)(program.program, options.len() as c_int, options.as_ptr()) } != 0 {
            return Err(nvrtc(format!("{}\n{}", program.log()?, text.to_string_lossy())));
        }
        program.bytes(self.cubin_size, self.cubin)
    }

    fn check(&self, code: Code) -> Result<(), CodegenError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: a string of the library's own.
        let text = unsafe { CStr::from_ptr((self.error_text)(code)) };
        Err(nvrtc(text.to_string_lossy()))
    }
}

/// SAFETY: as for `Nvrtc::open`.
unsafe fn archs(library: &Library) -> Vec<u32> {
    // SAFETY: the caller's promise; as many numbers are written as were told.
    unsafe {
        let count = library.get::<unsafe extern "C" fn(*mut c_int) -> Code>(b"nvrtcGetNumSupportedArchs\0");
        let list = library.get::<unsafe extern "C" fn(*mut c_int) -> Code>(b"nvrtcGetSupportedArchs\0");
        let (Ok(count), Ok(list)) = (count, list) else { return Vec::new() };
        let mut found = 0;
        if count(&mut found) != 0 {
            return Vec::new();
        }
        let mut archs = vec![0; found as usize];
        if list(archs.as_mut_ptr()) != 0 {
            return Vec::new();
        }
        archs.into_iter().map(|arch| arch as u32).collect()
    }
}

/// Code runs on later GPUs of the same generation.
fn target(archs: &[u32], arch: u32) -> Option<u32> {
    if archs.is_empty() {
        return Some(arch);
    }
    archs.iter().copied().filter(|known| *known <= arch && known / 10 == arch / 10).max()
}

struct Owned<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl Owned<'_> {
    fn bytes(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> Code,
        read: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    ) -> Result<Vec<u8>, CodegenError> {
        let mut count = 0usize;
        // SAFETY: a live program; `read` writes as many bytes as `size` says.
        unsafe {
            self.nvrtc.check(size(self.program, &mut count))?;
            let mut bytes = vec![0u8; count];
            self.nvrtc.check(read(self.program, bytes.as_mut_ptr().cast()))?;
            Ok(bytes)
        }
    }

    fn log(&self) -> Result<String, CodegenError> {
        let bytes = self.bytes(self.nvrtc.log_size, self.nvrtc.log)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string())
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `create`, destroyed once.
        unsafe { (self.nvrtc.destroy)(&mut self.program) };
    }
}

/// What libnvrtc opens by name alone: where it lies in no folder of the system, it must be open already.
fn builtins(folder: &Path) -> Vec<PathBuf> {
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so"));
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).filter(named).collect()
}

/// Of the library and its builtins.
fn bytes_of(path: &Path) -> Vec<u64> {
    let mut paths = path.parent().map(builtins).unwrap_or_default();
    paths.sort();
    paths.push(path.to_path_buf());
    paths.iter().filter_map(|path| Some(path.metadata().ok()?.len())).collect()
}

/// The folder of packages that this process's torch lies in.
fn packages_of_torch() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("/torch/lib/libtorch_cpu.so"))?;
    Path::new(&line[line.find('/')?..]).ancestors().nth(3).map(Path::to_path_buf)
}

/// `nvidia/<package>/lib/libnvrtc.so.<version>` under a folder of Python packages.
fn in_packages(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder.join("nvidia")) else { return Vec::new() };
    let mut libs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path().join("lib")).collect();
    libs.sort();
    libs.iter().flat_map(|lib| NAMES.iter().map(|name| lib.join(name))).filter(|path| path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_gpus_run_what_older_ones_of_their_kind_do() {
        let known = [75, 80, 86, 90, 100, 120];
        assert_eq!([90, 89, 121, 103].map(|arch| target(&known, arch)), [Some(90), Some(86), Some(120), Some(100)]);
        // Too old, too new, between two.
        assert_eq!([70, 130, 110].map(|arch| target(&known, arch)), [None; 3]);
        assert_eq!(target(&[], 130), Some(130));
    }
}
