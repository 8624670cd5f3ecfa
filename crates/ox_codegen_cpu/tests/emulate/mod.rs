//! Kernels compiled for 64-bit Arm. They are run under emulation where a cross compiler and qemu are installed
//! (`apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross`); elsewhere it is only checked that they compile.

use ox_codegen_cpu::Backend;
use ox_ir::Kernel;
use rustc_hash::FxHashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

/// Where the kernels are put.
const BASE: u64 = 0x4000_0000;
const PAGE: usize = 4096;

/// What generated code calls, most of it under our names with a prefix, is the C library's.
const LIBRARY: &[&str] = &[
    "cos", "cosf", "fma", "fmaf", "fmod", "fmodf", "lgamma", "memcpy", "memmove", "memset", "pow", "sin", "sinf", "tan", "tanf",
];

/// Without arguments it says where the library's functions are. With the kernels' image it reads calls from standard input (the kernel's
/// address, buffers, sizes, pieces) and writes the buffers back after each.
const DRIVER: &str = r#"
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef void (*kernel)(uint8_t *const *, const int64_t *, int64_t, int64_t, int64_t *);
static void *const library[] = { LIBRARY };
static int64_t number(void) { int64_t n; if (fread(&n, 8, 1, stdin) != 1) exit(0); return n; }
int main(int argc, char **argv) {
    if (argc == 1) {
        for (size_t k = 0; k < sizeof library / sizeof *library; k++) printf("%lu\n", (unsigned long)library[k]);
        return 0;
    }
    int image = open(argv[1], O_RDONLY);
    size_t bytes = lseek(image, 0, SEEK_END);
    void *base = (void *)BASE;
    if (mmap(base, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, image, 0) != base) return 3;
    for (;;) {
        kernel run = (kernel)number();
        int64_t bufs = number(); uint8_t *buf[64]; int64_t len[64];
        for (int64_t k = 0; k < bufs; k++) {
            len[k] = number(); buf[k] = malloc(len[k] + 1);
            if (len[k] && fread(buf[k], len[k], 1, stdin) != 1) exit(2);
        }
        int64_t sizes = number(), size[64];
        for (int64_t k = 0; k < sizes; k++) size[k] = number();
        int64_t pieces = number(), from = 0, error[3] = {0, 0, 0};
        for (int64_t k = 0; k < pieces; k++) { int64_t to = number(); run(buf, size, from, to, error); from = to; }
        fwrite(&error[0], 8, 1, stdout);
        for (int64_t k = 0; k < bufs; k++) { fwrite(buf[k], len[k], 1, stdout); free(buf[k]); }
    }
}
"#;

pub fn backend() -> Backend {
    Backend::for_target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon,+fp-armv8").unwrap()
}

/// One call of a kernel on buffers given as bytes.
pub struct Call {
    pub kernel: Kernel,
    pub buffers: Vec<Vec<u8>>,
    pub sizes: Vec<i64>,
    /// Where the pieces of the range end.
    pub ends: Vec<i64>,
}

/// The buffers after each call. None if there is nothing here to run them with.
pub fn run(calls: &[Call]) -> Option<Vec<Vec<Vec<u8>>>> {
    let folder = std::env::temp_dir().join(format!("ox-emulate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let objects: Vec<Vec<u8>> = calls.iter().map(|c| compiled(&c.kernel)).collect();
    let results = [COMPILER, EMULATOR].iter().all(|tool| exists(tool)).then(|| {
        let program = driver(&folder);
        let (image, entries) = link(&folder, &objects, &addresses(&program));
        execute(&program, &image, &entries, calls)
    });
    std::fs::remove_dir_all(&folder).unwrap();
    results
}

fn compiled(kernel: &Kernel) -> Vec<u8> {
    backend().compile_object(kernel).unwrap_or_else(|e| panic!("{e} in\n{kernel}"))
}

fn exists(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn driver(folder: &Path) -> PathBuf {
    let (program, source) = (folder.join("driver"), folder.join("driver.c"));
    let library: String = LIBRARY.iter().map(|name| format!("(void *){name}, ")).collect();
    std::fs::write(&source, DRIVER.replace("LIBRARY", &library).replace("BASE", &BASE.to_string())).unwrap();
    succeed(Command::new(COMPILER).args(["-O1", "-static", "-o"]).arg(&program).arg(&source).arg("-lm"));
    program
}

/// Of the library's functions, by the names that kernels call them by.
fn addresses(program: &Path) -> FxHashMap<String, u64> {
    let told = succeed(Command::new(EMULATOR).arg(program));
    let numbers = told.lines().map(|line| line.parse::<u64>().unwrap());
    let both = LIBRARY.iter().zip(numbers).flat_map(|(name, at)| [(name.to_string(), at), (format!("ox_{name}"), at)]);
    both.collect()
}

/// The kernels, each on pages of its own, by our own linker; and where each begins.
fn link(folder: &Path, objects: &[Vec<u8>], library: &FxHashMap<String, u64>) -> (PathBuf, Vec<u64>) {
    let (mut image, mut entries) = (Vec::new(), Vec::new());
    for object in objects {
        image.resize(image.len().next_multiple_of(PAGE), 0);
        let base = BASE + image.len() as u64;
        let (bytes, entry) = ox_codegen_cpu::image_at(object, base, |name| library.get(name).copied()).unwrap();
        image.extend(bytes);
        entries.push(base + entry as u64);
    }
    let path = folder.join("image");
    std::fs::write(&path, image).unwrap();
    (path, entries)
}

/// What it printed.
fn succeed(command: &mut Command) -> String {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn execute(program: &Path, image: &Path, entries: &[u64], calls: &[Call]) -> Vec<Vec<Vec<u8>>> {
    let mut child = Command::new(EMULATOR).arg(program).arg(image).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let requests: Vec<u8> = calls.iter().zip(entries).flat_map(|(call, entry)| request(*entry, call)).collect();
    let writer = std::thread::spawn(move || stdin.write_all(&requests).unwrap());
    let done = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(done.status.success(), "the emulated program died: {}", done.status);
    let mut rest = &done.stdout[..];
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at(count);
        rest = tail;
        head.to_vec()
    };
    let answer = |call: &Call| {
        assert_eq!(take(8), [0; 8], "a check failed in\n{}", call.kernel);
        call.buffers.iter().map(|b| take(b.len())).collect()
    };
    calls.iter().map(answer).collect()
}

fn request(entry: u64, call: &Call) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, n: usize| bytes.extend((n as i64).to_le_bytes());
    number(&mut bytes, entry as usize);
    number(&mut bytes, call.buffers.len());
    for buffer in &call.buffers {
        number(&mut bytes, buffer.len());
        bytes.extend(buffer);
    }
    for list in [&call.sizes, &call.ends] {
        number(&mut bytes, list.len());
        list.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
    }
    bytes
}
