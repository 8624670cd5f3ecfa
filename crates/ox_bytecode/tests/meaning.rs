//! Programs run by the interpreter that compiled them, and by a machine that knows only the instruction set (`machine/`).

mod common;

use common::{VERSIONS, compare, dump, fixture, folder, instructions, interpreter, read_records};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The decoded code objects of a version's programs, as the machine reads them.
fn decoded(python: &Path) -> String {
    let (mut text, mut wrong) = (String::new(), Vec::new());
    let each = |record: common::Record| {
        wrong.extend(compare::differences(&record));
        let header = format!("code {}\n", record.name);
        assert!(!text.contains(&header), "two code objects are named {}", record.name);
        text += &header;
        text += &record.decode().map_or_else(|e| e.to_string(), |code| code.to_string());
    };
    dump(python, &["corpus", "programs"], |out| read_records(out, each));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    text
}

/// Runs all programs of a version; returns the instructions that the machine ran.
fn run(version: &str, python: &Path) -> BTreeSet<String> {
    let texts = std::env::temp_dir().join(format!("ox_bytecode-{version}-{}.txt", std::process::id()));
    std::fs::write(&texts, decoded(python)).expect("a temporary file");
    let (mut ran, mut wrong) = (BTreeSet::new(), String::new());
    for program in programs(version) {
        let output = Command::new(python).arg(folder().join("machine")).arg(&program).arg(&texts).output().expect("it runs");
        let [said, complained] = [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
        if !output.status.success() {
            wrong += &format!("{version} {}:\n{said}{complained}", program.display());
        }
        ran.extend(
            said.lines().filter_map(|line| line.strip_prefix("ran ")).flat_map(|names| names.split(' ').map(str::to_owned)),
        );
    }
    std::fs::remove_file(&texts).expect("it was written");
    assert!(wrong.is_empty(), "{wrong}");
    ran
}

fn programs(version: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder().join("programs")).expect("the programs").flatten().map(|e| e.path());
    let mut programs: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "py") && is_for(version, path)).collect();
    programs.sort();
    programs
}

/// `*_312.py` needs 3.12.
fn is_for(version: &str, path: &Path) -> bool {
    let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let needed = stem.rsplit_once("_3").and_then(|(_, minor)| minor.parse::<u32>().ok());
    let minor = version.rsplit_once('.').and_then(|(_, minor)| minor.parse::<u32>().ok());
    needed <= minor
}

#[test]
fn the_machine_agrees_with_the_interpreter() {
    for version in VERSIONS {
        let Some(python) = interpreter(version) else { continue };
        let ran = run(version, &python);
        let missing: Vec<String> = instructions(&fixture(version).1).difference(&ran).cloned().collect();
        assert!(missing.is_empty(), "{version}: no program runs {missing:?}");
    }
}
