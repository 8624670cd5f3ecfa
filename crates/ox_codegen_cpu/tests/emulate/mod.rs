//! Kernels compiled for 64-bit Arm. They are run under emulation where a cross compiler and qemu are installed
//! (`apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross`); elsewhere it is only checked that they compile.

use ox_codegen_cpu::Backend;
use ox_ir::Kernel;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const COMPILER: &str = "aarch64-linux-gnu-gcc";
const OBJCOPY: &str = "aarch64-linux-gnu-objcopy";
const EMULATOR: &str = "qemu-aarch64";

/// What generated code calls, under our names, is the C library's.
const LIBRARY: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosf", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
    "fmod", "fmodf", "lgamma", "lgammaf", "log", "log10", "log1p", "log2", "pow", "sin", "sinf", "sinh", "tan", "tanf", "tanh",
];

/// Reads calls from standard input (the function's number, buffers, sizes, pieces) and writes the buffers back after each.
const DRIVER: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef void (*kernel)(uint8_t *const *, const int64_t *, int64_t, int64_t, int64_t *);
TABLE
static int64_t number(void) { int64_t n; if (fread(&n, 8, 1, stdin) != 1) exit(0); return n; }
int main(void) {
    for (;;) {
        kernel run = table[number()];
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
    let results = [COMPILER, OBJCOPY, EMULATOR].iter().all(|tool| exists(tool)).then(|| {
        let program = link(&folder, &objects);
        execute(&program, calls)
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

fn link(folder: &Path, objects: &[Vec<u8>]) -> PathBuf {
    let (program, driver) = (folder.join("driver"), folder.join("driver.c"));
    let (mut declared, mut table, mut paths) = (String::new(), String::new(), Vec::new());
    let renamed = folder.join("names");
    std::fs::write(&renamed, LIBRARY.iter().map(|name| format!("ox_{name} {name}\n")).collect::<String>()).unwrap();
    for (n, object) in objects.iter().enumerate() {
        let path = folder.join(format!("{n}.o"));
        std::fs::write(&path, object).unwrap();
        let own = format!("--redefine-sym={}=k{n}", ox_codegen_cpu::SYMBOL);
        succeed(Command::new(OBJCOPY).arg(own).arg(format!("--redefine-syms={}", renamed.display())).arg(&path));
        declared += &format!("void k{n}(uint8_t *const *, const int64_t *, int64_t, int64_t, int64_t *);\n");
        table += &format!("k{n}, ");
        paths.push(path);
    }
    let table = format!("{declared}static const kernel table[] = {{ {table} }};");
    std::fs::write(&driver, DRIVER.replace("TABLE", &table)).unwrap();
    succeed(Command::new(COMPILER).args(["-O1", "-static", "-o"]).arg(&program).arg(&driver).args(paths).arg("-lm"));
    program
}

fn succeed(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn execute(program: &Path, calls: &[Call]) -> Vec<Vec<Vec<u8>>> {
    let mut child = Command::new(EMULATOR).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let requests: Vec<u8> = calls.iter().enumerate().flat_map(|(n, call)| request(n, call)).collect();
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

fn request(n: usize, call: &Call) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, n: usize| bytes.extend((n as i64).to_le_bytes());
    number(&mut bytes, n);
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
