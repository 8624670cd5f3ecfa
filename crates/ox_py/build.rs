//! How the extension is linked: functions that run together stand side by side.
//!
//! Of LLVM's these are the functions that a compile of ours calls. They are a tenth of its code and were spread over all of it, and a page that is
//! touched brings its neighbours along: loading the extension
//! and compiling a model made 30 MB of code resident. `llvm_order.txt` holds six hexadecimal digits for each name of such a function
//! (`scripts/link_order.py` writes it), since the names would be a megabyte; what they are the archives of this machine's LLVM say. A name that
//! is missing, or that another has the digits of, does no harm.
//!
//! Of ours they are the functions of a call that finds everything compiled (`warm_order.txt`, which `scripts/warm_order.py` writes): 300 that were
//! spread over 5 MB, of which each call made 3 resident. Their names hold hashes that differ from one compiler to the next; so they are found by
//! the linker, by patterns. A dozen that are left out make 2 MB resident again: the names must say what generic functions are made for
//! (`.cargo/config.toml`), or a pattern would stand for hundreds of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ORDER: &str = "llvm_order.txt";
const WARM: &str = "warm_order.txt";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    println!("cargo::rerun-if-changed={WARM}");
    println!("cargo::rerun-if-env-changed=LLVM_SYS_191_PREFIX");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    let mut taken: Vec<String> = Vec::new();
    // What is kept on disk belongs to a build.
    let build = vec!["-Wl,--build-id=sha1".to_string()];
    for arguments in [build, order_of_llvm(&out), warm_in_one_place(&out)] {
        let together = [taken.clone(), arguments].concat();
        if links(&out, &together) {
            taken = together;
        }
    }
    taken.iter().for_each(|argument| println!("cargo::rustc-cdylib-link-arg={argument}"));
}

fn order_of_llvm(out: &Path) -> Vec<String> {
    let names = ordered_names().unwrap_or_default();
    let file = out.join("order.txt");
    std::fs::write(&file, names.join("\n")).expect("cargo's folder can be written");
    vec![
        // The static constructors, too, stand in one place.
        "-Wl,-z,keep-text-section-prefix".to_string(),
        "-Wl,--no-warn-symbol-ordering".to_string(),
        format!("-Wl,--symbol-ordering-file={}", file.display()),
    ]
}

/// An addition to the linker's own script. Each function is a section with its name, those that the compiler takes for unlikely apart.
fn warm_in_one_place(out: &Path) -> Vec<String> {
    let names = std::fs::read_to_string(WARM).unwrap_or_default();
    let sections: Vec<String> = names.split_whitespace().map(|name| format!(".text.{name} .text.unlikely.{name}")).collect();
    let file = out.join("warm.ld");
    let script = format!("SECTIONS {{ .text.warm : {{ *({}) }} }} INSERT BEFORE .text;\n", sections.join("\n"));
    std::fs::write(&file, script).expect("cargo's folder can be written");
    vec![format!("-Wl,-T,{}", file.display())]
}

/// The names in LLVM's archives that the list has, in its order.
fn ordered_names() -> Option<Vec<String>> {
    let list = std::fs::read_to_string(ORDER).ok()?;
    let digits = list.split_whitespace().filter_map(|digits| u32::from_str_radix(digits, 16).ok());
    let places: BTreeMap<u32, usize> = digits.enumerate().map(|(place, digits)| (digits, place)).collect();
    let prefix = PathBuf::from(std::env::var_os("LLVM_SYS_191_PREFIX")?);
    let mut nm = Command::new(prefix.join("bin/llvm-nm"));
    let output =
        nm.args(["--defined-only", "--quiet", "-j"]).args(archives(&prefix.join("lib"))).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let placed: BTreeSet<(usize, &str)> = text.lines().filter_map(|name| Some((*places.get(&digits_of(name))?, name))).collect();
    Some(placed.into_iter().map(|(_, name)| name.to_string()).collect())
}

fn archives(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_archive = |path: &PathBuf| path.extension().is_some_and(|e| e == "a") && path.to_string_lossy().contains("libLLVM");
    entries.map(|entry| entry.path()).filter(is_archive).collect()
}

/// 24 bits of FNV-1a, as the script computes them.
fn digits_of(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) & 0xff_ffff
}

/// Does this machine's linker take the arguments? Rust's own does, where it is used; others do not know them.
fn links(out: &Path, arguments: &[String]) -> bool {
    let source = out.join("probe.rs");
    std::fs::write(&source, "").expect("cargo's folder can be written");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-type", "cdylib", "--target", &variable("TARGET"), "-o"]).arg(out.join("probe.so")).arg(source);
    rustc.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.args(arguments.iter().map(|argument| format!("-Clink-arg={argument}")));
    rustc.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
