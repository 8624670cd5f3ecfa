//! The surface against eager torch: programs and what eager made of them (see `tests/golden/make.py`), recorded, interpreted and
//! compared: values, types, shapes, sharing of memory, writes to inputs, and exceptions.

mod case;
mod run;
mod text;

use case::read_cases;

/// Runs all cases of a file and reports every failure. Where eager raises, a row may leave the call to eager.
fn check(file: &str) {
    let path = format!("{}/tests/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the golden file");
    let cases = read_cases(&text);
    let mut failures = Vec::new();
    for case in &cases {
        match run::run(case) {
            Ok(()) => {}
            Err(run::Failure::Unsupported(_)) if case.error.is_some() => {}
            Err(failure) => failures.push(format!("{}: {failure:?}", case.name)),
        }
    }
    assert!(failures.is_empty(), "{} of {} cases of {file} fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn pointwise() {
    check("pointwise");
}

#[test]
fn views() {
    check("views");
}

#[test]
fn joins() {
    check("joins");
}

#[test]
fn creates() {
    check("creates");
}

#[test]
fn converts() {
    check("converts");
}

#[test]
fn indexes() {
    check("indexes");
}

#[test]
fn aliasing() {
    check("aliasing");
}
