//! The standard library of each installed interpreter: every code object is decoded and compared with `dis`.

mod common;

use common::{VERSIONS, compare, dump, interpreter, read_records};

/// Checks every `step`-th file; returns how many code objects there were.
fn check(version: &str, step: &str) -> usize {
    let Some(python) = interpreter(version) else { return 0 };
    let (mut count, mut wrong) = (0, Vec::new());
    dump(&python, &["library", step], |text| {
        read_records(text, |record| {
            count += 1;
            wrong.extend(compare::differences(&record));
        })
    });
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    count
}

#[test]
fn a_sample() {
    for version in VERSIONS {
        let count = check(version, "150");
        assert!(count == 0 || count > 100, "{version}: {count} code objects");
    }
}

#[test]
#[ignore = "takes minutes"]
fn all_of_it() {
    for version in VERSIONS {
        println!("{version}: {} code objects", check(version, "1"));
    }
}
