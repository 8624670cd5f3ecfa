//! LLVM's tables of how long instructions take, without the names of their rows.
//!
//! There is a table for each processor, and the names are for those who debug LLVM. But a name is an address, which has to be corrected when the
//! extension is loaded: a megabyte that every process wrote and kept, more than half of all that it had to correct. So the file with these tables
//! is taken out of LLVM's archive and linked ahead of it, without these corrections. Where that does not work LLVM's own is linked, and all is
//! as it was.

use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHIVE: &str = "lib/libLLVMX86Desc.a";
const MEMBER: &str = "X86MCTargetDesc.cpp.o";
/// The corrections of the tables of type `MCSchedClassDesc`, whose one address is the name.
const NAMES: &str = ".rela.data.rel.ro.*ModelSchedClassesE";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LLVM_SYS_191_PREFIX");
    let is_x86 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let is_elf = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    if is_x86 && is_elf && nameless(&out).is_some() {
        println!("cargo::rustc-link-search=native={}", out.display());
        println!("cargo::rustc-link-lib=static=ox_x86_tables");
    }
}

/// Makes the archive `ox_x86_tables` in this folder.
fn nameless(out: &Path) -> Option<()> {
    let prefix = PathBuf::from(std::env::var_os("LLVM_SYS_191_PREFIX")?);
    let tool = |name: &str| {
        let mut command = Command::new(prefix.join("bin").join(name));
        command.current_dir(out);
        command
    };
    let _ = std::fs::remove_file(out.join("libox_x86_tables.a"));
    done(tool("llvm-ar").arg("x").arg(prefix.join(ARCHIVE)).arg(MEMBER))?;
    done(tool("llvm-objcopy").args(["--wildcard", "--remove-section", NAMES, MEMBER]))?;
    done(tool("llvm-ar").args(["rcs", "libox_x86_tables.a", MEMBER]))
}

fn done(command: &mut Command) -> Option<()> {
    command.status().is_ok_and(|status| status.success()).then_some(())
}
