//! The corpus: small functions that have every opcode of every version, as the compilers of the versions write them.
//!
//! `fixtures/` holds what `dump.py` wrote. `OXYTORCH_BLESS=1 cargo test` writes them again with the interpreters that are installed.

mod common;

use common::{VERSIONS, compare, dump, fixture, fixture_path, instructions, interpreter};
use std::collections::BTreeSet;
use std::io::Read;

/// In `co_code`, but no instruction; or made by the interpreter while it runs.
const NEVER_WRITTEN: [&str; 5] = ["CACHE", "RESERVED", "INTERPRETER_EXIT", "ENTER_EXECUTOR", "EXIT_INIT_CHECK"];

#[test]
fn agrees_with_dis() {
    for version in VERSIONS {
        let wrong: Vec<String> = fixture(version).1.iter().flat_map(compare::differences).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn has_every_opcode() {
    for version in VERSIONS {
        let (head, records) = fixture(version);
        let met: BTreeSet<&str> = records.iter().flat_map(|r| &r.instructions).map(|i| i.opcode.as_str()).collect();
        let written = |name: &&str| !NEVER_WRITTEN.contains(name) && !name.starts_with("INSTRUMENTED_");
        let missing: Vec<&str> = head.opcodes.iter().map(String::as_str).filter(written).filter(|n| !met.contains(n)).collect();
        assert!(missing.is_empty(), "{version}: {missing:?}");
    }
}

#[test]
fn versions_meet_in_one_instruction_set() {
    let [py311, py312, py313] = VERSIONS.map(|version| instructions(&fixture(version).1));
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!(only(&py311, &py312), [""; 0]);
    // Comprehensions are inlined, classes have type parameters, and `super().x` makes no object any more.
    assert_eq!(only(&py312, &py311), ["LoadFastAndClear", "LoadFromDictOrGlobals", "LoadSuperAttr"]);
    assert_eq!(only(&py312, &py313), [""; 0]);
    assert_eq!(only(&py313, &py312), ["ToBool"]);
}

/// Another release of the same version may compile differently; it is only asked for code that agrees with its own `dis`.
#[test]
fn is_what_installed_interpreters_write() {
    for version in VERSIONS {
        let Some(python) = interpreter(version) else { continue };
        let mut text = String::new();
        dump(&python, &["corpus", "corpus"], |mut out| out.read_to_string(&mut text).expect("text"));
        if std::env::var_os("OXYTORCH_BLESS").is_some() {
            // Other tests may be reading it.
            let new = fixture_path(version).with_extension("new");
            std::fs::write(&new, &text)
                .and_then(|()| std::fs::rename(&new, fixture_path(version)))
                .expect("the fixture can be written");
        }
        let stored = std::fs::read_to_string(fixture_path(version)).expect("the fixture can be read");
        let mut wrong = Vec::new();
        common::read_records(text.as_bytes(), |record| wrong.extend(compare::differences(&record)));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let same_release = text.lines().next() == stored.lines().next();
        assert!(!same_release || text == stored, "{version}: the corpus was changed; OXYTORCH_BLESS=1 writes the fixtures again");
    }
}
