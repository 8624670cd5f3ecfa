//! Golden files: text in, text out, under `tests/golden/<stage>/`.
//!
//! A file holds cases; what stands before the first one is a comment:
//!
//! ```text
//! ## name of the case
//! input
//! ---
//! expected output
//! ```
//!
//! `OXYTORCH_BLESS=1 cargo test` writes what comes out into the files, to be read in review.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

struct Case<'a> {
    name: &'a str,
    input: &'a str,
    expected: &'a str,
}

/// Runs every case of every file of a stage. `run` gets the file's name (without its ending) and the input; an error becomes the
/// output `error: ...`.
#[track_caller]
pub fn golden<E: Display>(stage: &str, mut run: impl FnMut(&str, &str) -> Result<String, E>) {
    let folder = golden_root().join(stage);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no golden files", folder.display());
    let wrong: Vec<String> = files.iter().flat_map(|path| golden_file(path, &mut run)).collect();
    assert!(wrong.is_empty(), "{}\nOXYTORCH_BLESS=1 accepts what came out", wrong.join("\n"));
}

/// What came out differently from what one file says; nothing if the file was blessed.
fn golden_file<E: Display>(path: &Path, run: &mut impl FnMut(&str, &str) -> Result<String, E>) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let stem = path.file_stem().expect("a name").to_string_lossy();
    let (head, cases) = parse(&text);
    let mut blessed = head.to_string();
    let mut wrong = Vec::new();
    for case in cases {
        let output = run(&stem, case.input).unwrap_or_else(|e| format!("error: {e}"));
        blessed += &format!("## {}\n{}\n---\n{}\n\n", case.name, case.input, output.trim_end());
        if output.trim_end() != case.expected {
            wrong.push(format!("{stem}: {}\n{}\ninstead of\n{}", case.name, output.trim_end(), case.expected));
        }
    }
    if std::env::var_os("OXYTORCH_BLESS").is_none() {
        return wrong;
    }
    let blessed = format!("{}\n", blessed.trim_end());
    if blessed != text {
        fs::write(path, blessed).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    Vec::new()
}

fn parse(text: &str) -> (&str, Vec<Case<'_>>) {
    let starts: Vec<usize> =
        text.match_indices("## ").map(|(at, _)| at).filter(|at| *at == 0 || text[..*at].ends_with('\n')).collect();
    let head = &text[..starts.first().copied().unwrap_or(text.len())];
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let case = |(start, end): (&usize, usize)| {
        let (name, body) = text[start + 3..end].split_once('\n').unwrap_or((&text[start + 3..end], ""));
        let (input, expected) = body.split_once("\n---\n").or_else(|| body.split_once("\n---")).unwrap_or((body, ""));
        Case { name: name.trim(), input: input.trim_end(), expected: expected.trim_end() }
    };
    (head, starts.iter().zip(ends).map(case).collect())
}

/// `tests/golden` of the repository that this crate is built in.
pub fn golden_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "about\n\n## one\na ## b\n---\nA ## B\n\n## two\nc\n---\n";

    #[test]
    fn files_are_cases() {
        let (head, cases) = parse(TEXT);
        assert_eq!(head, "about\n\n");
        let parts: Vec<_> = cases.iter().map(|c| (c.name, c.input, c.expected)).collect();
        assert_eq!(parts, [("one", "a ## b", "A ## B"), ("two", "c", "")]);
    }

    #[test]
    fn differences_are_told() {
        let folder = std::env::temp_dir().join(format!("golden-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("upper.txt");
        fs::write(&path, TEXT).unwrap();
        let wrong = golden_file(&path, &mut |_: &str, input: &str| Ok::<_, String>(input.to_uppercase()));
        let blessing = std::env::var_os("OXYTORCH_BLESS").is_some();
        assert!(blessing || wrong == ["upper: two\nC\ninstead of\n"], "{wrong:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
